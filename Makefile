# Two commands: `make demo` and `make test`. Each makes .venv if it is missing.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-all lint bench docs clean

demo: .venv/core
	$(BIN)/bitr demo

# What matters, in minutes; test-all adds the slow ones.
test: .venv/dev
	$(BIN)/python -m pytest -n 2 -m "not slow"

test-all: test
	$(BIN)/python -m pytest -n 2 -m slow

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/dev
	$(BIN)/bitr reproduce laws
	$(BIN)/bitr bench
	$(BIN)/python -m benchmarks.speed

docs: .venv/dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "open build/site/index.html"

clean:
	rm -rf .venv build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

# Marker files: installing again is only needed when what is to be installed has changed.
.venv/core: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[io,viz]' --constraint constraints.txt
	touch $@

.venv/dev: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[dev]' --constraint constraints.txt
	touch $@ .venv/core
