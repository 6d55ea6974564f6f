"""Seal the totals of a release, and write the heads by which its analysts find them.

A head is replaced only by a newer one. Until an analyst's head names the new totals, the old ones stay.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from cleave.ckks.public_key import public_side
from cleave.share import addressed
from cleave.share.addressed import SUITE
from cleave.share.ledger import key_of
from cleave.share.release import ReleaseHead, open_content, seal_content
from cleave.store.manifest import Object, Release, Segment
from cleave.store.reader import Opened
from cleave.store.tables import Tables


def old_content(tables: Tables, opened: Opened) -> bytes | None:
    """The content of the newest totals; None if there are none, for instance after a rotation."""
    newest = opened.manifest.release
    if newest is None or newest.totals is None:
        return None
    key = key_of(tables.unseal(opened.vault, "release", newest.ledger))
    return open_content(key, _head_of(tables, opened, newest), tables.read(newest.totals))


def head_of(
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


def _head_of(tables: Tables, opened: Opened, release: Release) -> ReleaseHead:
    return head_of(tables, opened.manifest.table_id, release.id, release.number, release.lowest, release.totals)


def write_totals(tables: Tables, key: bytes, head: ReleaseHead, content: bytes) -> Object:
    written = tables.write(tables.released(head.table_id), seal_content(key, head, content))
    tables.read(written, cached=False)  # or no head would lead to them
    return written


def committed(
    tables: Tables,
    opened: Opened,
    release: Release,
    what: str,
    key: bytes,
    segments: Sequence[Segment] | None = None,
    **details: Any,
) -> Opened:
    """Commit a release, with new `segments` if there are any, and publish it under `key`.

    Raises ConflictError if another writer changed the table meanwhile.
    """
    manifest = opened.manifest
    update = {"release": release, "segments": manifest.segments if segments is None else tuple(segments)}
    names = ", ".join(each.name for each in release.analysts)
    done = tables.commit(manifest.model_copy(update=update), opened, what, to=names, **details)
    finish(tables, done, key)
    return done


def finish(tables: Tables, opened: Opened, key: bytes | None = None) -> None:
    """Publish the committed release, and delete what it replaced. A command that was stopped may have left both."""
    publish(tables, opened, key)
    tables.sweep(opened)


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
