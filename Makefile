# Three commands do everything on a machine that has python3 (3.11 or newer), make and a package index:
#   make reproduce    the whole paper, into out/report.html
#   make test         what CI checks: eight minutes on two cores
#   make test-all     also what takes long: every program of the docs, notebooks, package, all journeys in the browser
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
ARGS   ?=
# Files stay on one worker, which keeps their server, browser and models; tests/conftest.py puts the longest first.
PYTEST := $(BIN)/pytest -n auto --dist loadfile --no-loadscope-reorder

.PHONY: help reproduce checks test test-all live bench cluster docs package pictures format minimum clean
.DEFAULT_GOAL := help

help:
	@sed -n '1,4p' Makefile; echo "#   make live | make bench | make cluster | make docs | make package | make pictures | make format | make minimum | make clean"

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

checks: $(VENV)/.checks
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/python tests/chromium.py

test: checks
	$(PYTEST) -m "not long" $(ARGS)

# With more examples of each property; then the numerical tests with every shape annotation checked.
SHAPES := $(patsubst %,tests/test_%.py,acquisition confidence exact features grid offline posterior search usfa)
test-all: checks
	$(PYTEST) --hypothesis-profile long $(ARGS)
	$(if $(ARGS),,$(PYTEST) --jaxtyping-packages=zscout,beartype.beartype $(SHAPES))

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
