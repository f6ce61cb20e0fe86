# SPDX-License-Identifier: Apache-2.0
# Front door of the repository: `make help` lists what it does. The work is in tools/ and CMake.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
MAKEFLAGS += --no-print-directory

DOCS ?=
QUESTION ?=
MODEL ?=
KEEP ?=
NAME ?=
PART ?=
N ?= 4
ALL ?=
ROUNDS ?=
DAMAGES ?=
HISTORY ?=
SEED ?=
export DOCS QUESTION MODEL KEEP NAME PART N ALL ROUNDS DAMAGES HISTORY SEED

.PHONY: build run test soak test-extra fuzz tsan check bench dev-cluster deb docs help clean

build: ## build the release binaries build/themisd and build/themis
	@tools/deps.sh build
	@tools/build.sh release

run: ## start a node, load sample documents, ask a question (DOCS=folder QUESTION=text MODEL=file.gguf KEEP=1)
	@tools/run.sh

test: ## install what is missing, build, run every test
	@tools/deps.sh test
	@tools/test.sh

check: ## format, layering, headers, static analysis of changed files, sizes (ALL=1: whole tree)
	@tools/deps.sh test
	@tools/check.sh

soak: ## kill -9, serializability, damaged files, a full disk, other models (ROUNDS=50 DAMAGES=20 HISTORY=300 SEED=n)
	@tools/part.sh test/soak/run.sh "the soak test"

test-extra: ## tests that are too slow for every run
	@tools/part.sh test/extra/run.sh "the extra tests"

fuzz: ## let the fuzzer search for FUZZ_SECONDS (60) in each parser
	@tools/deps.sh test
	@tools/fuzz.sh

tsan: ## unit tests under the thread sanitizer
	@tools/deps.sh test
	@tools/build.sh tsan
	@cd build/tsan && ctest --output-on-failure --no-tests=error

bench: ## run bench/NAME and print its figures (PART=words: a part of it; without NAME: list them)
	@tools/bench.sh

dev-cluster: ## N nodes on this machine with etcd, in one terminal
	@tools/part.sh tools/dev-cluster.sh "the cluster"

deb: ## Debian package in build/deb, for any CPU of its baseline
	@tools/part.sh tools/deb.sh "the Debian package"

docs: ## reference and manual pages generated from the tables in the source
	@tools/part.sh tools/docs.sh "the generated reference"

help: ## this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 20

clean: ## remove what was built; downloads, llama.cpp and models stay (rm -rf build removes them too)
	@rm -rf build/release build/dev build/tsan build/cov build/fuzz build/test build/run build/themisd build/themis
