"""`cleave.contribute` and `cleave.collect`: rows for a table of somebody else's, and taking them in."""

from __future__ import annotations

import os
from pathlib import Path

from cleave.api.bars import bars
from cleave.api.opening import Data, PassphraseLike, SchemaLike, lazy
from cleave.api.stored import StoredTable, stores_at, tables_in, told, warn
from cleave.ask.access import DEFAULT_IDENTITY, IDENTITY_VARIABLE
from cleave_shared.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one contributor has put: `rows` this time; `version` counts its puts. `contributor`: its public key, 64 hex
    digits.
    """

    name: str
    contributor: str
    version: int
    rows: int


def contribute(
    data: Data,
    name: str,
    *,
    store: str | Path,
    public_key: str | Path,
    identity: str | Path | None = None,
    fingerprint: str | None = None,
    schema: SchemaLike | None = None,
    replace: bool = False,
    again: bool = False,
    profile: str | None = None,
    region: str | None = None,
    progress: bool | None = None,
) -> Contribution:
    """Add rows to the table `name` that `public_key` was exported for, as `cleave put --public-key` does.

    Its owner alone can read them, and takes them in with `collect`. `identity`: the file that `cleave key contributor`
    made; else CLEAVE_IDENTITY, else ~/.config/cleave/contributor.pem. `fingerprint`: that of the public key as its
    owner told it. A call that was stopped goes on where it was when it is made again with the same data.
    Where the last one put just these rows, a warning says so and nothing is added unless `again`.

    Raises InputError, KeyFileError, ServiceError, CheckFailed. No message holds a value of the table.
    """
    from cleave.share.contribute import Contributions, read_invited  # noqa: PLC0415 - as `put`

    who = Path(identity or os.environ.get(IDENTITY_VARIABLE) or DEFAULT_IDENTITY)
    invited = read_invited(name, Path(public_key), who, fingerprint)
    unread = lazy(data, invited.schema if schema is None else schema, name)
    with stores_at(store, profile, region) as stores, unread.stream() as rows, bars(progress)() as shown:
        head, count = Contributions(stores, invited, warn).put(rows, shown, replace=replace, again=again)
    return Contribution(invited.invitation.table, invited.identity.public, head.version, count)


def collect(
    name: str,
    *contributors: str,
    store: str | Path,
    key: str | Path | None = None,
    passphrase: PassphraseLike | None = None,
    profile: str | None = None,
    region: str | None = None,
    progress: bool | None = None,
) -> StoredTable:
    """Take in what each of `contributors` (none named: all) has put, as `cleave contributor collect` does.

    The table as it is then. Raises CheckFailed, with the contributor's name, for what is not as contributors make it,
    once all others are taken in.
    """
    from cleave.share.collect import collect as take  # noqa: PLC0415 - what a question over a file does without

    with tables_in(store, key, passphrase, profile, region) as (tables, _, _), bars(progress)() as shown:
        opened, _ = take(tables, name, shown, contributors)
        tables.sweep(opened)
        return told(opened)
