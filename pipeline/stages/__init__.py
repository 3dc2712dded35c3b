"""The stages of a run. Each file is a pure core (tested alone) and a thin callable that Ray Data
runs.

Stages never import each other; what they share is in `pipeline.schema` and `pipeline.frames`.
"""
