"""A release as analysts read it, of any kind.

    head     not encrypted, signed by the owner. There is one for each analyst; its name follows from the analyst's key
             and the table's name. It names the totals, and has their key, sealed to the analyst by HPKE
    totals   its numbers, sealed under the key of the release by AES-256-GCM. Its size follows from counts, the schema
             and, in powers of two, the longest key

The totals are bound to the owner, the table, the release, its number, and the minimum people of a part (0: none); a
head also to the analyst. So no release is accepted in place of another. From then on its analyst refuses releases of
lower numbers.
"""

from __future__ import annotations

import json
from typing import Literal

from cleave.share.addressed import Addressed
from cleave.store.manifest import Count, Measure, Object, StoredModel
from cleave.store.vault import seal, unseal
from cleave_shared.wire import Hex

KEY_BYTES = 32
MOST_TOTALS = 1 << 30  # bytes of an object that is read and parsed: 2^18 parts of some 100 measures
_MAGIC = b"CLR1"


class ReleasedTotals(StoredModel):
    """Content of a release, as analysts read it. Each kind has its own class."""

    format: Literal[3] = 3
    kind: str
    table: str
    schema_toml: str
    by: tuple[str, ...]
    measures: tuple[Measure, ...]

    def is_consistent(self) -> bool:
        """Check whether its lists fit each other, and all numbers are within limits."""
        raise NotImplementedError

    def dump(self) -> bytes:
        """JSON, padded to a size that follows from counts and the schema."""
        raise NotImplementedError


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
