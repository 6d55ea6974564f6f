# --- AWS: build, deploy, run in containers. See docs/deploy.md.

ARCH ?= x86_64
SAM_VENV := .venv-sam
SAM := SAM_CLI_TELEMETRY=0 $(SAM_VENV)/bin/sam
SAM_READY := $(SAM_VENV)/.ready
LAMBDA_IMAGE ?= cleave-lambda-stand-in:python3.13
export CLEAVE_LAMBDA_IMAGE := $(LAMBDA_IMAGE)
# sam validate asks for a region and connects to none
export AWS_DEFAULT_REGION ?= eu-central-1

.PHONY: sam build build-SensitiveFunction build-PlainFunction deploy validate lambda-image test-sam events openapi bench-cold lock-aws

# The SAM CLI has a venv to itself: its pins clash with ours.
sam: $(SAM_READY)

$(SAM_READY): requirements-sam.lock | $(READY)
	$(PYTHON) -m venv $(SAM_VENV)
	$(BIN)/uv pip install --quiet --python $(SAM_VENV)/bin/python --require-hashes -r requirements-sam.lock
	touch $@

validate: sam
	$(SAM) validate --lint

# ARCH=arm64 builds for Graviton; deploy says the same to the stack.
build: sam setup
	$(SAM) build --build-in-source --parameter-overrides Architecture=$(ARCH)
	$(BIN)/python -m aws.check_artifacts .aws-sam/build

# Called by sam build, once a function.
build-SensitiveFunction:
	$(BIN)/python -m aws.build sensitive "$(ARTIFACTS_DIR)" --architecture $(ARCH)

build-PlainFunction:
	$(BIN)/python -m aws.build plain "$(ARTIFACTS_DIR)" --architecture $(ARCH)

# The first time SAM asks for stack name, region and parameters and keeps the answers in samconfig.toml.
deploy: build
	$(SAM) deploy --capabilities CAPABILITY_IAM $(if $(wildcard samconfig.toml),,--guided) \
		$(if $(wildcard samconfig.toml),,--parameter-overrides Architecture=$(ARCH))

# What stands in for Lambda's base image where no container registry can be reached.
lambda-image:
	docker image inspect $(LAMBDA_IMAGE) >/dev/null 2>&1 || UV=$(BIN)/uv tests/aws/lambda_image.sh $(LAMBDA_IMAGE)

test-sam: build lambda-image
	$(BIN)/python -m pytest -m sam tests/aws

events: setup
	$(BIN)/python -m aws.make_events

openapi: setup
	$(BIN)/python -m aws.write_openapi

bench-cold: build lambda-image
	$(BIN)/python benchmarks/cold.py

LOCK_313 = $(subst --python-version 3.11,--python-version 3.13,$(LOCK)) --constraints requirements-dev.lock
lock-aws:
	$(LOCK_313) aws/requirements-sensitive.in -o requirements-sensitive.lock
	$(LOCK_313) aws/requirements-plain.in -o requirements-plain.lock
	$(LOCK_313) tests/aws/requirements-image.in -o tests/aws/requirements-image.lock
	$(LOCK) aws/requirements-sam.in -o requirements-sam.lock
