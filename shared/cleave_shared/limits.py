"""Every limit, with its reason and source."""

from __future__ import annotations

MIB = 1 << 20

# AWS Lambda's synchronous payload is 6 MB (Lambda quotas). In the event a binary body is base64 (x 4/3), and there are
# headers besides, so this is the most that fits.
MAX_BODY_BYTES = 4_400_000
# The same for the JSON form, whose blobs are base64 already.
MAX_JSON_BYTES = 5_900_000

# Lanes in one ciphertext: a chunk then has at least 31 positions.
MAX_LANES = 256
# Rows in one job. The proof of rounding in cleave.ckks depends on it.
MAX_JOB_ROWS = 1 << 26
# Chunks in one request: 66,048 bytes each, and space for the head. A power of two wastes no bit of a field, which must
# hold the sum of this many values.
MAX_REQUEST_CHUNKS = 64
# Bytes of a body for SQL, JSON and lengths, besides its blobs.
HEAD_BYTES = 100_000
# Objects and names in the JSON of one body. Each takes at least 100 bytes, and an unknown one may be an error of its
# own. A scan of 2,048 objects has 10,240 of both.
MAX_NAMES = 1 << 14
# A result's file, with both polynomials. An answer to inline objects has up to so many:
RESULT_BYTES = 132_500
MAX_REQUEST_SUMS = 32
# The simple call: rows in one request, limited by its chunks.
MAX_SIMPLE_ROWS = 1_000_000
# A masked result's file. Its first polynomial is truncated.
MASKED_RESULT_BYTES = 66_500

# The plain service: groups in an answer, SQL text, expressions, columns.
MAX_PLAIN_GROUPS = 100_000
MAX_SQL_CHARS = 20_000
MAX_EXPRESSIONS = 500
# Levels of brackets and parts of a name: DuckDB takes 2.8 GB to parse 20,000 brackets, 20 s for a name of 9,000 parts.
MAX_SQL_DEPTH = 200
MAX_LAMBDA_DEPTH = 8  # each doubles the work of DuckDB's binder: 18 take 10 s, 25 take 3 GB
MAX_GROUPING_SETS = 1 << 10  # of one question; the client combines them from the finest groups
MAX_PLAIN_COLUMNS = 2_000
PLAIN_MEMORY = "1GB"  # DuckDB's tables
PLAIN_BYTES = (
    3 << 30
)  # address space of its process: tables, other allocations of functions, stacks and arenas of threads
PLAIN_SECONDS = 25.0  # API Gateway gives up after 29 s

# The sensitive service: time of a request, and memory of a worker for chunks, sums and SEAL's pools.
SENSITIVE_SECONDS = 25.0
WORKER_BYTES = 1 << 30

# 1,769 MB of Lambda memory is one vCPU (AWS Lambda documentation, "Configure memory").
LAMBDA_MB_PER_CPU = 1769
MAX_WORKERS = 6

# `cleave serve`: requests at once. Each may need a body, an answer and a worker of 1 to 3 GB; with more, some would be
# killed. Cleave's client sends 16 at once. For any server on this machine: seconds until a request has arrived, enough
# for 4.4 MB at 1.2 Mbit/s.
SERVE_REQUESTS = 32
SERVE_ARRIVAL_SECONDS = 30.0

# Default time of a query: 67 million values are 540 MB, which take 430 s at 10 Mbit/s.
QUERY_SECONDS = 600.0
# Requests of a query to each service at once. A remote service answers them in parallel; each has up to 4.4 MB.
REQUESTS_UNDER_WAY = 4
SERVE_HEAD_BYTES = 1 << 16  # h11's own limit for a head that arrives in parts
# Connections of a server without a user (yet): a log-in must succeed beside 100 silent ones. And connections of a
# gateway's users, each with a file and perhaps an answer of 64 MB.
WAITING_CONNECTIONS = 128
GATEWAY_CONNECTIONS = 256

# Stored tables: what one request reads through links. A function holds the objects, a second copy on the way to its
# worker, and the results. S3 sends about 90 MB/s to one function.
MAX_LINKED_BYTES = 128 * MIB
MAX_LINKED_OBJECTS = 2_048
MAX_LINK_CHARS = 4_096  # a presigned URL with a session token of 2,000 characters has about 2,600
MAX_LANE_OBJECTS = 64  # terms of a sum; a field's bits and a lane's noise are planned for this many
MAX_OBJECT_CHUNKS = 1 << 16
MAX_STORED_SUMS = 512  # results in one answer: 68 MB, through the store
MAX_PLAIN_OBJECTS = 64
# Blobs of one body in frames: at most one bit per row for each object and filter. An empty blob takes 200 bytes of
# memory.
MAX_FRAMES = MAX_PLAIN_OBJECTS * (MAX_EXPRESSIONS + 1)
MAX_RESULT_BYTES = 96 * MIB  # an answer through the store
LINK_SECONDS = 20.0  # for all objects of a request; the service has 25 s
LINK_READS = 8  # in parallel
# Of objects that a warm function caches. For smaller ones, reading is as fast as checking whether they changed.
WARM_BYTES = 128 * MIB
WARM_LEAST_BYTES = MIB

# Objects of a store, read by the client. Anyone with write access decides about their content, so nothing is read
# before its size is known to be within these limits, or to equal the manifest's.
MAX_HEAD_BYTES = MIB  # a contributor's head has 400 bytes per part; an owner's has 600 bytes in all
# A sealed manifest, a page of it, a draft, a job's state: about 300 bytes per object of a segment.
MAX_MANIFEST_BYTES = 256 * MIB
MAX_OBJECT_BYTES = 1 << 30  # a segment has 2^20 rows; its columns take up to 512 MB during writing
# A value of a by column, as JSON. Every text of the list of cells is padded to the longest one, so a single value costs
# its bytes times the number of cells: 1.5 GB for a text of 1 MB in a table of 1,500 cells.
MAX_KEY_BYTES = 1_000
# All texts of a table's list of cells, padded. Every query over cells reads the list, in about four times its size.
MAX_KEYS_BYTES = 128 * MIB
# A contributor's new parts together; and the list of objects of each part, sealed and opened
MAX_FACTS_BYTES = 128 * MIB
# The rows of one segment of a contributor, opened. Cleave cuts segments at 96 MiB, and the last batch may be as large.
# DuckDB needs the second limit to hold, sort and add them up.
MAX_SEGMENT_BYTES = 256 * MIB
SEGMENT_MEMORY = 8 * MAX_SEGMENT_BYTES

# Answers of S3 and Step Functions, except objects. A page of a list, or the answer to DeleteObjects, has up to 1,000
# keys of 1,024 bytes, which may take three characters per byte. An error has a few hundred bytes.
MAX_STORE_ANSWER_BYTES = 4 * MIB
MAX_STORE_ERROR_BYTES = 1 << 16
# Names in one list: more than a manifest of MAX_MANIFEST_BYTES can have. They take 500 MB.
MAX_LISTED_NAMES = 1 << 22

# A version of a table that is read while others change it is read again from the newest one. If they replace it during
# half of all readings, one reading in 65,000 ends here; each of them ends with the time of its command.
MAX_READINGS = 16

# A scan: partial sums in one answer, of 66 KB each; and chunks of a segment, which has at most 2^20 rows.
MAX_SCAN_RESULTS = 60
MAX_SCAN_CHUNKS = 1 << 10
# Chunks that make another masking process worthwhile. Each mask adds a result, which must be saved, read and added.
# 80,000 rows in 3 groups, 10 chunks, take 27 ms in one process and 43 ms in two.
SCAN_CHUNKS_OF_A_PROCESS = 60

# Jobs (cleave_shared.jobs): a state of a state machine has at most 256 KB (Step Functions quotas); the rest is for
# braces and names. An answered step takes up to 150 bytes of it, which leaves room for the last step.
MAX_STATE_BYTES = 255_000
ANSWERED_BYTES = 150
MAX_REDUCED = 1_000
MAX_STEP_ATTEMPTS = 3
