# Varnish Gateway. `make help` lists the targets.
#
# Every target builds its prerequisites. Slow builds go into a cache outside the tree that all
# checkouts of this user share.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
EXAMPLE ?= cafe
CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/varnish-gateway
export CARGO_TARGET_DIR ?= $(CACHE)/target

VENV := .venv
BIN := $(VENV)/bin
CARGO := cargo --quiet
# Checkouts share Cargo's target directory; the lock covers the build and the copy of its result.
ONE_BUILD = mkdir -p "$(CACHE)" && flock "$(CACHE)/build.lock"
VMOD := build/libvmod_ghost.so
RUST_SOURCES := $(shell find ghost -name target -prune -o -type f \( -name '*.rs' -o -name '*.toml' -o -name '*.lock' -o -name '*.vcc' -o -name '*.h' \) -print)
EXTENSION := src/varnish_gateway/_ghost.abi3.so

PYTEST := $(BIN)/pytest

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-13s %s\n", $$1, $$2}'

# -- set-up ------------------------------------------------------------------------------

build/packages: tools/install_packages.sh
	@mkdir -p build
	@tools/install_packages.sh
	@touch $@

$(VENV)/installed: requirements/dev.txt
	@echo "setting up Python in $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@touch $@

$(EXTENSION): $(RUST_SOURCES) pyproject.toml | build/packages $(VENV)/installed
	@echo "building ghost-core for Python (a minute the first time)"
	@export PATH="$(CURDIR)/$(BIN):$$PATH" VIRTUAL_ENV="$(CURDIR)/$(VENV)" && $(ONE_BUILD) $(BIN)/maturin develop --release --locked >build/extension.log 2>&1 || { cat build/extension.log; exit 1; }
	@touch $@

$(VMOD): $(RUST_SOURCES) | build/packages
	@echo "building the ghost VMOD (two minutes the first time)"
	@mkdir -p build
	@$(ONE_BUILD) sh -c 'cd ghost && PYTHON=/usr/bin/python3 $(CARGO) build --release --locked --package vmod-ghost && cp "$$CARGO_TARGET_DIR/release/libvmod_ghost.so" ../$@.new'
	@mv $@.new $@

# The VMOD plus a function that panics on demand: tests prove that a panic fails only one request.
build/libvmod_ghost_panic.so: $(RUST_SOURCES) | build/packages
	@echo "building the ghost VMOD for tests"
	@$(ONE_BUILD) sh -c 'cd ghost && PYTHON=/usr/bin/python3 $(CARGO) build --release --locked --package vmod-ghost --features test-panic && cp "$$CARGO_TARGET_DIR/release/libvmod_ghost.so" ../$@.new'
	@mv $@.new $@

build/schemas: tools/fetch_schemas.py src/varnish_gateway/kinds.py $(wildcard deploy/crds/*.yaml) | $(VENV)/installed
	@$(BIN)/python tools/fetch_schemas.py
	@mkdir -p build
	@touch $@

# Third-party programs that tests run: etcd, Kubernetes, helm; and openssl for their certificates.
build/binaries: tools/build_binaries.py $(shell find tools/binaries -type f)
	@tools/install_packages.sh openssl
	@$(PYTHON) tools/build_binaries.py
	@touch $@

# Additional programs for a cluster with nodes. Packages that would start a service are only unpacked.
build/cluster: build/binaries tools/build_binaries.py tools/unpack_packages.py
	@tools/install_packages.sh openssl iproute2 iptables
	@$(PYTHON) tools/build_binaries.py cluster
	@$(PYTHON) tools/unpack_packages.py cluster
	@touch $@

.PHONY: setup
setup: build/packages $(VENV)/installed $(EXTENSION) $(VMOD) build/schemas ## build everything that is missing

# -- use ---------------------------------------------------------------------------------

.PHONY: run
run: setup ## serve an example until Ctrl-C: make run EXAMPLE=canary (default: cafe)
	@$(BIN)/python examples/demo.py examples/$(EXAMPLE)

.PHONY: recording
recording: setup ## record the terminal session of the README
	@PYTHONPATH=src:tools $(BIN)/python -m recording

.PHONY: dev-cluster
dev-cluster: setup build/binaries ## run an API server to develop against, until Ctrl-C
	@PYTHONPATH=src:tools $(BIN)/python -m cluster.apiserver

CLUSTER := PYTHONPATH=tools $(BIN)/python -m cluster

.PHONY: cluster-up
cluster-up: $(VENV)/installed build/cluster ## start a real cluster of one node; see docs/contributing/cluster.md
	@$(CLUSTER) up

.PHONY: cluster-down
cluster-down: $(VENV)/installed ## stop the cluster, or clean up after a crash
	@$(CLUSTER) down

.PHONY: dist
dist: setup ## build a wheel of the control plane and the VMOD in dist/
	@rm -rf dist && mkdir dist
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/maturin build --quiet --release --locked --out dist
	@cp $(VMOD) dist/

.PHONY: images
images: build/packages $(VENV)/installed build/schemas ## build the images of the operator and the gateway in build/images/
	@tools/install_packages.sh mmdebstrap buildah runc
	@$(BIN)/python tools/build_images.py

# -- checks ------------------------------------------------------------------------------

.PHONY: check
check: check-python check-rust ## check lint, types, import layers, links of the documentation

.PHONY: check-python
check-python: setup docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: check-rust
check-rust: setup
	cd ghost && $(CARGO) fmt --check
	cd ghost && PYTHON=/usr/bin/python3 $(CARGO) clippy --locked --all-targets -- -D warnings

.PHONY: docs
docs: $(VENV)/installed ## build the documentation in build/site; fails on a broken link
	@$(BIN)/python tools/docs/links.py
	@$(BIN)/python tools/docs/diagram.py --check
	@$(BIN)/mkdocs build --quiet --strict

# Two jobs that take about as long: the tests of Rust mostly compile, the others mostly wait. What a command writes
# is printed once it has ended.
.PHONY: test
test: setup build/libvmod_ghost_panic.so ## run the checks and all tests that need neither images nor a cluster with nodes
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=line test-python test-rust-then-apiserver

.PHONY: test-rust-then-apiserver
test-rust-then-apiserver: test-rust
	@$(MAKE) --no-print-directory apiserver

.PHONY: test-rust
test-rust: check-rust ## run only the checks and tests of the Rust crates, sanitizer and fuzzing included
	cd ghost && PYTHON=/usr/bin/python3 $(CARGO) test --locked
	@$(MAKE) --no-print-directory loom fuzz
	@$(VERIFY) asan --quick

.PHONY: test-python
test-python: check-python build/libvmod_ghost_panic.so ## run only the other checks, and tests that need no API server
	$(PYTEST) tests/unit tests/golden tests/property tests/simulation
	$(PYTEST) tests/varnish

.PHONY: apiserver
apiserver: setup build/binaries ## run only the tests against a real API server
	$(PYTEST) tests/apiserver

VERIFY := $(PYTHON) tools/verify_rust.py

.PHONY: loom
loom: build/packages ## run the interleavings of threads in the models of ghost-sync and ghost-core
	@$(VERIFY) loom

.PHONY: asan
asan: setup ## run tests of the Rust crates and of the VMOD in varnishd with AddressSanitizer
	@$(VERIFY) asan

.PHONY: fuzz
fuzz: build/packages ## fuzz what ghost reads, for a minute; FUZZ_SECONDS=600 fuzzes each target for so long
	@tools/install_packages.sh g++
	@$(VERIFY) fuzz $(if $(FUZZ_SECONDS),--seconds $(FUZZ_SECONDS))

.PHONY: miri
miri: ## interpret tests of the Rust crates with Miri, if a nightly toolchain has it
	@$(VERIFY) miri

.PHONY: tsan
tsan: build/packages ## run tests of the Rust crates with ThreadSanitizer, if a nightly toolchain has its sources
	@$(VERIFY) tsan

.PHONY: conformance
conformance: images build/cluster ## run the official Gateway API conformance suite in a real cluster
	@$(CLUSTER) conformance $(if $(TEST),--run-test $(TEST) --keep)

# The images of the previous version, which the tests of upgrades start from.
build/previous: images .previous
	@$(BIN)/python tools/build_previous.py

.PHONY: cluster-test
cluster-test: images build/previous build/cluster ## run the cluster tests in a real cluster
	@$(CLUSTER) test

# In a separate network namespace, where the gateway's ports are free.
.PHONY: images-test
images-test: setup images ## test the images as pods run them, and run tests/varnish with their programs
	@tools/install_packages.sh binutils iproute2 openssl
	@$(BIN)/python tools/build_images.py --for-tests
	unshare --net sh -c 'ip link set lo up && echo 0 >/proc/sys/net/ipv4/ip_unprivileged_port_start && exec $(PYTEST) tests/images'
	$(BIN)/python tests/support/images/programs.py $(PYTEST) tests/varnish

.PHONY: soak
soak: setup ## run the long tests, such as 1,000 edits under load
	$(PYTEST) --soak -m soak tests/varnish

.PHONY: bench
bench: setup build/binaries ## run the benchmarks; writes bench/results and docs/reference/benchmarks.md
	@tools/install_packages.sh wrk
	@$(PYTHON) tools/unpack_packages.py bench
	$(BIN)/python bench/run.py

# -- maintenance -------------------------------------------------------------------------

.PHONY: lock
lock: $(VENV)/installed ## regenerate the locked requirements
	$(BIN)/python tools/lock.py

.PHONY: diagram
diagram: $(VENV)/installed ## draw docs/architecture.svg from its source
	@$(BIN)/python tools/docs/diagram.py

.PHONY: manifests
manifests: build/binaries ## render deploy/ from the chart
	@$(PYTHON) tools/render_deploy.py

.PHONY: bump
bump: build/binaries ## raise the version: make bump PART=patch|minor|major
	@$(PYTHON) tools/bump.py $(or $(PART),patch)

.PHONY: clean
clean: ## remove everything built in the tree (the cache outside it stays)
	rm -rf build dist $(VENV) $(EXTENSION) src/varnish_gateway/standalone/schemas
	find . -name __pycache__ -prune -exec rm -rf {} +
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
