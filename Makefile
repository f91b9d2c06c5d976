# What a person types.  make lab    install into ./.venv, list the notebooks and open JupyterLab on the first
#                       make test   install what the tests need and run everything
#                       make docs   build the documentation into ./site
#                       make bench  run the benchmarks that print tables
#                       make clean  remove what the others made (.venv included)
#
# Needs: a Python 3.11 or 3.12 with venv (newer ones work without MindSpore). PYTHON=... names one, LAB_ARGS=... goes to JupyterLab,
# TEST_ARGS=... to pytest. Packages come from whatever index pip is set up for.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help lab test docs bench clean

VENV ?= .venv
BIN := $(VENV)/bin
LAB_ARGS ?=
TEST_ARGS ?=
NOTEBOOK := notebooks/01_first_cells.ipynb
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

help:
	@sed -n 's/^# \{0,1\}//p' Makefile | sed -n '1,8p'

# The stamps lie in the environment they describe: removing it removes them.
$(BIN)/python:
	@sh .ci/make-venv.sh "$(VENV)" "$(PYTHON)"

$(VENV)/.stamp-lab: pyproject.toml | $(BIN)/python
	@echo "Installing BCVM and JupyterLab into $(VENV) (a few minutes the first time)"
	@sh .ci/install.sh $(BIN)/python lab
	$(BIN)/bcvm kernel install --sys-prefix
	@touch $@

$(VENV)/.stamp-docs: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[docs]'
	@touch $@

$(VENV)/.stamp-test: pyproject.toml $(VENV)/.stamp-lab
	@echo "Installing what the tests need into $(VENV)"
	@sh .ci/install.sh $(BIN)/python lab,test,docs,lint,bench,disasm,models
	@touch $@

# JupyterLab refuses to run as root, the only user of many containers, unless it is told to.
AS_ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)

lab: $(VENV)/.stamp-lab
	@$(BIN)/bcvm doctor
	@echo; echo "Notebooks:"; ls notebooks/*.ipynb | sed 's/^/  /'; echo
	$(BIN)/jupyter lab $(AS_ROOT) $(LAB_ARGS) $(NOTEBOOK)

# One pytest run does it all (style, types, floors, notebooks, browser, documentation, the wheel), so its summary is the last line.
test: $(VENV)/.stamp-test
	@sh .ci/chromium.sh
	$(BIN)/python -m pytest $(TEST_ARGS)

bench: $(VENV)/.stamp-test
	$(BIN)/python -m tests.bench.functions
	$(BIN)/python -m tests.bench.callsite
	$(BIN)/python -m tests.bench.models
	$(BIN)/python -m tests.bench.fusion
	$(BIN)/python -m pytest tests/bench -m bench -s $(TEST_ARGS)

docs: $(VENV)/.stamp-docs
	$(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
