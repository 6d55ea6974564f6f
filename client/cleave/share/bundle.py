"""A bundle opens some columns of a table to a reader.

The owner signs it for the reader's public file (cleave.share.addressed). It seals two secrets: the tag of the table,
which names its folder, and the key of the reader's views (cleave.store.views). No other key follows from these. The
keys of columns are in the views, so changes of the table do not change the bundle. A reader verifies heads and views
with the owner's public key, which is in the bundle. It can sign neither.
"""

from __future__ import annotations

import json
from typing import Literal

from cleave.ckks.owner_key import encoded
from cleave.ckks.public_key import Keyholder, PublicKey, public_side
from cleave.share.addressed import SUITE, Addressed, publish, read_head
from cleave.store.manifest import Reader
from cleave.store.reader import Opened
from cleave.store.tables import Tables
from cleave_shared.errors import CheckFailed
from cleave_shared.wire import Hex

_TAG_BYTES, _KEY_BYTES = 16, 32


class Bundle(Addressed):
    """`reader`: id of the registration. `number`: length of the table's log when it was written; older tables than
    that are refused.
    """

    WHAT = "reader"
    KIND = "cleave_reader"
    HINT = "the table's owner writes it again with `cleave reader add`"

    cleave_reader: Literal[3] = 3
    reader: Hex

    def bound(self, *more: str) -> str:
        place = [self.suite, self.owner.fingerprint, self.table_id, self.reader, self.number]
        return json.dumps(["cleave reader 3", *place, *more])


def publish_bundle(tables: Tables, opened: Opened, reader: Reader) -> None:
    """Write the bundle of a reader, unless the store has it or a later one.

    A bundle that states more records than the table's log has is replaced: it is of a state before a restore.
    Raises InputError, CheckFailed, StoreError.
    """
    manifest, owner = opened.manifest, public_side(tables.key)
    head = Bundle(
        suite=SUITE,
        box=encoded(owner.box),
        signing=encoded(owner.signing),
        table_id=manifest.table_id,
        number=opened.head.log.count,
        key="",
        reader=reader.id,
    )
    secret = bytes.fromhex(tables.tag(manifest.table)) + opened.vault.view_key(reader.id)
    publish(tables, manifest.table, reader, head, secret, tables.open(manifest.table).head.log.count)


def open_bundle(key: Keyholder, holder: PublicKey, table: str, content: bytes) -> tuple[Bundle, str, bytes]:
    """Open a bundle as its holder. Returns the bundle, the tag of the table, and the key of the views.

    Raises CheckFailed.
    """
    bundle = read_head(Bundle, content, holder, table)
    secret = bundle.open(key, holder, _TAG_BYTES + _KEY_BYTES)
    if bundle.suite != SUITE or len(secret) != _TAG_BYTES + _KEY_BYTES:
        raise CheckFailed("stored", "the bundle of a reader is damaged", hint=Bundle.HINT)
    return bundle, secret[:_TAG_BYTES].hex(), secret[_TAG_BYTES:]
