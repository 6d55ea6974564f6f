"""Add readers of some columns of a table, and revoke them by sealing these columns under new keys."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any, Unpack, cast

from pydantic import JsonValue

from cleave.ask.opening import column_names
from cleave.ask.options import Opening, Place
from cleave.ckks.owner_key import encoded
from cleave.ckks.public_key import PublicKey, public_side
from cleave.maintain.task import CONTINUES, Task, operation
from cleave.share.addressed import place_of, public_of, read_holders
from cleave.share.bundle import Bundle, publish_bundle
from cleave.store.change import Change, ChangePlan, Done, always
from cleave.store.contributors import min_group_of
from cleave.store.first_use import PublicFile, require_compared
from cleave.store.making import finished, make
from cleave.store.manifest import Manifest, Reader, new_id, now
from cleave.store.pieces import Addition, ChangeStep
from cleave.store.reader import Opened
from cleave.store.rows import Rows
from cleave.store.schemas import load_stored_schema
from cleave.store.sealed import values_of
from cleave.store.segment import SegmentWriter, target_of
from cleave.store.tables import Tables
from cleave.store.views import MOST_READERS, places_of
from cleave.table.progress import Progress
from cleave.table.schema import Schema
from cleave_shared.errors import InputError

_READER = "a reader makes a key with `cleave reader new FILE` and sends FILE.pub"


@dataclass(frozen=True, slots=True)
class ReaderFacts:
    """A reader of a table. `plain`: those of its `columns` that are plain. `folder`, `place`: below which it reads.

    `version`: of the table now. `fingerprint`: the owner's, and @ with the number of records that its log has at least.
    """

    name: str
    columns: tuple[str, ...]
    plain: tuple[str, ...]
    folder: str
    place: str
    version: int
    fingerprint: str


@operation(Opening, after=CONTINUES, writes=True)
def add_reader(task: Task, name: str, **options: Unpack[Opening]) -> ReaderFacts:
    """Let a reader query `columns` of the table `name`, as `cleave reader add` does.

    `to`: FILE.pub=SHA256:..., or only the file if the key was used here before or the table has this reader. `names`:
    it sees the names of the other columns. `yes`: it may read rows of people whom thresholds protect.
    """
    if options["to"] is None:
        raise InputError("no reader is named", hint=f"--to FILE.pub=SHA256:...: {_READER}")
    file = PublicFile.parse(options["to"])
    ((reader, public),) = read_holders([file.path], "reader", _READER).items()
    tables = task.tables  # a missing key is reported first
    there = tables.open(name).manifest.readers if file.fingerprint is None else ()
    listed = [public_of(each).fingerprint for each in there]
    require_compared("reader", "--to", [(file, public.fingerprint)], listed)
    wanted, how = column_names(options["columns"]) or (), {"names": options["names"], "yes": options["yes"]}
    done = add(tables, name, reader, public, wanted, task.progress, **how)
    return _facts(tables, done, next(each for each in done.manifest.readers if each.name == reader))


@operation(Place, after=CONTINUES, writes=True)
def revoke_reader(task: Task, name: str, reader: str, **_: Unpack[Place]) -> ReaderFacts:
    """Seal the columns of a reader under new keys, as `cleave reader revoke` does. `reader`: name or fingerprint."""
    done, gone = revoke(task.tables, name, reader, task.progress)
    return _facts(task.tables, done, gone)


def _facts(tables: Tables, opened: Opened, reader: Reader) -> ReaderFacts:
    manifest = opened.manifest
    plain = tuple(each for each in reader.columns if each in load_stored_schema(manifest).plain)
    fingerprint = f"{public_side(tables.key).fingerprint}@{opened.head.log.count}"
    folder = tables.folder(manifest.table)
    return ReaderFacts(reader.name, reader.columns, plain, folder, reader.place, manifest.version, fingerprint)


@dataclass(frozen=True, slots=True)
class Resealed(Addition):
    """Sealed columns of `segment`, given by their numbers, under the keys of the next version."""

    tables: Tables
    columns: Sequence[int]

    @property
    def most_rows(self) -> int:
        return 0

    def write(self, writer: SegmentWriter, done: Sequence[ChangeStep]) -> Generator[ChangeStep]:  # noqa: ARG002 - one step
        manifest, stored = writer.manifest, list(self.segment.columns)
        target = target_of(self.tables, manifest, self.segment.id)
        for number in self.columns:
            column = manifest.sealed[number]
            stored[number] = target.write_values(column, values_of(column, self.source.open_all(self.segment, number)))
        yield self.step(self.segment.model_copy(update={"columns": tuple(stored)}))
        writer.advance(self.segment.rows)


def add(
    tables: Tables,
    table: str,
    name: str,
    public: PublicKey,
    columns: Sequence[str],
    progress: Progress,
    *,
    names: bool = False,
    yes: bool = False,
) -> Opened:
    """Open `columns` of a table to the holder of `public`. `names`: it sees the names of the other columns too.

    An existing reader with the same rights gets its bundle again. Raises InputError if the reader exists with other
    rights, if a column does not exist, or without `yes` if thresholds protect people. Raises ConflictError if another
    writer changed the table meanwhile.
    """
    opened = tables.open(table)
    spelled = _spelled(load_stored_schema(opened.manifest), columns)
    box, signing = encoded(public.box), encoded(public.signing)
    place, id_, added = place_of(Bundle, public, opened.manifest.table), new_id(), now()

    def plan(base: Opened | None, stack: ExitStack) -> ChangePlan:  # noqa: ARG001 - it opens nothing
        if base is None:
            raise tables.no_table(table)
        manifest, schema = base.manifest, load_stored_schema(base.manifest)
        reader = _reader_of(manifest, name, public)
        if reader is not None:
            if (reader.columns, reader.names) != (_spelled(schema, columns), names):
                raise InputError(
                    f"reader {reader.name!r} has other rights: {described(reader)}",
                    hint=f"cleave reader revoke {table} {reader.name}, then add it again",
                )
            return ChangePlan(manifest, idle=True)
        if len(manifest.readers) >= MOST_READERS:
            raise InputError(f"a table has at most {MOST_READERS} readers")
        _require_consent(manifest, schema, yes=yes)
        reader = Reader(
            id=id_, name=name, box=box, signing=signing, place=place, columns=spelled, names=names, added=added
        )
        changed = manifest.model_copy(update={"readers": (*manifest.readers, reader)})
        return ChangePlan(changed, details=_details(reader))

    change = Change("reader add", [public.fingerprint, spelled, names], plan)
    done = make(tables, table, change, progress).opened
    publish_bundle(tables, done, next(each for each in done.manifest.readers if public_of(each) == public))
    return done


def revoke(tables: Tables, table: str, named: str, progress: Progress) -> tuple[Opened, Reader]:
    """Seal the columns of a reader, given by name or fingerprint, under new keys that only the other readers get.

    From the first of two versions on it gets no view. Until the second, with the new keys, only deletions change the
    table besides. Returns the table after that, and the reader. Raises InputError if there is no such reader,
    ConflictError if others change the rows again and again.
    """

    def mark(base: Opened | None, stack: ExitStack) -> ChangePlan:  # noqa: ARG001 - it opens nothing
        if base is None:
            raise tables.no_table(table)
        manifest = base.manifest
        if _named(manifest.revoking, named) is not None:
            return ChangePlan(manifest, idle=True)
        reader = _named(manifest.readers, named)
        if reader is None:
            there = ", ".join(each.name for each in manifest.readers) or "none"
            raise InputError(f"there is no reader {named!r}", hint=f"readers of this table: {there}")
        others = tuple(each for each in manifest.readers if each != reader)
        changed = manifest.model_copy(update={"readers": others, "revoking": (*manifest.revoking, reader)})
        return ChangePlan(changed, details=_details(reader))

    def reseal(base: Opened | None, stack: ExitStack) -> ChangePlan:
        if base is None:
            raise tables.no_table(table)
        manifest = base.manifest
        if not manifest.revoking:  # by another process, meanwhile
            return ChangePlan(manifest, idle=True)
        places = {place for each in manifest.revoking for place in places_of(manifest, each)}
        sealed = tuple(
            each.model_copy(update={"id": new_id()}) if number in places else each
            for number, each in enumerate(manifest.sealed)
        )
        rows = stack.enter_context(closing(Rows(tables, base)))
        pieces = [Resealed(each, rows, tables, sorted(places)) for each in manifest.segments]
        return ChangePlan(
            manifest.model_copy(update={"sealed": sealed, "revoking": ()}),
            pieces,
            details={"readers": ", ".join(each.name for each in manifest.revoking)},
            facts={"readers": [each.model_dump() for each in manifest.revoking]},
        )

    resealing = Change("reader reseal", [], reseal, always, stage="seal again", strict=True)
    done = finished(tables, table, resealing, progress)
    reader = _named(_resealed_in(done), named) if done is not None else None
    if done is None or reader is None:
        marked = make(tables, table, Change("reader revoke", [named], mark, always), progress).opened
        reader = _named(marked.manifest.revoking, named)
        if reader is not None:
            tables.stores.sensitive.delete([f"{reader.place}/head"])
        done = make(tables, table, resealing, progress)
    reader = reader or _named(_resealed_in(done), named)
    if reader is None:
        raise InputError(f"there is no reader {named!r}", hint="another process has just revoked it")
    return done.opened, reader


def _resealed_in(done: Done) -> list[Reader]:
    """The readers whose columns a change has sealed again."""
    return [Reader.model_validate(each) for each in cast("list[Any]", done.facts.get("readers", []))]


def _named(readers: Sequence[Reader], named: str) -> Reader | None:
    """The reader with this name or fingerprint."""
    return next((each for each in readers if named in (each.name, public_of(each).fingerprint)), None)


def described(reader: Reader) -> str:
    """Say what a reader may read."""
    return f"{', '.join(reader.columns)}{', and the names of all columns' if reader.names else ''}"


def _details(reader: Reader) -> dict[str, JsonValue]:
    return {"reader": reader.name, "columns": ", ".join(reader.columns)}


def _spelled(schema: Schema, columns: Sequence[str]) -> tuple[str, ...]:
    """Return `columns` in the order of the schema. Raises InputError if one does not exist, or if there are none."""
    named = {schema.column(each).name for each in columns}
    if not named:
        raise InputError("a reader needs a column", hint="name them: --columns ward,sex,bill")
    return tuple(each for each in schema.names if each in named)


def _reader_of(manifest: Manifest, name: str, public: PublicKey) -> Reader | None:
    """The reader with this key, if any. Raises InputError if it has another name, or if the name has another key."""
    for reader in manifest.readers:
        if public_of(reader) == public:
            if reader.name != name:
                raise InputError(f"this key is that of reader {reader.name!r}")
            return reader
        if reader.name == name:
            raise InputError(
                f"there is another reader {name!r}", hint="revoke that one first, or give the file another name"
            )
    return None


def _require_consent(manifest: Manifest, schema: Schema, *, yes: bool) -> None:
    """Raise InputError without `yes` if thresholds protect people of whom a reader would read rows."""
    privacy = schema.privacy
    protected = f"people by {', '.join(privacy.entity)}" if privacy.entity else "small groups"
    if min_group_of(manifest):
        protected += ", and rows of contributors"
    if not yes and (privacy.entity or privacy.min_group or min_group_of(manifest)):
        raise InputError(
            f"thresholds of this table protect {protected}; a reader reads single rows",
            hint="`cleave release new` gives totals alone; confirm with --yes",
        )
