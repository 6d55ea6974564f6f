"""Signed record of a deletion: the owner's word for what was deleted, and until when it can still be restored.

It has counts, and names and digests of the sealed objects that are gone; nothing of a row, not even a digest: those can
be guessed. docs/erasure.md says how anyone verifies it with the owner's public key.
"""

from __future__ import annotations

import datetime
import json
from typing import Any

from cleave.ckks.owner_key import OwnerKey, encoded
from cleave.maintain.facts import Changed
from cleave.store.manifest import Manifest, Object, now


def signed_record(
    key: OwnerKey, before: Manifest, changed: Changed, after: Manifest, place: str, old_version_days: int
) -> bytes:
    """The record as JSON. `place`: the sensitive store, of which a folder keeps no old versions."""
    left = after.objects()
    at = datetime.datetime.now(datetime.UTC)
    keeps = "://" in place
    until = at + datetime.timedelta(days=old_version_days if keeps else 0)
    record: dict[str, Any] = {
        "record": "cleave deletion 1",
        "key_id": key.key_id,
        "table": before.table,
        "table_id": before.table_id,
        "version": after.version,
        "at": now(),
        "rows_deleted": changed.rows,
        "rows_left": after.rows,
        "objects_gone": [each.model_dump() for each in _sealed(before) if each.name not in left],
        "restorable_until": until.isoformat(timespec="seconds"),
    }
    signing = key.signing_key()
    signature = signing.sign(message(record)).hex()
    public = encoded(signing.public_key().public_bytes_raw())
    return json.dumps({**record, "public_key": public, "signature": signature}, indent=2).encode() + b"\n"


def message(record: dict[str, Any]) -> bytes:
    """The bytes that are signed."""
    return json.dumps(["cleave deletion", record], sort_keys=True, separators=(",", ":")).encode()


def _sealed(manifest: Manifest) -> list[Object]:
    """Objects of the segments in the sensitive place."""
    return [part for each in manifest.segments for part in each.parts() if part != each.plain]
