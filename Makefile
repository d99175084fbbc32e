# `make demo` and `make test` work from a fresh clone with nothing but Python 3.10 or later and make.
# A CPU build of PyTorch: make setup PIP_ARGS="--extra-index-url https://download.pytorch.org/whl/cpu"

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
PIP_ARGS ?=
TEST_ARGS ?=
BENCH_ARGS ?= --only ours
DEMO := runs/demo
DEMO_SENTENCE := Jane visite l'Afrique en septembre

# The first Python on the PATH that is new enough; PYTHON=... chooses another.
PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11 python3.10 python; do \
	$$name -c 'import sys, venv; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1 && echo $$name && break; done)

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1

.PHONY: help demo setup test slow lint type check bench golden clean
.DEFAULT_GOAL := help

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16

demo: setup ## train a small translator (four minutes), score it, translate, draw its attention
	@echo "== 1/3 train French to English on the demo corpus, into $(DEMO)"
	@$(BIN)/python -m mt.train run=$(DEMO)
	@echo "== 2/3 score it on sentences it has not seen"
	@test -s $(DEMO)/scores.json && echo "scored already, see $(DEMO)/scores.json" || \
		$(BIN)/python -m mt.evaluate run=$(DEMO) output=$(DEMO)/scores.json
	@echo "== 3/3 translate: $(DEMO_SENTENCE)"
	@$(BIN)/python -m mt.translate run=$(DEMO) \
		"heatmap=[$(DEMO)/attention.png,$(DEMO)/attention.html]" -- "$(DEMO_SENTENCE)"
	@echo
	@echo "Open $(DEMO)/attention.html in a browser. Then try:"
	@echo "  $(BIN)/python -m mt.translate run=$(DEMO) -- \"Où habitez-vous ?\"      # or your own sentence"
	@echo "  $(BIN)/python -m mt.train experiment=multi30k_fr_en              # real text: 29,000 captions"
	@echo "  $(BIN)/python -m mt.train -m attention=scaled_dot,dot            # compare two kinds of attention"

setup: $(VENV)/.installed ## make .venv and install the project with its tools into it

$(VENV)/.installed: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "no Python 3.10 or later with venv on the PATH; give PYTHON=/path/to/python" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) what pyproject.toml names (a minute or two, by the network)"
	@$(BIN)/python -m pip install --quiet $(PIP_ARGS) -c constraints.txt -e ".[dev]"
	@touch $@

test: setup ## run the fast tests
	$(BIN)/python -m pytest $(TEST_ARGS)

slow: setup ## run the slow tests: the installed wheel and whole runs
	$(BIN)/python -m pytest -m slow $(TEST_ARGS)

lint: setup ## ruff: mistakes and style
	$(BIN)/python -m ruff check mt tests scripts
	$(BIN)/python -m ruff format --check mt tests scripts

type: setup ## mypy --strict
	$(BIN)/python -m mypy

check: lint type test ## everything a change has to pass

bench: setup ## measure training speed here (against Hugging Face too: see scripts/bench_train.py --help)
	$(BIN)/python scripts/bench_train.py $(BENCH_ARGS)

golden: setup ## make the kept losses and the kept run anew (GOLDEN=losses: not the run), when a change is meant
	$(BIN)/python -m tests.golden.regenerate $(GOLDEN)

clean: ## remove what can be made again (not .venv, runs and downloads)
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find mt tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +
