# `make` lists the targets. Each one that needs Python creates .venv from the lock files first.
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
ROOMS := argocd certs checks cli demo kube sidecars tiphys webhook
# Hashes are checked; the lock is whole, so nothing is resolved (an older pip picks a newer release for an extra and
# then misses its hash); bytecode is left to the first import: half a minute less on a new machine.
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile --no-deps
# An image that others run is built from a digest: make image BASE=python:3.13-slim@sha256:…
BASE ?= python:3.13-slim
PLATFORMS ?= linux/amd64,linux/arm64
OCI_FILE = --output type=oci,dest=build/tiphys-$(VERSION).tar
DIST ?= dist
VERSION = $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' tiphys/__init__.py)
# Test processes, each with local clusters of its own; ARGS goes to pytest: make test ARGS="-k project".
WORKERS ?= 2

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

.venv/running: requirements/runtime.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed; try: make PYTHON=python3.12" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "installing what is locked into .venv …"
	@$(INSTALL) --require-hashes -r requirements/runtime.txt
	@touch $@

.venv/ready: .venv/running requirements/development.txt pyproject.toml
	@echo "installing what development needs into .venv …"
	@$(INSTALL) --require-hashes -r requirements/development.txt
	@$(INSTALL) --no-build-isolation --editable .
	@touch $@

run: .venv/running ## the demonstration: ends with Ctrl-C; ARGS=--cluster: on real local API servers, --argocd: with a real Argo CD
	@$(BIN)/python -m cli demo $(ARGS)

test: .venv/ready ## all tests, those on a real API server and a real Argo CD included
	@$(BIN)/python -m scripts.cluster ensure
	@WORKERS=$(WORKERS) $(BIN)/python -m scripts.suites $(ARGS)

proofs: .venv/ready ## slow tests, one after another: chart, packages, upgrade, the largest fleet
	@$(BIN)/python -m scripts.cluster ensure
	@$(BIN)/python -m pytest -m proof -n 0 $(ARGS)

lint: .venv/ready ## formatting, rules, types, doors between rooms
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy $(ROOMS) scripts tests
	@$(BIN)/lint-imports

bench: .venv/ready ## ratios, measured side by side in one run
	@$(BIN)/python -m scripts.bench $(ARGS)

cluster: .venv/ready ## a local kube-apiserver until Ctrl-C; prints its kubeconfig; ARGS=--argocd: with a real Argo CD
	@$(BIN)/python -m scripts.cluster $(ARGS)

docs: .venv/ready ## the generated pages of docs/
	@$(BIN)/python -m scripts.docs $(ARGS)

pictures: .venv/ready ## the pictures of README and docs, of the pages themselves; needs Chromium
	@$(BIN)/python -m scripts.pictures

lock: .venv/ready ## renew the lock files: hashes, no index addresses
	@for group in runtime tracing development; do \
	  case $$group in runtime) flags="";; tracing) flags="--extra tracing";; *) flags="--extra tracing --group dev";; esac; \
	  $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header \
	    --no-emit-index-url --no-annotate $$flags pyproject.toml --output-file requirements/$$group.txt; \
	done

sbom: .venv/ready ## what the image holds and under which licences: build/sbom.cdx.json, build/licences.tsv
	@$(BIN)/python -m scripts.sbom

packages: .venv/ready ## wheel and sdist into dist/, the wheel made from the sdist
	@$(BIN)/uv build --quiet --offline --no-build-isolation --python $(BIN)/python --out-dir $(DIST)

image: .venv/ready ## the image for two platforms into build/, by Docker's buildx; ARGS="--push --tag …" pushes it instead
	@mkdir -p build
	docker buildx build --platform $(PLATFORMS) --build-arg BASE=$(BASE) --tag tiphys:$(VERSION) \
	  --label org.opencontainers.image.version=$(VERSION) \
	  $(if $(ARGS),$(ARGS),$(OCI_FILE)) .

clean: ## everything that the other targets made here; the cluster's binaries stay in the user's cache
	@rm -rf .venv build dist reports .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help run test proofs lint bench cluster docs pictures lock sbom packages image clean
