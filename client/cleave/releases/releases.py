"""Make and revoke the releases of a table, as its owner.

A release publishes parts. A part has all unpublished rows of a cell, if these belong to enough people. Writing the head
of the table commits the ledger of all numbers and the marks of published rows. Then the analysts' heads are written,
each only over an older one. The next command finishes one that was stopped in between. Old totals stay until each
analyst's head names the new ones.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace

from cleave.ckks.public_key import PublicKey, public_side
from cleave.releases.drafting import ReleaseDraft, drafted, ledger_of, released_measures
from cleave.releases.ledger import Ledger
from cleave.releases.noising import NoisyReleaseFacts, sealed_again, shared
from cleave.releases.page import is_signed_from, page_of
from cleave.releases.publishing import committed, finish, head_of, old_content, publish, write_totals
from cleave.releases.release import KEY_BYTES, ReleasedTotals
from cleave.share.addressed import public_of
from cleave.store.manifest import Analyst, Manifest, Release, Segment, new_id, now
from cleave.store.reader import Opened
from cleave.store.schemas import load_stored_schema
from cleave.store.segment import write_marks
from cleave.store.tables import Tables
from cleave.table.privacy import NO_PRIVACY
from cleave.table.schema import Schema, dump_schema
from cleave_shared.errors import InputError


@dataclass(frozen=True, slots=True)
class ReleaseFacts:
    """A release that was made, or the newest one if there was nothing new (`made` is False).

    `parts` were published now, with `new_rows` rows. `waiting`: number of cells whose new rows are too few so far.
    `withheld`: (measure, number of new parts without it). `left_out`: measures that no release has, such as doubles
    without bounds. `begins`: it starts a new lineage. `ends`: there was one, and numbers of both can be subtracted.
    `publishes` is False if only the numbers of earlier releases were sealed again. `place`: where it is stored.
    `fingerprint` is the owner's, with @ and the release's number: an analyst's machine that knows it refuses older
    releases.
    """

    table: str
    number: int
    min_cell: int
    counted: str
    analysts: tuple[str, ...]
    parts: int
    new_rows: int
    waiting: int
    cells: int
    withheld: tuple[tuple[str, int], ...]
    left_out: tuple[str, ...]
    begins: bool
    ends: bool
    publishes: bool
    place: str
    fingerprint: str
    made: bool = True


def release(
    tables: Tables,
    table: str,
    to: Mapping[str, PublicKey],
    least: int | None = None,
    *,
    new_lineage: bool = False,
    yes: bool = False,
    page: str | None = None,
) -> ReleaseFacts | NoisyReleaseFacts:
    """Publish the rows that no release has, for current analysts.

    If `to` has new analysts, they get the current totals and nothing new is published. No release is made without new
    parts, analysts, column names or `least`. After a noisy release, its numbers are sealed for analysts in `to` and
    nothing else happens, unless `yes`.

    `least`: minimum people, or rows, per cell. `new_lineage`: publish all rows, also those in earlier releases. `page`:
    the text that `--dry-run` wrote.

    Raises InputError if `to` or `least` differ from earlier releases, if the lineage has ended, or if the table changed
    since `page` was written.
    """
    opened = tables.open(table)
    newest = opened.manifest.release
    is_noisy = newest is not None and newest.epsilon > 0
    if is_noisy and to and not yes and least is None and page is None and not new_lineage:
        return shared(tables, opened, to)
    draft = drafted(tables, table, to, least, new_lineage=new_lineage, yes=yes)
    if page is not None and not is_signed_from(page, page_of(draft)):
        raise changed_since_page()
    newest = draft.opened.manifest.release
    if newest is None or not _is_same(draft, newest):
        return commit(draft)
    publish(tables, draft.opened)  # what a release that was stopped left to do; the next change sweeps
    return replace(_facts(draft, newest.number, draft.ledger), made=False)


def _is_same(draft: ReleaseDraft, newest: Release) -> bool:
    """True if this draft would change neither what analysts read nor the rules of the newest release."""
    if draft.begins or not draft.publishes or draft.parts or draft.least != newest.least:
        return False
    content = old_content(draft.tables, draft.opened)
    return content == released_totals(draft.opened.manifest, draft.ledger).dump()


def changed_since_page() -> InputError:
    return InputError(
        "the table, or what would be released of it, changed since the page was written",
        hint="write it again with --dry-run, and have it signed",
    )


def commit(draft: ReleaseDraft) -> ReleaseFacts:
    """Make the release, and publish its heads. Raises ConflictError if another writer changed the table meanwhile."""
    tables, opened, manifest = draft.tables, draft.opened, draft.opened.manifest
    newest, number, at = manifest.release, draft.number, now()
    key = secrets.token_bytes(KEY_BYTES)
    new = [(each.key, each.rows, each.sums) for each in draft.parts]
    ledger = replace(draft.ledger, key=key).with_parts(number, at, draft.measures, new)
    head = head_of(tables, manifest.table_id, new_id(), number, ledger.least, None)
    content = None
    if draft.analysts:
        content = None if draft.publishes else old_content(tables, opened)
        if content is None and ledger.by == manifest.by:  # or nothing can be shown by these columns
            content = released_totals(manifest, ledger).dump()
    written = None if content is None else write_totals(tables, key, head, content)
    lineage = new_id() if draft.begins else newest.lineage if newest else new_id()
    released = Release(
        id=head.release,
        number=number,
        at=at,
        least=draft.least,
        ledger=tables.seal(tables.folder(manifest.table), opened.vault, "release", ledger.dump()),
        totals=written,
        before=newest.totals if newest and draft.what == "release" else None,
        analysts=draft.analysts,
        revoked=draft.revoked,
        lineage=lineage,
        lowest=ledger.least,
        digests=newest.digests if newest and not draft.begins else None,
        ended=newest.ended if newest and not draft.begins else 0,
        accepted=newest.accepted if newest and not draft.begins else draft.accepted,
    )
    committed(tables, opened, released, draft.what, key, _segments(draft))
    return _facts(draft, number, ledger)


def _segments(draft: ReleaseDraft) -> dict[str, Segment]:
    """The segments that were read, by id, with new marks."""
    published = {each.cell for each in draft.parts}
    return {
        each.segment.id: write_marks(draft.tables, draft.opened.manifest, each.segment, each.published(published))
        for each in draft.read
    }


def _facts(draft: ReleaseDraft, number: int, ledger: Ledger) -> ReleaseFacts:
    manifest = draft.opened.manifest
    missing = {
        each.name: sum(not part.rule.shown[place] for part in draft.parts) for place, each in enumerate(draft.measures)
    }
    released = {each.name for each in draft.measures}
    return ReleaseFacts(
        manifest.table,
        number,
        draft.least,
        draft.counted,
        tuple(each.name for each in draft.analysts),
        len(draft.parts),
        sum(each.rows for each in draft.parts),
        len(draft.waiting),
        len({each.key for each in ledger.parts}),
        tuple((name, count) for name, count in missing.items() if count),
        tuple(each.name for each in manifest.measures if each.name not in released) if draft.publishes else (),
        draft.begins,
        draft.ends,
        draft.publishes,
        draft.tables.places[0],
        f"{public_side(draft.tables.key).fingerprint}@{number}",
    )


def released_totals(manifest: Manifest, ledger: Ledger) -> ReleasedTotals:
    """Return what analysts read: every part of the ledger, with the measures that the table has now."""
    schema = load_stored_schema(manifest)
    measures, _ = released_measures(manifest, schema)
    numbers = list(ledger.times)
    sums = [ledger.sums(each) for each in measures]
    return ReleasedTotals(
        table=manifest.table,
        schema_toml=dump_schema(_without_reasons(schema)),
        by=manifest.by,
        measures=measures,
        people=bool(ledger.entity),
        times=tuple(ledger.times.items()),
        keys=tuple(each.key for each in ledger.parts),
        rows=tuple(each.rows for each in ledger.parts),
        as_of=tuple(numbers.index(each.release) for each in ledger.parts),
        shown=tuple(tuple(each.shown for each in of) for of in sums),
        counts=tuple(tuple(each.count if each.shown else 0 for each in of) for of in sums),
        sums=tuple(tuple(each.sum if each.shown else 0 for each in of) for of in sums),
        squares=tuple(tuple(each.square if each.shown > 1 else 0 for each in of) for of in sums),
    )


def _without_reasons(schema: Schema) -> Schema:
    """`schema` without privacy and reasons. `cleave schema` wrote reasons from all rows, also from unpublished ones."""
    columns = tuple(replace(each, reason="") for each in schema.columns)
    derived = tuple(replace(each, reason="") for each in schema.derived)
    return replace(schema, columns=columns, derived=derived, privacy=NO_PRIVACY)


def revoke(tables: Tables, table: str, analyst: str) -> ReleaseFacts | NoisyReleaseFacts | None:
    """Seal the numbers of the newest release again under a new key, for all analysts but one.

    `analyst` is a name or a fingerprint. Returns None if it was revoked before; then this finishes what a stopped
    command left. Raises InputError if the table has no such analyst.
    """
    opened = tables.open(table)
    newest = opened.manifest.release

    def is_named(each: Analyst) -> bool:
        return analyst in (each.name, public_of(each).fingerprint)

    gone = [each for each in (newest.analysts if newest else ()) if is_named(each)]
    if newest is None or not gone:
        if newest is not None and any(map(is_named, newest.revoked)):
            finish(tables, opened)
            return None
        names = ", ".join(each.name for each in newest.analysts) if newest else ""
        raise InputError(f"there is no analyst {analyst!r}", hint=f"analysts of this table: {names or 'none'}")
    left = tuple(each for each in newest.analysts if each not in gone)
    revoked = (*newest.revoked, *gone)
    if newest.epsilon:
        return sealed_again(tables, opened, "revoke", left, revoked)
    return commit(_sealed_again(tables, opened, newest, "revoke", left, revoked))


def reseal(tables: Tables, table: str) -> None:
    """Seal the newest release for its analysts again, after the table moved to the key of `tables`."""
    opened = tables.open(table)
    newest = opened.manifest.release
    if newest is not None and newest.epsilon and newest.totals is None and newest.analysts:
        sealed_again(tables, opened, "release", newest.analysts, newest.revoked)
    elif newest is not None and newest.totals is None and newest.analysts:
        commit(_sealed_again(tables, opened, newest, "release", newest.analysts, newest.revoked))


def _sealed_again(
    tables: Tables,
    opened: Opened,
    newest: Release,
    what: str,
    analysts: tuple[Analyst, ...],
    revoked: tuple[Analyst, ...],
) -> ReleaseDraft:
    past = ledger_of(tables, opened)
    assert past is not None  # noqa: S101 - `newest` is exact
    return ReleaseDraft(tables, opened, what, newest.least, analysts, revoked, past, publishes=False, begins=False)


def renamed(tables: Tables, opened: Opened, news: Mapping[str, str], dropped: Set[str]) -> Release | None:
    """The release of a table after columns are renamed or `dropped`. `news`: old name in lower case -> new name."""
    newest, past = opened.manifest.release, ledger_of(tables, opened)
    if newest is None or past is None or not (news or dropped):
        return newest
    content = past.renamed(news, dropped).dump()
    folder = tables.folder(opened.manifest.table)
    return newest.model_copy(update={"ledger": tables.seal(folder, opened.vault, "release", content)})
