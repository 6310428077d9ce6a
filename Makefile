# Start with `make demo` and `make test`. `make check` is the quick part of `make test`; `make help` lists all.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO_READY := $(VENV)/.demo-ready
CLUSTER ?= embedded
# Test folders run in parallel, since slow tests mostly wait for training. A folder stays in one process, with its cluster.
BY_FOLDER := --dist loadscope --no-loadscope-reorder
# Without bytecode each pytest process compiles all tests again, some 5 s of a core for each.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-real test-release check check-code check-units check-localcluster reference docs format requirements install-yaml image image-release clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

define CHECK_PYTHON
@"$(PYTHON)" -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or later is needed; $(PYTHON) is " + sys.version.split()[0] + ". Name another with: make PYTHON=/path/to/python")'
endef
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check
# $(call INSTALL_PINNED,ENVIRONMENT,PIP,OPTIONS): uv takes a fifth of pip's time. It has a configuration of its own and does not
# read pip's: where it does not reach the packages, pip installs them.
define INSTALL_PINNED
{ $(2) $(PIP_INSTALL) --require-hashes -r requirements/uv.txt \
	&& $(1)/bin/uv pip install --quiet --python $(1)/bin/python --require-hashes --no-deps $(3); } \
	|| { echo "uv did not install the packages. pip does it now, which takes longer."; \
	$(2) $(PIP_INSTALL) --require-hashes --no-deps --no-compile $(3); }
endef
INSTALL := $(BIN)/python $(PIP_INSTALL)

$(READY): requirements/dev.txt requirements/uv.txt pyproject.toml localcluster/pyproject.toml
	$(CHECK_PYTHON)
	@echo "installing the packages of $< in $(VENV) ..."
	@"$(PYTHON)" -m venv $(VENV)
	@$(call INSTALL_PINNED,$(VENV),$(BIN)/python,-r requirements/dev.txt)
	$(INSTALL) --no-deps --no-build-isolation --no-index -e . -e ./localcluster # the commands and their packages
	@touch $@

# A subset of dev.txt, for a quick start. The demo compiles what it imports. A pip of the environment's own would take 8 s of a core:
# the pip of $(PYTHON) installs there, if it has one that can (22.3 or later). `python -m localcluster` and the trainer's modules are
# found by a .pth file: to install them from their folders would need a build backend. This file is among the prerequisites for environments without it.
$(DEMO_READY): requirements/demo.txt requirements/uv.txt Makefile
	$(CHECK_PYTHON)
	@echo "installing the packages of $< in $(VENV) ..."
	@"$(PYTHON)" -m venv --without-pip $(VENV)
	@"$(PYTHON)" -m pip --python $(BIN)/python --version &>/dev/null || "$(PYTHON)" -m venv $(VENV)
	@pip=(env PIP_PYTHON=$(BIN)/python "$(PYTHON)"); ! $(BIN)/python -c 'import pip' &>/dev/null || pip=($(BIN)/python); \
	$(call INSTALL_PINNED,$(VENV),"$${pip[@]}",-r requirements/demo.txt)
	@printf '%s\n' "$(CURDIR)/localcluster/src" "$(CURDIR)/trainer/src" > "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/localcluster.pth"
	@touch $@

demo: $(DEMO_READY) ## train two jobs, under Optimus and untouched, on this machine; CLUSTER=real: on a real control plane
	@$(BIN)/python -m examples.demo --cluster $(CLUSTER)

# Which tests a target runs is said by markers: `e2e` needs the real control plane, `browser` a browser, and `release`
# (pyproject.toml lists its folders) takes too long for every day.
PYTEST := $(BIN)/python -m pytest $(BY_FOLDER)
PYTEST_LOCALCLUSTER := cd localcluster && ../$(BIN)/python -m pytest $(BY_FOLDER)
HERE := not e2e and not browser and not release
# Properties are tried on a quarter of their examples, but for a release.
check test test-real: export HYPOTHESIS_PROFILE ?= quick

# Side by side, since mypy uses one core. The longest begin first.
check: $(READY) ## format, lint, types, import contracts, dependencies, unit tests
	@$(MAKE) --no-print-directory -j3 check-code check-units check-localcluster

check-code:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/deptry . && cd localcluster && ../$(BIN)/deptry src
	$(BIN)/mypy
	cd localcluster && ../$(BIN)/mypy

check-units:
	$(PYTEST) -n 2 -m "$(HERE)" tests/unit

check-localcluster:
	$(PYTEST_LOCALCLUSTER) -n 1 -m "not e2e and not release" tests/unit

test: $(READY) ## all checks, and the tests that need no Go and no browser: both processes on the embedded control plane
	@$(MAKE) --no-print-directory check-code
	$(PYTEST_LOCALCLUSTER) -n 3 -m "not e2e and not release" tests/unit tests/integration
	$(PYTEST) -n 3 -m "$(HERE)" tests/unit tests/integration tests/scenarios

test-real: $(READY) ## the tests on a real control plane, which is built with Go the first time, and of the page in Chromium
	$(PYTEST) -n 2 -m "(e2e or browser) and not release" tests/integration tests/scenarios tests/e2e

test-release: export HYPOTHESIS_PROFILE ?= random
test-release: export OPTIMUS_FAULT_MATRIX ?= all
test-release: $(READY) ## everything else, before a release: all faults, policies, frameworks, packages, other versions
	$(PYTEST) -n 2 -m "release or not (e2e or browser)" tests
	$(PYTEST_LOCALCLUSTER) -n 2 -m release tests
	OPTIMUS_LOCALCLUSTER_KUBERNETES=1.37.2 OPTIMUS_TEST_TRAINER=2.2.0 $(PYTEST) -n 2 -m "e2e and not release" tests
	OPTIMUS_TEST_OPERATOR=1.8.1 $(PYTEST) -n 2 tests/e2e/newer_operator
	$(PYTEST_LOCALCLUSTER) -n 2 --training-operator 1.8.1 tests/conformance/operator

DOCS := .docs/venv
$(DOCS)/.ready: requirements/docs.txt requirements/uv.txt
	$(CHECK_PYTHON)
	@"$(PYTHON)" -m venv $(DOCS)
	@$(call INSTALL_PINNED,$(DOCS),$(DOCS)/bin/python,-r requirements/docs.txt)
	@touch $@

reference: $(READY) ## rewrite the generated parts of docs/reference.md
	$(BIN)/python -m docs.generate_reference

docs: $(DOCS)/.ready ## the documentation as a site, with every link checked: build/site/index.html
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build

format: $(READY) ## format the code and fix lint
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

PIN := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header
requirements: $(READY) ## update the pinned requirements and their hashes
	cd requirements && for name in dev mxnet tensorflow; do ../$(PIN) $$name.in -o $$name.txt; done
	cd requirements && for name in runtime demo uv docs; do ../$(PIN) $$name.in -c dev.txt -o $$name.txt; done # the tested versions

# The kubectl of PATH, or another: make install-yaml KUBECTL=/path/to/kubectl.
KUBECTL ?= kubectl
install-yaml: ## render manifests/ into manifests/install/, which can be applied without a checkout
	$(KUBECTL) kustomize manifests > manifests/install/uninstall.yaml
	{ echo "# Deleting what is in this file also deletes what was learned; uninstall.yaml keeps it. Before either, resume what is paused:" && \
	  echo "# kubectl -n optimus-system exec deploy/optimus-autoscaler -- python -m autoscaler.resume_all" && \
	  $(KUBECTL) kustomize manifests/crds && echo --- && cat manifests/install/uninstall.yaml; } > manifests/install/install.yaml

# IMAGE and VERSION name the image; docker-bake.json has the rest.
IMAGE ?= optimus-on-kubernetes
VERSION ?= 0.1.0
BAKE = IMAGE="$(IMAGE)" VERSION="$(VERSION)" REVISION="$$(git rev-parse HEAD 2>/dev/null || true)" docker buildx bake --file docker-bake.json
image: ## build the image for this machine with docker buildx. IMAGE=REGISTRY/optimus-on-kubernetes VERSION=0.1.0
	$(BAKE) local

image-release: ## build it for amd64 and arm64 with SBOM and provenance, and push it
	$(BAKE) release

clean: ## remove build results of this folder (binaries and environments stay in the user's cache)
	rm -rf $(VENV) .docs build/site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
