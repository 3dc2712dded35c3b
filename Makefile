# make demo   install, write a small video corpus, caption it, publish the dataset
# make test   install what the tests need and run them
# make check  lint, types and import rules
# make eval-env  LMMs-Eval with lvspec as its model, in .venv-eval

PYTHON ?= python3
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help demo test check eval-env clean

help:
	@sed -n 's/^# //p' Makefile

# One stamp per set of extras: a target installs what it needs, once, and again when pyproject changes.
.venv/bin/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(v < (3, 11) and f"Python 3.11 or newer is needed, this is {v[0]}.{v[1]}; try  make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv .venv

.venv/.installed-%: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[$*]'
	@touch $@

demo: .venv/.installed-pipeline
	$(BIN)/python jobs/make_demo_corpus.py
	$(BIN)/python jobs/caption_corpus.py --config configs/demo.yaml

test: .venv/.installed-test
	$(BIN)/python -m pytest

check: .venv/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

# LMMs-Eval 0.7.3 asks for av<16 and imports filelock._api. Its own loaders alone use av, so ours
# goes over it; pip says that this is not what LMMs-Eval asked for, and is right.
eval-env:
	$(PYTHON) -m venv .venv-eval
	.venv-eval/bin/python -m pip install --quiet 'lmms-eval>=0.7.3' 'filelock<3.20'
	.venv-eval/bin/python -m pip install --quiet --editable '.[pipeline,evaluate]'

clean:
	rm -rf .venv .venv-eval build dist *.egg-info demo_corpus demo_output
