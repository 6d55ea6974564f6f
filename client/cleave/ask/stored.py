"""Answer questions over tables in a store, from totals of cells, sealed rows and scans.

Every answer is over one version of each table it names: the newest when it was planned, or the snapshot's. What a
session keeps of a version is closed when it opens a newer one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from cleave.ask.choice import FETCH_LIMIT, Chooser, describe_stored, how_to_scan, over_limit
from cleave.ask.describe import Description
from cleave.ask.finishing import finished
from cleave.ask.options import Access
from cleave.ask.owners import open_tables
from cleave.ask.plan import AnswerPlan
from cleave.ask.question import COUNTS, Answer, GroupSums, Loaded, Options, RunningQuestion, Usage
from cleave.ask.services import Embedded, Services
from cleave.ask.source import AskedBy
from cleave.ask.threshold import Threshold
from cleave.ask.versioned import VersionedSource
from cleave.ask.way import Site, WayContext
from cleave.ask.ways.answering import answered
from cleave.ask.ways.rows import RowsWay
from cleave.deadline import Deadline, OutOfTime, Stopped
from cleave.objects.locate import Stores
from cleave.objects.storage import require_place
from cleave.sql.read import Statement
from cleave.store.changed import ChangedError, ReplacedError, SnapshotError, is_replaced, on_newest
from cleave.store.contributors import min_group_of
from cleave.store.newest import Newest
from cleave.store.reader import LostError, Opened
from cleave.store.reading import read_whole
from cleave.store.rows import ResidentTables
from cleave.store.seen_versions import SeenVersions
from cleave.store.tables import Tables
from cleave.sums.scan import CALLS_UNDER_WAY
from cleave.sums.stored import Stored
from cleave.table.duck import quarter_of_memory
from cleave.table.progress import Bars, Progress
from cleave.table.schema import Schema
from cleave.table.table import Table
from cleave.text.figures import plain
from cleave_shared.errors import InputError, KeyFileError, QueryRefused, ServiceError

if TYPE_CHECKING:
    from pydantic import JsonValue

    from cleave.sums.job import ScanJob
    from cleave.sums.machine import Machine
    from cleave.table.lazy import LazyTable

T = TypeVar("T")
_RESIDENT = 4  # parts of the memory: one is for rows that later queries read again
_KEEPS = 1 << 28  # bytes of memory where some are for that, at least


class StoredSource(VersionedSource[Stored]):
    """Questions over stored tables; `others` are further tables that a question may name, read on this machine."""

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
        """Open the tables of a store.

        `embedded` opens the services if `access` names none; without services, their part is computed from rows. `scan`
        is False to fetch rows, and never to ask the sensitive service for sums of rows, which tell it which rows belong
        together. `machine` runs the calls of scans, which go on when this process ends. `fetch_limit` is the most bytes
        of rows that a question may fetch. `memory_limit` is the most memory for a question over rows; None means a
        quarter of this machine's. `cache` keeps copies on this machine of what is read from a remote store.
        """
        if access is None:
            raise KeyFileError("a stored table needs its key file, and none was given")
        super().__init__(name, stores, seconds)
        self._scan = scan
        self._machine = machine
        self._fetch_limit = fetch_limit
        most = quarter_of_memory() if memory_limit is None else memory_limit
        resident = most // _RESIDENT if most >= _KEEPS else 0
        self._resident = ResidentTables(most - resident, resident)
        self._others = tuple(others)
        self._open = contextlib.ExitStack()
        self._open.callback(stores.close)
        self._services = Services(access, stores, embedded)
        self._open.callback(self._services.close)
        self._table: Table | None = None  # that DuckDB is at work on
        self._used = False
        try:
            self._tables = self._newest_of(access, memory, cache=cache)
            self._open.callback(self._tables.close)
            self._open.callback(self._resident.close)
            self._open.callback(super().close)
        except BaseException:
            self._open.close()
            raise

    def _newest_of(self, access: Access, memory: SeenVersions | None, *, cache: bool) -> Newest:
        """The tables of an owner, or of a reader. Raises KeyFileError."""
        if access.reads:
            from cleave.ask.reader import open_reader  # noqa: PLC0415 - an owner does not need it

            return open_reader(self._stores, access, memory)
        return open_tables(self._stores, access, memory, cache=cache)

    @property
    def schemas(self) -> Mapping[str, Schema]:
        """Return the newest schemas, of all tables in the store if none was named. This reads the head of each."""
        if self.name:
            self._require(self.name)
            for name in [each for each in self._held if each != self.name.lower()]:
                self._find(name)
        elif not self._is_fixed:
            self._find_all()
        stored = {
            self.name if lower == self.name.lower() else each.manifest.table: each.whole_schema
            for lower, each in self._held.items()
        }
        return self._shown(stored | {each.name: each.schema for each in self._others})

    def key(self, name: str) -> Sequence[str]:
        held = self._held.get(name.lower())
        return held.manifest.key if held else ()

    def asked_by(self, name: str) -> AskedBy | None:
        stored = self._find(name)
        if stored is None:
            return None
        own = min_group_of(stored.manifest)
        return AskedBy(stored.whole_schema, stored.by, own, (name.lower(), self._assumed_of(stored)))

    def require_assumed(self, plan: AnswerPlan, table: AskedBy) -> None:
        if table.assumed not in plan.assumed:
            raise ReplacedError

    def logged(self, plan: AnswerPlan) -> list[str]:
        if not isinstance(self._tables, Tables):  # a reader writes nothing
            return []
        return [each.manifest.table for each in self._site_of(plan).tables.values()]

    def record(self, table: str, what: str, **details: JsonValue) -> None:
        """Record an event that changes no data in the audit log of a stored table. Raises InputError, StoreError."""
        tables = self._tables
        if not isinstance(tables, Tables):
            raise TypeError("a reader cannot write the log of a table")
        self.run(lambda: tables.record(tables.open(table), what, 0, **details), Deadline(self.seconds))

    def rows(self, name: str, progress: Progress) -> int | None:  # noqa: ARG002 - manifests tell
        if name.lower() in {each.name.lower() for each in self._others}:
            return None
        held = self._held.get(name.lower()) or self._find(name)
        return held.manifest.rows if held else None

    def open(self) -> None:
        if self.name:
            self._require(self.name)

    def ways(self, statement: Statement, options: Options) -> list[AnswerPlan]:
        names, named = self._over(statement)
        plans = self._chooser(self.site(names, named), options).plans(statement)
        return [self._assuming(each, names, options) for each in plans]

    def _chooser(self, site: Site, options: Options) -> Chooser:
        """Return what plans questions under the threshold of `options`. Raises QueryRefused if a table forbids it."""
        minimums = {each.manifest.table: min_group_of(each.manifest) for each in site.tables.values()}
        return Chooser(site, Threshold.of(options, minimums))

    def site(self, names: Sequence[str] = (), named: Set[str] = frozenset()) -> Site:
        """Return the site of a question over the first of `names`, or over the table that was named; the rest may be
        joined.

        `named` holds the columns that the question names.
        """
        if not names:
            self._require(self.name)
        first, *joined = names or [self.name]
        tables = {name.lower(): self._held[name.lower()] for name in (first, *joined)}
        schemas = {name: tables[name.lower()].schema_of(named) for name in joined}
        others = self._shown(schemas | {each.name: each.schema for each in self._others})
        return Site(
            first,
            tables,
            others,
            named,
            services=self._services.available,
            remote=self._services.remote,
            scan=self._scan,
            job=self._machine is not None,
            fetch_limit=self._fetch_limit,
            showing=self._showing,
        )

    def _site_of(self, plan: AnswerPlan) -> Site:
        """Return the tables that `plan` is over. Raises ReplacedError if it does not fit their versions in use."""
        self._require_same(plan)
        joined = [lower for lower, _ in plan.assumed if lower != plan.table.lower()]
        site = self.site([plan.table, *joined], plan.named)
        for way in plan.ways:
            for table, measures in way.measures.items():
                if site.table(table).manifest.measures[: len(measures)] != measures:  # `derive` only adds some
                    raise ReplacedError
        return site

    def _planned(
        self, statement: Statement, names: Sequence[str], named: Set[str], options: Options, *, cloud_only: bool
    ) -> AnswerPlan:
        site = self.site(names, named)
        chooser = self._chooser(site, options)
        try:
            return chooser.chosen(statement, cloud_only=cloud_only)
        except QueryRefused:
            schemas = [*(each.schema for each in site.tables.values()), *site.others.values()]
            found = {name.lower() for each in schemas for name in each.names}
            for table in site.tables.values():
                if lost := [each for each in table.opened.others if each.lower() in named - found]:
                    raise QueryRefused(
                        f"this reader has no key of column {lost[0]!r} of table {table.manifest.table!r}",
                        hint=f"it has the columns {', '.join(table.schema.names)}; the owner gives others",
                    ) from None
            raise

    def _names_of(self, named: Sequence[str]) -> list[str]:
        """Return the tables of a question. Also raises InputError for a name that a file has as well."""
        if self.name:
            self._require(self.name)
        files = {each.name.lower() for each in self._others}
        names = [self.name] if self.name else []
        for name in named:
            stored = self._held.get(name.lower()) if name.lower() == self.name.lower() else self._find(name)
            if stored and name.lower() in files:
                raise InputError(
                    f"{name!r} is the name of a stored table and of a file",
                    hint="rename the file, or give it another name with `table` in its schema",
                )
            if stored and name.lower() not in map(str.lower, names):
                names.append(name)
            if not (stored or self.name or name.lower() in files):
                if not isinstance(self._tables, Tables):
                    raise self._tables.no_table(name)
                require_place(self._stores.sensitive)
                raise QueryRefused(
                    f"there is no table {name!r}",
                    hint="`cleave ls` lists the stored tables; --with FILE adds a file",
                    location=self._stores.sensitive.location,
                    code="no_table",
                    name=name,
                )
        if not names:
            raise QueryRefused("the query names no stored table", hint="files are joined with stored tables here")
        return names

    def _newest(self, name: str, held: Stored | None) -> Stored | None:
        if self._is_fixed:
            return held
        return self._opened(held, self._tables.find(name, held.opened if held else None))

    def _opened(self, held: Stored | None, newest: Opened | None) -> Stored | None:
        """Return `held` if it is the newest version, else open the newest. Data read from the same version is kept."""
        if newest is None or (held is not None and held.opened is newest):
            return None if newest is None else held
        return Stored(self._tables, newest, session=self._resident)

    def _fix(self) -> None:
        """Open all tables in the store. This reads the head of each. Raises InputError if the session's own is none."""
        if self.name:  # first: here the error says what there is, and a reader finds no others
            self._require(self.name)
        self._find_all()
        if self._tables.has_totals:
            for each in self._held.values():
                each.cells  # noqa: B018 - the next version deletes the list of cells, even where it only adds rows

    def _find_all(self) -> None:
        """Open the newest versions of all tables in the store."""
        newest = {
            each.manifest.table.lower(): each
            for each in self._tables.all([each.opened for each in self._held.values()])
        }
        for lower in {**self._held, **newest}:
            self._keep(lower, self._opened(self._held.get(lower), newest.get(lower)))
        self._held = {lower: self._held[lower] for lower in newest}  # by name

    def _require(self, name: str) -> None:
        """Open a table. Raises InputError if there is none."""
        if self._find(name) is None:
            if not self._is_fixed:
                self._tables.open(name)  # says what there is
            raise InputError(
                f"{self._stores.sensitive.location}: there was no table {name!r} when the snapshot was taken",
                hint="take a new snapshot to query it",
            )

    def _assumed_of(self, version: Stored) -> str:
        """Return a digest of what plans assume about a table, whatever its rows are."""
        manifest = version.manifest
        facts = [manifest.schema_toml, manifest.by, bool(manifest.contributors)]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    def stop_job(self, plan: AnswerPlan) -> bool:
        """End the job that answers `plan`; return False if there is none. Raises InputError if there can be none."""
        if self._machine is None or not plan.scanned:
            raise _no_scan()
        return self._job(plan, self._site_of(plan), self._machine).stop()

    def _job(self, plan: AnswerPlan, site: Site, machine: Machine) -> ScanJob:
        from cleave.sums.job import job_of  # noqa: PLC0415 - boto3 takes 120 ms

        folder = self._tables.folder(plan.table)
        return job_of(self._stores.sensitive, folder, site.stored, machine, plan.statement.sql)

    def describe(self, plan: AnswerPlan, progress: Progress) -> Description:  # noqa: ARG002 - it reads little
        site = self._site_of(plan)
        considered = Chooser(site, plan.threshold).considered(plan, pad=plan.pad)
        return describe_stored(site, plan, considered, pad=plan.pad)

    def prepare(self, bars: Bars, *, sends: bool) -> None:  # noqa: ARG002 - rows are read in the query's time
        if self._used:
            self._tables.reset_counts()  # the first question's count has what opening the table read
        self._used = True

    def run(self, work: Callable[[], T], deadline: Deadline) -> T:
        """Return the result of `work`; it begins again on newer versions if they replaced those in use. Raises
        SnapshotError instead in a snapshot.
        """
        return super().run(lambda: on_newest(work, self._begins_again), deadline)

    def _begins_again(self, error: ServiceError | LostError) -> bool:
        """True if another's change explains `error`: then the newest versions are in use."""
        if isinstance(error, OutOfTime | Stopped | ChangedError):
            return False
        is_lost = isinstance(error, LostError)  # services tell what they did not find in their own words
        if is_lost and not is_replaced(error):
            return False
        if self._is_fixed:
            if is_lost or any(self._tables.has_deleted(each.opened) for each in self._held.values()):
                raise SnapshotError from None
            return False
        before = dict(self._held)
        for name in before:
            self._find(name)
        return is_lost or self._held != before

    @contextlib.contextmanager
    def load(self, plan: AnswerPlan, question: RunningQuestion) -> Iterator[Loaded]:
        """Load the columns that the question reads, one relation for each table."""
        if self._machine:
            raise _no_scan()
        site = self._site_of(plan)
        *totals, rows = plan.ways
        assert isinstance(rows, RowsWay)  # noqa: S101 - it is what loads them
        self._require_few(plan, site, question)
        fetched = rows.fetches(site, pad=question.pad)
        readings = [each.reading(question) for each in fetched]
        (first, own), *joined = zip(fetched, readings, strict=True)
        with read_whole(readings), contextlib.ExitStack() as stack:
            inner = zip(plan.cut.inner.items(), totals, strict=True)
            answers = {name: self._exact(replace(plan, cut=cut, ways=(way,)), question) for (name, cut), way in inner}
            with question.clock.stage("rows"):
                table = stack.enter_context(first.stored.rows.open(own))
                stack.callback(self._at_work, None)
                self._at_work(table)
                for each, reading in joined:
                    each.stored.rows.open(reading, each.name, table)
                for file in self._others:
                    if file.name in plan.cut.rows():
                        with file.read(question.progress) as other:
                            table.add(file.name, other)
                for name, answer in answers.items():
                    shown = answer.result
                    texts = [[None if value is None else plain(value) for value in row] for row in shown.rows]
                    values = [[row[place] for row in texts] for place in range(len(shown.types))]
                    names = [column.name for column in shown.columns]
                    table.add_texts(name, list(zip(names, shown.types, values, strict=True)))
            question.deadline.check()
            count = sum(each.manifest.rows for each in site.tables.values())
            usages = [each.usage for each in answers.values()]

            def usage() -> Usage:
                for each in readings:
                    each.finish()
                return replace(
                    usage_of(first.stored),
                    rows=count,
                    **{each: sum(getattr(one, each) for one in usages) for each in COUNTS},
                )

            passed = [name for each in answers.values() for name, said in each.checks.items() if said == "passed"]
            yield Loaded(table, first.name, usage, checks_of(first.stored) | dict.fromkeys(passed, "passed"))

    def _exact(self, plan: AnswerPlan, question: RunningQuestion) -> Answer:
        """Answer a part of a statement, all of which is exact."""
        with self.sums(plan, question) as sums:
            answer = finished(sums, question)
        if not answer.result.is_decided or any(False in row for row in answer.result.exact):
            raise TypeError("a part of a statement that is exact, and is not")
        return answer

    @contextlib.contextmanager
    def sums(self, plan: AnswerPlan, question: RunningQuestion) -> Iterator[GroupSums]:
        site = self._site_of(plan)
        stored = site.table(plan.table)
        self._require_few(plan, site, question)
        if self._machine and not plan.scanned:
            raise _no_scan()
        job = self._job(plan, site, self._machine) if self._machine else None  # refuses a store without jobs at once
        stored.remote = self._services.open(self._tables.folder(plan.table), stored.manifest, question.deadline)
        side_by_side = CALLS_UNDER_WAY if self._services.remote else len(os.sched_getaffinity(0))
        context = WayContext(site, question, self._at_work, stored.stop, job, min(CALLS_UNDER_WAY, side_by_side))
        try:
            sums = answered(plan, context)
            yield replace(sums, usage=usage_of(stored), checks=checks_of(stored))
        finally:
            stored.stop()
            stored.remote = None

    def _require_few(self, plan: AnswerPlan, site: Site, question: RunningQuestion) -> None:
        """Raise QueryRefused if --pad makes the rows exceed the limit that the plan was chosen by."""
        if question.pad and (size := plan.fetched(site, pad=True)) > self._fetch_limit:
            raise over_limit(size, self._fetch_limit, how_to_scan(site))

    def _at_work(self, table: Table | None) -> None:
        """Note the work that `stop` should interrupt."""
        self._table = table

    def stop(self) -> None:
        for each in list(self._held.values()):
            each.stop()
        if self._table is not None:
            self._table.connection.interrupt()

    def close(self) -> None:
        self._open.close()


def usage_of(stored: Stored) -> Usage:
    """Return the counts of reads and requests so far."""
    transport = stored.remote.transport if stored.remote else None  # None, too, where nothing was asked
    return Usage(
        profile=stored.manifest.profile,
        key_id=stored.tables.key.key_id,
        rows=stored.manifest.rows,
        sensitive_requests=stored.remote.sums_asked if stored.remote else 0,
        requests=transport.requests if transport else 0,
        bytes_sent=transport.sent if transport else 0,
        bytes_received=transport.received if transport else 0,
        objects_read=stored.tables.objects_read,
        bytes_read=stored.tables.bytes_read,
    )


def checks_of(stored: Stored) -> dict[str, str]:
    """Return the checks that everything read from the store passed."""
    summed = stored.remote is not None and stored.remote.sums_asked
    return dict.fromkeys(("head", "stored", "sentinel"), "passed") | {"totals": "passed" if summed else "not needed"}


def _no_scan() -> InputError:
    return InputError("a job runs a scan, and this query needs none", hint="leave --job out")
