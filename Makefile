# Everything a newcomer, a contributor and CI run.  `make demo` and `make test` set up all they need.

PYTHON ?= $(shell for name in python3.11 python3.12 python3.13 python3.14 python3; do \
	"$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$name" && break; done)
VENV := .venv
BIN := $(VENV)/bin
# What pytest is told beyond its configuration, as in `make test PYTEST_ARGS="-k ledger"`.
PYTEST_ARGS ?=

.PHONY: help demo test lint format docs clean

help: ## What there is
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 12

demo: $(VENV)/.demo ## The main job, end to end, on the embedded default; DEMO_ARGS="--keep" leaves it running
	$(BIN)/python examples/demo.py $(DEMO_ARGS)

test: $(VENV)/.dev ## The whole suite, against servers it starts itself
	$(BIN)/python -m pytest --numprocesses 2 --dist loadgroup $(PYTEST_ARGS)

lint: $(VENV)/.dev ## Style, types, imports and generated pages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/python docs/generate.py --check

format: $(VENV)/.dev ## Rewrite what the formatter and the safe fixes can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.dev ## Rewrite the generated parts of the documentation
	$(BIN)/python docs/generate.py

clean: ## Remove the environment and what tools left
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache .coverage*

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; name one with PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'

$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[embedded]'
	touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[all]' --group dev
	touch $@
