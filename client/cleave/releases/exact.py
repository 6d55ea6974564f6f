"""Exact releases: parts of enough people, each row in one part.

A release publishes parts. A part has all unpublished rows of a cell, if these belong to enough people. Writing the head
of the table commits the ledger of all numbers and the marks of published rows. Then the analysts' heads are written,
each only over an older one. The next command finishes one that was stopped in between. Old totals stay until each
analyst's head names the new ones.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from cleave.ckks.public_key import PublicKey
from cleave.releases.analysts import joined
from cleave.releases.exact_totals import ExactTotals
from cleave.releases.kind import Choices, Reason, ReleaseDraft, ReleaseFacts, Releases, excluded
from cleave.releases.ledger import Ledger, load_ledger
from cleave.releases.parts import NewParts, new_parts, released_totals
from cleave.releases.publishing import committed, old_content, stored
from cleave.releases.release import KEY_BYTES
from cleave.store.contributors import MIN_GROUP
from cleave.store.log import records_of
from cleave.store.manifest import AnyRelease, ExactRelease, Manifest, Segment, new_id, now
from cleave.store.published import ENDED, identity_of
from cleave.store.reader import Opened
from cleave.store.schemas import load_stored_schema
from cleave.store.segment import write_marks
from cleave.store.tables import Tables
from cleave.table.privacy import LEAST
from cleave.table.schema import Schema
from cleave.text.quantities import counted
from cleave_shared.errors import InputError

_SHOWN = ("", "count, sum", "count, sum, sum of squares")
_AGAIN = "--new-lineage --yes publishes all rows; "


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactReleaseFacts(ReleaseFacts):
    """An exact release that was made, or the newest one.

    `min_cell`: minimum of a part, of `counted`: people or rows. `parts` were published now, with `new_rows` rows.
    `waiting`: number of cells whose new rows are too few so far. `withheld`: (measure, number of new parts without it).
    `left_out`: measures that no release has, such as doubles without bounds. `begins`: it starts a new lineage. `ends`:
    there was one, and numbers of both can be subtracted.
    """

    min_cell: int
    counted: str
    parts: int = 0
    new_rows: int = 0
    waiting: int = 0
    withheld: tuple[tuple[str, int], ...] = ()
    left_out: tuple[str, ...] = ()
    begins: bool = False
    ends: bool = False

    def lines(self) -> Iterator[str]:
        yield from ReleaseFacts.lines(self)
        if self.ends:
            yield "a new lineage: differences of releases of this one and of an earlier one can show few people"
        if self.publishes:
            yield f"published: {counted(self.parts, 'part')} of at least {self.min_cell} {self.counted}"
        elif self.made:
            yield "published: nothing new; `cleave release new` without new analysts publishes rows added since"
        if self.waiting:
            yield f"waiting: rows of {counted(self.waiting, 'cell')}, until there are {self.min_cell} {self.counted}"
        for name, parts in self.withheld:
            yield f"withheld: {name} in {counted(parts, 'part')}"
        if self.left_out:
            why = "not numbers of the table or sums of them with constants, or floats without lower and upper"
            yield f"left out: {', '.join(self.left_out)}: {why}"


@dataclass(frozen=True, slots=True)
class ExactChoices(Choices):
    """`least`: minimum people, or rows, of a part. `new_lineage`: publish all rows, also those in earlier releases."""

    KIND: ClassVar = "exact"

    least: int | None = None
    new_lineage: bool = False


class ExactReleases(Releases[ExactChoices]):
    """Exact releases of a table."""

    NAME = "exact"
    TOTALS = ExactTotals

    @staticmethod
    def chosen(given: Mapping[str, Any]) -> ExactChoices:
        return ExactChoices(given["min_cell"], new_lineage=given["new_lineage"])

    def drafted(self, to: Mapping[str, PublicKey], choices: ExactChoices) -> ReleaseDraft:
        """With new analysts nothing new is published: they get the numbers of earlier releases."""
        manifest, past = self.manifest, self.manifest.marking
        schema = load_stored_schema(manifest)
        analysts, revoked = joined(manifest, to)
        begins = choices.new_lineage or past is None
        least = _least(manifest.table, schema, None if begins else past, choices.least)
        if past is not None and not begins and past.analysts != analysts:
            return self.sealed_again("release", analysts, revoked, {} if least == past.least else {"least": least})
        new = Ledger(b"", least, manifest.by, identity_of(manifest), schema.privacy.entity)
        return ExactDraft(
            kind=self,
            analysts=analysts,
            revoked=revoked,
            schema=schema,
            least=least,
            new_lineage=choices.new_lineage,
            past=past,
            ledger=new if begins else self.ledger(),
            accepted=accepted_copies(self.tables, self.opened),
        )

    def unasked(self, to: Mapping[str, PublicKey]) -> ReleaseDraft:
        return self.drafted(to, ExactChoices())

    @property
    def newest(self) -> ExactRelease:
        assert self.manifest.marking is not None  # noqa: S101 - the callers have looked
        return self.manifest.marking

    @property
    def described(self) -> str:
        over = "\nit gets no further parts; `cleave release new --new-lineage --yes` begins again"
        return f"parts of at least {self.newest.least}" + ("" if self.manifest.lineage else over)

    @property
    def figures(self) -> dict[str, str | int | bool]:
        return {"min_cell": self.newest.least, "further_parts": self.manifest.lineage is not None}

    def ledger(self) -> Ledger:
        return load_ledger(self.ledger_content())

    def content(self) -> bytes | None:
        ledger = self.ledger()
        return released_totals(self.manifest, ledger).dump() if ledger.by == self.manifest.by else None

    def facts(self) -> ExactReleaseFacts:
        ledger = self.ledger()
        cells = len({each.key for each in ledger.parts})
        return ExactReleaseFacts(
            **self.common_facts(cells), min_cell=self.newest.least, counted="people" if ledger.entity else "rows"
        )

    def renamed(self, news: Mapping[str, str], dropped: Set[str]) -> AnyRelease:
        if not (news or dropped):
            return self.newest
        content = self.ledger().renamed(news, dropped).dump()
        folder = self.tables.folder(self.manifest.table)
        return self.newest.model_copy(
            update={"ledger": self.tables.seal(folder, self.opened.vault, "release", content)}
        )


# why one is refused


def _after_noisy(draft: ExactDraft) -> str:
    if draft.past is not None or not draft.tables.spent(draft.opened):
        return ""
    return excluded(draft.opened.manifest, "noisy", "an exact one")


def _subtractable(draft: ExactDraft) -> str:
    if not draft.new_lineage or not (draft.opened.manifest.had_exact or draft.is_restored):
        return ""
    return f"releases of table {draft.table!r} that follow could be subtracted from those before"


def _beside_exact(draft: ExactDraft) -> str:
    manifest = draft.opened.manifest
    if draft.new_lineage or draft.past is not None or manifest.release is None or not manifest.had_exact:
        return ""
    return f"table {draft.table!r} had exact releases before its noisy ones: their rows would be released again"


def _over(draft: ExactDraft) -> str:
    if draft.begins or (draft.opened.manifest.lineage and is_named_alike(draft.opened.manifest, draft.ledger)):
        return ""
    return f"table {draft.table!r} gets no further parts: {ENDED}"


def _restored(draft: ExactDraft) -> str:
    if draft.new_lineage or not draft.is_restored:
        return ""
    return f"table {draft.table!r} gets no parts: it was restored, and releases made after that copy are not known here"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactDraft(ReleaseDraft):
    """New parts. `past`: the release whose lineage marks of rows are of. `ledger`: of the lineage so far. `accepted`:
    number of restored copies in the log. `found`: what would be published, once rows were read.
    """

    REASONS: ClassVar = (
        Reason("after noisy", _after_noisy, "analysts can then subtract what exact releases show", by_yes=True),
        Reason("subtractable", _subtractable, "differences of both show fewer people than --min-cell", by_yes=True),
        Reason("exact, then noisy", _beside_exact, f"{_AGAIN}both can be subtracted"),
        Reason("lineage ended", _over, f"{_AGAIN}both can be subtracted"),
        Reason("restored", _restored, f"{_AGAIN}those releases can be subtracted, if there were any"),
    )

    schema: Schema
    least: int
    new_lineage: bool
    past: ExactRelease | None
    ledger: Ledger
    accepted: int
    found: NewParts = field(default_factory=NewParts)

    @property
    def table(self) -> str:
        return self.opened.manifest.table

    @property
    def begins(self) -> bool:
        return self.new_lineage or self.past is None

    @property
    def is_restored(self) -> bool:
        """True if a copy of the table that lacked later changes was accepted since the lineage began."""
        return self.accepted > (self.past.accepted if self.past else 0)

    @property
    def ends(self) -> bool:
        """True if it may end an earlier lineage: of this table, or of a copy that lacked later changes."""
        return self.begins and (bool(self.opened.manifest.had_exact) or self.is_restored)

    @property
    def counted(self) -> str:
        return "people" if self.ledger.entity else "rows"

    @property
    def is_done(self) -> bool:
        if self.past is None or self.begins or self.found.parts or self.least != self.past.least:
            return False
        content = old_content(self.tables, self.opened)
        return content == released_totals(self.opened.manifest, self.ledger).dump()

    def prepared(self, confirmed: tuple[str, ...]) -> ExactDraft:
        found = new_parts(self.tables, self.opened, self.schema, self.least, all_rows=self.begins)
        return replace(self, confirmed=confirmed, found=found)

    def make(self) -> Opened:
        tables, opened, manifest = self.tables, self.opened, self.opened.manifest
        key, at = secrets.token_bytes(KEY_BYTES), now()
        new = [(each.key, each.rows, each.sums) for each in self.found.parts]
        ledger = replace(self.ledger, key=key).with_parts(self.number, at, self.found.measures, new)
        content = released_totals(manifest, ledger).dump() if self.analysts else None
        written = stored(
            tables,
            opened,
            "release",
            self.analysts,
            self.revoked,
            key,
            ledger.dump(),
            content,
            at=at,
            least=ledger.least,
        )
        if self.past is None or self.begins:
            released = ExactRelease(
                **written, least=self.least, lowest=ledger.least, lineage=new_id(), accepted=self.accepted
            )
        else:
            released = self.past.model_copy(update={**written, "least": self.least})
        return committed(tables, opened, released, "release", key, self._marked())

    def figures(self) -> dict[str, Any]:
        parts, measures = self.found.parts, self.found.measures
        missing = {each.name: sum(not part.rule.shown[n] for part in parts) for n, each in enumerate(measures)}
        return {
            "parts": len(parts),
            "new_rows": sum(each.rows for each in parts),
            "waiting": len(self.found.waiting),
            "withheld": tuple((name, count) for name, count in missing.items() if count),
            "left_out": tuple(each.name for each in self.opened.manifest.measures if each.name not in missing),
            "begins": self.begins,
            "ends": self.ends,
        }

    def _marked(self) -> dict[str, Segment]:
        """The segments that were read, by id, with new marks."""
        published = {each.cell for each in self.found.parts}
        return {
            each.segment.id: write_marks(self.tables, self.opened.manifest, each.segment, each.published(published))
            for each in self.found.read
        }

    def lines(self) -> Iterator[str]:
        people = self.counted
        yield f"- each part: at least {self.least} {people}"
        yield f"- parts published before: {len(self.ledger.parts)}"
        if self.ends:
            yield "- a new lineage: all rows are published again. Numbers of the earlier one can be subtracted"
        yield ""
        yield "## Parts"
        yield ""
        if not self.found.parts:
            yield "None."
        for name, part in zip(self._names(), self.found.parts, strict=True):
            size = f", {part.rule.size:,} {people}" if self.ledger.entity else ""
            yield f"- {name}: {counted(part.rows, 'row')}{size}"
            for place, measure in enumerate(self.found.measures):
                shown, reason = part.rule.shown[place], part.rule.why.get(place)
                yield f"  - {measure.name}: {_SHOWN[shown] or f'withheld: {reason}'}"
        waiting = self.found.waiting
        yield ""
        yield "## Waiting"
        yield ""
        rows = sum(waiting.values())
        besides = ", or too few besides one party's own" if self.opened.manifest.contributors else ""
        yield f"{counted(rows, 'row')} in {counted(len(waiting), 'cell')}: too few {people} so far{besides}."
        yield ""
        yield "## What the analysts will see"
        yield ""
        yield f"For each part its cell, its number of rows, and that it has at least {self.ledger.least} {people}."
        yield "For each column that is not withheld: how many values, their sum, and that of their squares as above."
        yield "Nothing of reasons, and nothing of cells that wait."

    def _names(self) -> Iterator[str]:
        for part in self.found.parts:
            pairs = zip(self.opened.manifest.by, part.key, strict=True)
            yield ", ".join(f"{name} = {'NULL' if value is None else value}" for name, value in pairs) or "all rows"


def accepted_copies(tables: Tables, opened: Opened) -> int:
    """How often `cleave accept` accepted a copy of the table that lacked later changes."""
    records = records_of(tables, opened.vault, opened.head.log)
    return sum(each.what == "accept" and bool(each.details.get("lost_records")) for each in records)


def is_named_alike(manifest: Manifest, past: Ledger) -> bool:
    """True if the same columns name rows, cells and people as in the ledger of the releases."""
    named = manifest.by, identity_of(manifest), load_stored_schema(manifest).privacy.entity
    return named == (past.by, past.identity, past.entity)


def paused(tables: Tables, before: Opened, after: Opened) -> str:
    """Warn that releases get no further parts because a change gave the table other by columns; "" if not so."""
    if before.manifest.lineage is None or after.manifest.lineage is None:
        return ""
    old, new = (ExactReleases(tables, each).ledger() for each in (before, after))
    if not is_named_alike(before.manifest, old) or is_named_alike(after.manifest, new):
        return ""
    return (
        f"no further rows are released unless the table is by {', '.join(new.by) or 'no columns'} again, or `cleave "
        "release new NAME --new-lineage --yes` releases all of them"
    )


def _least(table: str, schema: Schema, newest: ExactRelease | None, least: int | None) -> int:
    floor = max(LEAST, schema.privacy.min_group)
    if least is None:
        return max(newest.least if newest else MIN_GROUP, floor)
    if least < floor:
        counted = schema.privacy.counted
        raise InputError(
            f"a part of {least} {counted} is too small: at least {floor}",
            hint="two values follow from their sum and the sum of their squares"
            if floor == LEAST
            else "[privacy] min_group of the table's schema",
        )
    if newest is not None and least < newest.least:
        raise InputError(
            f"releases of table {table!r} have parts of at least {newest.least} {schema.privacy.counted}",
            hint="leave --min-cell out: it falls only with --new-lineage",
        )
    return least
