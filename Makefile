# Every target is one or two plain commands; what they do is decided in Python.
# In an environment that is already active, keeping its torch: make demo VENV=$VIRTUAL_ENV TORCH=torch
PYTHON ?= python3
VENV ?= .venv
TORCH ?= -r requirements/torch.txt
SCALE ?= demo

BIN := $(VENV)/bin
READY := $(VENV)/.headroom-installed
CODE := sweep.py setup.py sweeper models tasks hydra_plugins headroom_attention tests benchmarks examples

# Two processes; each takes whole files, so that fixtures of a file are made once, and in order, so
# that whole sweeps come first.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

DEMO := theorem1,fig1,fig2,fig3
BEYOND := table1,table2a,table2b,table3,fig4,heads_vs_rank,equal_width,value_size,sequence_length,attention_rank,head_sizes,collaborative

.DEFAULT_GOAL := help
.PHONY: help install demo paper figures test slow faults bench findings docs lint style types imports format check lock clean

help: ## Show this list
	@echo "usage: make TARGET [PYTHON=python3] [VENV=.venv] [TORCH=torch==VERSION] [SCALE=demo]"; echo
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  %-10s%s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(READY) ## Make the environment (VENV) and install the locked versions into it

demo: $(READY) ## Measure Theorem 1 and train Figures 1 to 3 at demo scale (5 minutes on 2 cores)
	$(BIN)/python sweep.py -m experiment=$(DEMO)

paper: $(READY) ## Train and draw every figure and table and what goes beyond the paper (SCALE=demo)
	$(BIN)/python sweep.py -m experiment=$(DEMO),$(BEYOND) scale=$(SCALE)

figures: $(READY) ## Collect and draw every planned experiment again from what its runs left
	$(BIN)/python -m sweeper collect
	$(BIN)/python -m sweeper draw

test: $(READY) ## Run the quick tests (five minutes on two cores)
	$(PYTEST) -m "not slow"

slow: $(READY) ## Run the slow tests: whole sweeps, faults, browsers, and Slurm and Ray where installed
	$(PYTEST) -m slow

faults: $(READY) ## Kill, fill, flip and hang sweeps on purpose, and count what is lost (half an hour on two cores)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.faults

bench: $(READY) ## Measure speed beside installed peers and write it into docs/performance.md (half an hour)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks

findings: $(READY) ## Print docs/results/README.md from the records beside it
	$(BIN)/python -m benchmarks.findings

docs: $(READY) ## Build the documents as a site in build/site, refusing dead links (it installs mkdocs-material)
	$(BIN)/python -m pip install --quiet $$($(BIN)/python -c 'import tomllib; \
	  print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["docs"])')
	rm -rf build/docs && mkdir -p build/docs
	git ls-files '*.md' '*.ipynb' docs CITATION.cff | tar -cf - -T - | tar -xf - -C build/docs
	$(BIN)/mkdocs build --strict

lint: style types imports ## Check style (ruff), types (mypy) and the direction of imports (import-linter)

style: $(READY)
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)

types: $(READY)
	$(BIN)/mypy

imports: $(READY)
	$(BIN)/lint-imports

format: $(READY) ## Format the code, and mend what ruff can mend
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

check: lint test slow ## Everything that must pass before a change is merged

lock: $(READY) ## Bring requirements/lock.txt in line with pyproject.toml (where pip finds a CPU build of torch)
	CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/pip-compile --quiet --extra dev \
	  --constraint requirements/torch.txt --unsafe-package torch --unsafe-package pip \
	  --generate-hashes --strip-extras --no-emit-index-url --no-emit-find-links \
	  --no-emit-trusted-host --no-emit-options --output-file requirements/lock.txt pyproject.toml

clean: ## Remove caches and build files; outputs/ and the environment stay
	rm -rf build dist *.egg-info examples/extension/build examples/extension/*.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +

# torch comes apart from the lock: its builds have hashes of their own (see requirements/torch.txt).
$(READY): requirements/lock.txt requirements/torch.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	  "PYTHON=$(PYTHON): expected Python 3.11 or later; name one, as in make install PYTHON=python3.11.")'
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV): once, a few minutes."
	$(BIN)/python -m pip install --quiet --require-hashes --no-deps -r requirements/lock.txt
	$(BIN)/python -m pip install --quiet $(TORCH)
	@touch $@
