"""Seal the totals of a release, and write the heads by which its analysts find them.

A head is replaced only by a newer one. Until an analyst's head names the new totals, the old ones stay.
"""

from __future__ import annotations

import base64

from cleave.ckks.public_key import public_side
from cleave.share import addressed
from cleave.share.addressed import SUITE
from cleave.share.ledger import key_of
from cleave.share.release import ReleaseHead, open_content
from cleave.store.manifest import Object
from cleave.store.reader import Opened
from cleave.store.tables import Tables


def old_content(tables: Tables, opened: Opened) -> bytes | None:
    """The content of the newest totals; None if there are none, for instance after a rotation."""
    manifest, newest = opened.manifest, opened.manifest.release
    if newest is None or newest.totals is None:
        return None
    key = key_of(tables.unseal(opened.vault, "release", newest.ledger))
    head = head_of(tables, manifest.table_id, newest.id, newest.number, newest.lowest or newest.least, newest.totals)
    return open_content(key, head, tables.read(newest.totals))


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
    least = release.lowest or release.least
    head = head_of(tables, manifest.table_id, release.id, release.number, least, release.totals)
    for each in release.analysts:
        addressed.publish(tables, manifest.table, each, head, key)
