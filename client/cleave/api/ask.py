"""`cleave.query` and `cleave.plan`: one question over one table.

`sql` is one SELECT over the table, whose name is `table`, else what the schema says, else the file's; a frame is called
`frame`. Without an `endpoint` and without `functions` both services are asked in this process. What no service can
answer DuckDB answers here, unless `cloud_only`.
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from cleave.api.bars import bars
from cleave.api.opening import Data, Others, PassphraseLike, SchemaLike, further_tables, lazy, open_session
from cleave.api.plan import Plan
from cleave.api.result import Result
from cleave.local.prepare import prepare_embedded
from cleave.session import Session
from cleave.transport.base import QUERY_SECONDS
from cleave.transport.connect import Target
from cleave_shared.errors import InputError

if TYPE_CHECKING:
    from cleave.pipeline import Options
    from cleave.store.session import StoredSession


class UndecidedWarning(UserWarning):
    """The error bounds leave a decision open (HAVING, ORDER BY, LIMIT, CASE, ...); what depends on it is marked."""


def query(
    data: Data,
    sql: str,
    *,
    schema: SchemaLike | None = None,
    table: str | None = None,
    others: Others | None = None,
    store: str | Path | None = None,
    contributor: str | None = None,
    key: str | Path | None = None,
    passphrase: PassphraseLike | None = None,
    endpoint: str | None = None,
    functions: str | None = None,
    profile: str | None = None,
    region: str | None = None,
    sign: bool = False,
    insecure_http: bool = False,
    cloud_only: bool = False,
    scan: bool = True,
    fetch_limit: int | str = "1GB",
    memory: int | str | None = None,
    cache: bool = True,
    min_group: int = 0,
    pad: bool = False,
    digits: int = 9,
    raw: bool = False,
    strict: bool = False,
    timeout: float = QUERY_SECONDS,
    progress: bool | None = None,
) -> Result:
    """Answer one SELECT over a DataFrame, an Arrow table, or the path of a CSV or Parquet file.

    With `store`, a place as `cleave put --store` names it, over the stored table of that name: of one `contributor`, or
    "owner", those rows alone. `scan` False: its rows are fetched rather than added up by the sensitive service, which
    learns then which positions belong together. `fetch_limit`: how many bytes of rows may be fetched, 1GB or a number;
    `memory`: how many a question over rows may take, a quarter of the machine's unless it is said. `cache` False:
    nothing that is read of a bucket is kept on this machine.

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
    with open_session(
        data,
        schema=schema,
        table=table,
        key=key,
        passphrase=passphrase,
        target=Target(endpoint, functions, profile, region, sign, insecure_http),
        progress=progress,
        others=others,
        store=store,
        contributor=contributor,
        scan=scan,
        fetch_limit=fetch_limit,
        memory=memory,
        cache=cache,
    ) as session:
        options = chosen(pad, digits, min_group)
        return ask(session, sql, options, started, timeout, cloud_only=cloud_only, raw=raw, strict=strict)


def plan(
    data: Data,
    sql: str,
    *,
    schema: SchemaLike | None = None,
    table: str | None = None,
    others: Others | None = None,
    cloud_only: bool = False,
    pad: bool = False,
    digits: int = 9,
    progress: bool | None = None,
) -> Plan:
    """What `query` would send where, how exact the answer would be, and what each service would learn.

    >>> import cleave
    >>> planned = cleave.plan("patients.csv", "SELECT AVG(age) FROM patients")
    >>> planned.description.sensitive.count, planned.description.sensitive.bytes_up
    (1, 66048)

    Nothing is sent and no key is needed. Raises InputError and QueryRefused.
    """
    with Session(lazy(data, schema, table), bars=bars(progress), others=further_tables(others)) as session:
        return Plan(session.describe(session.plan(_text(sql), cloud_only=cloud_only), chosen(pad, digits)))


def ask(
    session: Session | StoredSession,
    sql: str,
    options: Options | None,
    started: float,
    timeout: float = QUERY_SECONDS,
    *,
    cloud_only: bool = False,
    raw: bool = False,
    strict: bool = False,
) -> Result:
    """One question to an open session; what stays undecided is warned of at the line that called the API."""
    planned = session.plan(_text(sql), cloud_only=cloud_only)
    if isinstance(session, Session) and not planned.sends_nothing and not session.is_remote:
        prepare_embedded()  # takes its time in the background, while the table is read
    answer = session.ask(planned, options, timeout, strict=strict)
    for warning in answer.result.warnings:
        warnings.warn(warning, UndecidedWarning, stacklevel=level())
    return Result(planned, raw, time.perf_counter() - started, answer)


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


def chosen(pad: bool, digits: int, min_group: int = 0) -> Options:
    """Raises InputError for what is out of range."""
    from cleave.pipeline import Options  # noqa: PLC0415 - numpy and all that computes

    return Options(pad, digits, min_group)
