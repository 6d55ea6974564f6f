"""What new segments of a table depend on besides their rows, and digests of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from pydantic import BaseModel

from cleave.store.manifest import Manifest


def basis_of(manifest: Manifest) -> object:
    """What all segments of a table depend on: its columns and secrets, and what marks published rows."""
    return [
        manifest.table_id,
        manifest.schema_toml,
        manifest.measures,
        manifest.by,
        manifest.key,
        manifest.sealed,
        manifest.profile,
        manifest.secret,
        manifest.scanned,
        manifest.revoking,
        marking_of(manifest),
        manifest.release is None,
    ]


def marking_of(manifest: Manifest | None) -> object:
    """What decides which new rows are marked as published."""
    marking = manifest.marking if manifest else None
    return None if marking is None else [marking.lineage, marking.digests]


def digest_of_request(what: str, request: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps([what, *request]).encode()).hexdigest()


def digest_of(content: object) -> str:
    """SHA-256 of JSON with models in it, in hex."""
    return hashlib.sha256(json.dumps(content, default=_dumped, sort_keys=True).encode()).hexdigest()


def _dumped(content: object) -> object:
    if isinstance(content, BaseModel):
        return content.model_dump(mode="json")
    raise TypeError(f"{type(content).__name__} is no JSON")
