"""Reads all of a stored table: to write it into one file, segment by segment, in the order of put; or to check it."""

from __future__ import annotations

import errno
import os
import tempfile
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Unpack

import duckdb

from cleave.ask.options import LONGEST_TIMEOUT, Place, Pulling
from cleave.contributions.collect import news
from cleave.files import FORCE, atomically, require_target
from cleave.formats import AnotherRelease
from cleave.maintain.facts import Pulled
from cleave.maintain.task import Task, operation
from cleave.objects.storage import ConflictError, StoreError
from cleave.store.changed import ReplacedError, is_replaced
from cleave.store.manifest import Object, Segment, Segments
from cleave.store.measures import columns_of
from cleave.store.pages import objects_of_pages
from cleave.store.reader import LostError
from cleave.store.tables import Tables
from cleave.store.vault import Purpose
from cleave.store.views import read_views, views_in
from cleave.sums.stored import Stored
from cleave.table.duck import connect_reading, identifier
from cleave.table.progress import Progress
from cleave.table.schema import Schema
from cleave.table.table import Table
from cleave.text.quantities import counted
from cleave_shared.errors import CheckFailed, CleaveWarning, InputError, stack_level
from cleave_shared.installed import install_command

if TYPE_CHECKING:
    import pyarrow as pa

_ENDINGS = (".csv", ".parquet")
_TOGETHER = 128  # segment files open at once
_MEMORY = "512MB"
_NOT_IN_PARQUET = r"-|\.[0-9]{3}[0-9]*[1-9]"  # a sign, or digits below milliseconds, in DuckDB's text of an interval


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
    if output is not None:
        check_output(Path(output), force=options["force"])
    elif find_spec("pyarrow") is None:
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


def check_output(output: Path, *, force: bool = False) -> None:
    """Raises InputError for an unwritable file, and for an existing one unless `force`."""
    if output.suffix.lower() not in _ENDINGS:
        raise InputError(f"{output}: is neither CSV nor Parquet", hint="name a file that ends in .csv or .parquet")
    require_target(output, hint=FORCE, overwrite=force)


def pull_into(stored: Stored, output: Path, progress: Progress, *, force: bool = False) -> None:
    """Write `output`. If it fails, the old file is unchanged. Raises InputError, CheckFailed, StoreError."""
    check_output(output, force=force)
    with atomically(output, error=InputError, overwrite=force) as file, closing(_tables(stored, progress)) as tables:
        if output.suffix.lower() == ".csv":
            for number, table in enumerate(tables):
                table.append_csv(file, header=number == 0)
            return
        parts: list[BinaryIO] = []
        folder = Path(os.path.realpath(output)).parent  # of the file that a link names: the link's disk is another one
        try:
            for table in tables:
                parts.append(_part(table, stored.schema, folder))
                if len(parts) == _TOGETHER:
                    parts = [_joined(parts, folder)]
            _join(parts, file, [each.name for each in stored.schema.columns if each.type == "INTERVAL"])
        finally:
            for part in parts:
                part.close()


def pull_arrow(stored: Stored, progress: Progress) -> pa.Table:
    """All rows as an Arrow table. Needs pyarrow. Raises CheckFailed, StoreError."""
    names = [column.name for column in stored.schema.columns]
    with stored.rows.table(names, ordered=True, progress=progress) as table:
        return table.connection.sql(f"SELECT * FROM {table.relation}").to_arrow_table()


def _tables(stored: Stored, progress: Progress) -> Generator[Table, None, None]:
    """Open the segments one after the other. A table without segments gives one table without rows."""
    names = [column.name for column in stored.schema.columns]
    advance = progress.stage("fetch and open", stored.manifest.rows, "rows")
    for segments in [[each] for each in stored.manifest.segments] or [[]]:
        with stored.rows.table(names, ordered=True, segments=segments) as table:
            yield table
            advance(table.rows)


def _part(table: Table, schema: Schema, folder: Path) -> BinaryIO:
    """A nameless file beside the output file: it disappears however this process ends."""
    file = _unnamed(folder)
    file.write(table.parquet_of([each.name for each in schema.columns]))
    file.flush()
    return file


def _joined(parts: Sequence[BinaryIO], folder: Path) -> BinaryIO:
    file = _unnamed(folder)
    _join(parts, file)
    for part in parts:
        part.close()
    return file


def _join(parts: Sequence[BinaryIO], file: BinaryIO, intervals: Sequence[str] = ()) -> None:
    """Write the rows of `parts`, in order, into `file`. Texts of `intervals` become INTERVAL where Parquet can hold
    them.
    """
    with closing(connect_reading()) as connection:
        connection.execute(f"SET memory_limit = '{_MEMORY}'")
        paths = ", ".join(f"'{_path(part)}'" for part in parts)
        rows = f"read_parquet([{paths}], hive_partitioning = false)"
        casts = ", ".join(f"CAST({name} AS INTERVAL) AS {name}" for name in _representable(connection, rows, intervals))
        failure = None
        try:
            connection.execute(
                f"COPY (SELECT *{f' REPLACE ({casts})' if casts else ''} FROM {rows}) TO '{_path(file)}' "
                "(FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false)"
            )
        except duckdb.IOException as error:
            failure = _reason(str(error))
    if failure is not None:
        raise failure
    os.fsync(file.fileno())


def _reason(message: str) -> OSError:
    """The system error in DuckDB's message: a full disk, a quota, or a limit on file sizes."""
    for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        if os.strerror(code) in message:
            return OSError(code, os.strerror(code))
    return OSError(errno.EIO, os.strerror(errno.EIO))


def _representable(connection: duckdb.DuckDBPyConnection, rows: str, intervals: Sequence[str]) -> list[str]:
    """The quoted names of `intervals` that Parquet can hold exactly: it has no negative ones, and only milliseconds."""
    names = [identifier(name) for name in intervals]
    if not names:
        return []
    lost = ", ".join(f"count(*) FILTER (regexp_matches({name}, '{_NOT_IN_PARQUET}'))" for name in names)
    counts = connection.execute(f"SELECT {lost} FROM {rows}").fetchall()[0]
    return [name for name, count in zip(names, counts, strict=True) if not count]


def _unnamed(folder: Path) -> BinaryIO:
    try:
        return tempfile.TemporaryFile(dir=folder)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror})") from None


def _path(file: BinaryIO) -> str:
    return f"/proc/self/fd/{file.fileno()}"


@dataclass(frozen=True, slots=True)
class Damage:
    """A lost or damaged object, and what it contains."""

    what: str
    reason: str


@operation(Place, seconds=LONGEST_TIMEOUT)
def verify(task: Task, name: str, **_: Unpack[Place]) -> list[Damage]:
    """Read and check every object of a stored table, and its log. Returns what is lost or damaged: nothing, if all is
    well.
    """
    with closing(Stored(task.tables, task.tables.open(name))) as stored:
        return find_damage(stored, task.progress, task.checked)


def find_damage(stored: Stored, progress: Progress, checked: set[str] | None = None) -> list[Damage]:
    """Read and check every object: its digest, and that sealed objects open. Also checks the log, and each
    contributor's head: its signature, and that it is no older than what was collected.

    `checked`: names of objects that were found whole before, which are not read; it gets those found now. Raises
    StoreError; ReplacedError and LostError if a newer version replaced this one, so that its objects are no damage.
    """
    tables, damages, checked = stored.tables, list[Damage](), set[str]() if checked is None else checked
    assert isinstance(tables, Tables)  # noqa: S101 - only owners verify: others cannot read a log
    every = list(_objects(stored))
    advance = progress.stage("verify", sum(which.bytes for _, which, _ in every), "bytes")
    for what, which, check in every:
        try:
            if which.name not in checked:
                check()
                checked.add(which.name)
        except CheckFailed as failure:
            if isinstance(failure, LostError) and is_replaced(failure):
                raise
            damages.append(Damage(what, failure.message))
        advance(which.bytes)
    if not damages:  # all totals must open too: a wrong key or foreign ciphertexts would show
        stored.totals([(column.measure, column.part) for column in columns_of(stored.manifest.measures)])
    try:
        tables.log(stored.opened)
    except CheckFailed as failure:
        damages.append(Damage("the log", failure.message))
    for contributor in stored.manifest.contributors:
        try:
            news(tables, stored.manifest, contributor)
        except CheckFailed as failure:
            if tables.replaced(stored.opened):
                raise ReplacedError from None
            damages.append(Damage("the head of a contribution", failure.message))
    return damages


def _readable(segments: Segments) -> Iterator[tuple[int, Segment]]:
    """The segments of pages that can be read, with their numbers. The pages are objects of their own."""
    before = 0
    for page in segments.pages:
        items: Sequence[Segment] = ()
        with suppress(CheckFailed):
            items = page.items
        yield from enumerate(items, before + 1)
        before += page.count
    yield from enumerate(segments.last, before + 1)


def _objects(stored: Stored) -> Iterator[tuple[str, Object, Callable[[], object]]]:
    """All objects: what each contains, and the function that reads and checks it."""

    def sealed(purpose: Purpose, which: Object) -> tuple[Object, Callable[[], object]]:
        return which, partial(stored.tables.unseal, stored.vault, purpose, which)

    def digested(which: Object, *, plain: bool = False) -> tuple[Object, Callable[[], object]]:
        return which, partial(stored.tables.read, which, plain=plain)

    manifest = stored.manifest
    if (views := stored.opened.head.views) is not None:
        yield "the list of readers' views", *digested(views)
        with suppress(CheckFailed):  # as its own check says
            opened = read_views(stored.tables, stored.opened).views
            for reader, view in views_in(stored.tables.read(views)).items():
                name = next((each.name for each in manifest.readers if each.id == reader), "?")
                yield f"the view of reader {name!r}", *digested(view)
                for which in objects_of_pages(opened[reader].manifest) if reader in opened else ():
                    yield f"a page of the view of reader {name!r}", *digested(which)
    yield "the CKKS secret", *sealed("ckks", manifest.secret)
    for which in manifest.cells:
        yield "the cells", *sealed("cells", which)
    for which in objects_of_pages(manifest):
        yield "a page of the manifest", *sealed("manifest", which)
    if (release := manifest.release) is not None:
        for what, which in release.sealed().items():
            yield what, *sealed("release", which)
        if release.totals is not None:
            yield "the newest release", *digested(release.totals)
    for number, segment in _readable(manifest.segments):
        place = f"segment {number} ({counted(segment.rows, 'row')})"
        for at, each in enumerate(manifest.sealed):
            which = segment.columns[at].object
            yield f"{place}: column {each.name!r}", which, partial(stored.rows.open_all, segment, at)
        if segment.marks is not None:
            marks = partial(stored.rows.open_all, segment, len(manifest.sealed))
            yield f"{place}: marks of released rows", segment.marks.object, marks
        for totals in segment.totals:
            for lane, which in enumerate(totals.lanes):
                yield f"{place}: totals, lane {lane}", *digested(which)
        if segment.plain:
            yield f"{place}: plain columns", *digested(segment.plain, plain=True)
        if segment.scan:
            yield f"{place}: order of the rows for scans", *sealed("rows", segment.scan.order)
            for lane, objects in enumerate(segment.scan.lanes):
                for part, which in enumerate(objects):
                    yield f"{place}: rows for scans, lane {lane}, part {part}", *digested(which)
