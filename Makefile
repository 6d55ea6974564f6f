# `make demo` and `make test` set themselves up; nothing else is needed first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CLIENT := $(VENV)/.client
READY := $(VENV)/.ready

.PHONY: setup demo test test-slow test-all test-clients campaign store-faults fuzz bombs mutants check stub lock charts release clean

setup: $(READY)

# pip installs uv by its hash; uv installs everything else, in a tenth of pip's time.
UV_INSTALL := $(BIN)/uv pip install --quiet --python $(BIN)/python

# In the folder above a clone named `cleave`, Python finds that folder before an editable package, but not before these.
PATHS = printf '%s\n' $(foreach each,client shared functions,'$(CURDIR)/$(each)') \
	> "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/cleave-checkout.pth"
.PHONY: paths
paths:
	$(PATHS)

# The client alone, as `make demo` needs it, with its bytecode: in a container Python may be told to write none.
$(CLIENT): locks/client.lock locks/build.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r locks/build.lock
	$(UV_INSTALL) --compile-bytecode --require-hashes -r locks/client.lock
	$(UV_INSTALL) --no-deps --no-build-isolation --editable .
	$(PATHS)
	$(BIN)/python -m compileall -q client functions shared
	touch $@

# The tools of development besides.
$(READY): locks/dev.lock $(CLIENT)
	$(UV_INSTALL) --require-hashes -r locks/dev.lock
	touch $@

# The main job on a sample of made-up patients, both services in this process.
DEMO := SELECT ward, COUNT(*), AVG(age), SUM(bill), STDDEV(weight) FROM patients GROUP BY ward
demo: $(CLIENT)
	@echo '$$ cleave query tests/samples/patients.csv "$(DEMO)"' && \
	$(BIN)/cleave query tests/samples/patients.csv "$(DEMO)"

# A process for each core and one more, for tests that wait; each takes up to 1 GB. One that has no tests left takes over
# some of another's. Bytecode is kept: tests start hundreds of processes.
WORKERS := $(shell echo $$(($$(nproc) + 1)))
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --budgets

# Every test that is quick. Eight minutes on two cores.
test: setup
	$(PYTEST) -m "not sam and not clients and not slow" tests

# Campaigns, and what a quick test guards as well: see tests/README.md.
test-slow: setup
	$(PYTEST) -m "slow and not sam and not clients"

test-all: test test-slow

# The gateway, asked by PostgreSQL's clients; the recipes of docs with their tools; Python in a fresh notebook. What they
# need comes from Debian's, Maven's, npm's, Go's and Python's registries.
test-clients: setup
	$(BIN)/python -m pytest -m clients -n 2 --dist loadfile tests/gateway/clients

LASTING := -o faulthandler_timeout=86400  # of one test
# Campaigns at FACTOR times their size: all of them, or TESTS=tests/property/test_oracle.py.
campaign: setup
	CLEAVE_CAMPAIGN=$(or $(FACTOR),10) nice -n 19 $(BIN)/python -m pytest -m "not sam and not clients" $(LASTING) \
		$(or $(TESTS),$(shell grep -rlE 'from tests.campaign import|sampled\([0-9]+, [0-9]+\)' tests --include='test_*.py'))

# Stored tables under kills at every write, several writers, a failing S3 and a full disk: FACTOR times their usual size.
FAULTS := alter beside campaign contribute_resume contributor_faults erased faults foreign keys killed \
	killed_contributors kills noisy_faults release_faults release_people rotate rotate_drop s3_faults scan_faults
store-faults: setup
	CLEAVE_CAMPAIGN=$(or $(FACTOR),50) nice -n 19 $(BIN)/python -m pytest -n auto --dist worksteal $(LASTING) \
		$(addprefix tests/store/,$(FAULTS:%=test_%.py))

# Mutated messages for both services, so many each way (in process, as Lambda events, over HTTP): see tests/fuzz.
fuzz: setup
	$(BIN)/python -m tests.fuzz.campaign --messages $(or $(MESSAGES),3400) --seed $(or $(SEED),1)

# Every expression that tries to exhaust the plain service, at its real limit of 25 s: a quarter of an hour.
bombs: setup
	$(BIN)/python -m tests.fuzz.bombs

# Small changes to the code that guards answers and keys: each is noticed by a test, or justified. See tests/mutation.
mutants: setup
	nice -n 19 $(BIN)/python -m tests.mutation.run $(TARGETS)

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The public names for type checkers, from client/cleave/names.py. A test compares them.
stub: setup
	$(BIN)/python -m tests.architecture.stub

# Names, versions and hashes only: no index address ends up in a lock file.
LOCK = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--no-emit-find-links --no-header --no-annotate
EXTRAS := --extra aws --extra excel --extra gateway --extra models --extra noise --extra recovery --extra report --extra serve --extra sqlalchemy
CLIENTS := tests/gateway/clients
lock:
	$(LOCK) pyproject.toml $(EXTRAS) --extra dev -o locks/dev.lock
	$(LOCK) pyproject.toml --constraints locks/dev.lock -o locks/client.lock
	printf 'setuptools\nuv\n' | $(LOCK) - --constraints locks/dev.lock -o locks/build.lock
	$(LOCK) pyproject.toml $(EXTRAS) --constraints locks/dev.lock -o locks/full.lock
	$(LOCK) pyproject.toml $(CLIENTS)/recipes.in --constraints locks/client.lock -o $(CLIENTS)/recipes.txt
	$(LOCK) pyproject.toml $(EXTRAS) --extra notebook $(CLIENTS)/notebook.in --constraints locks/dev.lock -o $(CLIENTS)/notebook.txt
	$(LOCK) $(CLIENTS)/dbt.in -o $(CLIENTS)/dbt.txt

# What a report's charts are drawn with, from npm: versions and hashes are pinned in web/package-lock.json.
charts:
	cd web && npm ci --no-audit --no-fund && node build.js

# Wheel, source archive and checksums in dist/; the version is that of shared/cleave_shared/version.py. Both are the same,
# byte by byte, whenever and wherever they are made of one commit: only files that git tracks are copied and packed, and
# none of their times, owners and modes. The wheel is made from the source archive.
RELEASED := build/release
UV_BUILD = $(BIN)/uv build --quiet --offline --no-build-isolation --python $(BIN)/python --out-dir dist
release: export SOURCE_DATE_EPOCH = $(shell git log -1 --format=%ct)
release: setup
	rm -rf dist $(RELEASED) && mkdir -p $(RELEASED)
	git ls-files -z client functions shared pyproject.toml README.md LICENSE NOTICE | xargs -0 cp --parents --target-directory $(RELEASED)
	chmod -R u=rwX,go=rX $(RELEASED)
	umask 022 && $(UV_BUILD) --sdist $(RELEASED)
	rm -rf $(RELEASED)/* && tar -xzf dist/*.tar.gz -C $(RELEASED)
	tar --sort=name --format=ustar --mtime="@$$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
		-C $(RELEASED) -c $$(ls $(RELEASED)) | gzip -n9 > "$$(ls dist/*.tar.gz).new" && mv dist/*.tar.gz.new dist/*.tar.gz
	umask 022 && $(UV_BUILD) --wheel dist/*.tar.gz
	rm -rf $(RELEASED) dist/.gitignore
	cd dist && sha256sum -- * > SHA256SUMS && cat SHA256SUMS

# Everything that is made here and that git ignores, except keys and the answers in samconfig.toml. Docker keeps its images.
clean:
	rm -rf $(VENV) .venv-*/ .aws-sam artefacts build dist web/node_modules .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name .git -prune -o \( -name __pycache__ -o -name '*.egg-info' -o -name node_modules \) -prune -exec rm -rf {} +

include aws/aws.mk
include benchmarks/benchmarks.mk
