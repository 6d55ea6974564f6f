"""Tables in a store as a source: totals of cells, sealed rows, scans.

Every answer is over one version of each table that it names: the newest when it was planned, or that of a snapshot.
What a session keeps of a version is closed when a newer one is opened.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from cleave.ask.choice import FETCH_LIMIT, Chooser, how_to_scan, over_limit
from cleave.ask.config import user
from cleave.ask.describe import Description
from cleave.ask.options import Access
from cleave.ask.services import Embedded, Services
from cleave.ask.session import finished
from cleave.ask.source import COUNTS, GroupSums, Loaded, Options, Question, Result, Source, Usage
from cleave.ask.stored_facts import describe_stored
from cleave.ask.stored_sums import checks_of, stored_sums, usage_of
from cleave.ask.works import Fetch, fetches
from cleave.ckks.key_file import open_key
from cleave.objects.cache import open_cache
from cleave.objects.locate import Stores
from cleave.objects.storage import StoreError
from cleave.processes.deadline import Deadline, OutOfTime, Stopped
from cleave.sql.plan import LocalPlan, QueryPlan
from cleave.sql.planner import names_in
from cleave.sql.read import Statement
from cleave.store.contributors import CONTRIBUTOR, min_group_of, with_contributor
from cleave.store.reader import LostError, Opened
from cleave.store.reading import read_whole
from cleave.store.rows import ResidentTables
from cleave.store.seen_versions import SeenVersions
from cleave.store.tables import Tables
from cleave.sums.cellwise import StoredPlan
from cleave.sums.scan import CALLS_UNDER_WAY
from cleave.sums.stored import Stored
from cleave.table.duck import quarter_of_memory
from cleave.table.progress import Bars, Progress
from cleave.table.schema import Schema
from cleave.table.table import Table
from cleave.text.figures import plain
from cleave.transport.base import QUERY_SECONDS
from cleave_shared.errors import InputError, KeyFileError, QueryRefused, ServiceError, UsageError

if TYPE_CHECKING:
    from pydantic import JsonValue

    from cleave.store.manifest import Manifest
    from cleave.sums.job import Job
    from cleave.sums.machine import Machine
    from cleave.table.lazy import LazyTable

T = TypeVar("T")
_TRIES = 4
_RESIDENT = 4  # parts of the memory: one is for rows that later queries read again
_KEEPS = 1 << 28  # bytes of memory where some are for that, at least


def open_tables(stores: Stores, access: Access, memory: SeenVersions | None = None, *, cache: bool = False) -> Tables:
    """The tables under one key, which may be asked its passphrase. Raises KeyFileError.

    `cache`: keep on this machine what is read of a store elsewhere; else it is only evicted there.
    """

    key = open_key(access.key, access.passphrase)
    return Tables(stores, key, memory or SeenVersions(), open_cache(used=cache), user())


class StoredSource(Source):
    """`others` are further tables a question may name; they are read here."""

    def __init__(
        self,
        name: str | None,
        stores: Stores,
        access: Access | None,
        others: Sequence[LazyTable] = (),
        memory: SeenVersions | None = None,
        seconds: float | None = None,
        embedded: Embedded | None = None,
        *,
        scan: bool = True,
        machine: Machine | None = None,
        fetch_limit: int = FETCH_LIMIT,
        memory_limit: int | None = None,
        cache: bool = True,
    ) -> None:
        """`name`: the table that questions are over; None: those that each question names.

        `seconds`: what a step may take that is given no time of its own.
        `embedded`: the services, where `access` names none; without any, what they would answer is computed from rows.
        `scan` False: the sensitive service is not told which rows belong together, but asked for their ciphertexts.
        `machine`: makes the calls of scans, which then go on when this process ends.
        `fetch_limit`: bytes of rows that a question may fetch.
        `memory_limit`: bytes of memory that a question over rows may take; None: a quarter of this machine's.
        `cache`: keep on this machine what is read of a store elsewhere.
        """
        if access is None:
            raise KeyFileError("a stored table needs its key file, and none was given")
        self.name = name or ""
        self.seconds = seconds or QUERY_SECONDS
        self._scan = scan
        self._machine = machine
        self._fetch_limit = fetch_limit
        most = quarter_of_memory() if memory_limit is None else memory_limit
        resident = most // _RESIDENT if most >= _KEEPS else 0
        self._resident = ResidentTables(most - resident, resident)
        self._others = tuple(others)
        self._stores = stores
        self._open = contextlib.ExitStack()
        self._open.callback(stores.close)
        self._services = Services(access, stores, embedded)
        self._open.callback(self._services.close)
        self._table: Table | None = None  # that DuckDB is at work on
        self._held: dict[str, Stored] = {}  # the versions that are asked, by name in lower case
        self._is_fixed = False  # no newer ones are looked for
        self._used = False
        try:
            self._tables = open_tables(stores, access, memory, cache=cache)
            self._open.callback(self._tables.close)
            self._open.callback(self._resident.close)
            self._open.callback(self._let_go)
        except BaseException:
            self._open.close()
            raise

    @property
    def schemas(self) -> Mapping[str, Schema]:
        """Return the newest schemas of all tables in the store where none was named; this reads the head of each."""
        if self.name:
            self._require(self.name)
            for name in [each for each in self._held if each != self.name.lower()]:
                self._find(name)
        elif not self._is_fixed:
            self._find_all()
        stored = {
            self.name if lower == self.name.lower() else each.manifest.table: with_contributor(
                each.manifest, each.schema
            )
            for lower, each in self._held.items()
        }
        return stored | {each.name: each.schema for each in self._others}

    def min_group(self, plan: QueryPlan | LocalPlan) -> int:
        """The largest of the tables that are asked."""
        return max((min_group_of(each.manifest) for each in self._of(plan).values()), default=0)

    def logged(self, plan: QueryPlan | LocalPlan) -> list[str]:
        return [each.manifest.table for each in self._of(plan).values()]

    def record(self, table: str, what: str, **details: JsonValue) -> None:
        """Record in the audit log of a stored table what does not change it. Raises InputError, StoreError."""
        self.run(lambda: self._tables.record(self._tables.open(table), what, 0, **details), Deadline(self.seconds))

    def rows(self, name: str, progress: Progress) -> int | None:  # noqa: ARG002 - manifests tell
        if name.lower() in {each.name.lower() for each in self._others}:
            return None
        held = self._held.get(name.lower()) or self._find(name)
        return held.manifest.rows if held else None

    def open(self) -> None:
        if self.name:
            self._require(self.name)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Fix the versions of all tables in the store: this reads the head of each."""
        if self._is_fixed:
            raise UsageError("there is a snapshot already", hint="end it before the next")

        def find() -> None:
            self._find_all()
            for each in self._held.values():
                each.cells  # noqa: B018 - the next version deletes the list of cells, even where it only adds rows

        self.run(find, Deadline(self.seconds))
        self._is_fixed = True
        try:
            yield
        finally:
            self._is_fixed = False

    def plan(self, statement: Statement, *, cloud_only: bool) -> QueryPlan | LocalPlan:
        """A StoredPlan, or a LocalPlan where it is answered over rows as a whole. Raises also what reading the list of
        cells may.
        """
        names, whose = self._named(statement)
        plan = self.chooser(names, whose=whose).chosen(statement, cloud_only=cloud_only)
        return replace(plan, assumed=self._assumed(names))

    def ways(self, statement: Statement) -> list[StoredPlan | LocalPlan]:
        names, whose = self._named(statement)
        assumed = self._assumed(names)
        return [replace(each, assumed=assumed) for each in self.chooser(names, whose=whose).plans(statement)]

    def chooser(self, names: Sequence[str] = (), *, whose: bool = False) -> Chooser:
        """Over the first of `names`, or the table that was named; the others may be joined.

        `whose`: the question names the contributor of each row.
        """
        if not names:
            self._require(self.name)
        first, *joined = names or [self.name]
        tables = {name.lower(): self._at(name, whose=whose) for name in (first, *joined)}
        return Chooser(
            first,
            tables,
            {name: tables[name.lower()].schema for name in joined} | {each.name: each.schema for each in self._others},
            services=self._services.there,
            elsewhere=self._services.elsewhere,
            scan=self._scan,
            job=self._machine is not None,
            fetch_limit=self._fetch_limit,
        )

    def _named(self, statement: Statement) -> tuple[list[str], bool]:
        """The stored tables that a question is over, which are open then, and whether it names the contributor of rows.

        Raises QueryRefused where there are none, InputError for a name that is a file's as well.
        """
        try:
            named, columns = names_in(statement)
        except QueryRefused:
            if self.name:
                self._require(self.name)
                return [self.name], False  # planning it gives a better error
            raise
        if self.name:
            self._require(self.name)
        files = {each.name.lower() for each in self._others}
        names = [self.name] if self.name else []
        for name in {each.lower(): each for each in named}.values():
            stored = self._held.get(name.lower()) if name.lower() == self.name.lower() else self._find(name)
            if stored and name.lower() in files:
                raise InputError(
                    f"{name!r} is the name of a stored table and of a file",
                    hint="rename the file, or give it another name with `table` in its schema",
                )
            if stored and name.lower() not in map(str.lower, names):
                names.append(name)
            if not (stored or self.name or name.lower() in files):
                raise QueryRefused(
                    f"there is no table {name!r} in {self._stores.sensitive.location}",
                    hint="`cleave ls` lists the stored tables; --with FILE adds a file",
                )
        if not names:
            raise QueryRefused("the query names no stored table", hint="files are joined with stored tables here")
        return names, CONTRIBUTOR in columns

    def _find(self, name: str) -> Stored | None:
        """Return a table in its newest version, or in that of the snapshot; None where there is none."""
        held = self._held.get(name.lower())
        if self._is_fixed:
            return held
        return self._keep(name.lower(), self._tables.find(name, held.opened if held else None))

    def _find_all(self) -> None:
        """Open the newest versions of all tables in the store."""
        newest = {
            each.manifest.table.lower(): each
            for each in self._tables.all([each.opened for each in self._held.values()])
        }
        for lower in {**self._held, **newest}:
            self._keep(lower, newest.get(lower))
        self._held = {lower: self._held[lower] for lower in newest}  # by name

    def _keep(self, lower: str, opened: Opened | None) -> Stored | None:
        """Hold `opened` under a name, and close another version. What was read of the same version stays."""
        held = self._held.get(lower)
        if held is not None and held.opened is not opened:
            self._held.pop(lower).close()
        if opened is not None and lower not in self._held:
            self._held[lower] = Stored(self._tables, opened, session=self._resident)
        return self._held.get(lower)

    def _require(self, name: str) -> None:
        """Open a table. Raises InputError where there is none."""
        if self._find(name) is None:
            if not self._is_fixed:
                self._tables.open(name)  # says what there is
            raise InputError(
                f"{self._stores.sensitive.location}: there was no table {name!r} when the snapshot was taken",
                hint="take a new snapshot to query it",
            )

    def _at(self, name: str, *, whose: bool) -> Stored:
        """A table that is held. `whose`: with the contributor of each row, if it has contributors."""
        held = self._held[name.lower()]
        return held.by_contributor if whose else held

    def _of(self, plan: QueryPlan | LocalPlan) -> dict[str, Stored]:
        """The stored tables that `plan` is over, its own first. Raises StoreError where it does not fit them."""
        self._require_same(plan)
        names = [plan.table]
        if isinstance(plan, LocalPlan):
            names += [*plan.reads, *(each.table for each in plan.inner.values())]
        whose = _names_contributor(plan)
        return {name.lower(): self._at(name, whose=whose) for name in names if name.lower() in self._held}

    def _assumed(self, names: Sequence[str]) -> tuple[tuple[str, str], ...]:
        return tuple((name.lower(), _assumed_of(self._held[name.lower()].manifest)) for name in names)

    def _require_same(self, plan: QueryPlan | LocalPlan) -> None:
        for lower, assumed in plan.assumed:
            if lower not in self._held or _assumed_of(self._held[lower].manifest) != assumed:
                raise StoreError(
                    f"table {lower!r} was dropped or replaced with a different schema while this query ran",
                    hint="run it again",
                )

    def stop_job(self, plan: QueryPlan | LocalPlan) -> bool:
        """End the job that answers `plan`. False where there is none. Raises InputError where there can be none."""
        if self._machine is None or isinstance(plan, LocalPlan) or not (mine := self._mine(plan)).scans:
            raise _no_scan()
        return self._job(mine, self._machine).stop()

    def _job(self, plan: StoredPlan, machine: Machine) -> Job:
        from cleave.sums.job import job_of  # noqa: PLC0415 - boto3 takes 120 ms

        stored = self._at(plan.table, whose=plan.whose)
        return job_of(self._stores.sensitive, self._tables.folder(plan.table), stored, machine, plan.statement.sql)

    def describe(self, plan: QueryPlan | LocalPlan, options: Options, progress: Progress) -> Description:  # noqa: ARG002
        mine = plan if isinstance(plan, LocalPlan) else self._mine(plan)
        tables = self._of(mine)
        joined = [name for name in tables if name != mine.table.lower()]
        ways = self.chooser([mine.table, *joined], whose=_names_contributor(mine)).ways(mine, pad=options.pad)
        return describe_stored(tables, mine, options, ways, services=self._services.there)

    def prepare(self, bars: Bars, *, sends: bool) -> None:  # noqa: ARG002 - rows are read in the query's time
        if self._used:
            self._tables.reset_counts()  # the first question's count has what opening the table read
        self._used = True

    def run(self, work: Callable[[], T], deadline: Deadline) -> T:
        """Return the result of `work`, over newer versions where they have replaced those in use, whose
        objects are gone.
        """
        self._stores.limit(deadline)
        try:
            for _ in range(_TRIES):
                try:
                    return work()
                except (LostError, ServiceError) as error:  # services tell what they did not find in their own words
                    if isinstance(error, OutOfTime | Stopped) or not self._renewed():
                        raise
            raise StoreError("the tables changed each time they were read", hint="run the query again")
        finally:
            self._stores.limit(None)

    def _renewed(self) -> bool:
        """Open the newer versions that there are; whether there is one.

        Raises StoreError where objects of the snapshot are deleted.
        """
        before = dict(self._held)
        for name, held in before.items():
            if not self._is_fixed:
                self._find(name)
            elif gone := self._tables.missing(held.opened):
                raise StoreError(
                    f"table {held.manifest.table!r} was changed after the snapshot was taken, and {gone:,} of the "
                    "objects of its older version are deleted",
                    hint="take a new snapshot, and run its statements again",
                )
        return self._held != before

    @contextlib.contextmanager
    def load(self, plan: LocalPlan, question: Question) -> Iterator[Loaded]:
        """The columns that the question reads, of every table one relation."""
        if self._machine:
            raise _no_scan()
        tables = self._of(plan)
        fetched = self._fetches(tables, plan, question)
        readings = [each.reading(question.progress, question.deadline) for each in fetched]
        (first, own), *joined = zip(fetched, readings, strict=True)
        with read_whole(readings), contextlib.ExitStack() as stack:
            answers = {name: self._answered(each, question) for name, each in plan.inner.items()}
            with question.clock.stage("rows"):
                home = self._resident.home(tables)
                table = stack.enter_context(first.stored.rows.open(own, home=home))
                stack.callback(self._at_work, None)
                self._at_work(table)
                for each, reading in joined:
                    each.stored.rows.open(reading, each.name, table, home=home)
                for file in self._others:
                    if file.name in plan.reads:
                        with file.read(question.progress) as other:
                            table.add(file.name, other)
                for name, answer in answers.items():
                    shown = answer.result
                    texts = [[None if value is None else plain(value) for value in row] for row in shown.rows]
                    values = [[row[place] for row in texts] for place in range(len(shown.types))]
                    names = [column.name for column in shown.columns]
                    table.add_texts(name, list(zip(names, shown.types, values, strict=True)))
            question.deadline.check()
            rows = sum(each.manifest.rows for each in tables.values())
            usages = [each.usage for each in answers.values()]

            def usage() -> Usage:
                for each in readings:
                    each.finish()
                return replace(
                    usage_of(first.stored),
                    rows=rows,
                    **{each: sum(getattr(one, each) for one in usages) for each in COUNTS},
                )

            passed = [name for each in answers.values() for name, said in each.checks.items() if said == "passed"]
            yield Loaded(table, first.name, usage, checks_of(first.stored) | dict.fromkeys(passed, "passed"))

    def _answered(self, plan: QueryPlan, question: Question) -> Result:
        """The answer to a part of a statement, all of which is exact."""
        with self.sums(plan, question) as sums:
            answer = finished(sums, question)
        if not answer.result.is_decided or any(False in row for row in answer.result.exact):
            raise TypeError("a part of a statement that is exact, and is not")
        return answer

    @contextlib.contextmanager
    def sums(self, plan: QueryPlan, question: Question) -> Iterator[GroupSums]:
        mine = self._mine(plan)
        stored = self._at(mine.table, whose=mine.whose)
        fetched = self._fetches({mine.table.lower(): stored}, mine, question)
        if self._machine and not mine.scans:
            raise _no_scan()
        job = self._job(mine, self._machine) if self._machine else None  # refuses a store without jobs at once
        stored.remote = self._services.remote(self._tables.folder(mine.table), stored.manifest, question.deadline)
        side_by_side = CALLS_UNDER_WAY if self._services.elsewhere else len(os.sched_getaffinity(0))
        try:
            yield stored_sums(stored, mine, question, fetched, self._at_work, job, min(CALLS_UNDER_WAY, side_by_side))
        finally:
            stored.stop()
            stored.remote = None

    def _fetches(self, tables: Mapping[str, Stored], plan: StoredPlan | LocalPlan, question: Question) -> list[Fetch]:
        """The rows that `plan` reads. Raises QueryRefused where --pad makes them more than the limit."""
        fetched = fetches(tables, plan, pad=question.options.pad)
        if question.options.pad:  # more rows than the plan was chosen by
            size = sum(read.bytes for each in fetched for read in each.reads())
            if size > self._fetch_limit:
                raise over_limit(size, self._fetch_limit, how_to_scan(self._services.there, self._scan))
        return fetched

    def _mine(self, plan: QueryPlan) -> StoredPlan:
        """`plan`, whose totals the version in use has. Raises StoreError where it does not."""
        if not isinstance(plan, StoredPlan):
            raise TypeError("a plan over files is not one over a stored table")
        self._require_same(plan)
        measures = self._held[plan.table.lower()].manifest.measures
        if measures[: len(plan.measures)] != plan.measures:  # `derive` only adds some
            raise StoreError(
                f"the stored totals of table {plan.table!r} changed while this query ran", hint="run the query again"
            )
        return plan

    def _at_work(self, table: Table | None) -> None:
        """Return the work that `stop` interrupts."""
        self._table = table

    def stop(self) -> None:
        for each in list(self._held.values()):
            each.stop()
        if self._table is not None:
            self._table.connection.interrupt()

    def close(self) -> None:
        self._open.close()

    def _let_go(self) -> None:
        """Let go of the versions that are in use by then."""
        for each in self._held.values():
            each.close()


def _assumed_of(manifest: Manifest) -> str:
    """A digest of what plans assume of a table, whatever its rows are."""
    facts = [manifest.schema_toml, manifest.by, bool(manifest.contributors)]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _no_scan() -> InputError:
    return InputError("a job runs a scan, and this query needs none", hint="leave --job out")


def _names_contributor(plan: QueryPlan | LocalPlan) -> bool:
    if isinstance(plan, LocalPlan):
        return any(map(_names_contributor, plan.inner.values())) or any(
            CONTRIBUTOR in each for each in plan.reads.values()
        )
    return isinstance(plan, StoredPlan) and plan.whose
