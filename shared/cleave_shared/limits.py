"""Every limit, with its reason and source."""

from __future__ import annotations

MIB = 1 << 20

# AWS Lambda's synchronous payload is 6 MB (Lambda quotas). A binary body is base64 in the event
# (x 4/3) and the event carries headers besides, so this much binary is the most that fits.
MAX_BODY_BYTES = 4_400_000
# The same in the JSON form, whose blobs are base64 already.
MAX_JSON_BYTES = 5_900_000

# Lanes in one ciphertext: leaves a chunk 31 positions or more.
MAX_LANES = 256
# Rows in one job: what `cleave.ckks` proves of rounding relies on it.
MAX_JOB_ROWS = 1 << 26
# Chunks in one request. 66,048 bytes each, they leave the head what it may take; a power of two wastes no bit of a
# field, which must hold the sum of so many values.
MAX_REQUEST_CHUNKS = 64
# What SQL, JSON and lengths take of a body besides its blobs.
HEAD_BYTES = 100_000
# A result's file: both polynomials whole. An answer holds one for each block.
RESULT_BYTES = 132_500
MAX_REQUEST_BLOCKS = 32
# The simple call's masks by group: rows in one request, so that the noise of a sum stays below 2^17 (docs/ckks.md
# section 3); a result's file, whose first polynomial is cut off; results in an answer, the sentinel included; and
# runs of the row-to-group vector, more of which mean that the rows were not sorted by group.
MAX_MASKED_ROWS = 1_000_000
MASKED_RESULT_BYTES = 66_500
MAX_RUNS = 100_000
# A group number is opaque; 2^31 leaves it an int32.
MAX_GROUP = (1 << 31) - 1
# Group number of a row that no group counts.
FILTERED = -1

# The plain service: groups in an answer, SQL text, expressions, columns.
MAX_PLAIN_GROUPS = 100_000
MAX_SQL_CHARS = 20_000
MAX_EXPRESSIONS = 500
MAX_GROUPING_SETS = 1 << 10  # of one question; put together from one set of groups, here
MAX_PLAIN_COLUMNS = 2_000
PLAIN_MEMORY = "1GB"  # DuckDB's tables
PLAIN_BYTES = (
    3 << 30
)  # address space of its process: tables, what functions allocate besides, threads' stacks and arenas
PLAIN_SECONDS = 25.0  # API Gateway gives up after 29 s

# The sensitive service: time of a request, and what a worker allocates for its chunks, their sums and SEAL's pools.
SENSITIVE_SECONDS = 25.0
WORKER_BYTES = 1 << 30

# 1,769 MB of Lambda memory is one vCPU (AWS Lambda documentation, "Configure memory").
LAMBDA_MB_PER_CPU = 1769
MAX_WORKERS = 6
