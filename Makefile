# Each target runs one or two plain commands. To use your active environment and its torch:
# make demo VENV=$VIRTUAL_ENV TORCH=torch
PYTHON ?= python3
VENV ?= .venv
TORCH ?= -r requirements/torch.txt
SCALE ?= demo

BIN := $(VENV)/bin
READY := $(VENV)/.headroom-installed
CODE := sweep.py setup.py sweeper models tasks hydra_plugins headroom_attention tests benchmarks examples

# Run tests in two processes. `loadfile` gives each process whole files, so that the fixtures of a
# file are made once. Keep the order of files, because the longest tests, whole sweeps, come first.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

DEMO := theorem1,fig1,fig2,fig3
BEYOND := table1,table2a,table2b,table3,fig4,bottleneck,equal_flops,equal_width,value_size,sequence_length,attention_rank,head_sizes,head_schedule,collaborative,today,rotary,cache,thin_keys,qk_norm,width

.DEFAULT_GOAL := help
.PHONY: help install demo paper figures test slow faults bench findings docs lint style types imports format check lock clean

help: ## Show this list
	@echo "usage: make TARGET [PYTHON=python3] [VENV=.venv] [TORCH=torch==VERSION] [SCALE=demo]"; echo
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  %-10s%s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(READY) ## Create the environment (VENV) with the locked versions

demo: $(READY) ## Measure Theorem 1 and train Figures 1 to 3, scale=demo (3 to 10 minutes on 2 cores)
	$(BIN)/python sweep.py -m experiment=$(DEMO)

paper: $(READY) ## Train and draw every figure, table and other experiment (default: SCALE=demo)
	$(BIN)/python sweep.py -m experiment=$(DEMO),$(BEYOND) scale=$(SCALE)

figures: $(READY) ## Judge and draw every planned experiment again from its records
	$(BIN)/python -m sweeper collect
	$(BIN)/python -m sweeper draw

test: $(READY) ## Run the quick tests (2 to 7 minutes on two cores)
	$(PYTEST) -m "not slow"

slow: $(READY) ## Run the slow tests: whole sweeps, faults, browsers; Slurm and Ray if installed
	$(PYTEST) -m slow

faults: $(READY) ## Inject faults into sweeps and count lost results (40 minutes on two cores)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.faults

bench: $(READY) ## Compare the speed with other programs, for docs/performance.md (half an hour)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks

findings: $(READY) ## Write the pages and tables of results from the records in docs/results
	$(BIN)/python -m benchmarks.findings

docs: $(READY) ## Build the documents as a site in build/site (installs mkdocs-material)
	$(BIN)/python -m pip install --quiet $$($(BIN)/python -c 'import tomllib; \
	  print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["docs"])')
	rm -rf build/docs && mkdir -p build/docs
	git ls-files '*.md' '*.ipynb' docs CITATION.cff | tar -cf - -T - | tar -xf - -C build/docs
	$(BIN)/mkdocs build --strict

lint: style types imports ## Check style (ruff), types (mypy) and import directions (import-linter)

style: $(READY)
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)

types: $(READY)
	$(BIN)/mypy

imports: $(READY)
	$(BIN)/lint-imports

format: $(READY) ## Format the code and fix what ruff can fix
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

check: lint test slow ## Run lint, test and slow; all must pass before a merge

lock: $(READY) ## Update requirements/lock.txt from pyproject.toml (needs a CPU build of torch)
	CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/pip-compile --quiet --extra dev \
	  --constraint requirements/torch.txt --unsafe-package torch --unsafe-package pip \
	  --generate-hashes --strip-extras --no-emit-index-url --no-emit-find-links \
	  --no-emit-trusted-host --no-emit-options --output-file requirements/lock.txt pyproject.toml

clean: ## Remove caches and build files; keep outputs/ and the environment
	rm -rf build dist *.egg-info examples/extension/build examples/extension/*.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +

# torch is not in the lock file, because each of its builds has another hash (requirements/torch.txt).
$(READY): requirements/lock.txt requirements/torch.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	  "PYTHON=$(PYTHON): expected Python 3.11 or later; name one, as in make install PYTHON=python3.11.")'
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV). This takes a few minutes, once."
	$(BIN)/python -m pip install --quiet --require-hashes --no-deps -r requirements/lock.txt
	$(BIN)/python -m pip install --quiet $(TORCH)
	@touch $@
