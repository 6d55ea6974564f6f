"""Operations on stored tables, each one call: for the commands of `cleave` and for Python.

A function opens the store, does its work, deletes what the new version no longer names, and closes the store. It raises
InputError, KeyFileError, ServiceError and CheckFailed; no message holds a value of the table.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from cleave.ask.calls import stack_level
from cleave.ask.config import config_folder, user
from cleave.ask.opening import key_file, lazy, open_place, opened, passphrase_of
from cleave.ask.options import (
    IDENTITY_VARIABLE,
    LONGEST_TIMEOUT,
    Altering,
    Appending,
    Contributing,
    Deleting,
    Dropping,
    Place,
    Pulling,
    Putting,
    Releasing,
    Rotating,
    Updating,
    complete,
    stated,
)
from cleave.files import expanded, names_file, write_atomically
from cleave.maintain.facts import (
    Changed,
    Contribution,
    Pulled,
    StoredTable,
    TableFacts,
    facts_of,
    stored_table,
)
from cleave.table.progress import Progress, bars
from cleave.text.quantities import counted
from cleave_shared.errors import CleaveWarning, InputError, ServiceError, UsageError

if TYPE_CHECKING:
    from cleave.ask.options import Data, SchemaLike
    from cleave.maintain.pull import Damage
    from cleave.share.releases import ReleaseFacts
    from cleave.store.manifest import Batch
    from cleave.store.reader import Opened
    from cleave.store.tables import Tables

_LONGEST_BATCH = 200  # characters of a name
_MOST_DAYS = 36_500
_SECONDS = 600.0  # to list or show tables
_CONTINUES = "run it again to continue from there"


@stated(Putting)
def put(data: Data, name: str, **options: Unpack[Putting]) -> StoredTable:
    """Store a DataFrame, an Arrow table or files as table `name`, as `cleave put` does.

    `by`: columns whose combinations of values have totals; None: what is proposed, `[]`: none. `key_columns`: columns
    that name one row. `scan`, `replace`, `drop_contributors`: as the options of `cleave put`. `say`: called with each
    line that the command prints. A file is read a batch at a time. A put that was stopped continues when it is called
    again with the same data.

    >>> import cleave
    >>> stored = cleave.put("patients.csv", "trial", store="tables", by=["ward"])
    >>> stored.rows, stored.version, stored.by
    (600, 1, ('ward',))
    >>> cleave.query("trial", "SELECT COUNT(*), SUM(bill) FROM trial", store="tables").rows
    [(600, Decimal('1534139.46'))]
    """
    from cleave.store.put import put as store  # noqa: PLC0415 - what a question over a file does without

    settings = complete(Putting, options)
    by, key = _columns(settings["by"]), _columns(settings["key_columns"])
    with (
        _working(settings, after=_CONTINUES) as (tables, progress),
        lazy(data, settings["schema"], name).stream() as rows,
    ):
        done = store(
            *(tables, rows, name, by, progress),
            key=key or (),
            scan=settings["scan"],
            replace=settings["replace"],
            drop_contributors=settings["drop_contributors"],
            say=settings["say"] or _silent,
        )
        return _finished(tables, done)


@stated(Appending)
def append(data: Data, name: str, **options: Unpack[Appending]) -> StoredTable:
    """Add rows to a stored table. Otherwise as `put`.

    Without a schema file beside the data they have the table's schema. `batch`: names the rows; where the table has a
    batch of that name, a warning says so and nothing is added. The files of a folder are one batch each, by file name.
    Other rows are recognised only if the table's last change added just them: then nothing is added unless `again`.
    `upsert`: they replace rows with the same key, if the table has key columns; `yes`: required where the plain place
    learns which ones, by a key that is not plain.

    >>> import cleave
    >>> _ = cleave.put("patients.csv", "growing", store="tables", by=["ward"])
    >>> stored = cleave.append("patients.csv", "growing", store="tables")
    >>> stored.rows, stored.version
    (1200, 2)
    """
    from cleave.store import put as putting  # noqa: PLC0415 - as above

    settings = complete(Appending, options)
    say = settings["say"] or _warn
    parts = _batches(data, settings["batch"])
    if settings["again"] and parts[0][1] is not None:
        raise InputError(
            "again cannot be combined with batches", hint="give the batch another name to add its rows twice"
        )
    with _working(settings, after=_CONTINUES) as (tables, progress):
        table = tables.open(name)
        for part, batch in parts:
            if batch is not None and putting.has_batch(table.manifest, batch, say):
                continue
            with lazy(part, _schema_of(part, settings["schema"], table), name).stream() as rows:
                how = {"again": settings["again"], "upsert": settings["upsert"], "yes": settings["yes"]}
                table = putting.append(tables, rows, name, progress, batch=batch, say=say, **how)
            tables.sweep(table)
        return stored_table(table.manifest)


def _columns(given: str | Sequence[str] | None) -> list[str] | None:
    """Split the column names of the command line, which are one text."""
    names = given.split(",") if isinstance(given, str) else given
    return None if names is None else [each.strip() for each in names if each.strip()]


def _batches(data: Data, name: str | None) -> list[tuple[Data, Batch | None]]:
    """Parts of `data`, each with its batch: the files of a folder, or all of it. Raises InputError."""
    from cleave.store.manifest import Batch  # noqa: PLC0415 - as above
    from cleave.table.inputs import digest_of, in_folder  # noqa: PLC0415

    one = data[0] if isinstance(data, list | tuple) and len(data) == 1 else data
    path = Path(one) if isinstance(one, str | Path) else None
    if path is not None and os.path.isdir(path):
        if name is not None:
            raise InputError(f"{path}: every file of a folder is a batch of its own", hint="leave the batch's name out")
        return [(each, Batch(id=each.name, digest=digest_of(each))) for each in in_folder(path)]
    if name is None:
        return [(data, None)]
    if not 0 < len(name) <= _LONGEST_BATCH or not name.isprintable():
        raise InputError(f"the name of a batch has 1 to {_LONGEST_BATCH} characters that can be printed")
    return [(data, Batch(id=name, digest=digest_of(path) if path is not None and os.path.isfile(path) else ""))]


def _schema_of(data: Data, stated: SchemaLike | None, opened: Opened) -> SchemaLike | None:
    """The schema of appended rows: the stated one, or that of a file beside theirs, else the table's."""
    from cleave.store.schemas import schema_of_rows  # noqa: PLC0415 - as above
    from cleave.table.inputs import STDIN  # noqa: PLC0415
    from cleave.table.schema import schema_path  # noqa: PLC0415

    listed = [data] if isinstance(data, str | Path) else data
    names = [each for each in listed if isinstance(each, str | Path)] if isinstance(listed, list | tuple) else []
    if stated is not None or (names and STDIN not in map(str, names) and os.path.isfile(schema_path(names))):
        return stated
    return schema_of_rows(opened.manifest)


@stated(Contributing)
def contribute(data: Data, name: str, **options: Unpack[Contributing]) -> Contribution:
    """Add rows to the table `name` that `public_key` was exported for, as `cleave put --public-key` does.

    Only its owner can read them, and takes them in with `collect`. `identity`: the file that `cleave key contributor`
    made; else CLEAVE_IDENTITY, else ~/.config/cleave/contributor.pem. `fingerprint`: that of the public key, as its
    owner gave it over another channel; required on first use. A call that was stopped continues when it is made again
    with the same data. Rows that the last call added are not added again, unless `again`; a warning says so.
    """
    from cleave.share.contribute import Contributions, read_invited  # noqa: PLC0415 - as above

    settings = complete(Contributing, options)
    if settings["batch"] is not None:
        raise InputError("batches are of your own tables", hint="leave the batch's name out")
    if settings["public_key"] is None:
        raise InputError("the owner's public key is missing", hint="the owner exports it with `cleave key export`")
    who = Path(settings["identity"] or os.environ.get(IDENTITY_VARIABLE) or config_folder() / "contributor.pem")
    invited = read_invited(name, Path(settings["public_key"]), who, settings["fingerprint"])
    unread = lazy(data, invited.schema if settings["schema"] is None else settings["schema"], name)
    if settings["say"]:
        settings["say"](invited.consent)
    stores = open_place(settings)
    try:
        with unread.stream() as rows, _noting(settings, _CONTINUES) as progress:
            contributions = Contributions(stores, invited, settings["say"] or _warn)
            head, count = contributions.put(rows, progress, replace=settings["replace"], again=settings["again"])
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

    settings = complete(Place, place)
    with _working(settings, LONGEST_TIMEOUT) as (tables, progress):
        done, collected = take(tables, name, progress, contributors)
        for each in collected:
            parts = f"{counted(len(each.added), 'part')} taken in, {len(each.gone)} taken out"
            (settings["say"] or _silent)(f"{each.contributor.name}: {parts}")
        return _finished(tables, done)


@stated(Releasing)
def release(name: str, **options: Unpack[Releasing]) -> ReleaseFacts:
    """Release totals of a stored table to its analysts and to those of `to`, as `cleave release new` does.

    `to`: files that `cleave analyst new` wrote, which end in .pub. `min_cell`: rows that a cell has at least; fixed by
    the first release. `cleave.query` with `analyst` queries the release. Once rows of the table were deleted, rows that
    are added later are not released.
    """
    from cleave.share import releases  # noqa: PLC0415 - as above

    settings = complete(Releasing, options)
    to = settings["to"] or ()
    words = to.split(",") if isinstance(to, str) else [to] if isinstance(to, Path) else to
    analysts = releases.read_analysts([expanded(each) for each in words])
    with opened(settings) as tables:
        return releases.release(tables, name, analysts, settings["min_cell"])


@stated(Place)
def revoke(name: str, analyst: str, **place: Unpack[Place]) -> ReleaseFacts | None:
    """Make a release under a new key for all analysts of a table but `analyst`, a name or a fingerprint.

    None where that was done before. Releases that the analyst has copied stay readable to them.
    """
    from cleave.share.releases import revoke as take_back  # noqa: PLC0415 - as above

    with opened(complete(Place, place)) as tables:
        return take_back(tables, name, analyst)


@stated(Place)
def ls(**place: Unpack[Place]) -> list[StoredTable]:
    """List the tables that the key has in a store, by name."""
    with opened(complete(Place, place), _SECONDS) as tables:
        return [stored_table(each.manifest) for each in tables.all()]


@stated(Place)
def show(name: str, **place: Unpack[Place]) -> TableFacts:
    """Describe a stored table: its columns, and what each party can see of it."""
    with opened(complete(Place, place), _SECONDS) as tables:
        return facts_of(tables, tables.open(name))


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
    from cleave.objects.storage import ConflictError, StoreError  # noqa: PLC0415
    from cleave.sums.stored import Stored  # noqa: PLC0415

    settings = complete(Pulling, options)
    if output is not None:
        check_output(Path(output))
    elif find_spec("pyarrow") is None:
        raise InputError(
            "a table in memory needs pyarrow, which is not installed",
            hint="pip install 'cleave-sql[arrow]' or 'cleave-sql[pandas]', or name a file to write",
        )
    with _working(settings) as (tables, progress):
        opened = tables.open(name)
        stored = Stored(tables, opened, settings["contributor"])
        whose = {"contributor": settings["contributor"]} if settings["contributor"] else {}
        try:
            tables.record(opened, "pull", stored.manifest.rows, **whose)
        except ConflictError:
            raise
        except StoreError as error:  # a caller who may not write to the store may still read it
            _warn(f"this pull is not in the log of {name!r}: {error.message}")
        if output is None:
            return Pulled(pull_arrow(stored, progress))
        pull_into(stored, Path(output), progress)
        return None


@stated(Place)
def derive(name: str, expression: str, alias: str, **place: Unpack[Place]) -> StoredTable:
    """Store totals of `expression` too, as column `alias`: questions over it then need no rows."""
    from cleave.maintain.derive import derive as make  # noqa: PLC0415 - as above

    with _working(complete(Place, place)) as (tables, progress):
        return _finished(tables, make(tables, name, expression, alias, progress))


@stated(Deleting)
def delete(name: str, where: str, **options: Unpack[Deleting]) -> Changed:
    """Delete the rows of a stored table that `where` holds for, as SQL's DELETE does.

    `where`: an expression over the row, of columns of any kind. `dry_run`: change nothing. `yes`: required where the
    plain place learns which rows went, by a condition that reads other than plain columns. `record`: a new file for
    the signed record. `old_version_days`: how long the bucket keeps old versions; else its lifecycle is read.

    >>> import cleave
    >>> _ = cleave.put("patients.csv", "shrinking", store="tables", by=["ward"])
    >>> cleave.delete("shrinking", "ward = 'Surgery'", store="tables").rows
    95
    """
    from cleave.maintain import changes  # noqa: PLC0415 - as above

    settings = complete(Deleting, options)
    path = None if settings["record"] is None or settings["dry_run"] else Path(settings["record"])
    if path is not None and names_file(path):
        raise InputError(f"{path}: already exists", hint="name another file, or move this one away first")
    days = settings["old_version_days"]
    if days is not None and not 0 <= days <= _MOST_DAYS:
        raise UsageError(f"--old-version-days takes 0 to {_MOST_DAYS:,} days")
    with _working(settings, after=_CONTINUES) as (tables, progress):
        # read before anything is changed
        old_versions = None if path is None else changes.OldVersions.of(tables.stores, days)
        changed, before, done = changes.delete(
            tables, name, where, progress, dry_run=settings["dry_run"], yes=settings["yes"]
        )
        if path is not None and done is not None and old_versions is not None:
            tables.delete_older(before, done)  # a record says what is gone
            record, unsure = changes.signed_record(tables.key, before, changed, done.manifest, old_versions)
            write_atomically(path, record, error=InputError)
            if unsure:
                (settings["say"] or _warn)(f"{path}: {unsure}")
        if done is not None:  # deletes the manifest before, by which a stopped call is repeated for its record
            tables.sweep(done)
    return changed


@stated(Updating)
def update(name: str, values: Mapping[str, str], where: str, **options: Unpack[Updating]) -> Changed:
    """Set columns of the rows of a stored table that `where` holds for, as SQL's UPDATE does.

    `values`: column -> SQL over the row as it was. `where`: "TRUE" means all rows, and requires `yes`. A call that
    repeats the last change changes nothing, unless `again`. Otherwise as `delete`.

    >>> import cleave
    >>> _ = cleave.put("patients.csv", "corrected", store="tables", by=["ward"])
    >>> cleave.update("corrected", {"bill": "bill * 2"}, "age > 90", store="tables").reveals
    ''
    """
    from cleave.maintain.changes import update as change  # noqa: PLC0415 - as above

    settings = complete(Updating, options)
    with _working(settings, after=_CONTINUES) as (tables, progress):
        how = {"dry_run": settings["dry_run"], "yes": settings["yes"], "again": settings["again"]}
        changed, _, done = change(tables, name, values, where, progress, **how)
        if done is not None:
            tables.sweep(done)
    return changed


@stated(Altering)
def alter(name: str, **options: Unpack[Altering]) -> StoredTable:
    """Change the columns of a stored table, all changes in one step.

    `widen`: "age=0..200" or "age=BIGINT". `add`: "note VARCHAR sealed"; it is NULL in rows that are there. `rename`:
    "old=new". `drop`: column names. `by`: the columns whose combinations have totals.

    >>> import cleave
    >>> _ = cleave.put("patients.csv", "altered", store="tables", by=["ward"])
    >>> cleave.alter("altered", add=["note VARCHAR"], rename=["bill=cost"], store="tables").version
    2
    """
    from cleave.maintain import alter as altering  # noqa: PLC0415 - as above

    settings = complete(Altering, options)
    wanted = altering.Alteration(
        widen=settings["widen"] or (),
        add=settings["add"] or (),
        rename=settings["rename"] or (),
        drop=settings["drop"] or (),
        by=_columns(settings["by"]),
    )
    with _working(settings, after=_CONTINUES) as (tables, progress):
        return _finished(tables, altering.alter(tables, name, wanted, progress))


@stated(Place)
def compact(name: str, **place: Unpack[Place]) -> StoredTable:
    """Merge small segments of a stored table, as appends do beyond 64 of them."""
    from cleave.maintain.changes import compact as merge  # noqa: PLC0415 - as above

    with _working(complete(Place, place), after=_CONTINUES) as (tables, progress):
        return _finished(tables, merge(tables, name, progress))


@stated(Place)
def log(name: str, **place: Unpack[Place]) -> list[dict[str, Any]]:
    """Return the audit log of a stored table: each change and each export, with its time, key and user.

    Raises CheckFailed where a record was removed, moved or changed.

    >>> import cleave
    >>> _ = cleave.put("patients.csv", "logged", store="tables", by=["ward"])
    >>> [(each["number"], each["what"], each["rows"]) for each in cleave.log("logged", store="tables")]
    [(1, 'put', 600)]
    """
    with opened(complete(Place, place), _SECONDS) as tables:
        return [each.facts() for each in tables.log(tables.open(name))]


@stated(Place)
def verify(name: str, **place: Unpack[Place]) -> list[Damage]:
    """Read and check every object of a stored table, and its log. Returns what is lost or damaged: nothing, if all is
    well.
    """
    from cleave.maintain.pull import verify as check  # noqa: PLC0415
    from cleave.sums.stored import Stored  # noqa: PLC0415 - as above

    with _working(complete(Place, place), LONGEST_TIMEOUT) as (tables, progress):
        return check(Stored(tables, tables.open(name)), progress)


@stated(Dropping)
def drop(name: str, **options: Unpack[Dropping]) -> None:
    """Delete a stored table. A versioned bucket keeps what it is set to keep.

    This machine, and copies of the key file made later, refuse the table if somebody puts it or an older version back.
    `forget`: delete nothing, but accept what the store has.
    """
    settings = complete(Dropping, options)
    with _working(settings, LONGEST_TIMEOUT) as (tables, progress):
        if settings["forget"]:
            tables.forget(name)
        else:
            tables.drop(name, progress)


@stated(Rotating)
def rotate(name: str, new_key: str | Path, **options: Unpack[Rotating]) -> StoredTable:
    """Move a stored table to another key: all of it is sealed again.

    Until that is done queries use the old key. The same call continues a rotation that was stopped.
    """
    from cleave.ckks.key_file import describe_key, open_key  # noqa: PLC0415 - as above
    from cleave.maintain.rotate import rotate as put_under  # noqa: PLC0415
    from cleave.store.seen_versions import SeenVersions  # noqa: PLC0415
    from cleave.store.tables import Tables  # noqa: PLC0415

    settings = complete(Rotating, options)
    target = key_file(new_key)
    describe_key(target)  # a missing one is reported before the prompt for a passphrase
    with _working(settings, after=_CONTINUES) as (tables, progress):
        other = open_key(target, passphrase_of(settings["new_passphrase"]))
        new = Tables(tables.stores, other, SeenVersions(), user=user())
        return stored_table(put_under(tables, new, name, progress).manifest)


@stated(Place)
def add_scan(name: str, **place: Unpack[Place]) -> StoredTable:
    """Encrypt the rows of a stored table for scans, as `put` with `scan` does."""
    from cleave.maintain.derive import add_scan as encrypt  # noqa: PLC0415 - as above

    with _working(complete(Place, place)) as (tables, progress):
        return _finished(tables, encrypt(tables, name, progress))


@stated(Place)
def drop_scan(name: str, **place: Unpack[Place]) -> StoredTable:
    """Delete the rows for scans of a stored table; it keeps everything else."""
    from cleave.maintain.derive import drop_scan as forget  # noqa: PLC0415 - as above

    with opened(complete(Place, place)) as tables:
        return _finished(tables, forget(tables, name))


class _Noted:
    """Progress that is shown, and known where the work is stopped."""

    def __init__(self, shown: Progress) -> None:
        self._shown = shown
        self.stages: list[str] = []

    def stage(self, name: str, total: int, unit: str = "") -> Callable[[int], None]:
        advance, place, done = self._shown.stage(name, total, unit), len(self.stages), 0
        self.stages.append("")

        def noted(amount: int) -> None:
            nonlocal done
            done += amount
            self.stages[place] = f"{name}: {done:,} of {total:,} {unit}".rstrip()
            advance(amount)

        noted(0)
        return noted


@contextmanager
def _noting(place: Place, after: str = "run it again") -> Iterator[Progress]:
    """A progress display. `say` gets how far the work came where it is stopped, and what to do then."""
    with bars(place["progress"])() as shown:
        noted = _Noted(shown)
        try:
            yield noted
        except (KeyboardInterrupt, ServiceError):
            if noted.stages:
                (place["say"] or _silent)(f"stopped at {noted.stages[-1]}; {after}")
            raise


@contextmanager
def _working(
    place: Place, seconds: float | None = None, after: str = "run it again"
) -> Iterator[tuple[Tables, Progress]]:
    with opened(place, seconds) as tables, _noting(place, after) as progress:
        yield tables, progress


def _finished(tables: Tables, done: Opened) -> StoredTable:
    """Delete the objects that the table no longer names."""
    tables.sweep(done)
    return stored_table(done.manifest)


def _silent(_: str) -> None:
    """Print nothing."""


def _warn(text: str) -> None:
    warnings.warn(text, CleaveWarning, stacklevel=stack_level())
