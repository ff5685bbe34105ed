# Needs python3 (3.11 or newer) and a package index. The text after ## is the target's line in make help.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
ARGS   ?=
# Files stay on one worker, which keeps their server, browser and models; tests/conftest.py puts the longest first.
PYTEST := $(BIN)/pytest -n auto --dist loadfile --no-loadscope-reorder

.PHONY: help reproduce checks test test-all live bench cluster docs package pictures format minimum clean
.DEFAULT_GOAL := help

help: ## what each target does; the first one sets up .venv, about two minutes
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | while IFS="$$(printf '\t')" read -r name what; do printf 'make %-10s %s\n' "$$name" "$$what"; done
	@echo "Options of a command: make reproduce ARGS=--quick, make test ARGS='-k laplacian'"

# Installed again only when pyproject.toml changed. Users get what they need, the checks the developers' tools too.
$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit("zscout needs Python 3.11 or newer, $(PYTHON) is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	@echo "setting up $(VENV): about two minutes"
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed: pyproject.toml | $(VENV)/.made
	$(BIN)/python tests/installing.py --editable '.[live,mujoco]'
	@touch $@

$(VENV)/.checks: pyproject.toml | $(VENV)/.made
	$(BIN)/python tests/installing.py --editable '.[dev]'
	@touch $@ $(VENV)/.installed

reproduce: $(VENV)/.installed ## the whole paper, into out/report.html
	$(BIN)/python -m reproduction $(ARGS)

checks: $(VENV)/.checks ## format, lint, import contract and types, without the tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/python tests/chromium.py

test: checks ## what CI checks: eight minutes on two cores
	$(PYTEST) -m "not long" $(ARGS)

# With more examples of each property; then the numerical tests with every shape annotation checked.
SHAPES := $(patsubst %,tests/test_%.py,acquisition confidence exact features grid offline posterior search usfa)
test-all: checks ## also what takes long: every program of the docs, notebooks, package, all journeys in the browser
	$(PYTEST) --hypothesis-profile long $(ARGS)
	$(if $(ARGS),,$(PYTEST) --jaxtyping-packages=zscout,beartype.beartype $(SHAPES))

live: $(VENV)/.installed ## the page where you are the reward
	$(BIN)/zscout live $(ARGS)

bench: $(VENV)/.installed ## speed, relative to plain implementations and to the hardware limit
	$(BIN)/python -m benchmarks.speed $(ARGS)

# Ray is large and not part of the checks.
cluster: $(VENV)/.checks ## the tests of --runner ray, with two nodes on this machine
	$(BIN)/python tests/installing.py --editable '.[dev,ray]'
	$(BIN)/pytest tests/test_runners.py $(ARGS)

docs: $(VENV)/.checks ## the site, into out/site/index.html
	$(BIN)/python tests/installing.py --editable '.[dev,docs]'
	NO_MKDOCS_2_WARNING=true $(BIN)/mkdocs build --strict --quiet
	@echo "wrote out/site/index.html"

package: $(VENV)/.checks ## wheel and sdist in dist/, tried in a new environment
	$(BIN)/python tests/package.py $(ARGS)

pictures: $(VENV)/.checks ## the pictures of the docs, drawn anew
	$(BIN)/python tests/chromium.py
	PYTHONPATH=. $(BIN)/python tests/pictures.py

format: $(VENV)/.checks ## fix what can be fixed automatically
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

minimum: ## the tests with the oldest dependencies, in .venv-minimum
	$(PYTHON) tests/minimum.py

clean: ## delete the environments, caches and out/
	rm -rf $(VENV) .venv-minimum .venv-package dist out .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
