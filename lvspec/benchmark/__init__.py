"""Decoding methods measured against each other on the same clips, in one run."""

from lvspec.benchmark.measure import Item, Point, measure
from lvspec.benchmark.methods import COMPILED, FRONT, MAIN, PEERS, SWEEP, Method, methods

__all__ = [
    "COMPILED",
    "FRONT",
    "MAIN",
    "PEERS",
    "SWEEP",
    "Item",
    "Method",
    "Point",
    "measure",
    "methods",
]
