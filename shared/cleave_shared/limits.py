"""Every limit, with its reason and source."""

from __future__ import annotations

MIB = 1 << 20

# AWS Lambda's synchronous payload is 6 MB (Lambda quotas). A binary body is base64 in the event
# (x 4/3) and the event carries headers besides, so this much binary is the most that fits.
MAX_BODY_BYTES = 4_400_000
# The same in the JSON form, whose blobs are base64 already.
MAX_JSON_BYTES = 5_900_000

# Lanes (interleaved values a row) in one ciphertext: keeps a chunk at 31 rows or more.
MAX_LANES = 256
# Rows in one request: 4.4 MB of one-lane chunks hold 67 x 8,176; a group total of this many rows
# still leaves the noise of a sum below 2^17 (docs/ckks.md section 3), which `cleave.ckks.layout` relies on.
MAX_ROWS = 1_000_000
# Rows in one job: sqrt(10.5 * 2^26) * 13.4 < 2^19, the widest guard the encoder ever sets aside.
MAX_JOB_ROWS = 1 << 26
# What SQL, JSON and lengths take of a body besides its blobs.
HEAD_BYTES = 100_000
# A result ciphertext's file: its second polynomial cannot be truncated. An answer holds so many, the sentinel included.
RESULT_BYTES = 66_500
MAX_RESULTS = MAX_BODY_BYTES // RESULT_BYTES
# Runs of the row-to-group vector: more means that the rows were not sorted by group.
MAX_RUNS = 100_000
# A group number is opaque; 2^31 leaves it an int32.
MAX_GROUP = (1 << 31) - 1
# Group number of a row that no group counts.
FILTERED = -1

# The plain service: groups in an answer, SQL text, expressions, columns.
MAX_PLAIN_GROUPS = 100_000
MAX_SQL_CHARS = 20_000
MAX_EXPRESSIONS = 500
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
