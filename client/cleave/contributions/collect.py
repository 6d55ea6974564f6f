"""Adds contributors' rows to the owner's table: one new version per contributor.

Until then a contributor's rows do not count. They are opened, checked, and sealed again under the owner's keys with new
ids, and their totals are encrypted: nothing is copied unchanged. If one contributor's rows are refused, the others are
still collected. A contributor's objects are deleted in both cases, so it cannot see whether its rows were accepted.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain

from pydantic import ValidationError

from cleave.ckks.public_key import open_sealed, public_side
from cleave.contributions.contributed import ContributedRows
from cleave.contributions.invitation import invite, without
from cleave.contributions.lost import lost_parts, lost_text
from cleave.formats import AnotherRelease
from cleave.objects.storage import StoreError, read_twice
from cleave.sql.rejoin import Texts
from cleave.store.cells import MOST_CELLS, index_of
from cleave.store.change import Change, ChangePlan, in_the_way
from cleave.store.changed import ReplacedError, is_replaced
from cleave.store.contribution import (
    ContributionHead,
    Entry,
    PartManifest,
    context_of,
    folder_of,
    names_of,
    read_head,
)
from cleave.store.contributors import contributor_of
from cleave.store.filling import Say, silent
from cleave.store.keys import keys_of
from cleave.store.making import make
from cleave.store.manifest import Contributor, HandledPart, Manifest, Segment
from cleave.store.pieces import ChangeStep, Piece
from cleave.store.published import ENDS, has_ended
from cleave.store.reader import LostError, Opened
from cleave.store.schemas import load_stored_schema
from cleave.store.segment import SegmentWriter
from cleave.store.tables import Tables
from cleave.table.progress import Progress
from cleave.text.quantities import counted
from cleave_shared import limits
from cleave_shared.errors import CheckFailed, InputError


@dataclass(frozen=True, slots=True)
class News:
    """Changes in a contributor's head: parts to collect, and collected parts that it removed.

    `head` is None if nothing changed.
    """

    contributor: Contributor
    head: ContributionHead | None
    added: tuple[Entry, ...]
    gone: tuple[HandledPart, ...]


def news(tables: Tables, manifest: Manifest, who: Contributor) -> News:
    """Changes since the last collection. Raises CheckFailed if the head is another's, or older than the last one."""
    place = f"{folder_of(manifest.table_id, who.key)}/head"

    def signed(content: tuple[bytes, str] | None) -> ContributionHead | None:
        return read_head(content[0], who.key, manifest.table_id, tables.key.key_id) if content else None

    try:
        head = read_twice(lambda: tables.stores.sensitive.read_versioned(place), signed)
        if head is None:
            if who.version:
                raise CheckFailed("stored", "what was put is gone from the store", hint=_RESTORE)
            return News(who, None, (), ())
        if head.version < who.version or (head.version == who.version and head.digest != who.digest):
            raise CheckFailed(
                "stored", f"the store shows another state than version {who.version}, which was seen", hint=_RESTORE
            )
    except (CheckFailed, AnotherRelease) as failure:
        raise _naming(who, failure) from None
    if head.version == who.version:
        return News(who, None, (), ())
    taken, listed = {each.id for each in who.parts}, {each.id for each in head.parts}
    return News(
        who,
        head,
        tuple(each for each in head.parts if each.id not in taken),
        tuple(each for each in who.parts if each.id not in listed),
    )


def newest_versions(tables: Tables, manifest: Manifest) -> dict[str, int]:
    """The version of each contributor's head in the store, by its key. Refused heads are omitted."""
    versions: dict[str, int] = {}
    for who in manifest.contributors:
        with contextlib.suppress(CheckFailed, AnotherRelease):  # a refused head must not block the others' invitation
            head = news(tables, manifest, who).head
            versions[who.key] = head.version if head else who.version
    return versions


def _warn_of_lost(tables: Tables, manifest: Manifest, warn: Say) -> None:
    try:
        lost = lost_parts(tables, manifest)
    except (CheckFailed, StoreError) as error:  # another's entry must not keep rows from being collected
        warn(f"parts that cannot be collected were not looked for: {error.message}")
        return
    if lost:
        warn(lost_text(manifest, lost))


_RESTORE = "an old state of the store was restored, or it was deleted: restore the newest one"


def collect(
    tables: Tables, table: str, progress: Progress, names: Sequence[str] = (), warn: Say = silent
) -> tuple[Opened, list[News]]:
    """Collect the rows of the contributors `names`; if empty, of all. Returns the table after that, and the changes.

    `warn` gets warnings: parts that cannot be collected, and that the table's releases end. If one contributor is
    refused, the others are collected first. Then CheckFailed or InputError is raised with its name.
    """
    opened = tables.open(table)
    _warn_of_lost(tables, opened.manifest, warn)
    chosen = [contributor_of(opened.manifest, name) for name in names] or list(opened.manifest.contributors)
    done: list[News] = []
    failures: list[CheckFailed | InputError] = []
    for who in chosen:
        try:
            pending = news(tables, opened.manifest, who)
        except (CheckFailed, AnotherRelease) as failure:
            failures.append(failure)
            continue
        if pending.head is None:
            continue
        before = opened.manifest
        try:
            opened = _take(tables, opened, pending, progress)
            done.append(pending)
        except LostError as failure:  # not refused: the store may find it again
            if _is_replaced(tables, opened.manifest, pending, failure):
                raise ReplacedError from None
            failures.append(_naming(who, failure))
            continue
        except (CheckFailed, InputError) as failure:
            failures.append(_naming(who, failure))
            opened = _refuse(tables, opened, pending, progress)
        if has_ended(before, opened.manifest):
            warn(ENDS)
        store = tables.stores.sensitive
        for entry in pending.head.parts if pending.head else ():
            with contextlib.suppress(StoreError, CheckFailed):  # what cannot be deleted now is deleted the next time
                store.delete(names_of(entry, store.read(entry.names.name, most=entry.names.bytes)))
    if failures:
        raise failures[0]
    return opened, done


def _take(tables: Tables, opened: Opened, pending: News, progress: Progress) -> Opened:
    """Check all of one contributor's news, then write. Raises CheckFailed, InputError; then none of it counts."""
    who, table = pending.contributor, opened.manifest.table

    def plan(base: Opened | None, stack: ExitStack) -> ChangePlan:  # noqa: ARG001 - it opens nothing
        if base is None:
            raise tables.no_table(table)
        manifest = base.manifest
        if _entry(manifest, who) is None or load_stored_schema(manifest) != load_stored_schema(opened.manifest):
            raise in_the_way(tables)
        schema, folder = load_stored_schema(manifest), folder_of(manifest.table_id, who.key)
        parts: list[PartManifest] = []
        most = limits.MAX_FACTS_BYTES  # of all new parts together
        for entry in pending.added:
            part, size = _open_part(tables, manifest, entry, who, most)
            parts.append(part)
            most -= size
        rows = [ContributedRows(tables, part, schema, folder) for part in parts]
        gone = _gone(manifest, pending)
        _require_room(tables, base, who, _keys(rows, manifest.by), gone)
        _require_key(tables, base, rows, gone)
        manifest, cells = without(tables, base, gone)
        pieces = [_PartRows(who, each, number) for each in rows for number in range(len(each.part.segments))]
        handled = {part.id: [each.label for each in pieces if each.part is part] for part in parts}
        return ChangePlan(_with_parts(manifest, pending, handled), pieces, cells, details={"contributor": who.name})

    def follows(before: Manifest | None, newest: Manifest) -> bool:
        return before is not None and not pending.gone and _entry(newest, who) is not None

    request = [who.key, pending.head.digest if pending.head else ""]
    change = Change("collect", request, plan, follows, stage=f"collect {who.name}")
    return make(tables, table, change, progress).opened


@dataclass(frozen=True, slots=True)
class _PartRows(Piece):
    """The rows of segment `number` of a contributor's part. They are checked again while they are sealed."""

    who: Contributor
    contributed: ContributedRows
    number: int

    @property
    def part(self) -> PartManifest:
        return self.contributed.part

    @property
    def label(self) -> str:
        """The segment's id in the draft, and in its part until the commit; no contributor can choose it."""
        return hashlib.sha256(f"{self.who.key} {self.part.id} {self.number}".encode()).hexdigest()[:32]

    @property
    def replaces(self) -> tuple[str, ...]:
        return (self.label,)

    @property
    def rows(self) -> int:
        return self.part.segments[self.number].rows

    def write(self, writer: SegmentWriter, done: Sequence[ChangeStep]) -> Generator[ChangeStep]:  # noqa: ARG002 - one step
        with self.contributed.table(self.part.segments[self.number]) as table:
            partial = writer.begin(table, contributor=self.who.name)
            segment = writer.finish(partial)
        yield self.step(segment, keys=partial.keys)


def _is_replaced(tables: Tables, manifest: Manifest, pending: News, lost: LostError) -> bool:
    """True if a lost object of the owner is of an older version, or one of a contributor of a part that is handled."""
    who = pending.contributor
    if not lost.name.startswith(f"{folder_of(manifest.table_id, who.key)}/"):
        return is_replaced(lost)
    return _is_handled(tables, manifest, who, pending.added)


def _is_handled(tables: Tables, manifest: Manifest, who: Contributor, parts: Sequence[Entry]) -> bool:
    """True if some of a contributor's `parts` do not wait in the newest version: another process has handled them, the
    contributor has replaced them, or it was removed.
    """
    newest = tables.open(manifest.table).manifest
    now = next((each for each in newest.contributors if each.key == who.key), None)
    waiting = () if now is None else news(tables, newest, now).added
    return not {each.id for each in parts} <= {each.id for each in waiting}


def _refuse(tables: Tables, opened: Opened, pending: News, progress: Progress) -> Opened:
    """Record that the new parts were handled, without collecting any."""
    who, table = pending.contributor, opened.manifest.table

    def plan(base: Opened | None, stack: ExitStack) -> ChangePlan:  # noqa: ARG001 - it opens nothing
        if base is None or _entry(base.manifest, who) is None:
            raise in_the_way(tables)
        manifest, cells = without(tables, base, _gone(base.manifest, pending))
        manifest = _with_parts(manifest, pending, {entry.id: () for entry in pending.added})
        return ChangePlan(manifest, cells=cells, details={"contributor": who.name})

    request = [who.key, pending.head.digest if pending.head else "", "refused"]
    return make(tables, table, Change("collect", request, plan), progress).opened


def _keys(rows: Sequence[ContributedRows], by: Sequence[str]) -> set[Texts]:
    """Keys of the cells of new rows."""
    keys: set[Texts] = set()
    for combinations in chain.from_iterable(each.keys(by) for each in rows):
        keys |= combinations
        if len(keys) > MOST_CELLS:  # they are too many in any case
            break
    return keys


def _require_key(tables: Tables, opened: Opened, rows: Sequence[ContributedRows], gone: Sequence[Segment]) -> None:
    """Raise InputError, for the owner only, if two rows would have the same key, or a key has NULL."""
    manifest = opened.manifest
    if not manifest.key:
        return
    batches = (batch for each in rows for batch in each.batches(manifest.key))
    keys = keys_of(batches, load_stored_schema(manifest), manifest.key, lambda row: f"row {row + 1} of its new rows")
    duplicates = keys.count_in(tables, opened, [each for each in manifest.segments if each not in gone]) if keys else {}
    if duplicates:
        raise InputError(
            f"the table already has {counted(sum(duplicates.values()), 'key')} of these rows",
            hint="have it put the others with --replace, or delete those rows of the table first",
        )


def _gone(manifest: Manifest, pending: News) -> list[Segment]:
    ids = {segment for each in pending.gone for segment in each.segments}
    return [each for each in manifest.segments if each.id in ids]


def _entry(manifest: Manifest, who: Contributor) -> Contributor | None:
    """The entry of a contributor of whom nothing was collected or removed meanwhile. Segments may have other ids."""

    def state(of: Contributor) -> tuple[str, str, int, str]:
        return of.key, of.registration, of.version, of.digest

    return next((each for each in manifest.contributors if state(each) == state(who)), None)


def _with_parts(manifest: Manifest, pending: News, handled: Mapping[str, Sequence[str]]) -> Manifest:
    """`manifest` with the new segments of a contributor's parts. `handled`: by part id."""
    who, head = _entry(manifest, pending.contributor), pending.head
    assert head is not None and who is not None  # noqa: S101, PT018 - the caller looked
    remaining = [each for each in who.parts if each not in pending.gone]
    new = (HandledPart(id=id_, segments=tuple(each)) for id_, each in handled.items())
    parts = who.parts.rearranged(remaining).extended(new)
    changed = who.model_copy(update={"version": head.version, "digest": head.digest, "parts": parts})
    contributors = tuple(changed if each == who else each for each in manifest.contributors)
    return manifest.model_copy(update={"contributors": contributors})


def _require_room(tables: Tables, opened: Opened, who: Contributor, keys: set[Texts], gone: Sequence[Segment]) -> None:
    """Raises InputError if a contributor would exceed its share of cells, or the table a limit. Nothing is written.

    `keys`: of the cells of new rows; `gone`: segments to remove.
    """
    left = tables.cells(opened)
    for segment in gone:
        left.count(index_of(segment), -1)
    filled = {key for key, rows in zip(left.keys, left.rows, strict=True) if rows}
    _require_share(tables, opened, who, keys, gone, filled)
    left.add(opened.manifest.by, [*keys], [1] * len(keys))  # as the change will do


def _require_share(
    tables: Tables, opened: Opened, who: Contributor, keys: set[Texts], gone: Sequence[Segment], filled: set[Texts]
) -> None:
    """Raises InputError if a contributor would exceed its share of cells, or with others the limit.

    A share is the limit divided by the number of contributors plus the owner, so nobody can fill the table alone. Only
    cells without rows of the owner count. Rows of removed contributors count as the owner's. `filled`: keys with rows.
    """
    manifest = opened.manifest
    share = MOST_CELLS // (len(manifest.contributors) + 1)
    if len(filled | keys) <= share or keys <= filled:  # nobody has more than a share, or no new cell is used
        return
    cells = tables.cells(opened)

    def keys_of(segments: Iterable[Segment]) -> set[Texts]:
        return {cells.keys[cell] for each in segments for cell in index_of(each).cells.tolist()}

    names = {each.name for each in manifest.contributors}
    owned = keys_of(each for each in manifest.segments if each.contributor not in names)
    current = keys_of(each for each in manifest.segments if each.contributor == who.name and each not in gone)
    why = ""
    if (added := len((keys | current) - owned)) > share:
        why = f"{added:,} that the owner has no rows in, and its share is {share:,}"
    elif len(filled | keys) > MOST_CELLS:
        why = f"with those of others there would be {len(filled | keys):,} of {MOST_CELLS:,}"
    if why:
        raise InputError(
            f"contributor {who.name!r}: too many combinations of {', '.join(manifest.by)} in its rows: {why}",
            hint="take the others in by name; have it put fewer with --replace, or remove it",
            name=who.name,
        )


def _open_part(
    tables: Tables, manifest: Manifest, entry: Entry, who: Contributor, most: int
) -> tuple[PartManifest, int]:
    """A part of at most `most` bytes, and its size. Raises CheckFailed."""
    name, invitation = entry.manifest.name, invite(manifest)
    place = (invitation.table_id, who.key, who.registration, invitation.terms, entry.id)
    context = context_of(public_side(tables.key).fingerprint, *place, name)
    try:
        content = tables.read(entry.manifest)
    except LostError:
        if _is_handled(tables, manifest, who, [entry]):
            raise ReplacedError from None
        raise CheckFailed(
            "stored",
            "a part is lost, or was collected before the contributor was removed",
            hint="have its contributor put the rows again with --replace",
        ) from None
    try:
        opened = open_sealed(tables.key, context, content, most)
        part = PartManifest.model_validate_json(opened)
    except ValidationError:
        raise CheckFailed("stored", "a part is not of this release, or damaged") from None
    except CheckFailed as failure:
        hint = "if it was made by another invitation: export the public key again, and have the rows put again"
        raise CheckFailed(failure.check, failure.message, hint=f"{hint} with --replace") from None
    if part.place != place:
        raise CheckFailed("signature", "a part is another contributor's, or another part")
    return part, len(opened)


def _naming(who: Contributor, failure: CheckFailed | InputError) -> CheckFailed | InputError:
    """`failure` with the contributor's name at the start of its message."""
    if failure.name == who.name:
        return failure
    message = f"contributor {who.name!r}: {failure.message}"
    if isinstance(failure, CheckFailed):
        return CheckFailed(failure.check, message, hint=failure.hint, code=failure.code, name=who.name)
    return type(failure)(message, hint=failure.hint, code=failure.code, name=who.name)
