"""One table of files or a frame, for any number of questions: the command line, the shell and Python all use it.

    with Session(of_files(["patients.csv"]), embedded=embedded_services) as session:
        plan = session.plan("SELECT ward, AVG(age) FROM patients GROUP BY ward")
        answer = session.ask(plan)

Table and services are opened when the first question needs them, and kept. So is a CKKS secret key of the session's
own: no key file is needed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from cleave.sql.functions import TODAY
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import CheckFailed, InputError, Undecided
from cleave_shared.params import DEFAULT_PROFILE

if TYPE_CHECKING:
    from cleave.ckks.key_file import Passphrase
    from cleave.ckks.secret_key import SecretKey
    from cleave.describe import Description
    from cleave.pipeline import Options, Progress, Result
    from cleave.sql.plan import LocalPlan, QueryPlan
    from cleave.table.lazy import LazyTable
    from cleave.table.schema import Schema
    from cleave.table.table import Table
    from cleave.transport.base import Transport
    from cleave.transport.connect import Target
    from cleave.transport.deadline import Deadline

KEY_VARIABLE = "CLEAVE_KEY"
DEFAULT_IDENTITY = Path("~/.config/cleave/contributor.pem")
IDENTITY_VARIABLE = "CLEAVE_IDENTITY"
DEFAULT_KEY = Path("~/.config/cleave/key.json")
LONGEST_TIMEOUT = 7 * 86_400  # seconds
_MOST_PLANS = 32


@dataclass(frozen=True, slots=True)
class Access:
    """The owner's key file, which stored tables need, and where the services are (None: embedded)."""

    key: Path
    passphrase: Passphrase = None
    target: Target | None = None

    @property
    def remote(self) -> bool:
        return self.target is not None and self.target.remote


class Silent:
    """Progress that nobody sees."""

    def stage(self, name: str, total: int, unit: str = "") -> Callable[[int], None]:  # noqa: ARG002 - shows nothing
        return lambda _: None


def require_decided(answer: Result) -> None:
    """Raises Undecided where the error bounds leave a decision open."""
    if answer.result.warnings:
        raise Undecided(
            "; ".join(answer.result.warnings),
            hint="without --strict the answer is shown, what is undecided marked",
        )


Bars = Callable[[], AbstractContextManager["Progress"]]


class Session:
    """`bars` opens a progress display for one piece of work. A context manager; one thread at a time may use it.

    `others` are further tables a question may name; nothing of them is ever sent.
    """

    def __init__(
        self,
        table: LazyTable,
        access: Access | None = None,
        embedded: Callable[[], Transport] | None = None,
        bars: Bars = lambda: contextlib.nullcontext(Silent()),
        others: Sequence[LazyTable] = (),
    ) -> None:
        self.name = table.name
        self.schema = table.schema
        self._lazy = table
        self._others = _unlike(table.name, others)
        self._access = access
        self._embedded = embedded
        self._bars = bars
        self._open = contextlib.ExitStack()
        self._table: Table | None = None
        self._key: SecretKey | None = None
        self._services: Transport | None = None
        self._deadline: Deadline | None = None  # of the question under way
        self._plans: dict[tuple[str, bool], QueryPlan | LocalPlan] = {}  # the one asked for last comes last

    @property
    def schemas(self) -> dict[str, Schema]:
        """Of every table a question may name; the one that is split comes first."""
        return {self.name: self.schema} | {each.name: each.schema for each in self._others}

    def plan(self, sql: str, *, cloud_only: bool = False) -> QueryPlan | LocalPlan:
        """`cloud_only`: what no service can answer is refused. Raises QueryRefused. Opens nothing.

        The plans of the last questions are kept: only those that read the clock are made anew.
        """
        asked = (sql, cloud_only)
        plan = self._plans.pop(asked, None) or self._planned(sql, cloud_only=cloud_only)
        if not any(name in sql.lower() for name in TODAY):
            self._plans[asked] = plan
            while len(self._plans) > _MOST_PLANS:
                del self._plans[next(iter(self._plans))]
        return plan

    def _planned(self, sql: str, *, cloud_only: bool) -> QueryPlan | LocalPlan:
        others = {each.name: each.schema for each in self._others}
        from cleave.sql.planner import plan_query  # noqa: PLC0415 - DuckDB, numpy and aggregates take 50 ms

        return plan_query(sql, self.schema, self.name, cloud_only=cloud_only, others=others)

    def describe(self, plan: QueryPlan | LocalPlan, options: Options | None = None) -> Description:
        """What asking would send where. Raises InputError, QueryRefused; needs no key and sends nothing."""
        from cleave.describe import describe_plan  # noqa: PLC0415
        from cleave.pipeline import DEFAULTS, REQUESTS_UNDER_WAY  # noqa: PLC0415

        with self._bars() as progress:
            return describe_plan(
                self._read(progress),
                plan,
                REQUESTS_UNDER_WAY,
                options or DEFAULTS,
            )

    def ask(
        self,
        plan: QueryPlan | LocalPlan,
        options: Options | None = None,
        seconds: float | None = None,
        *,
        strict: bool = False,
    ) -> Result:
        """Answer `plan`. Once the table is read, services may take `seconds` (QUERY_SECONDS).

        DuckDB here may take as long.

        Raises InputError, QueryRefused, ServiceError, CheckFailed: everything that is wrong here is reported before
        anything is sent. After an answer that fails a check the session makes another key. `strict`: Undecided where
        the error bounds leave a decision open.
        """
        answer = self._answer(plan, options, seconds)
        if strict:
            require_decided(answer)
        return answer

    def _answer(self, plan: QueryPlan | LocalPlan, options: Options | None, seconds: float | None) -> Result:
        from cleave.pipeline import DEFAULTS, import_finish, run_local, run_query  # noqa: PLC0415
        from cleave.sql.plan import LocalPlan  # noqa: PLC0415
        from cleave.transport.base import QUERY_SECONDS  # noqa: PLC0415
        from cleave.transport.deadline import Deadline, Stopped  # noqa: PLC0415
        from cleave_shared import duckdb  # noqa: PLC0415 - 15 ms

        if seconds is not None and not 0 < seconds <= LONGEST_TIMEOUT:
            raise InputError(f"a question may take seconds above 0, at most {LONGEST_TIMEOUT:,}")
        if isinstance(plan, LocalPlan) or plan.sends_nothing:
            table = self.table
            self._deadline = deadline = Deadline(seconds or QUERY_SECONDS)
            return run_local(table, plan, options or DEFAULTS, deadline)
        if self._lazy.under_way:
            import_finish()  # instead of waiting for the table
        table = self.table
        key = self._secret()
        self._deadline = deadline = Deadline(seconds or QUERY_SECONDS)
        transport = self._connected(deadline).begin(deadline)
        try:
            with self._bars() as progress:
                return run_query(table, plan, key, transport, progress, options or DEFAULTS, deadline)
        except CheckFailed:
            self._key = None  # an answer that is wrong on purpose may have taught its maker something of the key
            raise
        except duckdb.InterruptException:
            pass
        finally:
            transport.stop()
        deadline.check()
        raise Stopped("the query was stopped")

    def stop(self) -> None:
        """Make what another thread does here fail soon. To be said again until it has: it may be between two waits."""
        deadline, table = self._deadline, self._table
        if deadline is not None:
            deadline.stop()
        if table is not None:
            table.connection.interrupt()

    @property
    def table(self) -> Table:
        """The table, read once."""
        if self._table is None:
            with self._bars() as progress:
                return self._read(progress)
        return self._table

    @property
    def is_remote(self) -> bool:
        """Whether services elsewhere are asked."""
        return self._access is not None and self._access.remote

    @property
    def rows(self) -> int:
        return self.table.rows

    def close(self) -> None:
        """Give up table, key and connections. Does nothing a second time."""
        self._table = self._key = self._services = None
        self._open.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read(self, progress: Progress) -> Table:
        if self._table is None:
            table = self._open.enter_context(self._lazy.read(progress))
            for each in self._others:
                with each.read(progress) as other:
                    table.add(each.name, other)
            self._table = table
        return self._table

    def _secret(self) -> SecretKey:
        """The session's CKKS key."""
        from cleave.ckks.secret_key import fresh_key  # noqa: PLC0415 - TenSEAL takes 60 ms

        if self._key is None:
            self._key = fresh_key(DEFAULT_PROFILE)
        return self._key

    def _connected(self, deadline: Deadline) -> Transport:
        from cleave.transport.connect import Target, connect  # noqa: PLC0415

        if self._services is None:
            # may run a program for credentials
            target = (self._access and self._access.target) or Target()
            services = deadline.call(lambda: connect(target, self._embedded))
            self._open.callback(services.close)
            self._services = services
        return self._services


def _unlike(name: str, others: Sequence[LazyTable]) -> tuple[LazyTable, ...]:
    """Raises InputError for tables of the same name, as DuckDB finds names."""
    taken = {name.lower()}
    for each in others:
        if each.name.lower() in taken:
            raise InputError(f"two tables are called {each.name!r}", hint="--table NAME calls the first otherwise")
        taken.add(each.name.lower())
    return tuple(others)
