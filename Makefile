# Two commands on a fresh machine: `make demo` and `make test`. Each sets up what
# it needs, shows what it does, and can be run again at any time.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PACKAGES := gcc libc6-dev git mmdebstrap tmux python3-venv ca-certificates
TEST_PACKAGES := docker.io procps util-linux
EXTRAS := terminal,docker,openai,plot,sql,grpc,dev

.PHONY: help setup system demo test lint types floors unit soak bench clean

help:
	@echo "make demo    set up, then play groups of episodes and print their rewards"
	@echo "make test    set up, then run every check and every test"
	@echo "make soak    the long counts: 2,000 episodes, replays, a killed trainer"
	@echo "make bench   the measurements, on a quiet machine"

setup: system $(VENV)/.ready
	@$(BIN)/rlvr doctor --fix

system:
	@PACKAGES="$(PACKAGES)" bash .ci/packages

$(VENV)/.ready: pyproject.toml setup.cfg
	@echo "== Python environment in $(VENV)" >&2
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; $(PYTHON) is older. Set PYTHON=..." >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --editable ".[$(EXTRAS)]"
	@touch $@

demo: setup
	@$(BIN)/rlvr run --env rlvr/Terminal-v0 \
	  --task sum-integers --task add-function --task gateway-config \
	  --policy gold --policy null --policy cheat --group 4 --parallel 2 --out runs

test: PACKAGES += $(TEST_PACKAGES)
test: setup lint types floors unit

lint:
	@echo "== ruff" >&2
	@$(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet .

types:
	@echo "== mypy --strict" >&2
	@$(BIN)/mypy rlvr_envs tests

floors:
	@echo "== import-linter" >&2
	@$(BIN)/lint-imports --no-logo 2>/dev/null || $(BIN)/lint-imports

unit:
	@echo "== pytest" >&2
	@$(BIN)/python -m pytest

soak: setup
	@$(BIN)/rlvr bench soak --env rlvr/Terminal-v0 --task log-forensics -n 2000
	@$(BIN)/python -m pytest -m slow

bench: setup
	@for what in reset step verify throughput memory determinism; do \
	  $(BIN)/rlvr bench $$what --env rlvr/Terminal-v0; done

clean:
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache \
	  .hypothesis .import_linter_cache
