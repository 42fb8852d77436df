# Everything a contributor types. A fresh machine needs Python 3.11 and make, nothing else.
#
#   make check    install what auditing needs and audit the supplement shipped here
#   make test     the whole suite
#   make lint     ruff and mypy
#   make bench    speed, as ratios within one run
#   make docs     write docs/rules.md and the outputs shown in README.md
#   make frameworks  audit the losses of TRL, verl, Liger and OpenRLHF, in an environment of its own
#   make mutate   change every number of the shipped supplement and count what is caught

PYTHON ?= $(shell command -v python3.11 || echo python3)
WORKERS ?= 2
VENV := .venv
PIP := $(VENV)/bin/python -m pip
CONSTRAINTS := .ci/constraints.txt
LINTERS := mypy ruff scipy-stubs types-jsonschema

FRAMEWORKS := .venv-frameworks

.PHONY: check test lint format bench mutate frameworks docs clean
.DEFAULT_GOAL := check

check: $(VENV)/core
	$(VENV)/bin/rlvr-audit check fixtures/supplement

test: $(VENV)/full
	$(VENV)/bin/pytest -n $(WORKERS) --dist loadgroup

lint: $(VENV)/full
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy

format: $(VENV)/full
	$(VENV)/bin/ruff format
	$(VENV)/bin/ruff check --fix

bench: $(VENV)/full
	for benchmark in tests/benchmarks/bench_*.py; do $(VENV)/bin/python $$benchmark || exit 1; done

mutate: $(VENV)/full
	RLVR_AUDIT_MUTATE=all $(VENV)/bin/pytest -n $(WORKERS) tests/test_mutation.py -s

frameworks: $(FRAMEWORKS)/full
	$(FRAMEWORKS)/bin/pytest -p no:cacheprovider tests/implementations/test_adapters_installed.py
	$(FRAMEWORKS)/bin/python tests/support/frameworks_page.py

docs: $(VENV)/full
	$(VENV)/bin/python tests/support/examples.py

clean:
	rm -rf $(VENV) $(FRAMEWORKS) build dist .mypy_cache .pytest_cache .ruff_cache

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/core: pyproject.toml $(CONSTRAINTS) | $(VENV)/bin/python
	$(PIP) install --quiet --constraint $(CONSTRAINTS) --editable .
	$(VENV)/bin/python -m compileall -q audit kernels schemas cli.py
	touch $@

$(VENV)/full: pyproject.toml $(CONSTRAINTS) | $(VENV)/bin/python
	$(PIP) install --quiet --constraint $(CONSTRAINTS) --editable '.[torch,test]' $(LINTERS)
	touch $@ $(VENV)/core

$(FRAMEWORKS)/full: pyproject.toml $(CONSTRAINTS) .ci/frameworks.txt
	$(PYTHON) -m venv $(FRAMEWORKS)
	$(FRAMEWORKS)/bin/python -m pip install --quiet --constraint $(CONSTRAINTS) --editable '.[torch,test]'
	$(FRAMEWORKS)/bin/python -m pip install --quiet --no-deps --requirement .ci/frameworks.txt
	touch $@
