"""The examples in docstrings run, and every public name has one."""

import doctest
import importlib
import inspect
import pkgutil

import pytest
import torch

import lvspec

MODULES = [
    m.name for m in pkgutil.walk_packages(lvspec.__path__, "lvspec.") if "__main__" not in m.name
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    torch.set_num_threads(1)
    assert doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS).failed == 0


def test_every_public_name_shows_how_it_is_used():
    without = [n for n in lvspec.__all__ if ">>>" not in (inspect.getdoc(getattr(lvspec, n)) or "")]
    assert without == []
