# --- AWS: build, deploy, run in containers. See docs/deploy.md.

# A stack has a section in samconfig.toml: what its first deploy was told. The architecture is that section's, else x86_64.
CONFIG ?= default
DEPLOYED := $(shell grep -sF '[$(CONFIG).deploy.parameters]' samconfig.toml)
export ARCH ?= $(or $(shell sed -n '/^\[$(CONFIG)\.deploy\./,/^\[/s/.*Architecture=[\\"]*\([a-z0-9_]*\).*/\1/p' samconfig.toml 2>/dev/null),x86_64)
SAM_VENV := .venv-sam
SAM := SAM_CLI_TELEMETRY=0 $(SAM_VENV)/bin/sam
SAM_READY := $(SAM_VENV)/.ready
# The functions run in Lambda's own image, or where debootstrap can make it (root on Debian) in a stand-in for it.
STAND_IN := cleave-lambda-stand-in:python3.13
LAMBDA_IMAGE ?= $(if $(shell [ "$$(id -u)" = 0 ] && command -v debootstrap),$(STAND_IN),public.ecr.aws/lambda/python:3.13-$(ARCH))
export CLEAVE_LAMBDA_IMAGE := $(LAMBDA_IMAGE)
# sam validate asks for a region and connects to none
export AWS_DEFAULT_REGION ?= eu-central-1

.PHONY: sam print-lambda-image image build build-SensitiveFunction build-JobFunction build-PlainFunction deploy teardown deploy-local validate lambda-image test-sam events local-api local-lambda openapi bench-cold lock-aws

# The SAM CLI has a venv to itself: its pins clash with ours.
sam: $(SAM_READY)

$(SAM_READY): locks/sam.lock | $(READY)
	$(PYTHON) -m venv $(SAM_VENV)
	$(BIN)/uv pip install --quiet --python $(SAM_VENV)/bin/python --require-hashes -r locks/sam.lock
	touch $@

# As written, and as CloudFormation gets it: cfn-lint finds in the second what it misses in the first.
# W1028: SAM repeats a function's condition inside the paths of the API that stand under it already.
validate: sam setup
	$(SAM) validate --lint
	$(BIN)/python -m aws.translate > $(SAM_VENV)/translated.json
	$(SAM_VENV)/bin/cfn-lint --ignore-checks W1028 -- $(SAM_VENV)/translated.json

# ARCH=arm64 builds for Graviton; deploy says the same to the stack.
build: sam setup
	$(SAM) build --build-in-source --parameter-overrides Architecture=$(ARCH)
	$(BIN)/python -m aws.check_artifacts .aws-sam/build

# Called by sam build, once a function. A job's steps are the sensitive service's code.
build-SensitiveFunction build-JobFunction:
	$(BIN)/python -m aws.build sensitive "$(ARTIFACTS_DIR)" --architecture $(ARCH)

build-PlainFunction:
	$(BIN)/python -m aws.build plain "$(ARTIFACTS_DIR)" --architecture $(ARCH)

# The first time SAM asks for stack name, region and parameters, and writes the answers to the section CONFIG of
# samconfig.toml. PROFILE and PARAMETERS (NAME=VALUE ...) are answers to begin with; later, change them in that file.
deploy: build
	$(if $(and $(DEPLOYED),$(PARAMETERS)$(PROFILE)),$(error change parameters and profile of a deployed stack in samconfig.toml, section $(CONFIG)))
	$(SAM) deploy --capabilities CAPABILITY_IAM --config-env $(CONFIG) --no-fail-on-empty-changeset $(if $(DEPLOYED),,--guided \
		$(if $(PROFILE),--profile $(PROFILE)) --parameter-overrides Architecture=$(ARCH) $(PARAMETERS))

# The stack of section CONFIG, and its buckets with all that is stored there. It asks first.
teardown: sam
	$(BIN)/python -m aws.teardown $(CONFIG)

# Both stacks to LocalStack in an environment of its own, asked, compared with the template, deleted: no account, no
# container. It runs under the Python of Lambda, which must be on this machine.
LOCALSTACK := build/localstack
deploy-local: $(LOCALSTACK)/.ready build
	$(BIN)/python -m pytest -m deploy tests/aws/test_deploy.py

$(LOCALSTACK)/.ready: tests/aws/requirements-localstack.lock | $(READY)
	$(BIN)/uv venv --quiet --clear --python "$$($(BIN)/python -c 'from aws.build import local_python as it; print(it() or "3.13")')" $(LOCALSTACK)
	$(BIN)/uv pip install --quiet --python $(LOCALSTACK)/bin/python --require-hashes -r $<
	touch $@

lambda-image: setup
	docker image inspect $(LAMBDA_IMAGE) >/dev/null 2>&1 || \
		$(if $(filter $(STAND_IN),$(LAMBDA_IMAGE)),tests/aws/lambda_image.sh,docker pull --quiet) $(LAMBDA_IMAGE)

# `cleave` and `cleave serve` in a container, on python:3.13-slim or where debootstrap can make it a stand-in for it.
CONTAINER ?= cleave
BASE_IMAGE ?= $(if $(filter $(STAND_IN),$(LAMBDA_IMAGE)),cleave-base-stand-in:python3.13,docker.io/library/python:3.13-slim)
image: release
	docker image inspect $(BASE_IMAGE) >/dev/null 2>&1 || \
		$(if $(filter cleave-base-%,$(BASE_IMAGE)),tests/aws/base_image.sh,docker pull --quiet) $(BASE_IMAGE)
	rm -rf build/image && mkdir -p build/image
	$(BIN)/uv pip install --quiet --target build/image/packages --python-version 3.13 \
		--python-platform $(subst arm64,aarch64,$(ARCH))-manylinux_2_28 --only-binary :all: --no-deps --require-hashes -r locks/full.lock
	$(BIN)/uv pip install --quiet --target build/image/packages --no-deps dist/*.whl
	docker build --quiet --network none --build-arg BASE=$(BASE_IMAGE) --tag $(CONTAINER) --file Containerfile build/image

# Without containers only if whoever calls says so: CLEAVE_NO_CONTAINERS=1.
test-sam: $(if $(CLEAVE_NO_CONTAINERS),,lambda-image image) build
	$(BIN)/python -m pytest -m "sam and not deploy" tests/aws

# Made for you, with a key that is left beside them; the ones that are tracked, in events/, stay as they are.
events: setup
	$(BIN)/python -m aws.make_events build/events

# Both services in containers on this machine: behind an API, or as functions to invoke. Ctrl-C ends them: all of them,
# since they are started LAZY (aws/sam.py says why).
LOCAL_PORT ?= 3000
SAM_LOCAL = $(SAM) local $(1) --port $(LOCAL_PORT) --warm-containers LAZY --skip-pull-image \
	--parameter-overrides Architecture=$(ARCH) $(if $(filter $(STAND_IN),$(LAMBDA_IMAGE)),--invoke-image $(STAND_IN))
local-api: lambda-image build
	@echo 'then: cleave query ... --endpoint http://127.0.0.1:$(LOCAL_PORT)'
	$(call SAM_LOCAL,start-api)

local-lambda: lambda-image build
	@echo 'then: AWS_ENDPOINT_URL_LAMBDA=http://127.0.0.1:$(LOCAL_PORT) cleave query ... --lambda SensitiveFunction,PlainFunction'
	$(call SAM_LOCAL,start-lambda)

openapi: setup
	$(BIN)/python -m aws.write_openapi

bench-cold: lambda-image build
	$(BIN)/python -m benchmarks.cold

LOCK_313 = $(subst --python-version 3.11,--python-version 3.13,$(LOCK)) --constraints locks/dev.lock
lock-aws:
	$(LOCK_313) aws/requirements-sensitive.in -o locks/sensitive.lock
	$(LOCK_313) aws/requirements-plain.in -o locks/plain.lock
	$(LOCK_313) tests/aws/requirements-image.in -o tests/aws/requirements-image.lock
	$(subst --constraints locks/dev.lock,,$(LOCK_313)) tests/aws/requirements-localstack.in -o tests/aws/requirements-localstack.lock
	$(LOCK) aws/requirements-sam.in -o locks/sam.lock

print-lambda-image:
	@echo $(LAMBDA_IMAGE)
