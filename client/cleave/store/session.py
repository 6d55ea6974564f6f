"""A stored table that questions are put to: what cleave.session.Session is for a file.

    with StoredSession("trial", stores, Access(Path("key.json"))) as session:
        answer = session.ask(session.plan("SELECT ward, AVG(age) FROM trial GROUP BY ward"))

The head is read once: every answer of a session is of one version of the table.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from cleave.pipeline import DEFAULTS, Options, Result, run_local
from cleave.session import Access, Bars, Silent, require_decided
from cleave.sql.plan import LocalPlan, QueryPlan
from cleave.sql.planner import plan_query
from cleave.sql.whole import plan_whole
from cleave.store.cellwise import Cellwise, over_cells
from cleave.store.describe import describe_stored
from cleave.store.memory import Memory
from cleave.store.stored import Stored
from cleave.store.tables import Tables
from cleave.transport.base import QUERY_SECONDS
from cleave.transport.deadline import Deadline
from cleave_shared.errors import KeyFileError, QueryRefused

if TYPE_CHECKING:
    from cleave.ckks.secret_key import SecretKey
    from cleave.describe import Description
    from cleave.store.locate import Stores
    from cleave.table.lazy import LazyTable
    from cleave.table.schema import Schema
    from cleave.table.table import Table


def open_tables(stores: Stores, access: Access, memory: Memory | None = None) -> tuple[Tables, SecretKey]:
    """The tables under one key, which may be asked its passphrase. Raises KeyFileError."""
    from cleave.ckks.key_file import open_key  # noqa: PLC0415 - cryptography takes 30 ms

    key = open_key(access.key, access.passphrase)
    return Tables(stores, key, memory or Memory()), key


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
    ) -> None:
        if access is None:
            raise KeyFileError("a stored table is asked under its key, and none was named")
        self.name = name
        self._bars = bars
        self._others = tuple(others)
        self._open = contextlib.ExitStack()
        self._open.callback(stores.close)
        self._deadline: Deadline | None = None  # of the question under way
        self._table: Table | None = None  # and what was fetched for it
        try:
            self._tables, key = open_tables(stores, access, memory)
            self._stored = Stored(self._tables, self._tables.open(name), key)
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

    def unlock(self, plan: QueryPlan | LocalPlan) -> None:
        """The key is open already."""

    def stop(self) -> None:
        """Make what another thread does here fail soon. To be said again until it has."""
        deadline, table = self._deadline, self._table
        if deadline is not None:
            deadline.stop()
        if table is not None:
            table.connection.interrupt()

    def plan(self, sql: str, *, cloud_only: bool = False) -> QueryPlan | LocalPlan:
        """Over cells (QueryPlan) where they answer, else over rows that are fetched. Raises QueryRefused."""
        others = {each.name: each.schema for each in self._others}
        plan = plan_query(sql, self.schema, self.name, cloud_only=cloud_only, others=others)
        if isinstance(plan, LocalPlan):
            return plan
        wanted = over_cells(plan, self._stored.manifest)
        if isinstance(wanted, Cellwise):
            return plan
        if cloud_only:
            raise QueryRefused(f"the stored totals do not answer it: {wanted}", hint=self._over())
        return self._fetched(plan, others, wanted)

    def ask(
        self,
        plan: QueryPlan | LocalPlan,
        options: Options | None = None,
        seconds: float | None = None,
        *,
        strict: bool = False,
    ) -> Result:
        """Raises what Session.ask does, and CheckFailed for what is damaged in the store."""
        if isinstance(plan, LocalPlan):
            self._deadline = Deadline(seconds or QUERY_SECONDS)
            answer = self._ask_rows(plan, options or DEFAULTS, self._deadline)
        else:
            answer = self._stored.ask_cells(self._over_cells(plan), options or DEFAULTS)
        if strict:
            require_decided(answer)
        return answer

    def describe(self, plan: QueryPlan | LocalPlan, options: Options | None = None) -> Description:  # noqa: ARG002
        """Which way the question would be answered, and what that reads."""
        return describe_stored(self._stored, plan if isinstance(plan, LocalPlan) else self._over_cells(plan))

    def close(self) -> None:
        self._open.close()

    def __enter__(self) -> StoredSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask_rows(self, plan: LocalPlan, options: Options, deadline: Deadline) -> Result:
        with self._bars() as progress:
            # a join may name a column that it does not read, as USING does
            names = [each.name for each in self.schema.columns] if plan.others else plan.columns
            table = self._stored.rows.table(names, ordered=True, progress=progress)
            with table:
                self._table = table
                for each in self._others:
                    if each.name in plan.others:
                        with each.read(progress) as other:
                            table.add(each.name, other)
                deadline.check()
                answer = run_local(table, plan, options, deadline)
        return self._stored.counted(answer)

    def _over_cells(self, plan: QueryPlan) -> Cellwise:
        wanted = over_cells(plan, self._stored.manifest)
        if isinstance(wanted, str):
            raise QueryRefused(f"the stored totals do not answer it: {wanted}")
        return wanted

    def _fetched(self, plan: QueryPlan, others: Mapping[str, Schema], reason: str) -> LocalPlan:
        return plan_whole(plan.sql, self.schema, self.name, others, QueryRefused(reason, hint=self._over()))

    def _over(self) -> str:
        names = ", ".join(self._stored.manifest.by) or "no columns"
        return f"totals are kept by {names}: counts, sums, means, variances over them need no rows"
