"""Questions over a source, any number of them: the command line, the shell, Python and reports all use it.

    with Session(HereSource(of_files(["patients.csv"]), embedded=embedded_services)) as session:
        plan = session.plan("SELECT ward, AVG(age) FROM patients GROUP BY ward")
        answer = session.ask(plan)

Tables and services are opened when the first question needs them, and kept.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from cleave.ask.access import LONGEST_TIMEOUT
from cleave.table.progress import Bars, no_bars
from cleave_shared.errors import CleaveError, InputError, QueryRefused, Undecided

if TYPE_CHECKING:
    from cleave.ask.describe import Description
    from cleave.ask.result import Options, Result
    from cleave.ask.source import Source
    from cleave.processes.deadline import Deadline
    from cleave.sql.plan import LocalPlan, QueryPlan
    from cleave.table.schema import Schema

T = TypeVar("T")


class Session:
    """`bars` opens a progress display for one piece of work. A context manager; one thread at a time may use it."""

    def __init__(self, source: Source, bars: Bars = no_bars) -> None:
        self.source = source
        self._bars = bars
        self._deadline: Deadline | None = None  # of the question under way

    @property
    def name(self) -> str:
        """The table that a question is over where nothing else is said; "" where there is none."""
        return self.source.name

    @property
    def schema(self) -> Schema:
        """Schema of the table `name`."""
        return self.schemas[self.name]

    @property
    def schemas(self) -> Mapping[str, Schema]:
        """Of every table a question may name; that of `name` comes first."""
        return self._run(lambda _: self.source.schemas)

    @property
    def rows(self) -> int | None:
        return self.rows_of(self.name)

    def rows_of(self, name: str) -> int | None:
        """Rows of a table; None where they are not known before a question reads them."""
        with self._bars() as progress:
            return self._run(lambda _: self.source.rows(name, progress))

    def plan(self, sql: str, *, cloud_only: bool = False) -> QueryPlan | LocalPlan:
        """Decide for each output which way answers it. Reads no rows and sends nothing.

        `cloud_only`: what only rows here answer is refused. Raises QueryRefused, and what reading a stored table's
        list of cells may.
        """
        try:
            return self._run(lambda _: self.source.plan(sql, cloud_only=cloud_only))
        except QueryRefused as error:
            from cleave.ask.pointing import point  # noqa: PLC0415 - what an answered question does without

            with contextlib.suppress(CleaveError):  # of a store that cannot say what it has
                point(error, sql, [name for schema in self.schemas.values() for name in schema.names])
            raise

    def ways(self, sql: str) -> Sequence[QueryPlan | LocalPlan]:
        """Every way to answer a question, each to be asked; what reveals least comes first."""
        return self._run(lambda _: self.source.ways(sql))

    def describe(self, plan: QueryPlan | LocalPlan, options: Options | None = None) -> Description:
        """What asking would send and read, where, and what it would reveal. Raises InputError, QueryRefused."""
        with self._bars() as progress:
            return self._run(lambda _: self.source.describe(plan, self._guarded(plan, options), progress))

    def ask(
        self,
        plan: QueryPlan | LocalPlan,
        options: Options | None = None,
        seconds: float | None = None,
        *,
        strict: bool = False,
    ) -> Result:
        """Answer `plan`. Once files are read, services and stores may take `seconds`, and DuckDB here as long.

        Raises InputError, QueryRefused, ServiceError, CheckFailed: everything that is wrong here is reported before
        anything is sent. `strict`: Undecided where the error bounds leave a decision open.
        """
        if seconds is not None and not 0 < seconds <= LONGEST_TIMEOUT:
            raise InputError(f"a question may take seconds above 0, at most {LONGEST_TIMEOUT:,}")
        guarded = self._guarded(plan, options)
        self.source.prepare(plan, self._bars)
        answer = self._run(lambda deadline: self._answer(plan, guarded, deadline), seconds)
        if strict and answer.result.warnings:
            raise Undecided(
                "; ".join(answer.result.warnings),
                hint="without --strict the answer is shown, what is undecided marked",
            )
        return answer

    def _answer(self, plan: QueryPlan | LocalPlan, options: Options, deadline: Deadline) -> Result:
        from cleave.ask.finish import finished, finished_whole, require_no_min_group  # noqa: PLC0415 - numpy and all that computes
        from cleave.ask.result import Clock  # noqa: PLC0415
        from cleave.ask.source import Question  # noqa: PLC0415
        from cleave.sql.plan import LocalPlan  # noqa: PLC0415

        with self._bars() as progress:
            question = Question(options, progress, deadline, Clock())
            if isinstance(plan, LocalPlan):
                require_no_min_group(plan, options.min_group)
                with self.source.load(plan, question) as loaded:
                    return finished_whole(loaded, plan, question)
            with self.source.sums(plan, question) as sums:
                return finished(sums, question)

    def _guarded(self, plan: QueryPlan | LocalPlan, options: Options | None) -> Options:
        """With the source's own least size of groups where none is asked for."""
        from cleave.ask.result import DEFAULTS  # noqa: PLC0415

        asked = options or DEFAULTS
        return replace(asked, min_group=asked.min_group or self.source.min_group(plan))

    def _run(self, work: Callable[[Deadline], T], seconds: float | None = None) -> T:
        from cleave.processes.deadline import Deadline  # noqa: PLC0415

        self._deadline = deadline = Deadline(seconds or self.source.seconds)
        return self.source.run(lambda: work(deadline), deadline)

    def stop_job(self, plan: QueryPlan | LocalPlan) -> bool:
        """End the job that answers `plan`. False where there is none. Raises InputError where there can be none."""
        return self._run(lambda _: self.source.stop_job(plan))

    def stop(self) -> None:
        """Make what another thread does here fail soon. To be said again until it has: it may be between two waits."""
        if self._deadline is not None:
            self._deadline.stop()
        self.source.stop()

    def close(self) -> None:
        """Give up tables, keys and connections. Does nothing a second time."""
        self.source.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
