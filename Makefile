# `make help` lists what there is. Every target sets up what it needs; a second run does nothing that is done.
SHELL := /bin/bash
BUILD ?= build/release
VENV ?= .venv
PY := $(VENV)/bin/python
PEERS ?= build/peers
export BUILD VENV PEERS

.DEFAULT_GOAL := help
.PHONY: help setup build test test-long nightly demo bench bench-peers lint format wheel clean test-matrix test-sanitize mutate-files

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup:  ## system packages, .venv with the locked packages (nothing is built)
	@tools/setup.sh --no-build

build:  ## setup, then libvesta.so, vesta._C and the tests in build/release, importable from .venv
	@tools/setup.sh

test: build  ## unit tests in C++, then the Python tests (ARGS="tests/... -k name": these Python tests alone)
	@tools/run_tests.sh $(ARGS)

test-long: build  ## the Python tests that `make test` leaves out: long sweeps
	@tools/setup.sh --chromium --no-build
	@tools/run_tests.sh --long

nightly: build  ## test-long, test-matrix and test-sanitize, row by row, with a table of times and results at the end
	@tools/setup.sh --valgrind --no-build
	@tools/nightly.sh

demo:  ## a pretrained sentence encoder: eager, Inductor and Vesta side by side (builds no tests)
	@tools/setup.sh --no-tests
	@$(PY) examples/python/sentence_encoder.py

bench: build  ## the benchmark: a table, a JSON file and a plot in build/bench
	@$(PY) -m bench $(BENCH_ARGS)

bench-peers: build  ## installs OpenVINO and ONNX Runtime into build/peers, and compares with them: tables, JSON, plots in build/bench
	@tools/setup.sh --peers --no-build
	@$(PY) -m bench.peers --peers $(PEERS) $(BENCH_ARGS)

lint:  ## clang-format, clang-tidy on changed files, ruff, mypy, include direction, file sizes, names in documents
	@tools/setup.sh --lint --no-build
	@tools/lint.sh

format:  ## formats C++ and Python in place
	@tools/setup.sh --lint --no-build
	@tools/format.sh

# The compilers by the names cmake finds them by: the objects of `make build` are then in ccache.
wheel: setup  ## a wheel in dist/
	@CC=$${CC:-cc} CXX=$${CXX:-c++} $(PY) -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation -w dist . && ls -l dist

test-sanitize: build  ## torch-free tests under ASan + UBSan and TSan, vesta.compile under the former, compiled programs under valgrind
	@tools/setup.sh --valgrind --no-build
	@tools/test_sanitize.sh

mutate-files: build  ## a million saved programs with changed fields and right digests, loaded and called under ASan (MUTATE_ARGS="--first N --count N")
	@VESTA_CACHE_DIR= $(BUILD)/tests/files/write_seeds $(BUILD)/tests/files/seeds
	@$(BUILD)/tests/files/mutate_files $(BUILD)/tests/files/seeds --progress --count 1000000 $(MUTATE_ARGS)

test-matrix:  ## builds and tests with other versions of torch and Python, and without LLVM
	@tools/test_matrix.sh

clean:  ## removes build folders and caches (.venv stays)
	@rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find . -path ./$(VENV) -prune -o -name __pycache__ -type d -print0 | xargs -0 -r rm -rf
