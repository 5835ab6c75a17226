# Everything is installed into this checkout: Python packages into .venv, from hashed lock files; npm packages into
# contracts/node_modules, from npm's lock. Stamp files in .venv make a second run quick.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

VENV := .venv
PY := $(VENV)/bin/python
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
PIP := $(PY) -m pip install --no-input --quiet
# uv takes a quarter of pip's time for the same files and hashes; pip knows more mirrors and proxies.
INSTALL = $(PY) -m uv pip install --quiet --python $(PY) --require-hashes -r $< || \
  { echo "uv could not install $<; pip tries" >&2; $(PIP) --require-hashes -r $<; }
# One process per thread of the processor, to eight: service tests start workers of their own.
PARALLEL := -n logical --maxprocesses 8 --dist loadfile

LOCKED := $(VENV)/.stamp-locked
PROJECT := $(VENV)/.stamp-project
# Two kinds of torch have a stamp each, so that going from one to the other installs again.
TORCH := $(VENV)/.stamp-torch-$(if $(TORCH_INDEX_URL),index,plain)
NODE_MODULES := contracts/node_modules/.package-lock.json

.PHONY: help setup demo kafka test test-quick bench bench-kafka clean docs lock
.PHONY: lint contract tests coverage mutation

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1|/' | column -t -s '|'

setup: $(PROJECT) $(TORCH) $(NODE_MODULES) ## install all that the other targets need
	@:

demo: setup ## the voice pipeline end to end, tampering included (SOURCE=DIR takes recordings of your own)
	$(PY) -m pipeline.demo $(if $(SOURCE),--source "$$SOURCE")

kafka: $(PROJECT) ## start one Kafka broker for development, until Ctrl-C (needs Java 17 and Maven)
	@$(PY) -m provenance.testing.kafka_broker

# Every step runs, whatever the one before it gave: one run shows all that is wrong.
test: setup ## lint, rebuild the contract, run every test, and hold the core's branch coverage at 100 %
	@failed=""; for step in lint contract tests coverage; do \
	  echo "── $$step"; $(MAKE) --no-print-directory $$step || failed="$$failed $$step"; \
	done; \
	if [ -n "$$failed" ]; then echo "make test: failed:$$failed" >&2; exit 1; fi; \
	echo "make test: everything passed"

test-quick: setup ## the tests that need no service, in under two minutes
	$(PY) -m pytest -m "not service and not slow" $(PARALLEL) -q

lint: $(PROJECT) ## ruff, formatting, mypy in strict mode, and the layers
	@failed=""; for check in "ruff check" "ruff format --check" mypy "lint-imports --no-logo"; do \
	  echo "$$check"; $$check || failed="$$failed ($$check)"; \
	done; \
	if [ -n "$$failed" ]; then echo "make lint: failed:$$failed" >&2; exit 1; fi

contract: setup
	$(PY) scripts/build_contract.py --check

tests: setup
	$(PY) scripts/supervise.py $(PY) -m pytest $(PARALLEL) --cov --cov-report=

coverage: $(PROJECT)
	$(PY) -m coverage report --include='provenance/core/*' --fail-under=100

mutation: setup ## change the core in 2,500 ways and see the tests fail (half an hour; goes on where it was stopped)
	$(PY) -m mutmut run --max-children $(or $(CHILDREN),2)
	$(PY) scripts/mutation_report.py

bench: setup ## run every benchmark in tests/benchmarks
	@shopt -s nullglob; for script in tests/benchmarks/*.py; do echo "── $$script"; $(PY) $$script; done

bench-kafka: setup ## what reading Kafka through the port costs, per client
	$(PY) tests/benchmarks/bench_kafka.py

docs: $(PROJECT) ## write the generated parts of the documentation
	$(PY) scripts/generate_cli_reference.py
	$(PY) scripts/generate_configuration_reference.py
	$(PY) scripts/generate_schemas.py

lock: $(LOCKED) ## write the lock files from pyproject.toml (LOCK_FLAGS=--upgrade takes newer versions)
	$(UV) --extra dev pyproject.toml requirements/torch-needs.in --output-file requirements/lock.txt
	$(UV) --constraint requirements/lock.txt requirements/torch.in --output-file requirements/torch.txt
	$(UV) requirements/pandas-2.2.in --output-file requirements/pandas-2.2.txt

clean: ## remove all that these targets made
	@if [ -x $(VENV)/bin/provenance ] && [ -d demo/.provenance ]; then \
	  $(VENV)/bin/provenance down --folder demo/.provenance || true; \
	fi
	rm -rf $(VENV) contracts/node_modules contracts/out contracts/cache .tools demo dist build mutants
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage .coverage.*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One set of versions for all Pythons; neither an index nor a folder of this machine gets into the files.
UV = env -u PIP_FIND_LINKS UV_CUSTOM_COMPILE_COMMAND="make lock" $(PY) -m uv pip compile --quiet $(LOCK_FLAGS) \
  --universal --fork-strategy fewest --python-version 3.11 --generate-hashes --no-emit-index-url

# A virtual environment whose making was interrupted has no pip; making it again mends it.
$(LOCKED): requirements/lock.txt
	@echo "→ Python packages from $<, into $(VENV)"
	@$(PY) -m pip --version >/dev/null 2>&1 || \
	  { python="$${PYTHON:-$$(scripts/find_python.sh)}" && "$$python" -m venv $(VENV); }
	@awk '/^[a-z0-9]/ { wanted = /^uv==/ } wanted' $< > $(VENV)/uv.txt
	@$(PIP) --require-hashes -r $(VENV)/uv.txt
	@$(INSTALL)
	@touch $@

$(PROJECT): pyproject.toml $(LOCKED)
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.stamp-torch-plain: requirements/torch.txt $(LOCKED)
	@echo "→ torch with its CUDA libraries, 5 GB (set TORCH_INDEX_URL to an index of CPU builds to spare them)"
	@! [ -e $(VENV)/.stamp-torch-index ] || $(PY) -m pip uninstall --quiet --yes torch
	@$(INSTALL)
	@rm -f $(VENV)/.stamp-torch-*; touch $@

# From another index only the version is held: its builds have other hashes. What torch imports is in the lock.
$(VENV)/.stamp-torch-index: requirements/torch.txt $(LOCKED)
	@echo "→ torch from TORCH_INDEX_URL"
	@$(PIP) --no-deps --force-reinstall --index-url '$(TORCH_INDEX_URL)' "$$(grep -oE '^torch==[^ ;]+' $<)"
	@rm -f $(VENV)/.stamp-torch-*; touch $@

$(NODE_MODULES): contracts/package-lock.json contracts/package.json $(PROJECT)
	@echo "→ npm packages from $<"
	@cd contracts && ../$(PY) -m provenance.contract.node npm ci
	@touch $@
