"""`cleave.query` and `cleave.plan`: one question over one table.

`sql` is one SELECT over the table, whose name is `table`, else what the schema says, else the file's; a frame is called
`frame`. Without an `endpoint` and without `functions` both services are asked in this process. What no service can
answer DuckDB answers here, unless `cloud_only`.
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import TYPE_CHECKING, Unpack

from cleave.api.opening import Asking, Data, complete, open_session, stated
from cleave.api.plan import Plan
from cleave.api.result import Result
from cleave.local.prepare import prepare_embedded
from cleave_shared.errors import InputError

if TYPE_CHECKING:
    from cleave.ask.result import Options
    from cleave.ask.session import Session


class UndecidedWarning(UserWarning):
    """The error bounds leave a decision open (HAVING, ORDER BY, LIMIT, CASE, ...); what depends on it is marked."""


@stated
def query(data: Data | None, sql: str, **asking: Unpack[Asking]) -> Result:
    """Answer one SELECT over a DataFrame, an Arrow table, or the path of a CSV or Parquet file.

    With `store`, a place as `cleave put --store` names it, over the stored table of that name: of one `contributor`, or
    "owner", those rows alone. None in place of a name: over the stored tables that the question names. `scan` False:
    rows are fetched rather than added up by the sensitive service, which learns then which positions belong together.
    `fetch_limit`: how many bytes of rows may be fetched, 1GB or a number; `memory`: how many a question over rows may
    take, a quarter of the machine's unless it is said. `cache` False: nothing that is read of a bucket is kept on this
    machine.

    >>> import cleave
    >>> sql = "SELECT ward, COUNT(*) AS stays, AVG(age) AS age FROM patients GROUP BY ward ORDER BY age LIMIT 2"
    >>> answer = cleave.query("patients.csv", sql)
    >>> answer
    ward         stays                       age
    key          plain                 encrypted
    -----------  -----  ------------------------
    Paediatrics    102    8.77450980392157 exact
    Maternity       93  31.559139784946236 exact
    >>> answer.rows
    [('Paediatrics', 102, 8.77450980392157), ('Maternity', 93, 31.559139784946236)]
    >>> answer.sources
    ('key', 'plain', 'encrypted')

    A frame comes with the kind of each of its columns; one that is not named is refused.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"ward": ["A", "B", "A"], "bill": [10.5, 20.25, 30.0]})
    >>> kinds = {"ward": "plain", "bill": "encrypted"}
    >>> cleave.query(frame, "SELECT ward, SUM(bill) AS total FROM frame GROUP BY ward ORDER BY ward", schema=kinds).df()
      ward  total
    0    A  40.50
    1    B  20.25

    Raises InputError, QueryRefused, KeyFileError, ServiceError, CheckFailed, and with `strict` Undecided: all are
    CleaveError, and no message holds a value of the table.
    """
    started = time.perf_counter()
    given = complete(asking)
    with open_session(data, given) as session:
        return ask(session, sql, given, started)


@stated
def plan(data: Data | None, sql: str, **asking: Unpack[Asking]) -> Plan:
    """What `query` would send where, how exact the answer would be, and what each service would learn.

    >>> import cleave
    >>> planned = cleave.plan("patients.csv", "SELECT AVG(age) FROM patients")
    >>> planned.description.sensitive.count, planned.description.sensitive.bytes_up
    (1, 66048)

    Nothing is sent, and no key is needed but that of stored tables. Raises InputError and QueryRefused.
    """
    given = complete(asking)
    with open_session(data, given) as session:
        return Plan(session.describe(session.plan(_text(sql), cloud_only=given["cloud_only"]), chosen(given)))


def ask(session: Session, sql: str, asking: Asking, started: float) -> Result:
    """One question to an open session; what stays undecided is warned of at the line that called the API."""
    planned = session.plan(_text(sql), cloud_only=asking["cloud_only"])
    if session.source.asks_embedded and not planned.sends_nothing:
        prepare_embedded()  # takes its time in the background, while the table is read
    answer = session.ask(planned, chosen(asking), asking["timeout"], strict=asking["strict"])
    for warning in answer.result.warnings:
        warnings.warn(warning, UndecidedWarning, stacklevel=level())
    return Result(planned, asking["raw"], time.perf_counter() - started, answer)


def _text(sql: object) -> str:
    if not isinstance(sql, str):
        raise InputError(f"a question is text, not {type(sql).__name__}", hint="one SELECT over the table")
    return sql


def level() -> int:
    """Stack level of the first frame outside of this program, seen from the function that warns."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("cleave."):
        frame, level = frame.f_back, level + 1
    return level


def chosen(asking: Asking) -> Options:
    """Raises InputError for what is out of range."""
    from cleave.ask.result import Options  # noqa: PLC0415 - numpy and all that computes

    return Options(asking["pad"], asking["digits"], asking["min_group"])
