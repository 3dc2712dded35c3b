# make demo   install, write a small video corpus, caption it, publish the dataset
# make test   install what the tests need and run them
# make check  lint, types and import rules

PYTHON ?= python3
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help demo test check clean

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

clean:
	rm -rf .venv build dist *.egg-info demo_corpus demo_output
