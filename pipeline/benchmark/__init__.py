"""Throughput of the product's own plan (`pipeline.build.caption_run`), measured: what is here makes
runs for it, engines of set speed, and figures of what came out. `jobs/benchmark_throughput.py` is
the command, docs/throughput.md the results.
"""
