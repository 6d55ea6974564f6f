"""A release: totals of parts of a table, as analysts read them. Each part has enough people.

    head     not encrypted, signed by the owner. There is one for each analyst; its name follows from the analyst's key
             and the table's name. It names the totals, and has their key, sealed to the analyst by HPKE
    totals   sealed under the key of the release by AES-256-GCM. Its size follows from the number of parts, columns and
             measures, and from the longest key, in powers of two

The totals are bound to the owner, the table, the release, its number, and the minimum people of a part; a head also to
the analyst. So no release is accepted in place of another. From then on its analyst refuses releases of lower numbers.
"""

from __future__ import annotations

import json
from typing import Literal

from cryptography.exceptions import InvalidTag
from pydantic import ValidationError

from cleave.ckks.public_key import PublicKey
from cleave.releases.noisy import NoisyTotals
from cleave.share.addressed import SUITE, Addressed
from cleave.sql.rejoin import Texts
from cleave.store import measures as of_measures
from cleave.store.identity import Identity
from cleave.store.manifest import Count, Measure, Object, StoredModel
from cleave.store.padding import padded
from cleave.store.vault import seal, unseal
from cleave_shared.errors import CheckFailed, InputError
from cleave_shared.wire import Hex

KEY_BYTES = 32
MOST_TOTALS = 1 << 30  # bytes of an object that is read and parsed: 2^18 parts of some 100 measures
_MAGIC = b"CLR1"
_LEAST_KEY = 64  # bytes
MOST_ROWS = 1 << 48  # more than any table has


class ReleasedTotals(StoredModel):
    """Content of an exact release.

    `counts`, `sums`, `squares`: by measure, then by part; 0 if not `shown`. `shown`: 0 none, 1 count and sum, 2 also
    the sum of squares. A part is some rows of a cell; a cell may have several. `people`: parts have a minimum number of
    people; else of rows. `times`: number and time of each release with new parts. `as_of`: by part, its index in these.
    """

    format: Literal[3] = 3
    kind: Literal["exact"] = "exact"
    table: str
    schema_toml: str
    by: tuple[str, ...]
    measures: tuple[Measure, ...]
    people: bool
    times: tuple[tuple[Count, str], ...]
    keys: tuple[Texts, ...] = ()
    rows: tuple[Count, ...] = ()
    as_of: tuple[Count, ...] = ()
    shown: tuple[tuple[Literal[0, 1, 2], ...], ...] = ()
    counts: tuple[tuple[Count, ...], ...] = ()
    sums: tuple[tuple[Count, ...], ...] = ()
    squares: tuple[tuple[Count, ...], ...] = ()

    @property
    def counted(self) -> str:
        """Name what is counted: "people" or "rows"."""
        return "people" if self.people else "rows"

    def is_consistent(self) -> bool:
        """Check whether all lists have one entry for each part, measure and by column."""
        tables = (self.shown, self.counts, self.sums, self.squares)
        by_part = [self.rows, self.as_of, *(each for table in tables for each in table)]
        return (
            all(len(each) == len(self.keys) for each in by_part)
            and all(len(each) == len(self.measures) for each in tables)
            and all(len(key) == len(self.by) for key in self.keys)
            and all(each < len(self.times) for each in self.as_of)
        )

    def dump(self) -> bytes:
        """JSON, padded to a size that follows from counts and, in powers of two, the longest key.

        Raises InputError if that is more than analysts read.
        """
        content = self.model_dump_json().encode()
        by_part = ("keys", "rows", "as_of", "shown", "counts", "sums", "squares")
        rest = self.model_copy(update=dict.fromkeys(by_part, ())).model_dump_json().encode()
        limits = [each.limit for each in of_measures.columns_of(self.measures)]
        digits = sum(len(str(each * MOST_ROWS)) + 1 for each in (*limits, *(1 for _ in self.measures), 1, 1))
        longest = max((len(json.dumps(text)) for key in self.keys for text in key), default=0)
        text = max(_LEAST_KEY, 1 << longest.bit_length()) * len(self.by)
        part = digits + text + 8 * len(self.measures) + 8
        size = padded(len(rest) + 8 * (len(self.measures) + 1) + len(self.keys) * part)
        if size > MOST_TOTALS:
            raise InputError(
                f"the release of {len(self.keys):,} parts would take more than {MOST_TOTALS:,} bytes",
                hint="store the table by fewer columns, or by columns of shorter values",
            )
        return content.ljust(size)


def read_totals(content: bytes) -> ReleasedTotals | NoisyTotals:
    """Read the content of an exact or a noisy release. Raises ValueError."""
    try:
        fields = json.loads(content)
    except RecursionError as error:
        raise ValueError from error
    is_noisy = isinstance(fields, dict) and fields.get("kind") == "noisy"
    return (NoisyTotals if is_noisy else ReleasedTotals).model_validate_json(content)


class ReleaseHead(Addressed):
    """Names the totals. Its secret is the key of the release."""

    WHAT = "release"
    KIND = "cleave_release"
    HINT = "the owner writes it again with `cleave release new`"

    cleave_release: Literal[3] = 3
    release: Hex
    least: Count
    totals: Object

    def bound(self, *more: str) -> str:
        place = [self.suite, self.owner.fingerprint, self.table_id, self.release, self.number, self.least]
        return json.dumps(["cleave release 3", *place, *more])


def seal_content(key: bytes, head: ReleaseHead, content: bytes) -> bytes:
    """Seal what `ReleasedTotals.dump` made."""
    return seal(_MAGIC, key, content, head.bound().encode())


def open_content(key: bytes, head: ReleaseHead, sealed: bytes) -> bytes:
    """Return what `seal_content` was given. Raises InvalidTag."""
    return unseal(_MAGIC, key, sealed, head.bound().encode())


def open_totals(
    identity: Identity, analyst: PublicKey, head: ReleaseHead, sealed: bytes
) -> ReleasedTotals | NoisyTotals:
    """The content of a release, for the analyst to whom it is sealed. Raises CheckFailed."""
    failed = CheckFailed(
        "stored", "a release is damaged, or another's", hint="the owner makes it again with `cleave release new`"
    )
    key = head.open(identity, analyst, KEY_BYTES)
    if head.suite != SUITE:
        raise failed
    try:
        totals = read_totals(open_content(key, head, sealed))
    except (InvalidTag, ValueError, ValidationError):
        raise failed from None
    if not totals.is_consistent():
        raise failed
    return totals
