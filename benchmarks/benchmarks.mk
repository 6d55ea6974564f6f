# The published tables (docs/performance.md). What is measured against lives in environments of its own under
# build/bench, made from locks with hashes; a peer whose tools are missing is told as not available.
ENVIRONMENTS := build/bench
PEERS := benchmarks/peers
# OpenFHE's wheel is for this version alone. pyenv's place is looked at as well.
PYTHON310 ?= $(firstword $(wildcard $(HOME)/.pyenv/versions/3.10.*/bin/python3.10 /usr/bin/python3.10))
GO ?= $(firstword $(wildcard /usr/local/go/bin/go /usr/bin/go))

.PHONY: bench bench-image bench-query bench-encryption bench-thesis bench-upload bench-peers lock-bench bench-start bench-store
.PHONY: bench-appends bench-columns bench-tpch bench-disclosure bench-scan bench-planner bench-ring bench-threshold
.PHONY: bench-model bench-load bench-fit bench-encrypted bench-growth scale

# Single operations on ciphertexts, and what services and answers are made of, as Markdown: three minutes. NAMES chooses.
bench: setup
	$(BIN)/python -m benchmarks.suite $(if $(SECONDS),--seconds $(SECONDS)) $(NAMES)

# The same in Lambda's own image, whose Python takes Cleave's locked packages (Docker, a network): four minutes.
bench-image: lambda-image
	docker run --rm --entrypoint /bin/sh -v "$(CURDIR)":/src:ro -w /src $(LAMBDA_IMAGE) -c \
		'python -m pip install --quiet --require-hashes -r locks/client.lock -t /tmp/packages && \
		PYTHONPATH=/tmp/packages:client:shared:functions:. python -m benchmarks.suite $(if $(SECONDS),--seconds $(SECONDS)) $(NAMES)'

# `cleave query` beside the same sums by hand-written packed TenSEAL, and by 10 to 100,000 groups.
bench-query: setup
	$(BIN)/python -m benchmarks.main

# What encrypting a vector takes, beside schemes that cache (insecure ones, which only benchmarks have): two minutes.
bench-encryption: setup
	$(BIN)/python -m benchmarks.encryption

# 6,000 x 8 value by value in three schemes, by the thesis's framework and by Cleave: three minutes.
bench-thesis: setup $(ENVIRONMENTS)/seal/.ready
	$(BIN)/python -m benchmarks.thesis.main --bgv $(abspath $(ENVIRONMENTS)/seal/bin/python)

# Bits uploaded for each bit that comes out certified: seconds.
bench-upload: setup
	$(BIN)/python -m benchmarks.upload

# 1,000,000 x 4 float64 by other libraries, and by databases in the clear (Debian: postgresql): four minutes.
bench-peers: setup $(ENVIRONMENTS)/seal/.ready $(ENVIRONMENTS)/paillier/.ready $(ENVIRONMENTS)/polars/.ready \
		$(if $(PYTHON310),$(ENVIRONMENTS)/openfhe/.ready) $(if $(GO),$(ENVIRONMENTS)/lattigo) \
		$(if $(shell command -v npm),$(ENVIRONMENTS)/node/.ready)
	$(BIN)/python -m benchmarks.peers.main --environments $(abspath $(ENVIRONMENTS)) $(if $(ROUNDS),--rounds $(ROUNDS))

# What a user waits for a small question, as a whole process; on a quiet machine.
bench-start: setup
	$(BIN)/python -m benchmarks.start $(if $(RUNS),--runs $(RUNS)) $(if $(BESIDE),--beside $(BESIDE))

# A stored table of TPC-H beside DuckDB and PostgreSQL (Debian: postgresql): SCALES=10 takes 15 GB of disk.
bench-store: setup
	$(BIN)/python -m benchmarks.store $(if $(SCALES),--scales $(SCALES))

# The same table beside an encrypted database of DuckDB and encrypted Parquet: one minute at SCALES=1, the default.
bench-encrypted: setup
	$(BIN)/python -m benchmarks.store_encrypted $(if $(SCALES),--scales $(SCALES))

# What a small append, small questions and opening cost at 100, 1,000 and 5,000 segments: two minutes. 20,000 segments
# (SIZES=20000) take 240,000 files and five minutes.
bench-growth: setup
	$(BIN)/python -m benchmarks.growth $(if $(SIZES),--sizes $(SIZES))

# A table of 1,000 small appends beside the same rows put at once: six minutes.
bench-appends: setup
	$(BIN)/python -m benchmarks.appends $(if $(APPENDS),--appends $(APPENDS))

# Commands over tables of 5 to 500 columns, in processor time: two minutes.
bench-columns: setup
	$(BIN)/python -m benchmarks.columns $(if $(RUNS),--runs $(RUNS)) $(if $(BESIDE),--beside $(BESIDE))

# All 22 queries of TPC-H over eight stored tables beside them: five minutes at SCALES=1, which is the default. DATA
# names a folder where generated data is kept for the next run.
bench-tpch: setup
	$(BIN)/python -m benchmarks.tpch $(if $(SCALES),--scales $(SCALES)) $(if $(REPEATS),--repeats $(REPEATS)) \
		$(if $(DATA),--data $(DATA))

# Thresholds over people beside those over rows, and releases, of TPC-H's lineitem: three minutes at SCALE=1.
bench-disclosure: setup
	$(BIN)/python -m benchmarks.disclosure $(if $(SCALE),--scale $(SCALE))

# A scan of such a table beside them: one minute.
bench-scan: setup
	$(BIN)/python -m benchmarks.store_scan $(if $(SCALES),--scales $(SCALES))

# What the planner's rule takes for generated questions over stored tables, beside every other way, each timed.
bench-planner: setup
	$(BIN)/python -m benchmarks.planner $(if $(QUESTIONS),--questions $(QUESTIONS)) $(if $(ROWS),--rows $(ROWS)) \
		$(if $(SECONDS),--seconds $(SECONDS))

# Ring packing of results beside HERMES, and what it would save a scan of 255 sums; a minute, on one core.
bench-ring: setup
	$(BIN)/python -m benchmarks.ring

# Sums that 2 to 50 parties decrypt together, beside additive secret sharing of the same: seconds.
bench-threshold: setup
	$(BIN)/python -m benchmarks.threshold.main

# Processor time of file queries and scans, predicted from primitives and counts, beside what they take: three minutes.
bench-model: setup
	$(BIN)/python -m benchmarks.model

# Regressions and survival curves beside statsmodels over the clear Parquet: five minutes. ROWS="1000000" for one size.
bench-fit: setup
	$(BIN)/python -m benchmarks.fit $(if $(ROWS),--rows $(ROWS))

# 50 users at once of both services, mixed over a file and a stored table that grows, also across restarts: 3.5 minutes.
bench-load: setup
	$(BIN)/python -m benchmarks.load $(if $(USERS),--users $(USERS)) $(if $(SECONDS),--seconds $(SECONDS))

# What a scan of ten billion rows would take: docs/scale.md.
scale: setup
	$(BIN)/python -m benchmarks.scale

$(ENVIRONMENTS)/openfhe/.ready: BENCH_PYTHON = $(PYTHON310)
$(ENVIRONMENTS)/%/.ready: BENCH_PYTHON = $(PYTHON)
$(ENVIRONMENTS)/%/.ready: $(PEERS)/locks/%.lock | setup
	$(BIN)/uv venv --quiet --clear --python $$($(BENCH_PYTHON) -c 'import sys; print(sys.executable)') $(@D)
	$(BIN)/uv pip install --quiet --python $(@D)/bin/python --require-hashes -r $<
	touch $@

$(ENVIRONMENTS)/lattigo: $(PEERS)/lattigo/main.go $(PEERS)/lattigo/go.sum
	cd $(PEERS)/lattigo && $(GO) build -o $(abspath $@) .

$(ENVIRONMENTS)/node/.ready: $(PEERS)/node/package-lock.json $(PEERS)/node/peer.mjs
	mkdir -p $(@D) && cp $(PEERS)/node/package.json $(PEERS)/node/package-lock.json $(PEERS)/node/peer.mjs $(@D)
	cd $(@D) && npm ci --no-audit --no-fund
	touch $@

# openfhe.lock is for Python 3.10, the others for what Cleave runs on.
lock-bench: setup
	for name in seal paillier polars openfhe; do \
		$(BIN)/uv pip compile --quiet --universal --python-version $$(test $$name = openfhe && echo 3.10 || echo 3.11) \
			--generate-hashes --no-emit-index-url --no-emit-find-links --no-header --no-annotate \
			$(PEERS)/locks/$$name.in -o $(PEERS)/locks/$$name.lock; \
	done
