"""Benchmarks of video understanding under several decoding methods: the paper's table.

`settings` and `items` say what is asked, `run` decodes and logs, `scoring` and `judge` score,
`report` makes the table. `lmms` is this engine as a model of LMMs-Eval, `demo` writes a small
offline benchmark, `memory` works out what a pair of models needs of a GPU. No Ray in here.
To add a benchmark: an entry of `benchmarks` in a config, with its items as JSON lines.
"""
