# `make` lists the targets. Each one that needs Python creates .venv from the lock file first.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
ROOMS := $(wildcard argocd certs cli kube sidecars tiphys webhook)

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

.venv/ready: requirements/development.txt pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "installing what is locked into .venv …"
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/development.txt
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

run: .venv/ready ## the demonstration: ends with Ctrl-C
	@$(BIN)/tiphys demo

test: .venv/ready ## all tests, those on a real API server included
	@$(BIN)/python -m scripts.cluster ensure
	@$(BIN)/pytest

lint: .venv/ready ## formatting, rules, types, doors between rooms
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy $(ROOMS) scripts tests
	@$(BIN)/lint-imports

bench: .venv/ready ## ratios, measured side by side in one run
	@$(BIN)/python -m scripts.bench

cluster: .venv/ready ## a local kube-apiserver until Ctrl-C; prints its kubeconfig
	@$(BIN)/python -m scripts.cluster

docs: .venv/ready ## the generated pages of docs/
	@$(BIN)/python -m scripts.docs

protos: .venv/ready ## the messages of the wire, from sidecars/wire/protos
	@$(BIN)/python -m scripts.protos

lock: .venv/ready ## renew the lock files: hashes, no index addresses
	@for group in runtime development; do \
	  flags=""; [ $$group = development ] && flags="--group dev"; \
	  $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header \
	    --no-emit-index-url --no-annotate $$flags pyproject.toml --output-file requirements/$$group.txt; \
	done

clean: ## everything that the other targets made
	@rm -rf .venv build dist reports .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help run test lint bench cluster docs protos lock clean
