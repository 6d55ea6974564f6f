"""A release: totals of the cells of a table that have enough rows, as analysts read them.

    head     in the clear, one for each analyst under a name that follows from its key and the table's name; signed by
             the owner. It names the totals, and has their key, sealed to the analyst by HPKE
    totals   sealed under the key of the release by AES-256-GCM, and as large as counts make it: how many cells are in
             it, columns, measures, and the longest key, in powers of two

What is sealed is bound to the owner, the table, the release, its number, and the least rows of a cell; a head to the
analyst too. So no release passes for another's, and the number is the least that its analyst accepts from then on.
"""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Annotated, Literal

from cryptography.exceptions import InvalidTag
from pydantic import Field, ValidationError

from cleave.ckks.public_key import PublicKey, open_sealed
from cleave.sql.rejoin import Texts
from cleave.store import measures as of_measures
from cleave.store.identity import Identity, is_signed
from cleave.store.manifest import Analyst, Count, Hex, Measure, Object, StoredModel
from cleave.store.padding import padded
from cleave.store.vault import seal, unseal
from cleave_shared.errors import CheckFailed

SUITE = "HPKE base mode, MLKEM768-X25519, HKDF-SHA256, AES-256-GCM (draft-ietf-hpke-pq)"
KEY_BYTES = 32
MOST_TOTALS = 1 << 30  # bytes of an object that is read and parsed: 2^18 cells of some 100 measures
MOST_HEAD = 16 << 10
_MAGIC = b"CLR1"
_LEAST_KEY = 64  # bytes
MOST_ROWS = 1 << 48  # more than any table has


class ReleasedTotals(StoredModel):
    """Content of a release: counts of values, sums and squares by measure, then by cell; 0 where not `shown`.

    `hides`: the table has cells that are not here. `times`: number and time of the releases that values are as of;
    `as_of`: by cell, which of them.
    """

    format: Literal[1] = 1
    table: str
    schema_toml: str
    by: tuple[str, ...]
    measures: tuple[Measure, ...]
    hides: bool
    times: tuple[tuple[Count, str], ...]
    keys: tuple[Texts, ...] = ()
    rows: tuple[Count, ...] = ()
    as_of: tuple[Count, ...] = ()
    shown: tuple[tuple[bool, ...], ...] = ()
    counts: tuple[tuple[Count, ...], ...] = ()
    sums: tuple[tuple[Count, ...], ...] = ()
    squares: tuple[tuple[Count, ...], ...] = ()

    def is_consistent(self) -> bool:
        """Check whether all lists are as long as there are cells."""
        tables = (self.shown, self.counts, self.sums, self.squares)
        by_cell = [self.rows, self.as_of, *(each for table in tables for each in table)]
        return (
            all(len(each) == len(self.keys) for each in by_cell)
            and all(len(each) == len(self.measures) for each in tables)
            and all(len(key) == len(self.by) for key in self.keys)
            and all(each < len(self.times) for each in self.as_of)
        )

    def dump(self) -> bytes:
        """JSON, padded to a size that follows from counts."""
        content = self.model_dump_json().encode()
        by_cell = ("keys", "rows", "as_of", "shown", "counts", "sums", "squares")
        rest = self.model_copy(update=dict.fromkeys(by_cell, ())).model_dump_json().encode()
        limits = [each.limit for each in of_measures.columns_of(self.measures)]
        digits = sum(len(str(each * MOST_ROWS)) + 1 for each in (*limits, *(1 for _ in self.measures), 1, 1))
        longest = max((len(json.dumps(text)) for key in self.keys for text in key), default=0)
        text = max(_LEAST_KEY, 1 << longest.bit_length()) * len(self.by)
        cell = digits + text + 8 * len(self.measures) + 8
        return content.ljust(padded(len(rest) + 8 * (len(self.measures) + 1) + len(self.keys) * cell))


class ReleaseHead(StoredModel):
    """`box`, `signing`, `key`: the owner's public keys and the sealed key, in base64."""

    cleave_release: Literal[1] = 1
    suite: str
    box: str
    signing: str
    table_id: Hex
    release: Hex
    number: Count
    least: Count
    key: str
    totals: Object
    signature: Annotated[str, Field(pattern=r"^[0-9a-f]{128}$")] = "0" * 128

    def signed(self, analyst: PublicKey, table: str) -> bytes:
        content = self.model_dump(mode="json", exclude={"signature"})
        text = ["cleave release", analyst.fingerprint, table.lower(), content]
        return json.dumps(text, sort_keys=True, separators=(",", ":")).encode()

    @property
    def owner(self) -> PublicKey:
        return PublicKey(base64.b64decode(self.box), base64.b64decode(self.signing))

    def bound(self, *more: str) -> str:
        """The place of what is sealed."""
        place = [self.suite, self.owner.fingerprint, self.table_id, self.release, self.number, self.least]
        return json.dumps(["cleave release 1", *place, *more])


def place_of(analyst: PublicKey, table: str) -> str:
    """The folder of an analyst's head. The name of a table cannot be guessed from it without the analyst's key."""
    text = json.dumps(["cleave release", analyst.fingerprint, table.lower()])
    return f"releases/{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def public_of(analyst: Analyst) -> PublicKey:
    return PublicKey(base64.b64decode(analyst.box), base64.b64decode(analyst.signing))


def read_head(content: bytes, analyst: PublicKey, table: str) -> ReleaseHead:
    """Raises CheckFailed for a head that its owner did not sign for this analyst and table."""
    failed = CheckFailed(
        "signature",
        "the head of a release is damaged, or another analyst's or table's",
        hint="the owner writes it again with `cleave release new`",
    )
    try:
        if len(content) > MOST_HEAD:
            raise failed
        head = ReleaseHead.model_validate_json(content)
        if not is_signed(head.owner.signing.hex(), head.signature, head.signed(analyst, table)):
            raise failed
    except (ValueError, RecursionError, ValidationError):
        raise failed from None
    return head


def seal_totals(key: bytes, head: ReleaseHead, totals: ReleasedTotals) -> bytes:
    return seal(_MAGIC, key, totals.dump(), head.bound().encode())


def open_totals(identity: Identity, analyst: PublicKey, head: ReleaseHead, sealed: bytes) -> ReleasedTotals:
    """Return what a release has, for the analyst it is sealed to. Raises CheckFailed."""
    failed = CheckFailed(
        "stored", "a release is damaged, or another's", hint="the owner makes it again with `cleave release new`"
    )
    key = open_sealed(identity, head.bound(analyst.fingerprint), base64.b64decode(head.key), KEY_BYTES)
    if head.suite != SUITE:
        raise failed
    try:
        totals = ReleasedTotals.model_validate_json(unseal(_MAGIC, key, sealed, head.bound().encode()))
    except (InvalidTag, ValueError, ValidationError):
        raise failed from None
    if not totals.is_consistent():
        raise failed
    return totals


def seal_key(key: bytes, head: ReleaseHead, analyst: PublicKey) -> str:
    return base64.b64encode(analyst.seal(head.bound(analyst.fingerprint), key)).decode()
