# `make help` lists the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

VENV := .venv
PYTHON := $(VENV)/bin/python
UV := $(VENV)/bin/uv
LOCK := requirements/all.lock
ICEBERG := requirements/iceberg
ICEBERG_VENV := .venv-iceberg
BASE_PYTHON ?= python3
UV_VERSION := 0.13.8
STATE ?= .state
DAYS ?= 365
EXAMPLES ?= 20
ROWS ?= 10000000
BENCH ?=

COMPILE = $(UV) pip compile --quiet --universal --generate-hashes --python-version 3.11 \
	--custom-compile-command 'make lock'
PYTEST := $(PYTHON) -m pytest --durations=60 --durations-min=2
# Where each target saves how long its tests took.
JUNIT = --junitxml=$(STATE)/junit/$@.xml
# Runs a command beside a JVM that all its test processes share.
WITH_JVM := $(PYTHON) tests/shared_jvm.py
NEEDS_JVM := spark or fault or connect or slow
# Most of a Delta statement runs on one core. The longest modules come first, but those of faults
# start drivers of their own: not two of them at once.
SESSIONS ?= -n 2 --dist loadscope --no-loadscope-reorder

# Classes of Spark as the JVM keeps them in memory: a driver starts with a third less work.
ARCHIVE := $(CURDIR)/$(VENV)/spark.jsa
export SPARK_SUBMIT_OPTS := $(SPARK_SUBMIT_OPTS) -XX:SharedArchiveFile=$(ARCHIVE)
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
export PYTHONPATH :=

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: venv
venv: $(VENV)/.installed ## make the environment in .venv: the lock file and the project

$(UV):
	$(BASE_PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo 'Python 3.11 or newer is needed: name it with BASE_PYTHON=...' >&2; exit 1; }
	test -x $(PYTHON) || $(BASE_PYTHON) -m venv $(VENV)
	$(PYTHON) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m ensurepip
	$(PYTHON) -m pip install --quiet uv==$(UV_VERSION)

$(VENV)/.installed: $(LOCK) pyproject.toml | $(UV)
	$(UV) pip install --quiet --python $(PYTHON) --require-hashes -r $(LOCK)
	$(UV) pip install --quiet --python $(PYTHON) --no-deps --no-build-isolation --editable .
	touch $@

.PHONY: java
java: ## check for Java 17 or newer; on Debian as root install it
	@.ci/java

.PHONY: chromium
chromium: ## check for Chromium, for the tests of the page of streams; on Debian as root install it
	@.ci/chromium

.PHONY: jars
jars: $(VENV)/.jars ## let Spark fetch the Delta jars and archive its classes, once

$(VENV)/.jars: $(VENV)/.installed .ci/jars | java
	@SPARK_SUBMIT_OPTS='-XX:ArchiveClassesAtExit=$(ARCHIVE) -XX:TieredStopAtLevel=1 -Xlog:disable' $(PYTHON) .ci/jars
	@touch $@

.PHONY: cluster-jars
cluster-jars: $(VENV)/s3a/.installed ## let Ivy fetch the jars with which Spark reads S3

$(VENV)/s3a/.installed: requirements/s3a.ivy.xml $(VENV)/.jars .ci/s3a-jars
	@.ci/s3a-jars $(VENV)/s3a
	@touch $@

.PHONY: test
test: checks test-fast test-jvm test-cluster ## lint, the docs, every layer of tests

.PHONY: checks
checks: venv java check-engine ## lint and the docs, while Spark fetches its jars and Chromium is installed
	.ci/side-by-side jars chromium docs lint

.PHONY: test-jvm
test-jvm: venv jars ## the tests that need a JVM and those beside a server, on one JVM
	$(WITH_JVM) $(MAKE) test-spark test-services

.PHONY: test-fast
test-fast: venv ## the tests that need no JVM, under a minute
	$(PYTEST) tests/unit tests/protocol tests/docs tests/stateful -m 'not (airflow or thorough or $(NEEDS_JVM))' $(SESSIONS) \
		$(JUNIT)

.PHONY: test-spark
test-spark: venv jars ## the tests that need a JVM: engine, state machines, faults
	$(WITH_JVM) $(PYTEST) tests/stateful tests/faults tests/docs tests/engine \
		-m '($(NEEDS_JVM)) and not thorough' $(SESSIONS) $(JUNIT)

.PHONY: test-services
test-services: venv jars ## the tests beside a server: Spark Connect and Airflow, side by side
	$(WITH_JVM) .ci/side-by-side test-connect test-airflow

.PHONY: test-connect
test-connect: venv jars ## the engine over Spark Connect: a process is a classic one or a remote one
	$(WITH_JVM) $(PYTEST) tests/connect -m 'not thorough' $(JUNIT)

.PHONY: test-airflow
test-airflow: venv jars chromium ## the tests that need an Airflow database or a real scheduler
	$(WITH_JVM) $(PYTEST) tests/airflow -n 2 --dist loadgroup $(JUNIT)

.PHONY: screenshots
screenshots: venv jars chromium ## make the pictures of the page of streams in docs/pictures anew
	mkdir -p docs/pictures
	CDC_SCREENSHOTS=docs/pictures $(PYTEST) tests/airflow/test_streams_page_in_a_browser.py -k accessibility

.PHONY: dashboard
dashboard: venv ## make the dashboard of Grafana in docs/grafana anew
	$(PYTHON) .ci/dashboard

.PHONY: test-cluster
test-cluster: venv jars cluster-jars ## the tests on an S3 store and a Spark cluster
	$(PYTEST) tests/cluster -m 'not thorough' $(JUNIT)

.PHONY: test-thorough
test-thorough: venv jars cluster-jars ## what is too long for CI: more variants and random examples, a benchmark
	$(PYTEST) tests/unit tests/protocol -m thorough $(SESSIONS)
	$(WITH_JVM) $(PYTEST) tests/faults tests/docs tests/engine -m thorough $(SESSIONS) $(JUNIT)
	$(WITH_JVM) $(PYTEST) tests/connect -m thorough
	$(PYTEST) tests/cluster -m thorough
	HYPOTHESIS_PROFILE=thorough MACHINE_EXAMPLES=$(EXAMPLES) $(WITH_JVM) $(PYTEST) tests/stateful \
		-o timeout=0 -m 'stateful or thorough' $(SESSIONS)
	$(MAKE) bench ROWS=200000 \
		BENCH='--part changes --commits 2 --only "0.01 % updates in" --out $(STATE)/bench'

.PHONY: docs
docs: venv ## the site of the docs in .state/site; warnings are errors
	AIRFLOW_HOME=$(abspath $(STATE))/docs-airflow $(PYTHON) -m sphinx -b html -W --keep-going -q \
		docs $(STATE)/site

.PHONY: check-engine
check-engine: ## no py4j handle in the engine
	@.ci/check-engine

.PHONY: lint
lint: venv ## ruff, mypy, the imports between rooms, and plain words
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	$(VENV)/bin/lint-imports --no-logo --no-cache
	$(PYTHON) .ci/check-words

.PHONY: format
format: venv ## format, and fix what ruff can fix
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

.PHONY: demo
demo: venv jars ## the flights demo, headless; DAYS=365 days of 2013
	@PYTHONPATH=$(CURDIR)/dags $(PYTHON) -m flights_demo.demo --state $(STATE)/demo --days $(DAYS)

.PHONY: demo-cluster
demo-cluster: DAYS = 3
demo-cluster: venv jars cluster-jars ## the flights demo on a Spark cluster with tables on S3; DAYS=3
	@PYTHONPATH=$(CURDIR)/dags:$(CURDIR)/docker $(PYTHON) -m flights_demo.cluster_demo \
		--state $(STATE)/demo-cluster --days $(DAYS)

.PHONY: up
up: venv jars ## the demo's Airflow, left running: prints its address and login
	@PYTHONPATH=$(CURDIR)/dags $(PYTHON) -m flights_demo.demo --state $(STATE)/up --days $(DAYS) --stay

.PHONY: cluster
cluster: venv jars cluster-jars ## an S3 store, Spark and Spark Connect, left running: prints their addresses
	@PYTHONPATH=$(CURDIR)/docker $(PYTHON) -m cdc_stack up --folder $(STATE)/cluster

.PHONY: compose
compose: venv ## write docker/compose.yaml from docker/cdc_stack
	@PYTHONPATH=$(CURDIR)/docker $(PYTHON) -m cdc_stack compose

.PHONY: bench
bench: venv jars cluster-jars $(ICEBERG_VENV)/.installed ## every benchmark; ROWS=10000000 rows, BENCH='--resume ...'
	PYTHONPATH=$(CURDIR)/dags:$(CURDIR)/docker $(PYTHON) -m benchmarks --rows $(ROWS) $(BENCH)

$(ICEBERG_VENV)/.installed: $(ICEBERG).lock | $(UV)
	$(UV) venv --quiet --clear --python $(PYTHON) $(ICEBERG_VENV)
	$(UV) pip install --quiet --python $(ICEBERG_VENV)/bin/python --require-hashes -r $<
	touch $@

.PHONY: lock
lock: | $(UV) ## make the lock files anew
	$(COMPILE) pyproject.toml --all-extras $(foreach group,build test lint demo bench docs,--group $(group)) --output-file $(LOCK)
	$(COMPILE) pyproject.toml --constraints $(LOCK) --output-file requirements/engine.lock
	$(COMPILE) $(ICEBERG).in --output-file $(ICEBERG).lock

.PHONY: clean
clean: ## remove what make made, except .venv
	rm -rf $(STATE) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist \
		spark-warehouse metastore_db derby.log
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -print0 | xargs -0 rm -rf
