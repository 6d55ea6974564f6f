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
# Objects and names in the JSON of one body, each of which takes 100 bytes or more and may be an error of its own.
# A scan of 2,048 objects has 10,240 of both.
MAX_NAMES = 1 << 14
# A result's file: both polynomials whole. An answer to inline objects holds so many.
RESULT_BYTES = 132_500
MAX_REQUEST_SUMS = 32
# The simple call: rows in one request, what its chunks hold.
MAX_SIMPLE_ROWS = 1_000_000
# A masked result's file, whose first polynomial is cut off.
MASKED_RESULT_BYTES = 66_500

# The plain service: groups in an answer, SQL text, expressions, columns.
MAX_PLAIN_GROUPS = 100_000
MAX_SQL_CHARS = 20_000
MAX_EXPRESSIONS = 500
# Levels of brackets and parts of a name: DuckDB takes 2.8 GB to parse 20,000 brackets, 20 s for a name of 9,000 parts.
MAX_SQL_DEPTH = 200
MAX_LAMBDA_DEPTH = 8  # each doubles the work of DuckDB's binder: 18 take 10 s, 25 take 3 GB
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

# `cleave serve`: requests at once, each of which may hold a body, an answer and a worker of 1 to 3 GB, so more would be
# killed than answered; our client asks 16 at once. Any server on this machine: seconds until a request has arrived
# whole, 4.4 MB at 1.2 Mbit/s.
SERVE_REQUESTS = 32
SERVE_ARRIVAL_SECONDS = 30.0

# A query's time by default: 67 million values are 540 MB, 430 s over 10 Mbit/s.
QUERY_SECONDS = 600.0
# Requests of a query to each service at once: a remote service takes them side by side, and each holds 4.4 MB.
REQUESTS_UNDER_WAY = 4
SERVE_HEAD_BYTES = 1 << 16  # h11's own limit of a head that comes in parts
# Connections of a server that are no user's (yet): a log-in or a request of seconds among 100 silent ones. And those of
# a gateway's users, each with a file and perhaps an answer of 64 MB.
WAITING_CONNECTIONS = 128
GATEWAY_CONNECTIONS = 256

# Stored tables: what one request reads by links. A function holds the objects, once more as they go to its worker,
# and what they become; S3 gives some 90 MB a second to one function.
MAX_LINKED_BYTES = 128 * MIB
MAX_LINKED_OBJECTS = 2_048
MAX_LINK_CHARS = 4_096  # a presigned URL with a session token of 2,000 characters has about 2,600
MAX_LANE_OBJECTS = 64  # terms of a sum: what a field's bits and a lane's noise are laid out for
MAX_OBJECT_CHUNKS = 1 << 16
MAX_STORED_SUMS = 512  # results in one answer, 68 MB through the store
MAX_PLAIN_OBJECTS = 64
# Blobs of one body in frames: a bit for each row of so many objects and filters is the most that any has. A blob of no
# byte takes 200 in memory.
MAX_FRAMES = MAX_PLAIN_OBJECTS * (MAX_EXPRESSIONS + 1)
MAX_RESULT_BYTES = 96 * MIB  # an answer that goes through the store
LINK_SECONDS = 20.0  # for all the objects of a request, of the service's 25 s
LINK_READS = 8  # side by side
# Of objects that a warm function keeps: smaller ones take no longer to read than to ask whether they are the same.
WARM_BYTES = 128 * MIB
WARM_LEAST_BYTES = MIB

# Objects of a store as the client reads them: anyone who may write there decides what is there, so nothing is read
# before its size is known to be one of these, or the one that a manifest states.
MAX_HEAD_BYTES = MIB  # a contributor's head has 400 bytes for each of its parts; an owner's has 600 bytes in all
# A sealed manifest, a draft of one, a job's state: some 300 bytes for each object of a table.
MAX_MANIFEST_BYTES = 256 * MIB
MAX_OBJECT_BYTES = 1 << 30  # a segment has 2^20 rows, and its columns take up to 512 MB while it is made
# A contributor's new parts together, and the list of objects of each, sealed and opened
MAX_FACTS_BYTES = 128 * MIB
# The rows of one segment of a contributor, opened: Cleave cuts segments at 96 MiB, and its last batch may be as large.
# DuckDB holds them, sorted and added up, in the second figure.
MAX_SEGMENT_BYTES = 256 * MIB
SEGMENT_MEMORY = 8 * MAX_SEGMENT_BYTES

# Answers of S3 and of Step Functions, except objects. A page of a list, or the answer to DeleteObjects, has 1,000 keys
# of 1,024 bytes at most, each of which may be written in three characters; an error has a few hundred bytes.
MAX_STORE_ANSWER_BYTES = 4 * MIB
MAX_STORE_ERROR_BYTES = 1 << 16
# Names in one list: more than a manifest of MAX_MANIFEST_BYTES has. They take 500 MB.
MAX_LISTED_NAMES = 1 << 22

# A scan: partial sums in one answer, 66 KB each; and chunks of a segment, which has 2^20 rows at most.
MAX_SCAN_RESULTS = 60
MAX_SCAN_CHUNKS = 1 << 10
# So many pay for a process that masks: each more mask is one more result as well, to be saved, read and added once
# more. 80,000 rows by 3 groups, 10 chunks, take 27 ms in one process and 43 in two.
SCAN_CHUNKS_OF_A_PROCESS = 60

# Jobs (cleave_shared.jobs): a state machine's state holds 256 KB (Step Functions quotas), a few for braces and
# names here. An answered step takes up to 150 of them, so the batches' own answers leave room for the last step.
MAX_STATE_BYTES = 255_000
ANSWERED_BYTES = 150
MAX_REDUCED = 1_000
MAX_STEP_ATTEMPTS = 3
