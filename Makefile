# Everything a contributor types. A fresh machine needs Python 3.11 and make, nothing else.
#
#   make check    install what auditing needs and audit the supplement shipped here
#   make test     the whole suite
#   make lint     ruff and mypy
#   make bench    speed, as ratios within one run
#   make mutate   change every number of the shipped supplement and count what is caught

PYTHON ?= python3.11
WORKERS ?= 2
VENV := .venv
PIP := $(VENV)/bin/python -m pip
CONSTRAINTS := .ci/constraints.txt

.PHONY: check test lint format bench mutate clean
.DEFAULT_GOAL := check

check: $(VENV)/core
	$(VENV)/bin/rlvr-audit check fixtures/supplement

test: $(VENV)/full
	$(VENV)/bin/pytest -n $(WORKERS)

lint: $(VENV)/full
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy

format: $(VENV)/full
	$(VENV)/bin/ruff format
	$(VENV)/bin/ruff check --fix

bench: $(VENV)/full
	$(VENV)/bin/python tests/benchmarks/run.py

mutate: $(VENV)/full
	RLVR_AUDIT_MUTATE=all $(VENV)/bin/pytest -n $(WORKERS) tests/test_mutation.py -s

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/core: pyproject.toml $(CONSTRAINTS) | $(VENV)/bin/python
	$(PIP) install --quiet --constraint $(CONSTRAINTS) --editable .
	touch $@

$(VENV)/full: pyproject.toml $(CONSTRAINTS) | $(VENV)/bin/python
	$(PIP) install --quiet --constraint $(CONSTRAINTS) --editable '.[torch,test,lint]'
	touch $@ $(VENV)/core
