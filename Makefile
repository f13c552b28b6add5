# `make help` lists the targets. Every target that needs packages makes .venv itself.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.koord-queue-installed
# What runs the programs: a third of the packages. `make demo` installs no more.
PROGRAMS_STAMP := $(VENV)/.koord-queue-programs-installed
PIP_INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check

# Processes for the steps that can use several; the others need the machine's cores themselves.
JOBS ?= $(shell cores=$$(nproc 2>/dev/null || echo 2); echo $$((cores > 8 ? 8 : cores)))
PARALLEL = $(if $(filter-out 1,$(JOBS)),--numprocesses=$(JOBS) --dist=worksteal)
# The same for tests that wait for half of their time: one process more keeps the machine busy.
PARALLEL_WAITING = $(if $(filter-out 1,$(JOBS)),--numprocesses=$$(($(JOBS) + 1)))
# Tests of a cluster wait for most of it: for programs that start, jobs that run, retries.
PARALLEL_CLUSTER = $(if $(filter-out 1,$(JOBS)),--numprocesses=$$(($(JOBS) + 2)))

# Python keeps what it has compiled, whatever the environment says: each program that a test starts
# would compile all of its modules again, and each worker all tests.
unexport PYTHONDONTWRITEBYTECODE

# Of the control plane, where not the default one; tests/controlplane reads it. Those that are known
# have a folder in tests/controlplane/modules.
export KUBERNETES

# Every step leaves its counts in build/tests; tests/run_steps.py adds them up.
PYTEST = $(PY) -m pytest --quiet --junitxml=build/tests/$@.xml
# The folders that a step of their own runs. `unit` is whatever is left, so that no test is lost.
OWN_STEP := tidy properties simulation contracts scenarios cluster page
# Cluster tests elsewhere are an error (tests/conftest.py).
CLUSTER_FOLDERS := tests/cluster tests/contracts
# A control plane takes a fifth less of the processors, for half as much memory again.
CHEAP_GARBAGE := CONTROL_PLANE_GOGC=400
# With a plus: beside each other. The first of them shows its output as it comes; the others take
# what it leaves of the machine: scenarios and cluster wait for real programs for most of their time.
TEST_STEPS := scenarios+lint+types+contracts-imports+tidy+contracts unit+page cluster+properties+simulation
# Targets that write checked-in files from the sources.
GENERATED := crds schema openapi licenses benchmarks-report

.PHONY: help
help: ## this list
	@awk 'BEGIN { FS = ":.*## " } \
		/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  PYTHON=python3.12   the Python that .venv is made of (default: the newest from 3.11 on)"
	@echo "  JOBS=$(JOBS)              processes for the steps that can use several"
	@echo "  KUBERNETES=1.34.4   the Kubernetes of cluster, controlplane, and demo CLUSTER=local (docs/support.md)"

# ------------------------------------------------------------------------------- the environment

.PHONY: venv
venv: $(STAMP) ## make or update .venv (about a minute the first time)
	@echo "venv: $(VENV) is up to date"

# Files as targets: the second time nothing is to be done.
$(STAMP): $(PROGRAMS_STAMP) requirements-test.txt
	@# The lock is complete, so nothing is resolved: a package published after it cannot break it.
	@$(PIP_INSTALL) --no-deps --require-hashes -r requirements-test.txt
	@$(CHECK_PACKAGES)
	@touch $@

$(PROGRAMS_STAMP): requirements.txt requirements-build.txt pyproject.toml
	@$(MAKE_VENV)
	@# Most modules are never imported: Python compiles those that are, when they are.
	@$(PIP_INSTALL) --no-compile --no-deps --require-hashes -r requirements.txt -r requirements-build.txt
	@$(PIP_INSTALL) --no-compile --no-deps --no-build-isolation --editable .
	@# The packages of the tests may be those of an older lock until the rule above has run.
	@[ -e $(STAMP) ] || { $(CHECK_PACKAGES); }
	@touch $@

# Prints one line when no Python will do.
define MAKE_VENV
if ! $(PY) -c '' 2>/dev/null; then \
	found=; without_venv=; \
	for python in $(or $(PYTHON),python3.15 python3.14 python3.13 python3.12 python3.11 python3); do \
		"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
		if "$$python" -c 'import ensurepip, venv' 2>/dev/null; then found=$$python; break; fi; \
		without_venv=$$python; \
	done; \
	if [ -n "$$found" ]; then \
		echo "venv: making $(VENV) with $$("$$found" --version); about half a minute"; \
		"$$found" -m venv --clear $(VENV); \
	elif [ -n "$$without_venv" ]; then \
		echo "venv: $$without_venv has no venv module (Debian and Ubuntu: apt install python3-venv)" >&2; \
		exit 1; \
	else \
		echo "venv: needs Python 3.11 or newer$(if $(PYTHON),; $(PYTHON) is not,: name one with PYTHON=)" >&2; \
		exit 1; \
	fi; \
fi
endef

define CHECK_PACKAGES
checked=$$($(PY) -m pip check --disable-pip-version-check 2>&1) || { \
	echo "venv: the lock does not fit this Python:" >&2; echo "$$checked" >&2; exit 1; }
endef

.PHONY: lock
lock: ## write the hashed requirement files anew (UPGRADE=1: with the newest versions)
	@$(or $(PYTHON),python3.11) -m venv --clear build/lock-venv
	@build/lock-venv/bin/python -m pip install --quiet --upgrade pip
	@build/lock-venv/bin/python -m pip install --quiet --group lock
	@build/lock-venv/bin/python -m tests.tidy.dependency_locks $(if $(UPGRADE),--upgrade)

# --------------------------------------------------------------------------------------- checks

.PHONY: test
test: $(STAMP) ## all checks below, in their order: what CI runs (minutes; the first time, longer)
	@MAKE="$(MAKE)" JOBS="$(JOBS)" $(PY) -m tests.run_steps $(TEST_STEPS)

.PHONY: quick
quick: lint types ## lint, types, and the unit tests of modules that differ from BASE=HEAD (a minute)
	@tests="$$($(PY) -m tests.changed_tests "$(or $(BASE),HEAD)" $(OWN_STEP))" && \
		if [ -n "$$tests" ]; then $(PYTEST) -m "not cluster" $$tests; fi

.PHONY: lint
lint: $(STAMP) ## ruff: rules and formatting
	@$(PY) -m ruff check --quiet .
	@$(PY) -m ruff format --quiet --check .

.PHONY: types
types: $(STAMP) ## mypy --strict over packages and tests
	@$(PY) -m mypy

.PHONY: contracts-imports
contracts-imports: $(STAMP) ## import-linter: which packages may import which
	@$(VENV)/bin/lint-imports --no-logo

.PHONY: tidy
tidy: $(STAMP) ## rules of this project that no linter has
	@$(PYTEST) tests/tidy

.PHONY: unit
unit: $(STAMP) ## unit tests, one file per module
	@$(PYTEST) $(PARALLEL) -m "not cluster" $(OWN_STEP:%=--ignore=tests/%) tests

.PHONY: page
page: $(STAMP) ## the page in a real Chromium (skipped where there is none); pictures: build/page
	@$(PYTEST) $(PARALLEL) tests/page

.PHONY: scenarios
scenarios: $(STAMP) ## tests of several steps with the fake API server
	@$(PYTEST) $(PARALLEL_WAITING) --dist=worksteal -m "not cluster" tests/scenarios

# Apart from `test`, which has the same with 600 objects.
.PHONY: poison
poison: $(STAMP) ## 10,000 objects with nasty values, on every kind, beside good jobs (minutes)
	@POISON_OBJECTS=10000 $(PYTEST) --timeout=3600 tests/scenarios/test_poison.py

.PHONY: contracts
contracts: $(STAMP) ## recorded and published behavior of others, replayed
	@$(PYTEST) -m "not cluster" tests/contracts

.PHONY: cluster
cluster: $(STAMP) ## everything that needs the real control plane (built the first time: 6 minutes)
	@# By file: the tests of a file share a control plane.
	@$(CHEAP_GARBAGE) $(PYTEST) $(PARALLEL_CLUSTER) --dist=loadfile --no-loadscope-reorder \
		-m cluster $(CLUSTER_FOLDERS)

.PHONY: properties
properties: $(STAMP) ## invariants under generated facts
	@# In `test` they run beside the cluster at the lowest priority, and then take their time.
	@$(PYTEST) $(PARALLEL) --timeout=1500 -m "not cluster" tests/properties

.PHONY: simulation
simulation: $(STAMP) ## both programs in virtual time: some seeds, and some planted faults
	@$(PYTEST) $(PARALLEL) --timeout=1500 -m "not cluster" tests/simulation

.PHONY: verify
verify: $(STAMP) ## generated files are current, all checks pass, and nothing changed on the way
	@state() { git ls-files -z --cached --others --exclude-standard | sort -z | xargs -0 sha1sum 2>&1 || true; }; \
	mkdir -p build; state > build/before.txt; \
	$(MAKE) $(GENERATED); \
	$(MAKE) test; \
	state > build/after.txt; \
	diff build/before.txt build/after.txt > build/changed.txt || { \
		echo "verify: these files changed on the way; commit what was generated:"; \
		sed -n 's/^[<>] [0-9a-f]* */  /p' build/changed.txt | sort -u; exit 1; }

# ------------------------------------------------------------------------- commands for people

.PHONY: demo
demo: $(PROGRAMS_STAMP) ## run the queue on a real trace (CLUSTER=local or current; DEMO=once ends by itself)
	@CLUSTER="$(CLUSTER)" DEMO="$(DEMO)" exec $(PY) -m tests.demo

.PHONY: pictures
pictures: $(STAMP) ## take the pictures of README.md anew, of a running demo (needs Chromium; seven minutes)
	@$(PY) -m tests.demo.pictures

.PHONY: sim
sim: $(STAMP) ## simulate many seeds (SEEDS=2000, 500-699 or 17,18; STEPS=500; SEEDS=17 TRACE=1: all of one)
	@$(PY) -m tests.simulation --seeds "$(or $(SEEDS),200)" --steps "$(or $(STEPS),500)" \
		--jobs "$(JOBS)" $(if $(TRACE),--trace)

.PHONY: sim-faults
sim-faults: $(STAMP) ## break the programs on purpose; writes how soon the simulation finds it
	@$(PY) -m tests.simulation.planted_faults --jobs "$(JOBS)"

.PHONY: flood
flood: $(STAMP) ## flood each port as each kind of user (an hour; SECONDS=60 UNITS=3000 PORT=page FLOODER=view)
	@$(PY) -m tests.flood $(if $(SECONDS),--seconds "$(SECONDS)") $(if $(UNITS),--units "$(UNITS)") \
		$(if $(PORT),--port "$(PORT)") $(if $(FLOODER),--user "$(FLOODER)")

.PHONY: koordinator
koordinator: $(STAMP) ## beside the real koord-scheduler, built once (SEEDS=3 ROUNDS=4 SCENARIOS= PARKING=1)
	@$(PY) -m tests.koordinator --seeds "$(or $(SEEDS),3)" --rounds "$(or $(ROUNDS),4)" \
		$(if $(filter undefined,$(origin SCENARIOS)),,--scenarios "$(SCENARIOS)") \
		$(if $(PARKING),--parking)

.PHONY: bench
bench: $(STAMP) ## figures, each beside its control (JSON=FILE; STORE=1 for BENCHMARKS.md; TURNS=5)
	@$(PY) -m tests.benchmarks $(if $(JSON),--json "$(JSON)") \
		$(if $(STORE),--store) $(if $(TURNS),--turns "$(TURNS)")

.PHONY: benchmarks-report
benchmarks-report: $(STAMP) ## write BENCHMARKS.md from its texts and the stored figures
	@$(PY) -m tests.benchmarks report > /dev/null

.PHONY: controlplane
controlplane: $(STAMP) ## find or build etcd, kube-apiserver and others; the last line is their folder
	@$(PY) -m tests.controlplane

# ------------------------------------------------------------------------------- what is built

.PHONY: docs
docs: $(STAMP) ## the site of docs/, in build/docs/html: open index.html, or serve the folder
	@$(PY) -m sphinx --builder html --fail-on-warning --keep-going --nitpicky --quiet \
		--doctree-dir build/docs/doctrees docs build/docs/html
	@echo "docs: build/docs/html/index.html"

.PHONY: crds
crds: $(STAMP) ## write crds/ from the types
	@$(PY) -m shared_api.crds --write crds
	@$(PY) -m shared_api.crds --write charts/koord-queue/files/crds

.PHONY: schema
schema: $(STAMP) ## write the chart's values.schema.json and the table in its README
	@$(PY) -m tests.charts.values_reference --write

.PHONY: openapi
openapi: $(STAMP) ## write the contracts of the two debug APIs, and the client's structs
	@$(PY) -m queue_insight.debug_api.openapi
	@$(PY) -m queue_controllers.debug_api.openapi
	@$(PY) -m tests.client_structs

.PHONY: image
image: $(STAMP) ## the container image (needs a container engine, which `docker` talks to)
	@$(PY) -m tests.tidy.dockerfile Dockerfile
	@docker info > /dev/null 2>&1 || { \
		echo "image: nothing was built: no container engine answers to \`docker info\`" >&2; exit 1; }
	@version=$$($(PY) -c 'from importlib.metadata import version; print(version("koord-queue"))'); \
	docker build --build-arg VERSION="$$version" --tag koord-queue:"$$version" .

.PHONY: dist
dist: $(STAMP) ## wheel, source archive and SBOM, in dist/
	@rm -rf dist
	@$(PY) -m hatchling build --directory dist
	@$(PY) -m tests.release.bill_of_materials --output dist/koord-queue.cdx.json

.PHONY: krew
krew: $(STAMP) ## archives and manifest for krew, in build/krew (200 MB from the package index)
	@$(PY) -m tests.release.krew --output build/krew \
		$(if $(REPOSITORY_URL),--repository-url "$(REPOSITORY_URL)")

.PHONY: licenses
licenses: $(STAMP) ## write THIRD_PARTY.md from the lock
	@$(PY) -m tests.release.licenses --write

.PHONY: cut
cut: $(STAMP) ## make a release of what is unreleased (VERSION=0.2.0); docs/releasing.md has the rest
	@$(PY) -m tests.release.cut "$(VERSION)" "$$(date -u +%F)"
	@$(MAKE) $(GENERATED)

.PHONY: release-notes
release-notes: $(STAMP) ## print the section of the changelog about VERSION
	@$(PY) -m tests.release.changelog --notes "$(VERSION)"

.PHONY: clean
clean: ## remove generated files, except .venv and the control plane's cache
	@rm -rf build dist .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache \
		.ruff_cache htmlcov
	@find . -path ./$(VENV) -prune -o -name __pycache__ -type d -print0 | xargs -0 -r rm -rf

.PHONY: distclean
distclean: clean ## the same, and .venv
	@rm -rf $(VENV)
