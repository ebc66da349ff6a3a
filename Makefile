# Needs make and Python >= 3.11, nothing else. Works with the make of macOS (3.81).
VENV := .venv
BIN := $(VENV)/bin
# Two cores: more processes would wait for each other.
JOBS ?= 2

.DEFAULT_GOAL := help
.PHONY: help setup demo dev test test-all test-docker guarantees guarantees-page lint format types bench verify doctor clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(VENV)/.installed ## Install Perdure and its tools into .venv

demo: setup ## Watch a run survive kill -9; ends by itself
	@$(BIN)/perdure demo

dev: setup ## Run database, API and worker on 127.0.0.1:8000
	@$(BIN)/perdure dev

test: setup ## Run the test suite; long crash matrices are sampled
	@$(BIN)/pytest -n $(JOBS) --dist worksteal

test-all: setup ## Run the test suite with whole crash matrices
	@PERDURE_TEST_FULL=1 $(BIN)/pytest -n $(JOBS) --dist worksteal

test-docker: setup ## Run what needs a database on one in a container; needs Docker
	@PERDURE_TEST_DATABASE=docker $(BIN)/pytest -n $(JOBS) --dist worksteal \
	  tests/integration tests/acceptance tests/migration

guarantees: setup ## Kill real processes in each window, and write down what was proved
	@PERDURE_TEST_FULL=1 $(BIN)/pytest -n $(JOBS) --dist worksteal tests/acceptance tests/migration \
	  --guarantees tests/guarantees/last_run.json
	@$(BIN)/python -m tests.guarantees

guarantees-page: setup ## Write docs/guarantees.md anew, without running anything
	@$(BIN)/python -m tests.guarantees

lint: setup ## Check format, style and layers
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/lint-imports --no-cache

format: setup ## Format the code and repair what can be repaired
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

types: setup ## Check the types
	$(BIN)/mypy

bench: setup ## Measure what Perdure adds to a turn; fails if a goal is missed
	@$(BIN)/python -m bench

verify: setup ## Kill the built-in agents at each commit and call; takes minutes
	@$(BIN)/perdure verify refund-desk --script docs/verify-refund-desk.json \
	  --fault both --jobs $(JOBS)

doctor: setup ## Check the settings, the database and its runs
	@$(BIN)/perdure doctor

clean: ## Stop the embedded databases and remove all that was made here, their data too
	@if [ -x $(BIN)/perdure ]; then $(BIN)/perdure clear; fi
	rm -rf $(VENV) .perdure .mypy_cache .ruff_cache .pytest_cache .import_linter_cache *.egg-info

# A pyenv shim can exist and not run, so each candidate is asked.
$(VENV)/.installed: pyproject.toml constraints.txt
	@set -e; python=; for name in python3 python3.13 python3.12 python3.11; do \
	  if $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; \
	  then python=$$name; break; fi; done; \
	if [ -z "$$python" ]; then echo "Perdure needs Python 3.11 or newer." >&2; exit 1; fi; \
	echo "Setting up $(VENV) with $$($$python --version)"; \
	$$python -m venv --clear $(VENV) || { \
	  echo "Install venv for $$python; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt setuptools
	@$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt \
	  --no-build-isolation -e '.[dev]'
	@touch $@
