# Everything runs in .venv, which the first target that you make installs. Start with `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
# Folder with the data files of tests, studies and examples.
SUREFAIR_DATA ?= $(if $(wildcard ../shared/data),$(abspath ../shared/data),$(CURDIR)/data)
export SUREFAIR_DATA
.DEFAULT_GOAL := help
.PHONY: help demo data test test-slow test-distributed test-extras test-lowest fuzz lint bench bench-all calibrate reproduce docs clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /: /'

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable . --group test
	touch $@

demo: .venv/installed  ## train on a stream and watch the interval narrow
	$(BIN)/surefair demo

data: .venv/installed  ## download the data files into the folder SUREFAIR_DATA, by default data/
	$(BIN)/python tests/fetch_data.py "$(SUREFAIR_DATA)"

PYTEST := $(BIN)/python -m pytest
PARALLEL := -n 2 --dist worksteal --ignore=tests/engines --ignore=tests/extras

test: lint  ## lint, check types and imports, run tests and doctests; about a quarter of an hour
	$(PYTEST) $(PARALLEL) -m "not slow"

test-slow: .venv/installed  ## run the slow tests: killed processes, Chromium, coverage; about a quarter of an hour
	$(PYTEST) $(PARALLEL) -m slow

.venv/engines: .venv/installed
	$(BIN)/python -m pip install --quiet --editable ".[dask,ray,river,spark]"
	touch $@

test-distributed: .venv/engines  ## test Dask, Ray and Spark (needs Java 17) on local clusters, and River; about ten minutes
	$(PYTEST) tests/engines tests/monitor/test_river.py

.venv/extras: .venv/installed
	$(BIN)/python -m pip install --quiet --group extras
	touch $@

test-extras: .venv/extras  ## test learners of other packages: LightGBM, and PyTorch by skorch; a few minutes
	$(PYTEST) tests/extras

.venv-lowest/installed: pyproject.toml
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --upgrade pip
	.venv-lowest/bin/python tests/lowest.py > .venv-lowest/constraints.txt
	.venv-lowest/bin/python -m pip install --quiet --constraint .venv-lowest/constraints.txt --editable . --group test
	touch $@

test-lowest: .venv-lowest/installed  ## run the quick tests with the lowest versions of dependencies; about a quarter of an hour
	.venv-lowest/bin/python -m pytest $(PARALLEL) -m "not slow" -W ignore::DeprecationWarning

SEED ?= $(shell od -An -N4 -tu4 /dev/urandom | tr -d " ")
FUZZ ?= tests/fuzz tests/tables/test_csv.py
CASES ?= 10000

fuzz: .venv/installed  ## test with many new random examples; repeat a run with SEED=..., choose tests with FUZZ=...
	SUREFAIR_FUZZ=$(CASES) $(PYTEST) $(FUZZ) --hypothesis-profile=fuzz --hypothesis-seed=$(SEED)

lint: .venv/installed  ## run ruff, mypy and import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.venv/peers: .venv/installed
	$(BIN)/python -m pip install --quiet --group bench
	touch $@

bench: .venv/peers  ## compare the speed with other libraries and with the processor's limits; a few minutes
	$(BIN)/python benchmarks/fits.py
	$(BIN)/python benchmarks/learnt.py
	$(BIN)/python benchmarks/evaluation.py
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/roofline.py

bench-all: .venv/peers  ## the same with slow libraries, growing sizes, and memory over ten million rows; half an hour
	$(BIN)/python benchmarks/fits.py --all
	$(BIN)/python benchmarks/evaluation.py --all
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/roofline.py
	$(BIN)/python benchmarks/decisions.py
	$(BIN)/python benchmarks/growth.py
	$(BIN)/python benchmarks/sparse.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/scaling.py

calibrate: .venv/installed  ## run the full statistical studies; results in docs/results; hours
	$(BIN)/python studies/spread.py
	$(BIN)/python studies/parity.py
	$(BIN)/python studies/groups.py
	$(BIN)/python studies/few.py
	$(BIN)/python studies/decisions.py
	$(BIN)/python studies/small.py
	$(BIN)/python studies/verdict.py
	$(BIN)/python studies/alarms.py
	$(BIN)/python studies/efficiency.py
	$(BIN)/python studies/frontier.py
	$(BIN)/python studies/covariance.py
	$(BIN)/python studies/calibration.py
	$(BIN)/python studies/sandwich.py
	$(BIN)/python studies/classic.py
	$(BIN)/python studies/corrections.py
	$(BIN)/python studies/shards.py
	$(BIN)/python studies/anytime.py
	$(BIN)/python studies/learners.py
	$(BIN)/python studies/frontier_bands.py
	$(BIN)/python studies/alternatives.py

reproduce: .venv/installed  ## repeat the paper's experiments; figures and tables in docs/results/paper; minutes
	$(BIN)/surefair reproduce --out docs/results/paper

docs: .venv/installed  ## build the documentation in docs/_build/html
	$(BIN)/python -m pip install --quiet --group docs
	$(BIN)/python docs/pictures.py
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

clean:  ## delete what the other targets made, except data/
	rm -rf .venv .venv-lowest docs/_build docs/_generated docs/api docs/auto_gallery demo build
