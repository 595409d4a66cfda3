# The two commands: `make lab` starts the lab, `make test` passes every check.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PORT ?= 8501
# The crowds of sessions go with the computing tests, so that both sides take equally long.
LIVE := (browser or engine) and not crowd
export OMP_NUM_THREADS ?= 1

.PHONY: help lab install test lint types contract unit live both clean

help: ## what there is to make
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

lab: $(VENV)/.installed ## create .venv, install, start the lab in the browser
	$(BIN)/streamlit run app.py --server.port $(PORT)

install: $(VENV)/.installed ## create .venv and install what the lab needs

$(VENV)/.installed: requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

$(VENV)/.installed-dev: requirements.txt requirements-dev.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $(VENV)/.installed $@

test: lint types contract both ## every check: lint, types, import contract, unit, page, engine and browser tests

lint: $(VENV)/.installed-dev ## ruff: lint and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev ## mypy
	$(BIN)/mypy

contract: $(VENV)/.installed-dev ## imports go downwards only
	$(BIN)/lint-imports

# Tests that wait for processes and tests that compute share two cores well, side by side.
both: $(VENV)/.installed-dev
	$(MAKE) --no-print-directory --jobs=2 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target) unit live

unit: $(VENV)/.installed-dev ## pytest: mathematics, statistics, training, store, pages, crowds of sessions
	$(BIN)/python -m pytest -m "not ($(LIVE))"

live: $(VENV)/.installed-dev ## pytest: engine, cluster, faults, browser: whatever starts processes of its own
	$(BIN)/python -m pytest -m "$(LIVE)"

clean: ## remove the environment and the tools' caches (results in cache/ stay)
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
