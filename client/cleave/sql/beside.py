"""Planning in a process of its own, beside what the client does meanwhile; for commands that ask one question.

sqlglot alone takes as long to import as all the rest of planning, and what only the client needs (SEAL, pydantic, the
services) takes as long again: on two processors neither waits for the other. What both need is imported once, before
the fork. The child gets the text of the question and schemas, never a value or a key, and sends the plan back. It must
be forked before the process has a second thread.

    planner = Planner()                                # imports and forks, and the child begins to import the rest
    planner.begin("SELECT ...", schema, "patients")    # what it is to plan
    plan = planner.plan("SELECT ...", schema, "patients")
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cleave_shared import children
from cleave_shared.children import Channel, Child
from cleave_shared.errors import ProcessDied, QueryRefused, ServiceError

if TYPE_CHECKING:
    from cleave.sql.plan import LocalPlan, QueryPlan
    from cleave.table.schema import Schema

_SECONDS = 20.0  # for imports, on a machine at its limits; then it is planned here
_PARTS = frozenset(
    ("Argument", "EncryptedAggregate", "Final", "LocalAggregate", "LocalPlan", "Output", "PlainAggregate", "QueryPlan")
)
_AGGREGATE = "aggregate"


class Planner:
    """`cleave.sql.planner.plan_query` of one question. What the child cannot do, for whatever reason, is done here."""

    def __init__(self) -> None:
        _import_common()
        self._child: Child | None = children.fork(_serve)
        self._asked: tuple[Any, ...] | None = None

    def begin(
        self,
        sql: str,
        schema: Schema,
        table: str,
        *,
        cloud_only: bool = False,
        others: Mapping[str, Schema] | None = None,
    ) -> None:
        """Have it planned, and wait for nothing."""
        if self._child is None or self._asked is not None:
            return
        self._asked = (sql, schema, table, cloud_only, others)
        try:
            self._child.send([pickle.dumps(self._asked)], _SECONDS)
        except ProcessDied:
            self.close()

    def plan(
        self,
        sql: str,
        schema: Schema,
        table: str,
        *,
        cloud_only: bool = False,
        others: Mapping[str, Schema] | None = None,
    ) -> QueryPlan | LocalPlan:
        """As plan_query; of the question that was begun, or of any other. Raises QueryRefused."""
        if self._child is not None and self._asked == (sql, schema, table, cloud_only, others):
            try:
                (content,) = self._child.receive(_SECONDS)
            except ServiceError:
                pass  # what nobody expected, or too slow: done here, an error can be told and traced
            else:
                return _loaded(content)
            finally:
                self.close()
        from cleave.sql.planner import plan_query  # noqa: PLC0415 - the very thing

        return plan_query(sql, schema, table, cloud_only=cloud_only, others=others)

    def close(self) -> None:
        """Leave the child to its end: it has nothing to do any more, and goes with this process at the latest."""
        if self._child is not None:
            self._child.channel.close()
            self._child = None


def _import_common() -> None:
    """What both sides of the fork need. None of it starts a thread (numpy's OpenBLAS: see cleave.local.main)."""
    from cleave.sql import plan  # noqa: F401, PLC0415 - aggregates, and numpy with them: 50 ms
    from cleave.table import schema  # noqa: F401, PLC0415
    from cleave_shared import duckdb  # noqa: F401, PLC0415 - 15 ms


def _serve(channel: Channel) -> None:
    from cleave.sql import catalog, cut, parse, resolve  # noqa: F401, PLC0415 - before it is asked
    from cleave.sql.planner import plan_query  # noqa: PLC0415
    from cleave.table.duck import connect_ahead  # noqa: PLC0415

    connect_ahead()
    try:
        (content,) = channel.receive()
    except EOFError:  # nothing was to be planned
        return
    sql, schema, table, cloud_only, others = pickle.loads(content)  # noqa: S301 - from the process that forked this one
    try:
        plan = plan_query(sql, schema, table, cloud_only=cloud_only, others=others)
    except QueryRefused as error:  # one of its kinds perhaps, which the other end does not know
        raise QueryRefused(error.message, hint=error.hint) from None
    channel.send([_dumped(plan)])


class _Pickler(pickle.Pickler):
    def persistent_id(self, thing: object) -> tuple[str, int] | None:
        """Aggregates are the ones that are declared, at either end."""
        from cleave.aggregates import DECLARED  # noqa: PLC0415 - flint

        places = [place for place, each in enumerate(DECLARED) if each is thing]
        return (_AGGREGATE, places[0]) if places else None


class _Unpickler(pickle.Unpickler):
    """Reads plans: whatever the child has become, it makes nothing else here."""

    def find_class(self, module: str, name: str) -> Any:
        from cleave.sql import plan  # noqa: PLC0415

        if module == plan.__name__ and name in _PARTS:
            return getattr(plan, name)
        raise pickle.UnpicklingError(f"no part of a plan: {module}.{name}")

    def persistent_load(self, pid: Any) -> Any:
        from cleave.aggregates import DECLARED  # noqa: PLC0415 - flint

        return DECLARED[pid[1]]


def _dumped(plan: QueryPlan | LocalPlan) -> bytes:
    into = io.BytesIO()
    _Pickler(into, pickle.HIGHEST_PROTOCOL).dump(plan)
    return into.getvalue()


def _loaded(content: bytes) -> QueryPlan | LocalPlan:
    found: QueryPlan | LocalPlan = _Unpickler(io.BytesIO(content)).load()
    return found
