"""What answering a question is made of: operations, each of which takes so long on a machine, and how many of each."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Operation(StrEnum):
    """What is counted, and of what. Of ciphertexts those of 8,192 coefficients; a larger ring's count for more."""

    # of a question over files
    QUESTION = "question"  # one: planned, a table made, an answer put together
    READ = "read"  # of a value of a file: parsed, checked, in a table
    READ_ALONE = "read alone"  # the same of a file that is too small to be read by several cores
    SPLIT = "split"  # of a value that rows are selected and grouped by, or that is added up
    LOCAL = "local"  # of a row, for every aggregate that DuckDB computes here of it
    ENCODE = "encode"  # of a value of an encrypted column: an integer, in its field of a coefficient
    ENCRYPT = "encrypt"  # of a ciphertext: encoded, encrypted, saved
    ENCRYPT_ALONE = "encrypt alone"  # the same, where there are too few to fork for
    ASK = "ask"  # a question to the sensitive service: a request and an answer, what is always done
    GROUP = "group"  # of a group's key or figure: found, joined with others, bounded
    STORED = "stored"  # a question over a stored table: what every way takes once it is planned
    # of rows that are fetched
    FETCH = "fetch"  # one for a question: threads, a table
    SEGMENT = "segment"  # of a segment: its index, a round of DuckDB's
    INDEXED = "indexed"  # of a cell in a segment's index: read, and its rows found
    VALUE = "value"  # of a sealed value: opened, and into its column
    BESIDE = "beside"  # of a plain value: read, and into its column
    PLACE = "place"  # of a row that is brought into its place in the file's order
    # of totals
    DECRYPT = "decrypt"  # of a ciphertext: loaded, decrypted, its fields taken apart
    TOTALS = "totals"  # one for a question that reads any
    CELL = "cell"  # of a cell that is selected and grouped here, where not all are in one group
    LIST = "list"  # the table of cells, where planning has made none
    LISTED = "listed"  # of a cell's value of a by column that planning has not looked at: it does for WHERE
    TOTAL = "total"  # of a cell's total: decoded, and added to its group's
    FIGURE = "figure"  # of a group's figure: made of totals, or of sums of a scan
    # of services
    PLAIN = "plain"  # a question to the plain service
    PLAIN_VALUE = "plain value"  # of a value that it reads
    PLAIN_ROW = "plain row"  # of a row of a file that it is asked of: sorted and written here, loaded there
    SUMS = "sums"  # a question to the sensitive service about totals
    ADD = "add"  # of a ciphertext that it loads and adds
    RESULT = "result"  # of a ciphertext of an answer: saved, sent, checked
    # of a scan
    SELECT = "select"  # one for a question: the plain service numbers rows
    SELECT_VALUE = "select value"  # of a value that it reads for that
    ORDER = "order"  # of a row that is given its position
    SCAN = "scan"  # a call of the sensitive service
    MASK = "mask"  # of a chunk's rows of a group: a polynomial encoded
    MULTIPLY = "multiply"  # of a mask and a lane's ciphertext, and added


SHARED = frozenset(  # by all cores
    {
        Operation.READ,
        Operation.ENCRYPT,
        Operation.DECRYPT,
        Operation.ADD,
        Operation.MASK,
        Operation.MULTIPLY,
        Operation.PLAIN_VALUE,
        Operation.PLAIN_ROW,
    }
)

Counts = Mapping[Operation, float]


def added(left: Counts, right: Counts) -> Counts:
    return {
        each: left.get(each, 0) + right.get(each, 0) for each in [*left, *(key for key in right if key not in left)]
    }
