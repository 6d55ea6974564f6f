"""The functions `query` and `plan`, for one question over a table, and `schema`, which proposes a first schema.

The SQL is one SELECT. It calls the table as the argument `table` says, else as the schema says, else by the file's
name; a frame is called "frame". Both services run in this process unless the arguments "endpoint" or "functions" say
otherwise. DuckDB on this machine answers what no service can, unless "cloud_only" is set.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from cleave.api.result import Result
from cleave.ask.files import further
from cleave.ask.opening import asks_embedded, column_names, frame_has_none, no_table, open_session, read_data
from cleave.ask.options import Asking, complete, question_options, stated
from cleave.local.embedded import embedded_services, prepare_embedded
from cleave.shown.plan import plan_lines
from cleave.table.inputs import check_reading
from cleave.table.lazy import is_frame, of_local_frame
from cleave.table.progress import bars
from cleave.table.schema import CsvDialect, Kind, Schema
from cleave.text.nearest import did_you_mean
from cleave_shared.core_dumps import refuse_core_dumps
from cleave_shared.errors import InputError, stack_level

if TYPE_CHECKING:
    from cleave.ask.describe import Description
    from cleave.ask.options import Data
    from cleave.ask.plan import AnswerPlan
    from cleave.ask.session import Session
    from cleave.sql.read import Statement


class UndecidedWarning(UserWarning):
    """The error bounds leave a decision open (HAVING, ORDER BY, LIMIT, CASE, ...); what depends on it is marked."""


@dataclass(frozen=True, slots=True, repr=False)
class Plan:
    """How a query would be answered. `description` holds the facts; printed, it is the text of `cleave plan`."""

    description: Description

    def __repr__(self) -> str:
        return plan_lines(self.description)


@stated(Asking)
def query(data: Data | None, sql: str, **asking: Unpack[Asking]) -> Result:
    """Answer one SELECT over a DataFrame, an Arrow table, or the path of a CSV or Parquet file.

    With the argument "store", which takes the same places as `cleave put --store`, `data` is the name of a stored
    table. If `data` is then None, the query itself names stored tables. "scan" set to False fetches rows; otherwise the
    sensitive service may add them up, and then learns which rows belong together. "fetch_limit" is the most bytes of
    rows to fetch, such as "1GB" or a number. "memory" is the most memory for a query over rows, by default a quarter of
    the machine's. "cache" set to False stores no object of a bucket on this machine.

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

    A frame needs the kind of each of its columns; a column without a kind is refused.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"ward": ["A", "B", "A"], "bill": [10.5, 20.25, 30.0]})
    >>> kinds = {"ward": "plain", "bill": "encrypted"}
    >>> cleave.query(frame, "SELECT ward, SUM(bill) AS total FROM frame GROUP BY ward ORDER BY ward", schema=kinds).df()
      ward  total
    0    A  40.50
    1    B  20.25

    Raises InputError, QueryRefused, KeyFileError, ServiceError, CheckFailed and, with "strict", Undecided. All of them
    are CleaveError, and no message holds a value of the table.
    """
    started = time.perf_counter()
    given = complete(Asking, asking)
    with session_over(data, given) as session:
        return ask(session, sql, given, started)


@stated(Asking)
def plan(data: Data | None, sql: str, **asking: Unpack[Asking]) -> Plan:
    """Return what `query` would send, how exact the answer would be, and what each service would learn.

    >>> import cleave
    >>> planned = cleave.plan("patients.csv", "SELECT AVG(age) FROM patients")
    >>> planned.description.sensitive.count, planned.description.sensitive.bytes_up
    (1, 66048)

    Nothing is sent, and only stored tables need a key. Raises InputError and QueryRefused.
    """
    given = complete(Asking, asking)
    with session_over(data, given) as session:
        planned = session.plan(sql, question_options(given), cloud_only=given["cloud_only"])
        return Plan(session.describe(planned))


def schema(
    data: Data,
    kinds: Mapping[str, str] | None = None,
    *,
    entity: str | Sequence[str] | None = None,
    accept: bool = False,
    skip: int = 0,
    table: str | None = None,
    sheet: str | None = None,
    flatten: bool = False,
) -> Schema:
    """Propose which columns of a frame or of files are sensitive, as `cleave schema` does. Nothing is written.

    `kinds` holds your own decisions, by column. `entity` lists the columns that say whom a row is about; it is empty
    for none. `accept` keeps every unsure column as proposed. `skip` is the number of lines before a file's header,
    `table` its name in SQL, and `sheet` the sheet of an Excel file. `flatten` turns nested JSON objects into columns
    "a.b". No column is proposed plain without evidence that it is harmless.

    >>> import cleave
    >>> proposal = cleave.schema("patients.csv", {"ward": "plain"})
    >>> [(column.name, str(column.kind)) for column in proposal.columns][2:5]
    [('ward', 'plain'), ('admitted', 'sealed'), ('age', 'encrypted')]
    """
    from cleave.propose.propose import propose, propose_frame  # noqa: PLC0415 - a question does not need it

    for kind in (kinds or {}).values():
        if kind not in list(Kind):
            raise InputError(f"there is no kind {kind!r}", hint=did_you_mean(kind, Kind) or f"kinds: {', '.join(Kind)}")
    decided = {name: Kind(kind) for name, kind in (kinds or {}).items()}
    if is_frame(data):
        if sheet is not None or flatten:
            raise frame_has_none()
        proposed = propose_frame(data, decided, accept=accept, table=table)
    elif isinstance(data, str | Path) or (isinstance(data, Sequence) and data):
        reading = CsvDialect(skip=skip, sheet=sheet or "", flatten=flatten)
        check_reading([data] if isinstance(data, str | Path) else data, reading)
        proposed = propose(data, decided, accept=accept, reading=reading, table=table)
    else:
        raise no_table(data)
    return proposed if entity is None else proposed.about(column_names(entity) or ())


def session_over(data: Data | None, asking: Asking) -> Session:
    """Open a session. Only a stored table, and its key, are opened now.

    Raises InputError for data or a schema that cannot be read.
    """
    table = read_data(data, asking)
    others = [
        further(other, None, name) if isinstance(other, str | Path) else of_local_frame(other, name)
        for name, other in dict(asking["others"] or {}).items()
    ]
    if (table is None or isinstance(table, str)) and asks_embedded(asking):
        prepare_embedded()  # before there is a key: what is forked later comes from what is forked now
    return open_session(table, others, asking, embedded_services, bars(asking["progress"]))


def ask(session: Session, question: str | Statement, asking: Asking, started: float) -> Result:
    """Answer one question over an open session. If the answer leaves something undecided, warn at the caller's line."""

    def prepare(plan: AnswerPlan) -> None:
        if session.source.asks_embedded and not plan.sends_nothing:
            prepare_embedded()  # takes its time in the background, while the table is read

    how = {"cloud_only": asking["cloud_only"], "strict": asking["strict"]}
    planned, answer = session.answer(question, question_options(asking), asking["timeout"], planned=prepare, **how)
    for warning in answer.result.warnings:
        warnings.warn(warning, UndecidedWarning, stacklevel=stack_level())
    return Result(planned.cut, time.perf_counter() - started, answer)


def protect() -> None:
    """Forbid core dumps of this process, and let only root trace it or read its memory.

    This holds for the whole process until it ends. Debuggers and profilers that attach from outside, such as gdb and
    py-spy, stop working. It sets RLIMIT_CORE to 0 and PR_SET_DUMPABLE to 0: see setrlimit(2) and prctl(2).
    """
    refuse_core_dumps()
