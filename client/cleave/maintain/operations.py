"""Operations on one's own stored tables, each one call: for the commands of `cleave` and for Python.

They raise InputError, KeyFileError, ServiceError and CheckFailed; no message holds a value of the table.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from cleave.ask.config import user
from cleave.ask.opening import column_names, key_file, kms_of, lazy, passphrase_of
from cleave.ask.options import (
    LONGEST_TIMEOUT,
    Altering,
    Appending,
    Deleting,
    Deriving,
    Dropping,
    Place,
    Pulling,
    Putting,
    Rotating,
    Updating,
)
from cleave.files import require_target, write_atomically
from cleave.maintain.facts import (
    Changed,
    Pulled,
    StoredTable,
    TableFacts,
    adding_to,
    facts_of,
    listed_table,
    planned_table,
    stored_table,
)
from cleave.maintain.task import CONTINUES, Task, change, operation
from cleave_shared.errors import CleaveWarning, InputError, UsageError, stack_level

if TYPE_CHECKING:
    from cleave.ask.options import Data, SchemaLike
    from cleave.maintain.pull import Damage
    from cleave.store.accepting import Accepted
    from cleave.store.manifest import Batch
    from cleave.store.reader import Opened

_LONGEST_BATCH = 200  # characters of a name
_MOST_DAYS = 36_500
_SECONDS = 600.0  # to list or show tables


@operation(Putting, after=CONTINUES, again=False, writes=True)
def put(task: Task, data: Data, name: str, **options: Unpack[Putting]) -> StoredTable:
    """Store a DataFrame, an Arrow table or files as table `name`, as `cleave put` does.

    `by`: columns whose combinations of values have totals; None: what is proposed, `[]`: none. `key_columns`: columns
    that name one row. `entity`: columns that name whom a row is about, so that thresholds count people. `products`:
    columns whose products in pairs get totals too, as `derive` adds them. `scan`, `replace`, `drop_contributors`,
    `sheet`, `flatten`: as the options of `cleave put`.
    `say`: called with each line that the command prints. A file is read a batch at a time. A put that was stopped
    continues when it is called again with the same data. `dry_run`: check all rows and store nothing. Then `bytes` of
    the result is an estimate, `version` is the one that is there now (0: none), and `facts` also has cells and bounds.

    >>> import cleave
    >>> cleave.put("patients.csv", "trial", store="tables", by=["ward"], dry_run=True).facts["cells"]
    6
    >>> stored = cleave.put("patients.csv", "trial", store="tables", by=["ward"])
    >>> stored.rows, stored.version, stored.by
    (600, 1, ('ward',))
    >>> cleave.query("trial", "SELECT COUNT(*), SUM(bill) FROM trial", store="tables").rows
    [(600, Decimal('1534139.46'))]
    """
    from cleave.store import put as putting  # noqa: PLC0415 - a question over a file does not need it
    from cleave.store.published import ENDS  # noqa: PLC0415
    from cleave.table.inputs import is_folder  # noqa: PLC0415

    if (folder := _folder(data)) is not None:
        raise is_folder(folder, "; --append takes a folder, and adds each of its files to a table that is there")
    tables, by = task.tables, column_names(options["by"])
    how: dict[str, Any] = {"key": column_names(options["key_columns"]) or (), "scan": options["scan"], "say": task.say}
    how["products"] = column_names(options["products"]) or ()
    over: dict[str, Any] = {"replace": options["replace"], "drop_contributors": options["drop_contributors"]}
    unread = lazy(data, options["schema"], name, options["sheet"], flatten=options["flatten"], entity=options["entity"])
    with unread.stream() as rows:
        if options["dry_run"]:
            existing = putting.require_new(tables, name, **over)
            planned = putting.plan_put(rows, name, by, task.progress, existing, **how)
            if existing is not None and putting.ends_releases(tables, existing, planned.manifest):
                task.warn(ENDS)
            return planned_table(planned)
        done = putting.put(tables, rows, name, by, task.progress, warn=task.warn, **how, **over)
    return stored_table(done.manifest)


@change(Appending, after=CONTINUES, again=False)
def append(task: Task, data: Data, name: str, **options: Unpack[Appending]) -> Opened:
    """Add rows to a stored table. Otherwise as `put`.

    Without a schema file beside the data they have the table's schema. `batch`: names the rows; where the table has a
    batch of that name, a warning says so and nothing is added. The files of a folder are one batch each, by file name.
    If one of the table's newest changes added just these rows, nothing is added unless `again`.
    `upsert`: they replace rows with the same key, if the table has key columns; `yes`: required where the plain place
    learns which ones, by a key that is not plain.

    >>> import cleave
    >>> _ = cleave.put("patients.csv", "growing", store="tables", by=["ward"])
    >>> stored = cleave.append("patients.csv", "growing", store="tables")
    >>> stored.rows, stored.version
    (1200, 2)
    """
    from cleave.store import put as putting  # noqa: PLC0415 - as above

    parts = _batches(data, options["batch"])
    if options["again"] and parts[0][1] is not None:
        raise InputError(
            "again cannot be combined with batches", hint="give the batch another name to add its rows twice"
        )
    how = {"again": options["again"], "upsert": options["upsert"], "yes": options["yes"]}
    tables = task.tables
    table = tables.open(name)
    for part, batch in parts:
        if batch is not None and putting.has_batch(table.manifest, batch, task.warn):
            continue
        schema = _schema_of(part, options["schema"], table)
        unread = lazy(part, schema, name, options["sheet"], flatten=options["flatten"])
        with unread.stream() as rows:
            table = putting.append(tables, rows, name, task.progress, batch=batch, say=task.warn, **how)
    return table


def _batches(data: Data, name: str | None) -> list[tuple[Data, Batch | None]]:
    """Parts of `data`, each with its batch: the files of a folder, or all of it. Raises InputError."""
    from cleave.store.manifest import Batch  # noqa: PLC0415 - as above
    from cleave.table.inputs import digest_of, in_folder  # noqa: PLC0415

    path = _path(data)
    if (folder := _folder(data)) is not None:
        if name is not None:
            raise InputError(
                f"{folder}: every file of a folder is a batch of its own", hint="leave the batch's name out"
            )
        return [(each, Batch(id=each.name, digest=digest_of(each))) for each in in_folder(folder)]
    if name is None:
        return [(data, None)]
    if not 0 < len(name) <= _LONGEST_BATCH or not name.isprintable():
        raise InputError(f"the name of a batch has 1 to {_LONGEST_BATCH} characters that can be printed")
    return [(data, Batch(id=name, digest=digest_of(path) if path is not None and os.path.isfile(path) else ""))]


def _path(data: Data) -> Path | None:
    """The path of data that is one file or folder."""
    one = data[0] if isinstance(data, list | tuple) and len(data) == 1 else data
    return Path(one) if isinstance(one, str | Path) else None


def _folder(data: Data) -> Path | None:
    path = _path(data)
    return path if path is not None and os.path.isdir(path) else None


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


@operation(Place, seconds=_SECONDS)
def ls(task: Task, **_: Unpack[Place]) -> list[StoredTable]:
    """List the tables that the key has in a store, by name. Raises CheckFailed if the head of one is gone."""
    return [listed_table(each) for each in task.tables.all(lost=True)]


@operation(Place, seconds=_SECONDS)
def show(task: Task, name: str, **_: Unpack[Place]) -> TableFacts:
    """Describe a stored table: its columns, and what each party can see of it."""
    return facts_of(task.tables, task.tables.open(name))


@operation(Pulling)
def pull(task: Task, name: str, output: str | Path | None = None, **options: Unpack[Pulling]) -> Pulled | None:
    """Decrypt all rows of a stored table, in the order they were put.

    They are written to a new file `output` (.csv or .parquet), a segment at a time. Without one, the table is returned,
    all of it in memory. `contributor`: only the rows of that contributor; "owner": those of none. `force`: replace
    `output` if it exists.

    >>> import cleave
    >>> _ = cleave.put("patients.csv", "pulled", store="tables", by=["ward"])
    >>> cleave.pull("pulled", store="tables").df()[["ward", "age"]].head(2)
            ward  age
    0    Surgery   26
    1  Maternity   28
    >>> cleave.pull("pulled", "back.parquet", store="tables")
    """
    from cleave.formats import AnotherRelease  # noqa: PLC0415 - as above
    from cleave.maintain.pull import check_output, pull_arrow, pull_into  # noqa: PLC0415 - as above
    from cleave.objects.storage import ConflictError, StoreError  # noqa: PLC0415
    from cleave.store.changed import ReplacedError  # noqa: PLC0415
    from cleave.sums.stored import Stored  # noqa: PLC0415

    if output is not None:
        check_output(Path(output), force=options["force"])
    elif find_spec("pyarrow") is None:
        from cleave_shared.installed import install_command  # noqa: PLC0415 - only here

        raise InputError(
            "a table in memory needs pyarrow, which is not installed",
            hint=f"{install_command('arrow', 'pyarrow')}; or name a file to write",
        )
    tables, contributor = task.tables, options["contributor"]
    table = tables.open(name)
    stored = Stored(tables, table, contributor)
    try:
        tables.record(table, "pull", stored.manifest.rows, **({"contributor": contributor} if contributor else {}))
    except ConflictError:
        raise ReplacedError from None
    except (StoreError, AnotherRelease) as error:  # a caller who may not write to the table may still read it
        warnings.warn(
            f"this pull is not in the log of {name!r}: {error.message}", CleaveWarning, stacklevel=stack_level()
        )
    with closing(stored):
        if output is None:
            return Pulled(pull_arrow(stored, task.progress))
        pull_into(stored, Path(output), task.progress, force=options["force"])
    return None


@operation(Deriving, after=CONTINUES, writes=True)
def derive(
    task: Task, name: str, expression: str | None = None, alias: str | None = None, **options: Unpack[Deriving]
) -> StoredTable:
    """Store totals of `expression` too, as column `alias`: questions over it then need no rows.

    `products`: instead, columns whose products in pairs get totals, so that COVAR_*, CORR and REGR_* of two of them
    need no rows either. Those that are stored already are not stored again. `dry_run`: say what would be stored, store
    nothing, and add it to `facts`.

    >>> import cleave
    >>> _ = cleave.put("patients.csv", "paired", store="tables", by=["ward"])
    >>> planned = cleave.derive("paired", products=["age", "bill"], store="tables", dry_run=True)
    >>> planned.facts["adds"], planned.version
    (['age*bill'], 1)
    >>> cleave.derive("paired", products=["age", "bill"], store="tables").version
    2
    """
    from cleave.maintain import derive as deriving  # noqa: PLC0415 - as above

    products = column_names(options["products"])
    if (products is None) == (expression is None) or (expression is None) != (alias is None):
        raise UsageError("derive takes an expression and its name, or products")
    tables = task.tables
    if options["dry_run"]:
        opened = tables.open(name)
        if products is None:
            planned = deriving.plan_expression(opened, str(expression), str(alias))
        else:
            planned = deriving.plan_products(opened, products)
            task.say(planned.text)
        return adding_to(stored_table(opened.manifest), planned.names, planned.bytes)
    if products is None:
        done = deriving.derive(tables, name, str(expression), str(alias), task.progress)
    else:
        done = deriving.derive_products(tables, name, products, task.progress, task.say)
    return stored_table(done.manifest)


@operation(Deleting, after=CONTINUES, writes=True)
def delete(task: Task, name: str, where: str, **options: Unpack[Deleting]) -> Changed:
    """Delete the rows of a stored table that `where` holds for, as SQL's DELETE does.

    `where`: an expression over the row, with columns of any kind. `dry_run`: change nothing. `yes`: required if `where`
    reads columns that are not plain and the plain place learns which rows were deleted. `record`: a new file for the
    signed record. `old_version_days`: how long the bucket keeps old versions; by default its lifecycle is read.

    >>> import cleave
    >>> _ = cleave.put("patients.csv", "shrinking", store="tables", by=["ward"])
    >>> cleave.delete("shrinking", "ward = 'Surgery'", store="tables").rows
    95
    """
    from cleave.maintain import changes  # noqa: PLC0415 - as above
    from cleave.store.published import ENDS  # noqa: PLC0415

    path = None if options["record"] is None or options["dry_run"] else Path(options["record"])
    if path is not None:
        require_target(path)
    days = options["old_version_days"]
    if days is not None and not 0 <= days <= _MOST_DAYS:
        raise UsageError(f"--old-version-days takes 0 to {_MOST_DAYS:,} days")
    tables = task.tables
    # read before anything is changed
    old_versions = None if path is None else changes.OldVersions.from_stores(tables.stores, days)

    def write_record(deleted: changes.Deleted) -> None:
        assert path is not None and old_versions is not None  # noqa: S101, PT018 - it is called only then
        record, unsure = changes.signed_record(tables.key, deleted, old_versions)
        write_atomically(path, record, error=InputError)
        if unsure:
            task.warn(f"{path}: {unsure}")

    how: dict[str, Any] = {"dry_run": options["dry_run"], "yes": options["yes"]}
    finish = None if path is None else write_record
    changed = changes.delete(tables, name, where, task.progress, finish=finish, **how)
    if changed.ends_releases:
        task.warn(ENDS)
    return changed


@operation(Updating, after=CONTINUES, writes=True)
def update(task: Task, name: str, values: Mapping[str, str], where: str, **options: Unpack[Updating]) -> Changed:
    """Set columns of the rows of a stored table that `where` holds for, as SQL's UPDATE does.

    `values`: column -> SQL over the row as it was. `where`: "TRUE" means all rows, and requires `yes`. A call that
    repeats the last change that was no append changes nothing, unless `again`. Otherwise as `delete`.

    >>> import cleave
    >>> _ = cleave.put("patients.csv", "corrected", store="tables", by=["ward"])
    >>> cleave.update("corrected", {"bill": "bill * 2"}, "age > 90", store="tables").reveals
    'which segments have changed rows'
    """
    from cleave.maintain.changes import update as change_rows  # noqa: PLC0415 - as above

    how = {"dry_run": options["dry_run"], "yes": options["yes"], "again": options["again"]}
    return change_rows(task.tables, name, values, where, task.progress, **how)


@change(Altering, after=CONTINUES)
def alter(task: Task, name: str, **options: Unpack[Altering]) -> Opened:
    """Change the columns of a stored table, all changes in one step.

    `widen`: "age=0..200" or "age=BIGINT". `add`: "note VARCHAR sealed"; it is NULL in rows that are there. `rename`:
    "old=new". `drop`: names of columns, and of products as `show` lists them. `by`: the columns whose combinations have
    totals. `entity`: columns that name whom a row is about, where none do yet.

    >>> import cleave
    >>> _ = cleave.put("patients.csv", "altered", store="tables", by=["ward"])
    >>> cleave.alter("altered", add=["note VARCHAR"], rename=["bill=cost"], store="tables").version
    2
    """
    from cleave.maintain import alter as altering  # noqa: PLC0415 - as above

    wanted = altering.Alteration(
        widen=options["widen"] or (),
        add=options["add"] or (),
        rename=options["rename"] or (),
        drop=options["drop"] or (),
        by=column_names(options["by"]),
        entity=column_names(options["entity"]) or (),
    )
    return altering.alter(task.tables, name, wanted, task.progress, task.warn)


@change(Place, after=CONTINUES)
def compact(task: Task, name: str, **_: Unpack[Place]) -> Opened:
    """Merge small segments of a stored table, as an append does if there are more than 8."""
    from cleave.store.compacting import compact as merge  # noqa: PLC0415 - as above

    return merge(task.tables, name, task.progress)


@operation(Place, seconds=_SECONDS)
def log(task: Task, name: str, **_: Unpack[Place]) -> list[dict[str, Any]]:
    """Return the audit log of a stored table: each change and each export, with its time, key and user.

    Raises CheckFailed where a record was removed, moved or changed.

    >>> import cleave
    >>> _ = cleave.put("patients.csv", "logged", store="tables", by=["ward"])
    >>> [(each["number"], each["what"], each["rows"]) for each in cleave.log("logged", store="tables")]
    [(1, 'put', 600)]
    """
    return [each.facts() for each in task.tables.log(task.tables.open(name))]


@operation(Place, seconds=LONGEST_TIMEOUT)
def verify(task: Task, name: str, **_: Unpack[Place]) -> list[Damage]:
    """Read and check every object of a stored table, and its log. Returns what is lost or damaged: nothing, if all is
    well.
    """
    from cleave.maintain.pull import verify as check  # noqa: PLC0415
    from cleave.sums.stored import Stored  # noqa: PLC0415 - as above

    with closing(Stored(task.tables, task.tables.open(name))) as stored:
        return check(stored, task.progress, task.checked)


@operation(Dropping, seconds=LONGEST_TIMEOUT, writes=True)
def drop(task: Task, name: str, **options: Unpack[Dropping]) -> None:
    """Delete a stored table. A versioned bucket keeps what it is set to keep.

    This machine, and copies of the key file made later, refuse the table if somebody puts it or an older version back.
    `forget`: delete nothing, but accept what the store has. `confirm`: called once the table is found; it raises to
    keep the table.
    """
    if options["forget"]:
        task.tables.forget(name)
    else:
        from cleave.store.dropping import drop as delete  # noqa: PLC0415 - as above

        delete(task.tables, name, task.progress, options["confirm"])


@operation(Place, seconds=LONGEST_TIMEOUT)
def accept(task: Task, name: str, version: int, **_: Unpack[Place]) -> Accepted:
    """Accept the version of a table that the store has, although this machine saw a newer one or the table was dropped.

    `version` must be the one in the store. If this machine refused the table, the table's log records it; nothing else
    changes. Other machines refuse the table until they accept it too.
    """
    from cleave.store.accepting import accept as go_on  # noqa: PLC0415 - as above

    return go_on(task.tables, name, version)


@operation(Rotating, after=CONTINUES, again=False, writes=True)
def rotate(task: Task, name: str, new_key: str | Path, **options: Unpack[Rotating]) -> StoredTable:
    """Move a stored table to another key: all of it is sealed again.

    Until that is done the table is under the old key alone. The same call continues a rotation that was stopped;
    `undo`: it ends it instead, and the table stays under the old key.
    """
    from cleave.ckks.key_file import describe_key, open_key  # noqa: PLC0415 - as above
    from cleave.ckks.public_key import public_side  # noqa: PLC0415
    from cleave.maintain.rotate import rotate as put_under  # noqa: PLC0415
    from cleave.maintain.rotate import undo as leave  # noqa: PLC0415
    from cleave.store.seen_versions import SeenVersions  # noqa: PLC0415
    from cleave.store.tables import Tables  # noqa: PLC0415

    target = key_file(new_key)
    describe_key(target)  # a missing one is reported before the prompt for a passphrase
    tables = task.tables
    other = open_key(target, passphrase_of(options["new_passphrase"]), kms_of(options["profile"]))
    new = Tables(tables.stores, other, SeenVersions(), user=user())
    if options["undo"]:  # the new key tells which copy
        return stored_table(leave(tables, new, name).manifest)
    done = put_under(tables, new, name, task.progress).manifest
    task.say(f"the fingerprint of the new key is {public_side(other).fingerprint}")
    if done.contributors:
        names = ", ".join(each.name for each in done.contributors)
        task.say(
            f"send contributors ({names}) a new public file, made by `cleave key export --table {name}` with the new "
            "key: rows put with the old file are not collected"
        )
    if done.release is not None and done.release.analysts:
        names = ", ".join(each.name for each in done.release.analysts)
        task.say(f"send analysts ({names}) the new fingerprint over another channel: they need it for --fingerprint")
    if done.readers:
        names = ", ".join(each.name for each in done.readers)
        task.say(f"send readers ({names}) the new fingerprint over another channel: they need it for --fingerprint")
    return stored_table(done)


@change(Place, after=CONTINUES)
def add_scan(task: Task, name: str, **_: Unpack[Place]) -> Opened:
    """Encrypt the rows of a stored table for scans, as `put` with `scan` does."""
    from cleave.maintain.derive import add_scan as encrypt  # noqa: PLC0415 - as above

    return encrypt(task.tables, name, task.progress)


@change(Place)
def drop_scan(task: Task, name: str, **_: Unpack[Place]) -> Opened:
    """Delete the rows for scans of a stored table; it keeps everything else."""
    from cleave.maintain.derive import drop_scan as forget  # noqa: PLC0415 - as above

    return forget(task.tables, name)
