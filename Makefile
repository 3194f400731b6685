# Everything here works on a fresh machine with Python 3.11 or newer and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime-installed
DEV := $(VENV)/.dev-installed
TEMPLATES = $(shell find templates */templates -name '*.html' 2>/dev/null)
# Settings as on a real host, so that `check --deploy` looks at what such a host would get.
DEPLOYED = SUPERBIZ_ALLOWED_HOSTS=superbiz.example SUPERBIZ_DEBUG=false

.DEFAULT_GOAL := help
.PHONY: help demo up test check bench eval

help:
	@echo 'make demo    start everything, diagnose the bundled incident, keep serving until Ctrl-C'
	@echo 'make up      start everything, without the incident'
	@echo 'make test    the whole test suite on a real PostgreSQL and a real Valkey'
	@echo 'make check   linters, types, import contracts, deployment checks'
	@echo 'make bench   the benchmarks, compared with the committed baseline'
	@echo 'make eval    the evaluations, compared with the committed baseline'

# `exec`: Ctrl-C reaches the program itself and make waits for its orderly end.
demo: $(RUNTIME)
	@exec $(BIN)/python manage.py up --demo

up: $(RUNTIME)
	@exec $(BIN)/python manage.py up

test: $(DEV)
	$(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder

check: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/lint-imports
	$(if $(TEMPLATES),$(BIN)/djade --check --target-version 5.2 $(TEMPLATES))
	$(DEPLOYED) $(BIN)/python manage.py check --deploy --fail-level WARNING
	$(BIN)/python manage.py makemigrations --check --dry-run

bench: $(DEV)
	$(BIN)/python -m bench

eval: $(DEV)
	$(BIN)/python -m eval

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { echo 'Python 3.11 or newer is needed, and $(PYTHON) was not found; try make PYTHON=/path/to/python3'; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed, and $(PYTHON) is $$($(PYTHON) --version); try make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo 'The virtual environment cannot be made; on Debian and Ubuntu: apt-get install python3-venv'; exit 1; }

$(RUNTIME): requirements.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

$(DEV): requirements-dev.txt requirements.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $(RUNTIME) $@
