# Varnish Gateway. `make help` lists what there is.
#
# Every target sets up what it needs; what takes long is built once into a cache outside the
# tree, shared by all checkouts of this user.

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
# Checkouts share the directory that Cargo builds in, and its results are taken from there.
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

# The same with a function that panics on demand: tests show that a panic is one failed request.
build/libvmod_ghost_panic.so: $(RUST_SOURCES) | build/packages
	@echo "building the ghost VMOD for tests"
	@$(ONE_BUILD) sh -c 'cd ghost && PYTHON=/usr/bin/python3 $(CARGO) build --release --locked --package vmod-ghost --features test-panic && cp "$$CARGO_TARGET_DIR/release/libvmod_ghost.so" ../$@.new'
	@mv $@.new $@

build/schemas: tools/fetch_schemas.py src/varnish_gateway/kinds.py deploy/crds/gatewayclassparameters.yaml | $(VENV)/installed
	@$(BIN)/python tools/fetch_schemas.py
	@mkdir -p build
	@touch $@

# Programs of others that tests run: etcd, Kubernetes, helm; and openssl for their certificates.
build/binaries: tools/build_binaries.py $(shell find tools/binaries -type f)
	@tools/install_packages.sh openssl
	@$(PYTHON) tools/build_binaries.py
	@touch $@

# What a cluster with nodes takes besides. The packages that bring a service are only unpacked.
build/cluster: build/binaries tools/build_binaries.py tools/unpack_packages.py
	@tools/install_packages.sh openssl iproute2 iptables
	@$(PYTHON) tools/build_binaries.py cluster
	@$(PYTHON) tools/unpack_packages.py
	@touch $@

.PHONY: setup
setup: build/packages $(VENV)/installed $(EXTENSION) $(VMOD) build/schemas ## build what is missing

# -- use ---------------------------------------------------------------------------------

.PHONY: run
run: setup ## serve an example until Ctrl-C: make run EXAMPLE=canary, or the cafe
	@$(BIN)/python examples/demo.py examples/$(EXAMPLE)

.PHONY: recording
recording: setup ## record the terminal session of the README again
	@PYTHONPATH=src:tools $(BIN)/python -m recording

.PHONY: dev-cluster
dev-cluster: setup build/binaries ## an API server to develop against, until Ctrl-C
	@PYTHONPATH=src:tools $(BIN)/python -m cluster.apiserver

CLUSTER := PYTHONPATH=tools $(BIN)/python -m cluster

.PHONY: cluster-up
cluster-up: $(VENV)/installed build/cluster ## a real cluster of one node; docs/contributing/cluster.md
	@$(CLUSTER) up

.PHONY: cluster-down
cluster-down: $(VENV)/installed ## take the cluster down, or clean up after a crash
	@$(CLUSTER) down

.PHONY: dist
dist: setup ## a wheel of the control plane and the VMOD, in dist/
	@rm -rf dist && mkdir dist
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/maturin build --quiet --release --locked --out dist
	@cp $(VMOD) dist/

.PHONY: images
images: build/packages $(VENV)/installed build/schemas ## the images of the operator and the gateway, in build/images/
	@tools/install_packages.sh mmdebstrap buildah runc
	@$(BIN)/python tools/build_images.py

# -- checks ------------------------------------------------------------------------------

.PHONY: check
check: setup docs ## lint, types, import layers, links of the documentation
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	cd ghost && $(CARGO) fmt --check
	cd ghost && PYTHON=/usr/bin/python3 $(CARGO) clippy --locked --all-targets -- -D warnings

.PHONY: docs
docs: $(VENV)/installed ## the documentation as a site in build/site; fails on a broken link
	@$(BIN)/python tools/docs/links.py
	@$(BIN)/python tools/docs/diagram.py --check
	@$(BIN)/mkdocs build --quiet --strict

.PHONY: test
test: check build/libvmod_ghost_panic.so ## the checks, and the tests that need neither images nor a cluster with nodes
	cd ghost && PYTHON=/usr/bin/python3 $(CARGO) test --locked
	$(PYTEST) tests/unit tests/golden tests/property tests/simulation
	$(PYTEST) tests/varnish
	@$(MAKE) --no-print-directory apiserver

.PHONY: apiserver
apiserver: setup build/binaries ## the tests against a real API server alone
	$(PYTEST) tests/apiserver

.PHONY: conformance
conformance: images build/cluster ## the official Gateway API conformance suite in a real cluster
	@$(CLUSTER) conformance $(if $(TEST),--run-test $(TEST) --keep)

.PHONY: cluster-test
cluster-test: images build/cluster ## our own tests in a real cluster
	@$(CLUSTER) test

# In a network of their own, where nobody else has the ports of a gateway.
.PHONY: images-test
images-test: setup images ## run the images as pods do, and the tests of varnishd with theirs
	@tools/install_packages.sh binutils iproute2 openssl
	@$(BIN)/python tools/build_images.py --for-tests
	unshare --net sh -c 'ip link set lo up && echo 0 >/proc/sys/net/ipv4/ip_unprivileged_port_start && exec $(PYTEST) tests/images'
	$(BIN)/python tests/support/images/programs.py $(PYTEST) tests/varnish

.PHONY: soak
soak: setup ## the long runs: 1,000 edits under load and their like
	$(PYTEST) --soak -m soak tests/varnish

.PHONY: bench
bench: setup build/binaries ## measure; results in bench/results and docs
	@tools/install_packages.sh wrk
	$(BIN)/python bench/run.py

# -- upkeep ------------------------------------------------------------------------------

.PHONY: lock
lock: $(VENV)/installed ## write the locked requirements anew
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
clean: ## remove what was built here (the cache outside the tree stays)
	rm -rf build dist $(VENV) $(EXTENSION) src/varnish_gateway/standalone/schemas
	find . -name __pycache__ -prune -exec rm -rf {} +
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
