"""The signed record of a deletion.

It says what was deleted, until when it can be restored, and how that is known. It has counts, and names and digests of
the deleted sealed objects. It has nothing of a row, not even a digest, because rows can be guessed. docs/erasure.md
explains how to verify it with the owner's public key.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from cleave.ckks.owner_key import OwnerKey, encoded
from cleave.maintain.facts import Changed
from cleave.objects.locate import Stores
from cleave.objects.retention import Retention, end_of
from cleave.store.manifest import Object, now


@dataclass(frozen=True, slots=True)
class Deleted:
    """A deletion: for its record, `gone` has the sealed objects that it deleted. `left`: rows that the table has."""

    changed: Changed
    gone: tuple[Object, ...] = ()
    left: int = 0
    table_id: str = ""


@dataclass(frozen=True, slots=True)
class OldVersions:
    """How long old versions of deleted objects are kept: as the user states, else as each store's rules say.

    `retentions`: None for a store whose rules cannot be read.
    """

    stated: int | None
    retentions: tuple[tuple[str, Retention | None], ...] = ()

    @classmethod
    def from_stores(cls, stores: Stores, stated: int | None) -> OldVersions:
        read = () if stated is not None else tuple((each.location, each.retention()) for each in stores.distinct())
        return cls(stated, read)

    def until(self, names: Collection[str], start: datetime.datetime) -> tuple[datetime.datetime | None, str, str]:
        """(End, source, note for the user). End is None if unknown or never."""
        if self.stated is not None:
            return end_of(self.stated, start), "user", ""
        ends = []
        for location, retention in self.retentions:
            if retention is None:
                return None, "unknown", f"states no end of old versions: the rules of {location} cannot be read"
            if (days := retention.days(names)) is None:
                return None, "store", f"states that {location} keeps old versions for ever: no rule removes them"
            ends.append(end_of(days, start))
        return max(ends), "store", ""


def signed_record(key: OwnerKey, deleted: Deleted, old_versions: OldVersions) -> tuple[bytes, str]:
    """The record as JSON, and a note for the user about the end that it states."""
    names = {each.name for each in deleted.gone}
    until, source, unsure = old_versions.until(names, datetime.datetime.now(datetime.UTC))
    record: dict[str, Any] = {
        "record": "cleave deletion 2",
        "key_id": key.key_id,
        "table": deleted.changed.name,
        "table_id": deleted.table_id,
        "version": deleted.changed.version,
        "at": now(),
        "rows_deleted": deleted.changed.rows,
        "rows_left": deleted.left,
        "objects_gone": [each.model_dump() for each in deleted.gone],
        "restorable_until": until and until.isoformat(timespec="seconds"),
        "restorable_source": source,
    }
    signing = key.signing_key()
    signature = signing.sign(message(record)).hex()
    public = encoded(signing.public_key().public_bytes_raw())
    return json.dumps({**record, "public_key": public, "signature": signature}, indent=2).encode() + b"\n", unsure


def message(record: dict[str, Any]) -> bytes:
    return json.dumps(["cleave deletion", record], sort_keys=True, separators=(",", ":")).encode()
