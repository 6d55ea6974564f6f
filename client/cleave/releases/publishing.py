"""Seal the totals of a release, and write the heads by which its analysts find them.

A head is replaced only by a newer one. Until an analyst's head names the new totals, the old ones stay.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from pydantic import JsonValue

from cleave.ckks.public_key import public_side
from cleave.releases.release import ReleaseHead, open_content, seal_content
from cleave.share import addressed
from cleave.share.addressed import SUITE
from cleave.store.change import Change, ChangePlan, in_the_way
from cleave.store.making import make
from cleave.store.manifest import Analyst, AnyRelease, Manifest, Object, Segment, new_id, now
from cleave.store.reader import Opened
from cleave.store.sweeping import delete_doomed
from cleave.store.tables import Tables
from cleave.table.progress import Silent


def old_content(tables: Tables, opened: Opened) -> bytes | None:
    """The content of the newest totals; None if there are none, for instance after a rotation."""
    newest = opened.manifest.release
    if newest is None or newest.totals is None:
        return None
    key = key_of(tables.unseal(opened.vault, "release", newest.ledger))
    return open_content(key, _head_of(tables, opened, newest), tables.read(newest.totals))


def key_of(ledger: bytes) -> bytes:
    """The key of the newest totals, from the ledger of a release of any kind."""
    fields: dict[str, Any] = json.loads(ledger)
    return bytes.fromhex(fields["key"])


def rekeyed(ledger: bytes, key: bytes) -> bytes:
    """A ledger with another key of the totals, and of the same size."""
    return ledger.replace(key_of(ledger).hex().encode(), key.hex().encode(), 1)


def stored(
    tables: Tables,
    opened: Opened,
    what: str,
    analysts: tuple[Analyst, ...],
    revoked: tuple[Analyst, ...],
    key: bytes,
    ledger: bytes,
    content: bytes | None,
    *,
    at: str | None = None,
    least: int | None = None,
) -> dict[str, Any]:
    """Write the ledger and the totals of a release; return the fields that releases of all kinds have.

    `content`: None if no one can read it. `least`: minimum of a part for the heads; None: as in the newest release.
    """
    manifest, newest = opened.manifest, opened.manifest.release
    if least is None:
        least = newest.least_part if newest else 0
    head = _head(tables, manifest.table_id, new_id(), manifest.next_release, least, None)
    written = None if content is None or not analysts else _write_totals(tables, key, head, content)
    return {
        "id": head.release,
        "number": head.number,
        "at": at or now(),
        "ledger": tables.seal(tables.folder(manifest.table), opened.vault, "release", ledger),
        "totals": written,
        "before": newest.totals if newest and what == "release" else None,
        "analysts": analysts,
        "revoked": revoked,
    }


def _head(
    tables: Tables, table_id: str, release_id: str, number: int, least: int, totals: Object | None
) -> ReleaseHead:
    """A head without key and signature."""
    owner = public_side(tables.key)
    box, signing = (base64.b64encode(each).decode() for each in (owner.box, owner.signing))
    return ReleaseHead.model_construct(
        suite=SUITE,
        box=box,
        signing=signing,
        table_id=table_id,
        release=release_id,
        number=number,
        least=least,
        key="",
        totals=totals,
    )


def _head_of(tables: Tables, opened: Opened, release: AnyRelease) -> ReleaseHead:
    return _head(tables, opened.manifest.table_id, release.id, release.number, release.least_part, release.totals)


def _write_totals(tables: Tables, key: bytes, head: ReleaseHead, content: bytes) -> Object:
    written = tables.write(tables.released(head.table_id), seal_content(key, head, content))
    tables.read(written, cached=False)  # or no head would lead to them
    return written


def committed(
    tables: Tables,
    opened: Opened,
    release: AnyRelease,
    what: str,
    key: bytes,
    segments: Mapping[str, Segment] | None = None,
    *,
    draws: bool = False,
    **details: JsonValue,
) -> Opened:
    """Commit a release, which was made of `opened`, and publish it under `key`. `segments`: with new marks, by id.

    Others may have added rows meanwhile: these are not in it. `draws`: numbers were drawn for the next version, so
    nobody may. Raises ConflictError if another writer changed anything else.
    """
    news = segments or {}

    def may_follow(before: Manifest | None, newest: Manifest) -> bool:
        if before is None or draws:
            return before is not None and before.version == newest.version
        return only_added(before, newest)

    def plan(base: Opened | None, stack: ExitStack) -> ChangePlan:  # noqa: ARG001 - it opens nothing
        if base is None or not may_follow(opened.manifest, base.manifest):
            raise in_the_way(tables)
        manifest = base.manifest
        update = {"release": release, "segments": manifest.segments.replaced(news)}
        names = ", ".join(each.name for each in release.analysts)
        return ChangePlan(manifest.model_copy(update=update), details={"to": names, **details})

    publish(tables, opened)  # or totals that an analyst's head names would be deleted
    change = Change(what, [release.id], plan, may_follow, publish=lambda done: publish(tables, done.opened, key))
    return make(tables, opened.manifest.table, change, Silent()).opened


def only_added(before: Manifest, newest: Manifest) -> bool:
    """True if nothing but rows was added between two versions: segments, cells and batches."""
    added = {"version", "changed", "cells", "segments", "batches", "doomed", "doomed_plain", "sweeps", "swept"}
    there = {each.id: each for each in newest.segments}
    same = before.model_dump(exclude=added) == newest.model_dump(exclude=added)
    return same and all(there.get(each.id) == each for each in before.segments)


def finish(tables: Tables, opened: Opened) -> None:
    """Publish the committed release, and delete what it replaced. A command that was stopped may have left both."""
    publish(tables, opened)
    delete_doomed(tables.stores, opened.manifest)


def is_published(tables: Tables, opened: Opened) -> bool:
    """True if the heads of all analysts name the newest release, or nothing can be published."""
    release = opened.manifest.release
    if release is None or release.totals is None:
        return True
    head = _head_of(tables, opened, release)
    return all(addressed.is_published(tables, opened.manifest.table, each, head) for each in release.analysts)


def publish(tables: Tables, opened: Opened, key: bytes | None = None) -> None:
    """Write the head of each analyst, unless a newer one is there, and delete those of analysts that were revoked."""
    manifest = opened.manifest
    release = manifest.release
    if release is None:
        return
    store = tables.stores.sensitive
    store.delete([f"{each.place}/head" for each in release.revoked])
    if release.totals is None:
        return
    key = key or key_of(tables.unseal(opened.vault, "release", release.ledger))
    head = _head_of(tables, opened, release)
    for each in release.analysts:
        addressed.publish(tables, manifest.table, each, head, key)
