# Two commands do everything on a fresh machine: `make demo` and `make test`.
# `EXTRAS=[torch]` installs torch too, and runs the tests that need it.

PYTHON ?= python3
EXTRAS ?=
VENV := .venv
BIN := $(VENV)/bin
PACKAGE := $(VENV)/.package
STAMP := $(VENV)/.installed

# where it is set, as in many containers, every process of the tests compiles all that it imports
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test nightly check lint types contracts wheel docs format lock clean

# what a user has
$(PACKAGE): pyproject.toml requirements.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --constraint requirements.lock --editable .
	touch $@

# what a developer needs beside it
$(STAMP): $(PACKAGE)
	$(BIN)/python -m pip install --quiet --constraint requirements.lock --editable ".$(EXTRAS)" --group dev --group docs
	touch $@

## demo: set up, ingest real example traces, print the overview, write demo/report.html
demo: $(PACKAGE)
	mkdir -p demo
	$(BIN)/traceweave ingest tests/fixtures/ddp_gloo_straggler -o demo/run.duckdb
	$(BIN)/traceweave info demo/run.duckdb
	$(BIN)/traceweave analyze health demo/run.duckdb
	$(BIN)/traceweave analyze findings demo/run.duckdb
	$(BIN)/traceweave report demo/run.duckdb -o demo/report.html
	@echo "Open demo/report.html in a browser; ask your own questions with:"
	@echo '  $(BIN)/traceweave query demo/run.duckdb "SELECT * FROM collective_instances LIMIT 10"'

## test: set up, run lint, types, import contracts and all tests but the nightly ones
test: $(STAMP)
	$(MAKE) --no-print-directory --jobs --output-sync lint types contracts
	$(BIN)/pytest -n auto --dist worksteal

## nightly: what `make test` leaves out: the same checks on further runs, and what takes long; PART=1/4 is a quarter of it
nightly: $(STAMP)
	$(BIN)/pytest -n auto --dist worksteal -m nightly $(if $(PART),--part $(PART))

check: test

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m tests.lint_sql

types: $(STAMP)
	$(BIN)/mypy

contracts: $(STAMP)
	$(BIN)/lint-imports

## wheel: build the wheel, install it alone in an empty environment, and run the demo from there
wheel: $(STAMP)
	set -e; unset PYTHONPATH; empty=$$(mktemp -d); trap 'rm -rf "$$empty"' EXIT; \
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir "$$empty" .; \
	$(PYTHON) -m venv "$$empty/venv"; \
	"$$empty/venv/bin/python" -m pip install --quiet --constraint requirements.lock "$$empty"/*.whl; \
	cd "$$empty"; \
	if venv/bin/python -c 'import traceweave_simulator' 2>/dev/null; then echo "the wheel holds the simulator"; exit 1; fi; \
	venv/bin/traceweave demo --folder demo; \
	test -s demo/demo.html

## docs: make the reference pages and build the documentation as a site into site/
docs: $(STAMP)
	$(BIN)/python docs/generate.py --reference
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

## lock: pin what the current environment has, after an upgrade that passed `make test`
lock:
	$(BIN)/python -m pip freeze --exclude-editable --exclude pip --exclude setuptools | sed "s/+cpu$$//" > requirements.lock

clean:
	rm -rf $(VENV) demo site
