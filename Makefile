# Two commands do everything on a machine that has python3 (3.11 or newer), make and a package index:
#   make reproduce    the whole paper, into out/report.html
#   make test         every check that CI runs
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
ARGS   ?=
# The tests of these run with every shape annotation checked, which takes three times as long.
SHAPES := $(patsubst %,tests/test_%.py,acquisition confidence exact features grid offline posterior search usfa)
OTHERS  = $(or $(ARGS),$(filter-out $(SHAPES),$(wildcard tests/test_*.py)))

.PHONY: help reproduce test live bench cluster docs package pictures format minimum clean
.DEFAULT_GOAL := help

help:
	@sed -n '1,3p' Makefile; echo "#   make live | make bench | make cluster | make docs | make package | make pictures | make format | make minimum | make clean"

# Installed again only when pyproject.toml changed. Users get what they need, the checks the developers' tools too.
$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit("zscout needs Python 3.11 or newer, $(PYTHON) is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	@echo "setting up $(VENV): about two minutes"
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed: pyproject.toml | $(VENV)/.made
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[live]'
	@touch $@

$(VENV)/.checks: pyproject.toml | $(VENV)/.made
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(VENV)/.installed

reproduce: $(VENV)/.installed
	$(BIN)/zscout reproduce $(ARGS)

# What fails beside other tests runs once more alone: a browser that shares two cores can be late. It must pass then.
test: $(VENV)/.checks
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tests/chromium.py
	$(if $(ARGS),,$(BIN)/pytest -n auto --jaxtyping-packages=zscout,beartype.beartype $(SHAPES))
	$(BIN)/pytest -n auto $(OTHERS) || { [ $$? = 1 ] && $(BIN)/pytest -v --last-failed --last-failed-no-failures none $(OTHERS); }

live: $(VENV)/.installed
	$(BIN)/zscout live $(ARGS)

bench: $(VENV)/.installed
	$(BIN)/zscout bench $(ARGS)

# Ray is large and not part of the checks.
cluster: $(VENV)/.checks
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,ray]'
	$(BIN)/pytest tests/test_runners.py $(ARGS)

docs: $(VENV)/.checks
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,docs]'
	NO_MKDOCS_2_WARNING=true $(BIN)/mkdocs build --strict --quiet
	@echo "wrote out/site/index.html"

package: $(VENV)/.checks
	$(BIN)/python tests/package.py $(ARGS)

pictures: $(VENV)/.checks
	$(BIN)/python tests/chromium.py
	PYTHONPATH=. $(BIN)/python tests/pictures.py

format: $(VENV)/.checks
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

minimum:
	$(PYTHON) tests/minimum.py

clean:
	rm -rf $(VENV) .venv-minimum .venv-package dist out .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
