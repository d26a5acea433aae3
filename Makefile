# Every target sets up what it needs; the only prerequisites are Python 3.11+, git and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# The other projects of this clone, each with a package of its own: they are in the lock by what they need alone.
PROJECTS := emulator demo
GUARD := .venv-guard
HOSTING := .venv-hosting
SITE := .venv-site
TYPESCRIPT := .ci/typescript/node_modules
ACTIONS := .ci/actions/node_modules
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Each process that the tests start would compile all modules again, and pytest rewrite all of its own.
unexport PYTHONDONTWRITEBYTECODE

# $(call environment,FOLDER,LOCK): the locked packages in an environment of their own. The pip that comes with Python 3.11
# needs twice the time of a newer one to choose among an index's files.
define environment
	$(PYTHON) -m venv $(1)
	$(1)/bin/pip install --quiet --no-deps --no-compile --require-hashes -r requirements-pip.txt || echo 'The index lacks that pip: an older one installs.'
	$(1)/bin/pip install --quiet --no-deps --no-compile --require-hashes -r $(2)
endef

.PHONY: all demo test lint types arrows check processes tools long machines secrets-of-history fuzz audit secrets sbom hosting typescript actions packages campaign mutants breaks again bench bench-scheduling bench-policies release-check release release-files release-signature release-database docs site pictures screenshots lock clean
all: $(STAMP)

$(STAMP): requirements-dev.txt pyproject.toml $(PROJECTS:%=%/pyproject.toml)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "IMQ needs Python 3.11 or later; this is %d.%d. Set PYTHON=." % sys.version_info[:2])'
	@echo 'Installing into $(VENV); this may take a few minutes.'
	$(call environment,$(VENV),requirements-dev.txt)
	$(BIN)/pip install --quiet --no-deps --no-build-isolation $(patsubst %,--editable %,. $(PROJECTS))
	touch $@

demo: $(STAMP)
	$(BIN)/imq demo $(ARGS)

# The tests of the landing gate, which live in virtual time; ARGS=--thorough runs all of them, as CI does. Sets have one
# order, so that a test passes always or never.
test: $(STAMP)
	PYTHONHASHSEED=0 $(BIN)/pytest --workers auto $(ARGS)

# The tests that live in real time. A failed one runs a second time, alone. They mostly wait: four on two cores.
processes: $(STAMP)
	$(BIN)/python -m tests.support.processes_gate --workers 4 $(ARGS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy
	@if [ -x $(TYPESCRIPT)/.bin/tsc ]; then $(TYPESCRIPT)/.bin/tsc -p jsconfig.json; \
		elif [ -n "$$IMQ_TEST_NO_SKIPS" ]; then echo 'TypeScript is missing: make typescript' >&2; exit 1; \
		else echo 'SKIPPED: the types of the scripts in bot/web/static; "make typescript" installs their checker (npm).'; fi

arrows: $(STAMP)
	$(BIN)/lint-imports

check: lint types arrows test processes

# The campaigns for longer and by other seeds: SEED=61139 repeats one, ARGS="--basetemp=/tmp/campaign" keeps the logs;
# see the tests for the variables.
campaign: export IMQ_CAMPAIGN_SEED ?= $(SEED)
campaign: export IMQ_CAMPAIGN_SECONDS ?= 90
campaign: export IMQ_CAMPAIGN_PULLS ?= 100
campaign: export IMQ_LAG_SEEDS ?= 1-40
campaign: export IMQ_LAG_ACTS ?= 30
campaign: $(STAMP)
	$(BIN)/pytest -s $(ARGS) tests/campaign tests/acceptance/test_lagging_reads.py

# One round of the state machines with new examples; SEED=61139 repeats those of trains and of lagging reads.
machines: export PYTHONHASHSEED = 0
machines: export IMQ_TEST_FRESH = 1
machines: export IMQ_TRAIN_SEED ?= $(SEED)
machines: export IMQ_TRAIN_EXAMPLES ?= 50
machines: export IMQ_LAG_SEEDS ?= $(SEED)
machines: export IMQ_LAG_ACTS ?= 30
machines: $(STAMP)
	$(BIN)/pytest --workers auto --gate long -k thousands tests/acceptance/test_train_machine.py
	$(BIN)/pytest --workers auto --thorough $(ARGS) tests/acceptance/test_lagging_reads.py $$(grep -lr hypothesis tests/unit tests/store)

# pyproject.toml lists the changed modules and the tests that have to notice; ARGS="decide store.order" selects modules.
mutants: $(STAMP)
	$(BIN)/python -m tests.support.mutants $(ARGS)

# Breaks each promise once, in a copy, and shows that the landing gate fails; ARGS="P1 P4" selects promises.
breaks: $(STAMP)
	$(BIN)/python -m tests.support.breaks $(ARGS)

# Both gates of CI again and again, half of the time beside two busy loops, as a table: TIMES=4 shortens it.
again: $(STAMP)
	TIMES=$(TIMES) .ci/again

# Random input against the receiver, the configuration and the commands: ARGS="--seconds 3600 receiver".
fuzz: $(STAMP)
	$(BIN)/python -m tests.fuzz $(ARGS)

$(GUARD)/.installed: requirements-guard.txt
	$(call environment,$(GUARD),requirements-guard.txt)
	touch $@

# Known vulnerabilities of the locked packages, asked of the Python Packaging Advisory Database.
audit: $(GUARD)/.installed
	$(GUARD)/bin/python -m tests.guard $(ARGS)

# Secrets in tracked files; .secrets.baseline lists the examples that are none. Code 3: they stand on other lines.
secrets: $(GUARD)/.installed
	mkdir -p build && cp .secrets.baseline build/secrets.baseline
	git ls-files -z -- . ':!.secrets.baseline' | xargs -0 sh -c '$(GUARD)/bin/detect-secrets-hook \
		--baseline build/secrets.baseline "$$@" > build/secrets.log; code=$$?; test $$code = 0 || test $$code = 3 || \
		{ cat build/secrets.log; exit 1; }' sh

# The same in every line that a commit ever added, file by file.
secrets-of-history: $(GUARD)/.installed
	rm -rf build/history && mkdir -p build/history && cp .secrets.baseline build/history/
	$(PYTHON) -m tests.guard.history build/history
	cd build/history && find . -type f ! -name .secrets.baseline -printf '%P\0' | xargs -0 sh -c \
		'../../$(GUARD)/bin/detect-secrets-hook --baseline .secrets.baseline "$$@" > ../history.log; code=$$?; \
		test $$code = 0 || test $$code = 3 || { cat ../history.log; exit 1; }' sh

# A CycloneDX bill of materials of a production install: what, in which version, under which licence, needed by what.
# The tool reads no dynamic version of IMQ itself, so it is given one; the last line but one looks whether it stands there.
sbom: VERSION = $(shell sed -n 's/^__version__ = "\(.*\)"$$/\1/p' bot/__init__.py)
sbom: $(GUARD)/.installed
	rm -rf build/sbom && $(PYTHON) -m venv --without-pip build/sbom
	$(GUARD)/bin/pip --python build/sbom install --quiet --no-deps --require-hashes -r requirements.txt
	sed 's/^dynamic = \["version"\]$$/version = "$(VERSION)"/' pyproject.toml > build/sbom/pyproject.toml
	$(GUARD)/bin/cyclonedx-py environment --pyproject build/sbom/pyproject.toml --mc-type application --output-reproducible \
		--validate --output-format JSON --output-file build/imq.cdx.json build/sbom/bin/python
	$(PYTHON) -c 'import json; imq = json.load(open("build/imq.cdx.json"))["metadata"]["component"]; \
		assert imq.get("version") == "$(VERSION)" != "", imq'
	@echo "wrote build/imq.cdx.json"

# The linters of the files for hosting platforms; `make test` skips their tests without them.
hosting: $(HOSTING)/.installed

$(HOSTING)/.installed: requirements-hosting.txt
	$(call environment,$(HOSTING),requirements-hosting.txt)
	touch $@

# The type checker of the pages' scripts, from npm; `make types` skips them without it.
typescript: $(TYPESCRIPT)/.package-lock.json

$(TYPESCRIPT)/.package-lock.json: .ci/typescript/package-lock.json
	cd .ci/typescript && npm ci --ignore-scripts --no-audit --no-fund
	touch $@

# GitHub's own reader of workflow files, from npm: a second opinion in tests/process/test_workflow_reader.py.
actions: $(ACTIONS)/.package-lock.json

$(ACTIONS)/.package-lock.json: .ci/actions/package-lock.json
	cd .ci/actions && npm ci --ignore-scripts --no-audit --no-fund
	touch $@

# What the tests of the processes gate need beside Python: they are skipped without it, and fail in CI.
tools: hosting typescript actions
	.ci/from-debian prometheus usr/bin/promtool
	.ci/from-debian nginx usr/sbin/nginx
	.ci/from-debian caddy usr/bin/caddy
	.ci/apt curl curl
	.ci/chromium

# IMQ as people install it: its package by pip, pipx and uvx, and the steps of the Dockerfile.
packages: $(STAMP) $(HOSTING)/.installed
	$(BIN)/pytest --gate long $(ARGS) tests/hosting

# The long gate, for a larger change; MINUTES is how long the state machines look for new examples.
long: export MINUTES ?= 60
long: $(STAMP)
	.ci/long

bench: $(STAMP)
	PYTHONPATH=emulator/tests $(BIN)/python -m benchmarks $(ARGS)

# The planner of trains against an oracle and the rules of other merge queues; writes docs/scheduling.md. ARGS=--full
# takes the whole grid.
bench-scheduling: $(STAMP)
	$(BIN)/python -m benchmarks.scheduling $(ARGS)

# The same planner beside the rules of other queues, by the load, CI and seeds of a file: ARGS="my.toml --json".
bench-policies: $(STAMP)
	$(BIN)/python -m benchmarks.scheduling.workload $(ARGS)

# Whether version, changelog, database and tag of a release agree (CONTRIBUTING.md, "Releasing"): TAG=v1.2.3 checks a tag, too.
release-check: $(STAMP)
	$(BIN)/python -m tests.support.release $(if $(TAG),--tag $(TAG))

# All files of a release in build/release, signed by KEY=release.pem, whose public part has to be in release-keys.json.
# Without a key a new one signs them, for a trial.
release: release-files
	$(MAKE) release-signature

release-files: $(STAMP) sbom
	rm -rf build/release
	$(BIN)/python -m tests.support.release_files build build/release --with build/imq.cdx.json

release-signature: $(STAMP)
	$(BIN)/python -m tests.support.release_files sign build/release $(if $(KEY),--key $(KEY))
	$(BIN)/python -m tests.support.release_files verify build/release $(if $(KEY),--keys release-keys.json)

# The database of the present version, on which later versions are tested.
release-database: $(STAMP)
	$(BIN)/python -m tests.support.release_databases

# Renew the parts of the documents that are made from the running program.
docs: $(STAMP)
	$(BIN)/python -m docs.generate

# The documents as a site in build/site, which any web server can serve. A broken link fails.
site: $(STAMP) $(SITE)/.installed
	rm -rf build/site build/site-source
	$(BIN)/python -m docs.site collect build/site-source
	$(SITE)/bin/zensical build --clean --strict
	$(BIN)/python -m docs.site finish build/site

$(SITE)/.installed: requirements-site.txt
	$(call environment,$(SITE),requirements-site.txt)
	touch $@

# Renew the pictures of the registration, in Debian's Chromium.
pictures: $(STAMP)
	PYTHONPATH=emulator/tests $(BIN)/python -m tests.support.setup_pictures

# Pictures of every page in six situations, into build/screenshots, and those of the documents, in the same browser.
# ARGS="bisecting red-base" selects situations.
screenshots: $(STAMP)
	PYTHONPATH=emulator/tests $(BIN)/python -m tests.support.screenshots $(ARGS)

# Renew the locked requirements. No index address may enter them.
lock:
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/pip install --quiet uv
	$(VENV)-lock/bin/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --python-version 3.11 \
		--custom-compile-command 'make lock' --extra demo --extra dev --extra otlp pyproject.toml \
		--no-emit-package imq --no-emit-package imq-demo --no-emit-package github-emulator -o requirements-dev.txt
	$(VENV)-lock/bin/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --python-version 3.11 \
		--custom-compile-command 'make lock' --constraint requirements-dev.txt pyproject.toml -o requirements.txt
	$(VENV)-lock/bin/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --python-version 3.11 \
		--custom-compile-command 'make lock' --constraint requirements-dev.txt --extra otlp pyproject.toml \
		-o requirements-otlp.txt
	$(VENV)-lock/bin/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --python-version 3.11 \
		--custom-compile-command 'make lock' --group guard -o requirements-guard.txt
	$(VENV)-lock/bin/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --python-version 3.11 \
		--custom-compile-command 'make lock' --group hosting -o requirements-hosting.txt
	$(VENV)-lock/bin/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --python-version 3.11 \
		--custom-compile-command 'make lock' --group site -o requirements-site.txt
	$(VENV)-lock/bin/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --python-version 3.11 \
		--custom-compile-command 'make lock' --group pip -o requirements-pip.txt
	rm -rf $(VENV)-lock

clean:
	rm -rf $(VENV) $(VENV)-lock $(GUARD) $(HOSTING) $(SITE) .cache .mypy_cache .ruff_cache .pytest_cache mutants build *.egg-info
