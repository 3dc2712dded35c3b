"""Decoding in a process that can be killed: a file that hangs, crashes or eats memory costs its own
row and nothing else.

`process` is the side that asks, `child` the side that decodes, `memory` where frames pass between
them without a copy, `types` what else passes.
"""
