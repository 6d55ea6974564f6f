"""Questions over a source, any number of them: the command line, the shell, Python and reports all use it.

    with Session(FileSource(of_files(["patients.csv"]), embedded=embedded_services)) as session:
        plan = session.plan("SELECT ward, AVG(age) FROM patients GROUP BY ward")
        answer = session.ask(plan)

Tables and services are opened when the first question needs them, and kept. Each question is over one version of each
stored table.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from cleave.ask.options import LONGEST_TIMEOUT
from cleave.ask.plan import AnswerPlan
from cleave.ask.pointing import point
from cleave.ask.question import DEFAULTS, Answer, Clock, Options, RunningQuestion
from cleave.ask.source import AskedBy, Source
from cleave.deadline import Deadline
from cleave.table.blaming import WrongConstant
from cleave.table.progress import Bars, no_bars
from cleave.table.schema import Schema
from cleave_shared.errors import CleaveError, QueryRefused, Undecided, UsageError

if TYPE_CHECKING:
    from cleave.ask.describe import Description
    from cleave.sql.read import Statement

T = TypeVar("T")


class Session:
    """Asks questions over one source; a context manager, for one thread at a time.

    `bars` opens a progress display for one piece of work.
    """

    def __init__(self, source: Source, bars: Bars = no_bars) -> None:
        self.source = source
        self._bars = bars
        self._deadline: Deadline | None = None  # of the question under way

    @property
    def name(self) -> str:
        """Return the table of a question that names no other, or "" if there is none."""
        return self.source.name

    @property
    def schema(self) -> Schema:
        """Return the schema of the table `name`."""
        return self.schemas[self.name]

    @property
    def schemas(self) -> Mapping[str, Schema]:
        """Return the schemas of every table that a question may name, that of `name` first."""
        return self._run(lambda _: self.source.schemas)

    @property
    def rows(self) -> int | None:
        return self.rows_of(self.name)

    def rows_of(self, name: str) -> int | None:
        """Return the number of rows of a table, or None if it is unknown until a question reads them."""
        with self._bars() as progress:
            return self._run(lambda _: self.source.rows(name, progress))

    def open(self) -> None:
        """Raise the error that would keep questions from the table `name`, if it can be found without reading rows."""
        self._run(lambda _: self.source.open())

    def snapshot(self) -> AbstractContextManager[None]:
        """Answer all questions of a block over the versions of stored tables at its start.

        Otherwise each question is over the newest version of each table when it is planned. Raises UsageError inside
        another snapshot, and any error of opening the tables.
        """
        return self.source.snapshot()

    def on_one_version(self, work: Callable[[float], T]) -> T:
        """Return `work(spent)`, whose questions are all over one version of each table. It begins again on the newest
        one if others deleted that; `spent` is the seconds of its questions so far.

        Raises as `snapshot`, and ChangedError if others change the tables each time.
        """
        spent = 0.0

        def on_version() -> T:
            with self.snapshot():
                return work(spent)

        def begins_again(error: Exception) -> bool:
            nonlocal spent
            spent = self.spent
            return isinstance(error, SnapshotError)

        from cleave.store.changed import SnapshotError, on_newest  # noqa: PLC0415 - only stored tables have versions

        return on_newest(on_version, begins_again)

    def plan(self, question: str | Statement, options: Options = DEFAULTS, *, cloud_only: bool = False) -> AnswerPlan:
        """Decide which way answers each output, under a threshold. This reads no rows and sends nothing.

        `cloud_only` refuses what only rows on this machine can answer. Raises QueryRefused, also for a threshold that
        cannot be kept or is smaller than a table's own without `yes`; InputError if `question` is not text; and any
        error of reading a stored table's cell list or indexes.
        """
        statement = _read(question)
        try:
            return self._run(lambda _: self.source.plan(statement, options, cloud_only=cloud_only))
        except QueryRefused as error:
            with contextlib.suppress(CleaveError):  # of a store that cannot say what it has
                point(error, statement, self._names(statement))
            raise

    def _names(self, statement: Statement) -> list[str]:
        """Return the columns of the tables that a statement names. Other tables' columns may be secret from whoever
        asks it.
        """
        from cleave.sql.planner import names_in  # noqa: PLC0415 - as `point`

        try:
            named = {each.lower() for each in names_in(statement)[0]}
        except QueryRefused:
            named = set()
        named.add(self.name.lower())
        return [name for table, schema in self.schemas.items() if table.lower() in named for name in schema.names]

    def asked_by(self, name: str) -> AskedBy | None:
        """Return how the newest version of a stored table may be asked; None for any other table."""
        return self._run(lambda _: self.source.asked_by(name))

    def ways(self, question: str | Statement, options: Options = DEFAULTS) -> Sequence[AnswerPlan]:
        """Return every way to answer a question, as plans that can be asked, the one that reveals least first."""
        statement = _read(question)
        return self._run(lambda _: self.source.ways(statement, options))

    def describe(self, plan: AnswerPlan) -> Description:
        """Describe what the query would send, read and reveal. Raises InputError, QueryRefused."""
        with self._bars() as progress:
            return replace(self._run(lambda _: self.source.describe(plan, progress)), threshold=plan.left_out)

    def ask(
        self,
        plan: AnswerPlan,
        seconds: float | None = None,
        *,
        strict: bool = False,
        spent: float = 0.0,
        sized: bool = False,
    ) -> Answer:
        """Answer `plan`, under the threshold that it was made for. Nothing is planned again.

        Once files are read, services, stores and DuckDB on this machine together may take `seconds`, of which earlier
        questions of the same work have `spent` some.
        `strict` raises Undecided if the error bounds leave a decision open. `sized` counts the people whom an answer
        under a threshold is about: see `Answer`. Raises InputError, QueryRefused, ServiceError, CheckFailed. Every
        error of the question itself is raised before anything is sent.
        """
        if seconds is not None and not 0 < seconds <= LONGEST_TIMEOUT:
            raise UsageError(f"a query may take seconds above 0, at most {LONGEST_TIMEOUT:,}", name="--timeout")
        self.source.prepare(self._bars, sends=not plan.sends_nothing)
        try:
            answer = self._run(lambda deadline: self._answer(plan, deadline, sized=sized), seconds, spent)
        except WrongConstant as error:
            point(error, plan.cut.statement, ())
            raise
        if strict and answer.result.warnings:
            raise Undecided(
                "; ".join(answer.result.warnings),
                hint="without --strict the answer is shown, what is undecided marked",
            )
        for table in plan.threshold.overridden:
            self.source.record(table, "smaller groups", min_group=plan.threshold.least or 1)
        return answer

    def answer(
        self,
        question: str | Statement,
        options: Options = DEFAULTS,
        seconds: float | None = None,
        *,
        cloud_only: bool = False,
        strict: bool = False,
        planned: Callable[[AnswerPlan], None] = lambda _: None,
    ) -> tuple[AnswerPlan, Answer]:
        """Plan a question and answer it, as `plan` and `ask` do. If others replace a table in between by one that the
        plan does not fit, it is planned again. `planned` gets each plan.
        """
        spent = 0.0

        def asked() -> tuple[AnswerPlan, Answer]:
            nonlocal spent
            plan = self.plan(question, options, cloud_only=cloud_only)
            planned(plan)
            try:
                return plan, self.ask(plan, seconds, strict=strict, spent=spent)
            finally:
                spent = self.spent

        return self.source.on_newest(asked)

    def _answer(self, plan: AnswerPlan, deadline: Deadline, *, sized: bool) -> Answer:
        with self._bars() as progress:
            question = RunningQuestion(plan.pad, plan.threshold.least, progress, deadline, Clock(), sized)
            if (whole := plan.cut.whole()) is not None:
                from cleave.ask.finishing import finished_whole  # noqa: PLC0415 - a plan alone does not need it

                return finished_whole(self.source, plan, whole, question)
            with self.source.sums(plan, question) as sums:
                from cleave.ask.finishing import finished  # noqa: PLC0415 - imported while services are waited for

                return finished(sums, question)

    @property
    def spent(self) -> float:
        """Seconds that the last question took of its time, with those spent before."""
        return self._deadline.spent() if self._deadline is not None else 0.0

    def _run(self, work: Callable[[Deadline], T], seconds: float | None = None, spent: float = 0.0) -> T:
        self._deadline = deadline = Deadline(seconds or self.source.seconds, spent=spent)
        deadline.check()
        return self.source.run(lambda: work(deadline), deadline)

    def stop_job(self, plan: AnswerPlan) -> bool:
        """End the job that answers `plan`; return False if there is none. Raises InputError if there can be none."""
        return self._run(lambda _: self.source.stop_job(plan))

    def stop(self) -> None:
        """Make the work of another thread here fail soon.

        Repeat the call until it has: the thread may be between two waits.
        """
        if self._deadline is not None:
            self._deadline.stop()
        self.source.stop()

    def close(self) -> None:
        """Close tables, keys and connections. A second call does nothing."""
        self.source.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _read(question: str | Statement) -> Statement:
    """Parse a question that is still text. Raises QueryRefused, InputError."""
    from cleave.sql.read import Statement, read_statement  # noqa: PLC0415 - as `point`

    return question if isinstance(question, Statement) else read_statement(question)
