"""Operations on stored tables, each one call: for the commands of `cleave` and for Python.

A function opens the store, does its work, deletes what the new version no longer names, and closes the store. It raises
InputError, KeyFileError, ServiceError and CheckFailed; no message holds a value of the table.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from cleave.ask.access import DEFAULT_IDENTITY, IDENTITY_VARIABLE, LONGEST_TIMEOUT
from cleave.ask.bars import bars
from cleave.ask.calls import stack_level
from cleave.ask.opening import key_file, lazy, open_place, opened, passphrase_of
from cleave.ask.options import Appending, Contributing, Dropping, Place, Pulling, Putting, Rotating, complete, stated
from cleave.maintain.facts import Contribution, Pulled, StoredTable, TableFacts, facts_of, stored_table
from cleave.text.quantities import counted
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import CleaveWarning, InputError

if TYPE_CHECKING:
    from cleave.ask.options import Data
    from cleave.ckks.owner_key import OwnerKey
    from cleave.maintain.verify import Damage
    from cleave.objects.locate import Stores
    from cleave.store.tables import Opened, Tables
    from cleave.table.progress import Progress

_SECONDS = 600.0  # to list or show tables


@stated(Putting)
def put(data: Data, name: str, **options: Unpack[Putting]) -> StoredTable:
    """Store a DataFrame, an Arrow table or files as table `name`, as `cleave put` does.

    `by`: columns whose combinations of values have totals; None: what is proposed, `[]`: none. `scan`, `replace`,
    `drop_contributors`: as the options of `cleave put`. `say`: called with each line that the command prints.
    A file is read a batch at a time. A put that was stopped continues when it is called again with the same data.

    >>> import cleave
    >>> stored = cleave.put("patients.csv", "trial", store="tables", by=["ward"])
    >>> stored.rows, stored.version, stored.by
    (600, 1, ('ward',))
    >>> cleave.query("trial", "SELECT COUNT(*), SUM(bill) FROM trial", store="tables").rows
    [(600, Decimal('1534139.46'))]
    """
    from cleave.store.put import put as store  # noqa: PLC0415 - what a question over a file does without

    given = complete(Putting, options)
    columns = given["by"].split(",") if isinstance(given["by"], str) else given["by"]
    by = None if columns is None else [each.strip() for each in columns if each.strip()]
    with _working(given) as work, lazy(data, given["schema"], name).stream() as rows:
        done = store(
            *(work.tables, work.stores, work.key, rows, name, by, work.progress),
            scan=given["scan"],
            replace=given["replace"],
            drop_contributors=given["drop_contributors"],
            say=given["say"] or _silent,
        )
        return work.finish(done)


@stated(Appending)
def append(data: Data, name: str, **options: Unpack[Appending]) -> StoredTable:
    """Add rows to a stored table, under the schema it has. Otherwise as `put`.

    Where the table's last change added just these rows, a warning says so and nothing is added unless `again`: a call
    that was stopped can be made again as it is.

    >>> import cleave
    >>> _ = cleave.put("patients.csv", "growing", store="tables", by=["ward"])
    >>> stored = cleave.append("patients.csv", "growing", store="tables")
    >>> stored.rows, stored.version
    (1200, 2)
    """
    from cleave.store.put import append as add  # noqa: PLC0415 - as above

    given = complete(Appending, options)
    with _working(given) as work, lazy(data, given["schema"], name).stream() as rows:
        done = add(
            *(work.tables, work.stores, work.key, rows, name, work.progress),
            again=given["again"],
            say=given["say"] or _warn,
        )
        return work.finish(done)


@stated(Contributing)
def contribute(data: Data, name: str, **options: Unpack[Contributing]) -> Contribution:
    """Add rows to the table `name` that `public_key` was exported for, as `cleave put --public-key` does.

    Only its owner can read them, and takes them in with `collect`. `identity`: the file that `cleave key contributor`
    made; else CLEAVE_IDENTITY, else ~/.config/cleave/contributor.pem. `fingerprint`: that of the public key, as its
    owner gave it over another channel; required on first use. A call that was stopped continues when it is made again
    with the same data. Rows that the last call added are not added again, unless `again`; a warning says so.
    """
    from cleave.share.invited import read_invited  # noqa: PLC0415 - as above

    given = complete(Contributing, options)
    if given["public_key"] is None:
        raise InputError("the owner's public key is missing", hint="the owner exports it with `cleave key export`")
    who = Path(given["identity"] or os.environ.get(IDENTITY_VARIABLE) or DEFAULT_IDENTITY)
    invited = read_invited(name, Path(given["public_key"]), who, given["fingerprint"])
    unread = lazy(data, invited.schema if given["schema"] is None else given["schema"], name)
    if given["say"]:
        given["say"](invited.consent)
    stores = open_place(given)
    try:
        with unread.stream() as rows, bars(given["progress"])() as progress:
            contributions = invited.contributions(stores, given["say"] or _warn)
            head, count = contributions.put(rows, progress, replace=given["replace"], again=given["again"])
    finally:
        stores.close()
    return Contribution(invited.invitation.table, invited.identity.public, head.version, count)


@stated(Place)
def collect(name: str, *contributors: str, **place: Unpack[Place]) -> StoredTable:
    """Take in what `contributors` (none named: all) have put, as `cleave contributor collect` does.

    Returns the table as it is then. A contributor that is refused stops no other; the first refusal is raised at the
    end, with the contributor's name.
    """
    from cleave.share.collect import collect as take  # noqa: PLC0415 - as above

    given = complete(Place, place)
    with _working(given, LONGEST_TIMEOUT) as work:
        done, found = take(work.tables, work.stores, work.key, name, work.progress, contributors)
        for each in found:
            parts = f"{counted(len(each.added), 'part')} taken in, {len(each.gone)} taken out"
            (given["say"] or _silent)(f"{each.contributor.name}: {parts}")
        return work.finish(done)


@stated(Place)
def ls(**place: Unpack[Place]) -> list[StoredTable]:
    """List the tables that the key has in a store, by name."""
    with _working(complete(Place, place), _SECONDS) as work:
        return [stored_table(each.manifest) for each in work.tables.all()]


@stated(Place)
def show(name: str, **place: Unpack[Place]) -> TableFacts:
    """Describe a stored table: its columns, its history, and what each party can see of it."""
    with _working(complete(Place, place), _SECONDS) as work:
        return facts_of(work.tables, work.key, work.tables.open(name))


@stated(Pulling)
def pull(name: str, output: str | Path | None = None, **options: Unpack[Pulling]) -> Pulled | None:
    """Decrypt all rows of a stored table, in the order they were put.

    They are written to a new file `output` (.csv or .parquet), a segment at a time. Without one, the table is returned,
    all of it in memory. `contributor`: only the rows of that contributor; "owner": those of none.

    >>> import cleave
    >>> _ = cleave.put("patients.csv", "pulled", store="tables", by=["ward"])
    >>> cleave.pull("pulled", store="tables").df()[["ward", "age"]].head(2)
            ward  age
    0    Surgery   26
    1  Maternity   28
    >>> cleave.pull("pulled", "back.parquet", store="tables")
    """
    from cleave.maintain.pull import check_output, pull_arrow, pull_into  # noqa: PLC0415 - as above
    from cleave.sums.stored import Stored  # noqa: PLC0415

    given = complete(Pulling, options)
    if output is not None:
        check_output(Path(output))
    elif find_spec("pyarrow") is None:
        raise InputError(
            "a table in memory needs pyarrow, which is not installed",
            hint="pip install 'cleave[arrow]' or 'cleave[pandas]', or name a file to write",
        )
    with _working(given) as work:
        stored = Stored(work.tables, work.tables.open(name), work.key, given["contributor"])
        if output is None:
            return Pulled(pull_arrow(stored, work.progress))
        pull_into(stored, Path(output), work.progress)
        return None


@stated(Place)
def derive(name: str, expression: str, alias: str, **place: Unpack[Place]) -> StoredTable:
    """Store totals of `expression` too, as column `alias`: questions over it then need no rows."""
    from cleave.maintain.derive import derive as make  # noqa: PLC0415 - as above

    with _working(complete(Place, place)) as work:
        return work.finish(make(work.tables, work.stores, work.key, name, expression, alias, work.progress))


@stated(Place)
def verify(name: str, **place: Unpack[Place]) -> list[Damage]:
    """Read and check every object of a stored table. Returns what is lost or damaged: nothing, if all is well."""
    from cleave.maintain.verify import verify as check  # noqa: PLC0415
    from cleave.maintain.verify import verify_heads  # noqa: PLC0415
    from cleave.sums.stored import Stored  # noqa: PLC0415 - as above

    with _working(complete(Place, place), LONGEST_TIMEOUT) as work:
        table = work.tables.open(name)
        damages = check(work.tables, table, Stored(work.tables, table, work.key), work.progress)
        return damages + verify_heads(work.stores, work.key, table.manifest)


@stated(Dropping)
def drop(name: str, **options: Unpack[Dropping]) -> None:
    """Delete a stored table. A versioned bucket keeps what it is set to keep.

    `forget`: delete nothing, but accept a table that was dropped and stored again on another machine.
    """
    given = complete(Dropping, options)
    with _working(given, LONGEST_TIMEOUT) as work:
        if given["forget"]:
            work.tables.forget(name)
        else:
            work.tables.drop(name, work.progress)


@stated(Rotating)
def rotate(name: str, new_key: str | Path, **options: Unpack[Rotating]) -> StoredTable:
    """Move a stored table to another key: all of it is sealed again.

    Until that is done queries use the old key. The same call continues a rotation that was stopped.
    """
    from cleave.ckks.key_file import describe_key, open_key  # noqa: PLC0415 - as above
    from cleave.maintain.rotate import Keyed  # noqa: PLC0415
    from cleave.maintain.rotate import rotate as put_under  # noqa: PLC0415
    from cleave.store.memory import Memory  # noqa: PLC0415
    from cleave.store.tables import Tables  # noqa: PLC0415

    given = complete(Rotating, options)
    target = key_file(new_key)
    describe_key(target)  # a missing one is reported before a passphrase is asked for
    with _working(given) as work:
        other = open_key(target, passphrase_of(given["new_passphrase"]))
        new = Keyed(Tables(work.stores, other, Memory()), other)
        done = put_under(work.stores, Keyed(work.tables, work.key), new, name, work.progress)
        return stored_table(done.manifest)


@stated(Place)
def add_scan(name: str, **place: Unpack[Place]) -> StoredTable:
    """Encrypt the rows of a stored table for scans, as `put` with `scan` does."""
    from cleave.maintain.scans import add_scan as encrypt  # noqa: PLC0415 - as above

    with _working(complete(Place, place)) as work:
        return work.finish(encrypt(work.tables, work.stores, name, work.progress))


@stated(Place)
def drop_scan(name: str, **place: Unpack[Place]) -> StoredTable:
    """Delete the rows for scans of a stored table; it keeps everything else."""
    from cleave.maintain.scans import drop_scan as forget  # noqa: PLC0415 - as above

    with _working(complete(Place, place)) as work:
        return work.finish(forget(work.tables, name))


@dataclass(frozen=True, slots=True)
class _Work:
    tables: Tables
    stores: Stores
    key: OwnerKey
    progress: Progress

    def finish(self, done: Opened) -> StoredTable:
        """Delete what the table no longer stands on."""
        self.tables.sweep(done)
        return stored_table(done.manifest)


@contextmanager
def _working(place: Place, seconds: float | None = None) -> Iterator[_Work]:
    with opened(place, seconds) as (tables, stores, key), bars(place["progress"])() as progress:
        yield _Work(tables, stores, key, progress)


def _silent(_: str) -> None:
    """Print nothing."""


def _warn(text: str) -> None:
    warnings.warn(text, CleaveWarning, stacklevel=stack_level())
