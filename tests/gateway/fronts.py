"""Open sessions of every front over one store, each a function from SQL to what it shows."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, redirect_stdout
from dataclasses import dataclass
from decimal import Decimal
from io import StringIO
from pathlib import Path
from typing import Any

import httpx
import psycopg
import sqlalchemy as sa

import cleave
from cleave.ask.options import Asking, complete
from cleave.ask.session import Session
from cleave.cli.shell.shell import Shell
from cleave.logins.users import write_user
from cleave_shared.errors import CleaveError
from tests.cli.runner import Cli
from tests.functional.processes import HANGS
from tests.gateway.conftest import PASSWORD, connect, started, stop

REFUSED = (CleaveError, sa.exc.DBAPIError, psycopg.Error, ConnectionError)


@dataclass(frozen=True, slots=True)
class Shown:
    """Rows as a front shows them. `bounds`, `exact`: None if it does not state them."""

    rows: Sequence[Sequence[Any]]
    bounds: Sequence[Sequence[float | None]] | None = None
    exact: Sequence[Sequence[bool | None]] | None = None


@dataclass(frozen=True, slots=True)
class Ports:
    """A running gateway: its addresses, and the token of its user `program`."""

    postgres: str
    http: str
    token: str


def gateway_over(folder: Path, port: int, stack: ExitStack) -> Ports:
    """Start a gateway over the store in `folder` for two users who may read rows, until `stack` ends."""
    rights = {"tables": None, "min_group": 0, "rows": True}
    write_user(folder / "users.toml", "owner", PASSWORD.encode(), token=False, **rights)
    token = write_user(folder / "users.toml", "program", None, token=True, **rights)
    assert token
    process, (postgres, http) = started(folder, "--http-port", str(port), "--workers", "1")
    stack.callback(stop, process)
    return Ports(postgres, http, token)


class Fronts:
    """`asks`: by name of a front. `session`: that of a Python connection to all tables of the store."""

    def __init__(self, table: str, store: Path, key: Path, ports: Ports, stack: ExitStack) -> None:
        given: dict[str, Any] = {"store": store, "key": key, "min_group": 1, "yes": True}
        one = stack.enter_context(cleave.connect(table, **given))
        every = stack.enter_context(cleave.connect(**given))
        engine = sa.create_engine(f"cleave:///{store}?key={key}&min_group=1&yes=true")
        stack.callback(engine.dispose)
        alchemy = stack.enter_context(engine.connect())
        wire = stack.enter_context(closing(connect(int(ports.postgres.rpartition(":")[2]))))
        program = stack.enter_context(httpx.Client(timeout=HANGS))
        program.headers["authorization"] = f"Bearer {ports.token}"
        self.session: Session = every._opened()
        shell = Shell(
            self.session, complete(Asking, {"timeout": HANGS, "min_group": 1, "yes": True}), lambda work: work()
        )
        shell.command(".format json")

        def by_python(connection: cleave.Connection) -> Callable[[str], Shown]:
            def ask(sql: str) -> Shown:
                result = connection.execute(sql).result
                return Shown(result.rows, result.bounds, result.exact)

            return ask

        def in_shell(sql: str) -> Shown:
            with redirect_stdout(StringIO()) as printed:
                shell.statement(sql)
            return read(printed.getvalue())

        def over_postgres(sql: str) -> Shown:
            return Shown(wire.execute(sql).fetchall())

        def over_http(sql: str) -> Shown:
            answer = program.post(f"{ports.http}/v1/query", json={"sql": sql})
            if answer.status_code != 200:
                raise ConnectionError(answer.text)
            return Shown(answer.json()["rows"])

        self.asks: dict[str, Callable[[str], Shown]] = {
            "python, one table": by_python(one),
            "python, a store": by_python(every),
            "shell": in_shell,
            "sqlalchemy": lambda sql: Shown(alchemy.exec_driver_sql(sql).fetchall()),
            "postgres": over_postgres,
            "http": over_http,
        }


def by_command(store: Path, key: Path, sql: str) -> Shown:
    """A new command's answer."""
    place = ("--store", store, "--key", key)
    ended = Cli().run("--quiet", "query", sql, *place, "--min-group", 1, "--yes", "--format", "json")
    if ended.exit_code:
        raise ConnectionError(ended.stderr)
    return read(ended.stdout)


def read(document: str) -> Shown:
    answer = json.loads(document, parse_float=Decimal)
    return Shown(answer["rows"], answer["bounds"], answer["exact"])
