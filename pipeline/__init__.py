"""The corpus pipeline: video storage in, a Parquet dataset of captions out, run by Ray Data.

Read `corpus.py` first (what one run of the job does), then `build.py` (the Ray Data plan). Imports
go one
way: `jobs -> pipeline -> lvspec`.
"""
