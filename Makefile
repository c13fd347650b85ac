# Everything runs in .venv, made from this project's own files. `make demo` and `make test` are all you need.
PYTHON ?= python3
BIN := .venv/bin
.DEFAULT_GOAL := help
.PHONY: help demo test test-distributed lint bench bench-all calibrate reproduce docs clean

help:  ## show this
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /: /'

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable . --group test
	touch $@

demo: .venv/installed  ## train on a stream and show the interval narrow
	$(BIN)/surefair demo

test: lint  ## lint, types, import rules, tests, doctests
	$(BIN)/python -m pytest -n 2 --dist loadfile

.venv/engines: .venv/installed
	$(BIN)/python -m pip install --quiet --editable ".[dask,ray,spark]"
	touch $@

test-distributed: .venv/engines  ## the same results on local clusters of Dask, Ray and Spark, which needs Java 17
	$(BIN)/python -m pytest tests/engines

lint: .venv/installed  ## ruff, mypy, import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.venv/peers: .venv/installed
	$(BIN)/python -m pip install --quiet --group bench
	touch $@

bench: .venv/peers  ## how many times as fast as its peers, and how near the processor's limits, in a few minutes
	$(BIN)/python benchmarks/fits.py
	$(BIN)/python benchmarks/evaluation.py
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/roofline.py

bench-all: .venv/peers  ## the same with slow peers, growth, and memory over ten million rows: half an hour
	$(BIN)/python benchmarks/fits.py --all
	$(BIN)/python benchmarks/evaluation.py --all
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/roofline.py
	$(BIN)/python benchmarks/growth.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/scaling.py

calibrate: .venv/installed  ## the full statistical studies; results in docs/results; hours
	$(BIN)/python studies/spread.py
	$(BIN)/python studies/parity.py
	$(BIN)/python studies/groups.py
	$(BIN)/python studies/few.py
	$(BIN)/python studies/verdict.py
	$(BIN)/python studies/adult.py
	$(BIN)/python studies/covariance.py
	$(BIN)/python studies/calibration.py
	$(BIN)/python studies/sandwich.py
	$(BIN)/python studies/classic.py
	$(BIN)/python studies/corrections.py
	$(BIN)/python studies/shards.py

reproduce: .venv/installed  ## rerun the paper's experiments; figures and tables in docs/results/paper; minutes
	$(BIN)/surefair reproduce --out docs/results/paper

docs: .venv/installed  ## the documentation, in docs/_build/html
	$(BIN)/python -m pip install --quiet --group docs
	$(BIN)/python docs/pictures.py
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

clean:  ## remove what the other targets made
	rm -rf .venv docs/_build demo build
