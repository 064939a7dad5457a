# Everything runs in .venv, made once from constraints.txt and pyproject.toml; nothing but Python >= 3.11 and make is needed.
PYTHON ?= python3
WORKERS ?= 2
PYTEST := .venv/bin/pytest -n $(WORKERS) --dist loadfile --durations 10

APT := apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends bubblewrap

export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: help demo check test test-full system smollm2 tree install clean

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

# The stamp holds the text of what was installed, so that only a real change installs again.
.venv/installed: pyproject.toml constraints.txt
	@cat $^ | cmp -s - $@ && touch $@ || { \
	  $(PYTHON) -c 'import sys; sys.exit("ropewalk needs Python >= 3.11: make PYTHON=python3.11" if sys.version_info < (3, 11) else 0)' && \
	  echo "installing into .venv (minutes the first time)" && \
	  $(PYTHON) -m venv .venv && \
	  .venv/bin/python -m pip install --quiet -c constraints.txt -e '.[dev]' && \
	  cat $^ > $@; }

install: .venv/installed ## make .venv

demo: .venv/installed ## the laboratory's short form; prints where the report is
	.venv/bin/ropewalk demo

check: .venv/installed ## format, lint, types, import contracts, sizes, licences
	scripts/check

test: .venv/installed ## scripts/check and the fast tests (8 minutes at most)
	scripts/check
	$(PYTEST) -m "not slow and not real and not gpu"

test-full: .venv/installed ## every test, full grids and real components; a skip is a failure (20 minutes at most)
	$(PYTEST) -m "not gpu" --strict-real

system: ## what programs are shut in with: the Debian package bubblewrap (as root, or through sudo)
	@if command -v bwrap >/dev/null; then bwrap --version; \
	elif ! command -v apt-get >/dev/null; then \
	  echo "there is no apt-get here: install bubblewrap with this system's own package manager" >&2; exit 1; \
	elif [ "$$(id -u)" = 0 ]; then $(APT); \
	elif command -v sudo >/dev/null; then sudo sh -c '$(APT)'; \
	else echo "installing bubblewrap needs root or sudo: ask for the Debian package bubblewrap" >&2; exit 1; fi

smollm2: .venv/installed ## the small real model, once, into .cache/smollm2-135m (93 MB download)
	.venv/bin/python scripts/smollm2.py .cache/smollm2-135m

tree: .venv/installed ## refresh the annotated tree of docs/architecture.md from the module docstrings
	.venv/bin/python scripts/tree.py

clean: ## remove .venv and caches, but no runs and no model
	rm -rf .venv .mypy_cache .ruff_cache .import_linter_cache build *.egg-info
