"""A stored table that questions are put to: what cleave.session.Session is for a file.

    with StoredSession("trial", stores, Access(Path("key.json"))) as session:
        answer = session.ask(session.plan("SELECT ward, AVG(age) FROM trial GROUP BY ward"))

Every answer is of one version of the table: the one it was opened at, until another has taken its place and what it
stood on is deleted.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from cleave.pipeline import DEFAULTS, Options, Result, run_local
from cleave.session import Access, Bars, Silent, require_decided
from cleave.sql.plan import LocalPlan, QueryPlan
from cleave.store.answer import answer
from cleave.store.cache import open_cache
from cleave.store.cellwise import StoredPlan
from cleave.store.choice import FETCH_LIMIT, Chooser
from cleave.store.contributors import min_group_of
from cleave.store.describe import describe_stored
from cleave.store.memory import Memory
from cleave.store.pruning import cells_of_whole
from cleave.store.scan import CALLS_UNDER_WAY, ScanAnswer, scan
from cleave.store.services import Embedded, Services
from cleave.store.storage import StoreError
from cleave.store.stored import Stored
from cleave.store.tables import LostError, Tables
from cleave.store.works import columns_read
from cleave.table.duck import quarter_of_memory
from cleave.transport.base import QUERY_SECONDS
from cleave.transport.deadline import Deadline, OutOfTime, Stopped
from cleave_shared.errors import InputError, KeyFileError, ServiceError

if TYPE_CHECKING:
    from cleave.ckks.owner_key import OwnerKey
    from cleave.describe import Description
    from cleave.store.job import Job
    from cleave.store.locate import Stores
    from cleave.store.machine import Machine
    from cleave.table.lazy import LazyTable
    from cleave.table.schema import Schema
    from cleave.table.table import Table
    from cleave_shared.wire import PlainResponse

T = TypeVar("T")
_TRIES = 4


def open_tables(
    stores: Stores, access: Access, memory: Memory | None = None, *, cache: bool = False
) -> tuple[Tables, OwnerKey]:
    """The tables under one key, which may be asked its passphrase. Raises KeyFileError.

    `cache`: keep on this machine what is read of a store elsewhere; else it is only evicted there.
    """
    from cleave.ckks.key_file import open_key  # noqa: PLC0415 - cryptography takes 30 ms

    key = open_key(access.key, access.passphrase)
    return Tables(stores, key, memory or Memory(), open_cache(used=cache)), key


class StoredSession:
    """`others` are further tables a question may name; they are read here."""

    def __init__(
        self,
        name: str,
        stores: Stores,
        access: Access | None,
        bars: Bars = lambda: contextlib.nullcontext(Silent()),
        others: Sequence[LazyTable] = (),
        memory: Memory | None = None,
        seconds: float | None = None,
        contributor: str | None = None,
        embedded: Embedded | None = None,
        *,
        scan: bool = True,
        machine: Machine | None = None,
        fetch_limit: int = FETCH_LIMIT,
        memory_limit: int | None = None,
        cache: bool = True,
    ) -> None:
        """`seconds`: what opening may take once the key is open, and each later step that is given no time of its own.

        `contributor`: whose rows alone are asked.
        `embedded`: the services, where `access` names none; without any, what they would answer is computed from rows.
        `scan` False: the sensitive service is not told which rows belong together, but asked for their ciphertexts.
        `machine`: makes the calls of scans, which then go on when this process ends.
        `fetch_limit`: bytes of rows that a question may fetch.
        `memory_limit`: bytes of memory that a question over rows may take; None: a quarter of this machine's.
        `cache`: keep on this machine what is read of a store elsewhere.
        """
        if access is None:
            raise KeyFileError("a stored table is asked under its key, and none was named")
        self.name = name
        self._contributor = contributor
        self._scan = scan
        self._machine = machine
        self._fetch_limit = fetch_limit
        self._memory_limit = quarter_of_memory() if memory_limit is None else memory_limit
        self._bars = bars
        self._others = tuple(others)
        self._stores = stores
        self._open = contextlib.ExitStack()
        self._open.callback(stores.close)
        self._services = Services(access, stores, embedded)
        self._open.callback(self._services.close)
        self._seconds = seconds or QUERY_SECONDS
        self._deadline: Deadline | None = None  # of the question under way
        self._table: Table | None = None  # and what was fetched for it
        self._asked = False
        try:
            self._tables, self._key = open_tables(stores, access, memory, cache=cache)
            self._open.callback(self._tables.close)
            with self._within():
                self._stored = self._look()
            self._open.callback(self._let_go)
        except BaseException:
            self._open.close()
            raise

    @property
    def schema(self) -> Schema:
        return self._stored.schema

    @property
    def schemas(self) -> dict[str, Schema]:
        """Of every table a question may name; the stored one comes first."""
        return {self.name: self.schema} | {each.name: each.schema for each in self._others}

    @property
    def rows(self) -> int:
        return self._stored.manifest.rows

    @property
    def min_group(self) -> int:
        """Rows that every group shown has at least, where the caller does not say."""
        return min_group_of(self._stored.manifest)

    def stop(self) -> None:
        """Make what another thread does here fail soon. To be said again until it has."""
        deadline, table = self._deadline, self._table
        if deadline is not None:
            deadline.stop()
        self._stored.stop()
        if table is not None:
            table.connection.interrupt()

    def plan(self, sql: str, *, cloud_only: bool = False) -> QueryPlan | LocalPlan:
        """Each output by the way that answers it: from totals, by the plain service, or over rows that are fetched.

        A StoredPlan, or a LocalPlan where it is answered over rows as a whole. Raises QueryRefused, and what reading
        the list of cells may.
        """
        with self._within():
            return self._of_one_version(lambda: self.chooser().chosen(sql, cloud_only=cloud_only))

    def ways(self, sql: str) -> list[StoredPlan | LocalPlan]:
        """Every way to answer a question, each to be asked; what tells services and stores least comes first."""
        with self._within():
            return self._of_one_version(lambda: self.chooser().plans(sql))

    def chooser(self) -> Chooser:
        return Chooser(
            self._stored,
            self.name,
            {each.name: each.schema for each in self._others},
            services=self._services.there,
            elsewhere=self._services.elsewhere,
            scan=self._scan,
            job=self._machine is not None,
            fetch_limit=self._fetch_limit,
        )

    def stop_job(self, plan: QueryPlan | LocalPlan) -> bool:
        """End the job that answers `plan`. False where there is none. Raises InputError where there can be none."""
        return self._job(self._mine(plan) if isinstance(plan, QueryPlan) else plan).stop()

    def _job(self, plan: QueryPlan | LocalPlan) -> Job:
        from cleave.store.job_scan import job_of  # noqa: PLC0415 - botocore takes 100 ms

        if self._machine is None or not (isinstance(plan, StoredPlan) and plan.scans):
            raise InputError("the question is not answered by a scan, and a job is one", hint="leave --job out")
        folder = self._tables.folder(self.name)
        return job_of(self._stores.sensitive, folder, self._stored, self._machine, plan.sql)

    def ask(
        self,
        plan: QueryPlan | LocalPlan,
        options: Options | None = None,
        seconds: float | None = None,
        *,
        strict: bool = False,
    ) -> Result:
        """Raises what Session.ask does, and CheckFailed for what is damaged in the store."""
        if self._asked:
            self._tables.count_anew()  # the first question's count has what opening the table read
        self._asked = True
        with self._within(seconds) as deadline:
            found = self._of_one_version(lambda: self._answer(plan, self._guarded(options), deadline))
        if strict:
            require_decided(found)
        return found

    def _guarded(self, options: Options | None) -> Options:
        """With the table's own least size of groups where none is asked for."""
        asked = options or DEFAULTS
        return replace(asked, min_group=asked.min_group or self.min_group)

    def _answer(self, plan: QueryPlan | LocalPlan, options: Options, deadline: Deadline) -> Result:
        if options.pad and isinstance(plan, LocalPlan | StoredPlan):
            self.chooser().require_within(plan, pad=True)  # more rows than the plan was chosen by
        if isinstance(plan, LocalPlan):
            if self._machine:
                self._job(plan)
            return self._ask_rows(plan, options, deadline)
        mine, stored = self._mine(plan), self._stored
        job = self._job(mine) if self._machine else None
        folder = self._tables.folder(self.name)
        stored.remote = remote = self._services.remote(folder, stored.manifest, deadline)
        try:
            with self._bars() as progress:
                ask_plain = remote.aggregate if remote else _no_plain

                def ask_scan(plan: StoredPlan) -> ScanAnswer:
                    if remote is None:
                        raise TypeError("a plan that asks the services, where there are none")
                    if job is not None:
                        from cleave.store.job_scan import scan_by_job  # noqa: PLC0415 - botocore takes 100 ms

                        return scan_by_job(remote, self._stores.sensitive, stored, plan, job, progress, deadline)
                    least = CALLS_UNDER_WAY if self._services.elsewhere else len(os.sched_getaffinity(0))
                    return scan(remote, stored, plan, progress, min(CALLS_UNDER_WAY, least))

                return answer(stored, mine, options, deadline, progress, self._at_work, ask_plain, ask_scan)
        finally:
            stored.stop()
            stored.remote = None

    @contextlib.contextmanager
    def _within(self, seconds: float | None = None) -> Iterator[Deadline]:
        """The store is waited for no longer."""
        self._deadline = Deadline(seconds or self._seconds)
        self._stores.limit(self._deadline)
        try:
            yield self._deadline
        finally:
            self._stores.limit(None)

    def _look(self) -> Stored:
        return Stored(self._tables, self._tables.open(self.name), self._key, self._contributor, self._memory_limit)

    def _of_one_version(self, ask: Callable[[], T]) -> T:
        """What `ask` comes to, over a newer version where one has taken this one's place and its objects are gone."""
        for _ in range(_TRIES):
            opened = self._stored.opened
            try:
                return ask()
            except (LostError, ServiceError) as error:  # services tell what they did not find in words of their own
                if isinstance(error, OutOfTime | Stopped) or not self._tables.replaced(opened):
                    raise
            newer = self._look()
            if newer.schema.hash() != self._stored.schema.hash() or newer.manifest.by != self._stored.manifest.by:
                raise StoreError(f"table {self.name!r} was put anew, and otherwise, meanwhile", hint="ask again")
            self._stored.close()
            self._stored = newer
        raise StoreError(f"table {self.name!r} is changed faster than it can be read", hint="ask again")

    def describe(self, plan: QueryPlan | LocalPlan, options: Options | None = None) -> Description:
        """Which way the question would be answered, what that reads, and what other ways would take."""

        def described() -> Description:
            mine = plan if isinstance(plan, LocalPlan) else self._mine(plan)
            guarded = self._guarded(options)
            ways = self.chooser().ways(mine, pad=guarded.pad)
            return describe_stored(self._stored, mine, guarded, ways, services=self._services.there)

        with self._within():
            return self._of_one_version(described)

    def close(self) -> None:
        self._open.close()

    def _let_go(self) -> None:
        """Of whichever version is asked by then."""
        self._stored.close()

    def __enter__(self) -> StoredSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask_rows(self, plan: LocalPlan, options: Options, deadline: Deadline) -> Result:
        with self._bars() as progress:
            names = columns_read(self._stored, plan)
            cells = None if options.pad else cells_of_whole(self._stored, plan)
            table = self._stored.rows.table(names, ordered=True, progress=progress, cells=cells, deadline=deadline)
            with table:
                self._at_work(table)
                for each in self._others:
                    if each.name in plan.others:
                        with each.read(progress) as other:
                            table.add(each.name, other)
                deadline.check()
                answer = run_local(table, plan, options, deadline)
        return self._stored.counted(answer)

    def _mine(self, plan: QueryPlan) -> StoredPlan:
        """`plan`, made anew where a newer version of the table keeps other totals."""
        if not isinstance(plan, StoredPlan):
            raise TypeError("a plan over files is not one over a stored table")
        if plan.measures == self._stored.manifest.measures:
            return plan
        again = self.chooser().chosen(plan.sql, cloud_only=not plan.fetches)
        if not isinstance(again, StoredPlan):
            raise StoreError(f"table {self.name!r} was changed meanwhile", hint="ask again")
        return again

    def _at_work(self, table: Table | None) -> None:
        """What `stop` interrupts."""
        self._table = table


def _no_plain(plan: QueryPlan) -> Sequence[PlainResponse]:
    raise TypeError(f"a plan that asks the plain service of {plan.table!r}, where there is none")
