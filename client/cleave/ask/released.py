"""Releases as a source: totals of cells that an owner has sealed to an analyst, and nothing else.

A release is read whole when a question first names its table, and kept until a question finds a newer one. The owner's
fingerprint is remembered from the first release on, and the number of the newest one: another owner's, or an older
release, is not believed.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TypeVar

import numpy as np

from cleave.ask.calls import stack_level
from cleave.ask.choice import not_by_totals
from cleave.ask.describe import UNASKED, Description, Leakage, Requests, description
from cleave.ask.source import GroupSums, Loaded, Options, Question, Source, Usage
from cleave.ask.works import Way
from cleave.ckks.public_key import public_side
from cleave.objects.locate import Stores
from cleave.objects.storage import NotStoredError, StoreError, read_twice
from cleave.processes.deadline import Deadline
from cleave.share.release import MOST_HEAD, MOST_TOTALS, ReleasedTotals, ReleaseHead, open_totals, place_of, read_head
from cleave.sql.plan import LocalPlan, QueryPlan
from cleave.sql.planner import Planner, names_in
from cleave.sql.read import Statement
from cleave.sql.refusals import Uncut
from cleave.store.cells import Cells
from cleave.store.identity import Identity
from cleave.store.lanes import Integers
from cleave.store.manifest import Measure, Object
from cleave.store.schemas import read_stored_schema
from cleave.store.seen_versions import SeenVersions
from cleave.sums.cellwise import KeptTotals, Selection, StoredPlan, figures_of, stored_plan
from cleave.sums.sources import Part
from cleave.sums.stored import CellTable
from cleave.table.progress import Bars, Progress
from cleave.table.schema import Schema
from cleave.table.table import Table
from cleave.text.quantities import counted
from cleave.transport.base import QUERY_SECONDS
from cleave_shared.errors import CheckFailed, CleaveWarning, InputError, KeyFileError, QueryRefused, UsageError

T = TypeVar("T")
_TRIES = 4  # to read a release that is renewed meanwhile
_TOTALS_ALONE = "a release holds only totals, no rows"


class Released:
    """One release, opened."""

    def __init__(self, head: ReleaseHead, totals: ReleasedTotals) -> None:
        self.head = head
        self.totals = totals
        self.schema: Schema = read_stored_schema(totals.schema_toml, totals.table)
        self.cells = Cells(list(totals.keys), list(totals.rows))
        self.measures: tuple[Measure, ...] = totals.measures
        self.withheld = {number: ~np.array(each, np.bool_) for number, each in enumerate(totals.shown) if not all(each)}
        self._cell_table = CellTable(totals.table, self.schema, totals.by)

    def cell_table(self, names: frozenset[str]) -> Table:
        return self._cell_table.of(self.cells, names)

    def sums(self, parts: Sequence[Part]) -> dict[Part, Integers]:
        """Totals of every cell (cells,)."""
        totals = {"count": self.totals.counts, "sum": self.totals.sums, "square": self.totals.squares}
        return {(measure, part): np.array(totals[part][measure], object) for measure, part in parts}

    def warnings(self, plan: StoredPlan, selection: Selection) -> list[str]:
        """Return what may be missing of an answer."""
        texts = []
        if self.totals.hides:
            texts.append(
                f"incomplete: cells of fewer than {self.head.least} rows are not in the release, and the answer may "
                "lack them"
            )
        for name, missing, _ in self._missing(plan, selection):
            texts.append(
                f"incomplete: the totals of {name} are not in the release for {counted(missing, 'cell')}, where "
                f"fewer than {self.head.least} rows have a value, or none, or which have an older value"
            )
        return texts

    def _missing(self, plan: StoredPlan, selection: Selection) -> list[tuple[str, int, int]]:
        """Measures with withheld totals, and in how many of how many cells."""
        cells = selection.cells
        missing = [(number, int(self.withheld[number][cells].sum())) for number in sorted(self._needed(plan))]
        return [(self.measures[number].name, count, len(cells)) for number, count in missing if count]

    def _needed(self, plan: StoredPlan) -> set[int]:
        """The withheld measures that a plan needs."""
        return {number for number, _ in plan.parts if number in self.withheld}

    def note(self, plan: StoredPlan, selection: Selection) -> str:
        """Return the times that an answer is as of, and how many cells its totals are known of."""
        as_of = np.array(self.totals.as_of, np.int64)[selection.cells]
        names = [
            f"{counted(int(count), 'cell')} as of {self.totals.times[place][1]} (release {self.totals.times[place][0]})"
            for place, count in zip(*np.unique(as_of, return_counts=True), strict=True)
        ]
        totals = [
            f"{name} is known over {cells - missing:,} of {counted(cells, 'cell')}"
            for name, missing, cells in self._missing(plan, selection)
        ]
        return "; ".join([f"release {self.head.number}: {', '.join(names) or 'no cells'}", *totals])

    def close(self) -> None:
        self._cell_table.close()


class ReleaseSource(Source):
    """The tables of a store that were released to one analyst."""

    def __init__(
        self,
        name: str | None,
        stores: Stores,
        identity: Identity,
        fingerprint: str | None = None,
        memory: SeenVersions | None = None,
        seconds: float | None = None,
    ) -> None:
        """`name`: the table that questions are over; None: that which each question names.

        `fingerprint`: of the owner; None: that which was seen before, or any where none was. With `@N`, no release
        before number N is accepted. Raises InputError where N is no number.
        """
        owner, at, number = (fingerprint or "").partition("@")
        if at and not re.fullmatch("[0-9]{1,18}", number):
            raise InputError(
                f"--fingerprint: {number!r} after @ is not the number of a release",
                hint="give it as `cleave release new` printed it: SHA256:...@N",
            )
        self.name = name or ""
        self.seconds = seconds or QUERY_SECONDS
        self._stores = stores
        self._identity = identity
        self._analyst = public_side(identity)
        self._fingerprint = owner or None
        self._floor = int(number or 0)
        self._memory = memory or SeenVersions()
        self._opened: dict[str, Released] = {}  # by name in lower case
        self._heads_read: dict[str, tuple[bytes, str]] = {}  # by name, as they were read last
        self._is_fixed = False  # no newer ones are looked for
        self._read: list[int] = []  # bytes of each object that was read since the last question

    @property
    def schemas(self) -> Mapping[str, Schema]:
        """The newest schemas of the tables that questions have named: a store does not show others."""
        names = {each.lower(): each for each in (*self._opened, self.name) if each}
        opened = [self._newest(name) for name in names.values()]
        return {self.name or each.totals.table: each.schema for each in opened}

    def open(self) -> None:
        if self.name:
            self._newest(self.name)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Fix the releases of tables that were named before; others when they are named."""
        if self._is_fixed:
            raise UsageError("there is a snapshot already", hint="end it before the next")
        self.run(lambda: self.schemas, Deadline(self.seconds))
        self._is_fixed = True
        try:
            yield
        finally:
            self._is_fixed = False

    def rows(self, name: str, progress: Progress) -> int | None:  # noqa: ARG002 - the release has them
        release = self._opened.get(name.lower())
        return sum(release.totals.rows) if release else None

    def plan(self, statement: Statement, *, cloud_only: bool) -> StoredPlan:  # noqa: ARG002 - nothing else is possible
        """Raises QueryRefused for what the totals do not answer."""
        name = self._named(statement)
        release = self._newest(name)
        sums = KeptTotals(release.measures, release.totals.by, _TOTALS_ALONE)
        with closing(Planner(statement, release.schema, name, {})) as planner:
            try:
                plan = stored_plan(planner.cut(sums, cloud_only=True), sums, release.measures)
                return replace(plan, assumed=((name.lower(), release.head.release),))
            except Uncut as error:
                raise not_by_totals(error, release.totals.by) from None

    def _named(self, statement: Statement) -> str:
        """The table that a question is over. Raises QueryRefused for several."""
        try:
            names = {each.lower(): each for each in names_in(statement)[0]}
        except QueryRefused:
            if self.name:
                return self.name  # planning it reports more
            raise
        if self.name:
            names.pop(self.name.lower(), None)
        if len(names) + bool(self.name) != 1:
            raise QueryRefused(
                "a query over releases may name only one table", hint="query one released table at a time"
            )
        return self.name or next(iter(names.values()))

    def _planned(self, plan: StoredPlan) -> Released:
        """Return the release that `plan` was made over. Raises StoreError where another question opened a newer one."""
        release = self._opened[plan.table.lower()]
        if plan.assumed != ((plan.table.lower(), release.head.release),):
            raise StoreError(
                f"there is a newer release of table {plan.table!r} than when this query was planned",
                hint="run it again",
            )
        return release

    def _newest(self, name: str) -> Released:
        """Return the newest release of a table, or that of the snapshot."""
        held = self._opened.get(name.lower())
        if held is not None and self._is_fixed:
            return held
        newest = self._open(name, held)
        self._opened[name.lower()] = newest
        if held is not None and held is not newest:
            held.close()
        return newest

    def _open(self, name: str, held: Released | None) -> Released:
        """Open the newest release; it is `held` if that is the newest.

        Raises InputError where there is no release, CheckFailed for one that is not the owner's, or an older one.
        """
        for left in reversed(range(_TRIES)):
            head = self._head(name)
            if held is not None and head.release == held.head.release:
                return held
            try:
                content = self._content(head.totals)
                break
            except NotStoredError:  # a newer release has taken its place
                if not left:
                    raise CheckFailed(
                        "stored",
                        f"{self._stores.sensitive.location}: the totals of a release of {name!r} are gone",
                        hint="its owner makes a new one with `cleave release new`",
                    ) from None
        self._read.append(len(content))
        totals = open_totals(self._identity, self._analyst, head, content)
        if totals.table.lower() != name.lower():
            raise CheckFailed("stored", "a release is another table's")
        self._memory.remember(self._tag("owner", name), head.owner.fingerprint, 1)
        self._memory.remember(self._tag("release", name), head.release, head.number)
        return Released(head, totals)

    def _head(self, name: str) -> ReleaseHead:
        place, location = place_of(self._analyst, name), self._stores.sensitive.location
        seen = self._memory.newest(self._tag("release", name))

        def stored() -> tuple[bytes, str] | None:
            earlier = self._heads_read.pop(name.lower(), None)
            return self._stores.sensitive.read_versioned(f"{place}/head", MOST_HEAD, earlier)

        def read(content: tuple[bytes, str] | None) -> ReleaseHead | None:
            if content is None:
                return None
            head = read_head(content[0], self._analyst, name)
            self._heads_read[name.lower()] = content
            return head

        head = read_twice(stored, read)
        if head is None and seen:
            raise CheckFailed(
                "stored",
                f"{location}: a release of {name!r} was here and is gone",
                hint="the owner revoked it, or it was deleted: ask the owner",
            )
        if head is None:
            raise InputError(
                f"{location}: there is no release of table {name!r} for this analyst",
                hint="the owner makes one with: cleave release new NAME --to FILE.pub",
            )
        self._require_owner(name, head)
        newest = max(self._floor, seen[1] if seen else 0)
        if head.number < newest or (seen and head.number == seen[1] and head.release != seen[0]):
            raise CheckFailed(
                "stored",
                f"{location}: shows release {head.number} of {name!r}, older than or different from release {newest}",
                hint="an old state of the store was restored: ask the owner for a new release",
            )
        return head

    def _require_owner(self, name: str, head: ReleaseHead) -> None:
        remembered, fingerprint = self._memory.newest(self._tag("owner", name)), head.owner.fingerprint
        wanted = self._fingerprint or (remembered[0] if remembered else None)
        if wanted is not None and wanted != fingerprint:
            raise KeyFileError(
                f"releases of {name!r} are signed by {fingerprint}, and {wanted} was expected",
                hint="compare it with what the owner says over another channel; --fingerprint accepts another owner",
            )
        if wanted is None:
            text = (
                f"releases of {name!r} are signed by {fingerprint}@{head.number}, which is seen here for the first "
                "time: compare it with what the owner says over another channel (the number after @ may be higher)"
            )
            warnings.warn(text, CleaveWarning, stacklevel=stack_level())

    def _tag(self, what: str, name: str) -> str:
        """Under which name a release of this store is remembered."""
        return hashlib.sha256(f"{what} {place_of(self._analyst, name)} {self._stores.where}".encode()).hexdigest()[:32]

    def _content(self, which: Object) -> bytes:
        if which.bytes > MOST_TOTALS:
            raise CheckFailed("stored", f"a release is larger than {MOST_TOTALS:,} bytes")
        return read_twice(
            lambda: self._stores.sensitive.read(which.name, 0, None, which.bytes), lambda it: _whole(it, which)
        )

    def describe(self, plan: QueryPlan | LocalPlan, options: Options, progress: Progress) -> Description:  # noqa: ARG002
        mine = _mine(plan)
        release = self._planned(mine)
        summed = {release.measures[number].name for source in mine.sources for number, _ in source.terms}
        size = release.head.totals.bytes
        return description(
            release.totals.table,
            sum(release.totals.rows),
            release.schema.columns,
            mine,
            dict.fromkeys([*summed, *mine.selecting], ("answered from the release", "none", 0)),
            "not read",
            profile=None,
            sensitive=Requests(1, 0, size),
            leakage=Leakage((UNASKED,), ("that a release is read, when, and under whose credentials",)),
            places=(self._stores.sensitive.location, self._stores.sensitive.location),
            ways=(Way("release", None, True, "the owner has released totals of cells, and nothing else"),),
        )

    def prepare(self, bars: Bars, *, sends: bool) -> None:
        """Does nothing: a release is read when a question is planned."""

    def run(self, work: Callable[[], T], deadline: Deadline) -> T:
        self._stores.limit(deadline)
        try:
            return work()
        finally:
            self._stores.limit(None)

    def load(self, plan: LocalPlan, question: Question) -> contextlib.AbstractContextManager[Loaded]:  # noqa: ARG002
        raise QueryRefused(_TOTALS_ALONE)

    @contextlib.contextmanager
    def sums(self, plan: QueryPlan, question: Question) -> Iterator[GroupSums]:
        mine = _mine(plan)
        release = self._planned(mine)
        with question.clock.stage("ask"):
            cells = release.cell_table(mine.cell_columns) if mine.tells_cells_apart else None
            selection = Selection(cells, release.cells.rows, mine)
            sums = selection.sums(release.sums(mine.parts), release.measures, release.withheld)
        read, self._read = self._read, []
        yield GroupSums(
            plan=mine,
            keys=selection.keys,
            counts=selection.counts,
            responses=[],
            local=[],
            figures=figures_of(mine, sums, release.measures),
            usage=Usage(rows=sum(release.totals.rows), objects_read=len(read), bytes_read=sum(read)),
            checks={"signature": "passed", "stored": "passed"},
            warnings=release.warnings(mine, selection),
            note=release.note(mine, selection),
        )

    def stop(self) -> None:
        """Does nothing: what is asked of cells is over at once."""

    def close(self) -> None:
        opened, self._opened = self._opened, {}
        for each in opened.values():
            each.close()
        self._stores.close()


def _mine(plan: QueryPlan | LocalPlan) -> StoredPlan:
    if not isinstance(plan, StoredPlan):
        raise TypeError("a plan over rows is not one over a release")
    return plan


def _whole(content: bytes, which: Object) -> bytes:
    """`content`, if it is the object. Raises CheckFailed."""
    if hashlib.sha256(content).hexdigest() != which.sha256:
        raise CheckFailed("stored", "a release is damaged", hint="its owner makes a new one with `cleave release new`")
    return content
