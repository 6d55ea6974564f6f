"""Lines of the shell: its own commands, or statements, each planned, answered and shown.

Nothing here knows where lines come from; see cleave.cli.shell.interactive and cleave.cli.shell.piped.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from cleave.ask.options import question_options
from cleave.cli import console
from cleave.cli.answer import Format, answer_bytes, print_content, say_trust, write_page
from cleave.cli.shell.commands import help_text, read_command
from cleave.text.nearest import did_you_mean
from cleave.text.printable import printable
from cleave.text.tabular import Heading, table
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import InputError

if TYPE_CHECKING:
    from cleave.ask.options import Asking
    from cleave.ask.session import Session
    from cleave.ask.source import Result
    from cleave.sql.plan import LocalPlan, QueryPlan

T = TypeVar("T")
_ABOUT_TABLES = re.compile(r"SHOW\s+TABLES|(?:DESCRIBE|DESC)\s+(\w+|\"(?:[^\"]|\"\")+\")", re.IGNORECASE)


class Left(Exception):  # noqa: N818 - named for what happened
    """`.exit`."""


@dataclass(frozen=True, slots=True)
class Last:
    sql: str
    plan: QueryPlan | LocalPlan
    answer: Result
    seconds: float


class Shell:
    """`run` runs what may take long; it may raise what ends that early. One thread at a time may use it."""

    def __init__(
        self,
        session: Session,
        asking: Asking,
        run: Callable[[Callable[[], object]], object],
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._session = session
        self._asking = asking
        self._options = question_options(asking)
        self._say = say
        self._run = run
        self._format = Format.TABLE
        self._timer = False
        self._last: Last | None = None

    def statement(self, sql: str) -> None:
        """Ask and show. Raises what planning and asking raise, Undecided under --strict."""
        session, asking = self._session, self._asking
        if asked := _ABOUT_TABLES.fullmatch(sql.strip()):
            console.out(self._schema(_unquoted(asked[1])) if asked[1] else self._tables())
            return
        started = time.perf_counter()
        plan = self._do(lambda: session.plan(sql, cloud_only=asking["cloud_only"]))
        answer = self._do(lambda: session.ask(plan, self._options, asking["timeout"], strict=asking["strict"]))
        seconds = time.perf_counter() - started
        print_content(answer_bytes(answer, self._format), self._format)
        say_trust(answer, self._format, seconds, self._say)
        self._last = Last(sql, plan, answer, seconds)
        if self._timer:
            stages = ", ".join(f"{name} {spent:.3f} s" for name, spent in answer.timings.items())
            console.say(f"{stages}, in all {seconds:.3f} s")

    def command(self, line: str) -> None:
        """Raises Left, InputError for what is no command, and what the command itself raises."""
        name, argument = read_command(line)
        match name:
            case ".plan":
                self._plan(argument)
            case ".report":
                self._report(Path(argument))
            case ".format":
                self._choose(argument)
            case ".timer":
                self._time(argument)
            case ".tables":
                console.out(self._tables())
            case ".schema":
                console.out(self._schema(argument))
            case ".help":
                console.out(help_text())
            case ".exit":
                raise Left

    def _do(self, work: Callable[[], T]) -> T:
        result: T = self._run(work)  # type: ignore[assignment]  # whatever runs it gives back what it gave
        return result

    def _plan(self, sql: str) -> None:
        from cleave.cli.plan import plan_lines  # noqa: PLC0415

        session, asking = self._session, self._asking
        plan = self._do(lambda: session.plan(sql, cloud_only=asking["cloud_only"]))
        console.out(plan_lines(self._do(lambda: session.describe(plan, self._options))))

    def _report(self, path: Path) -> None:
        last = self._last
        if last is None:
            raise InputError("there is no answer yet to report on", hint="run a query first")
        description = self._do(lambda: self._session.describe(last.plan, self._options))
        from cleave.report.page import Facts  # noqa: PLC0415 - templates

        facts = Facts(last.sql, last.plan.table, datetime.now(UTC), last.seconds)
        write_page(path, last.answer, description, facts)
        console.say(f"wrote {printable(str(path))}")

    def _choose(self, name: str) -> None:
        known = [str(each) for each in Format if each not in (Format.PARQUET, Format.XLSX)]
        if name and name not in known:
            hint = did_you_mean(name, known) or f"formats are {', '.join(known)}"
            raise InputError(f"there is no format {name}", hint=hint)
        if name:
            self._format = Format(name)
        else:
            console.out(str(self._format))

    def _time(self, word: str) -> None:
        if word not in ("", "on", "off"):
            raise InputError(f".timer is on or off, not {word}")
        if word:
            self._timer = word == "on"
        else:
            console.out("on" if self._timer else "off")

    def _tables(self) -> str:
        session = self._session
        schemas = self._do(lambda: session.schemas)
        headings = [Heading("table"), Heading("columns", justify="right"), Heading("rows", justify="right")]
        cells = []
        for name, schema in schemas.items():
            rows = self._do(lambda name=name: session.rows_of(name))  # type: ignore[misc]
            cells.append([name, str(len(schema.columns)), "read here only" if rows is None else f"{rows:,}"])
        return table(headings, cells) if cells else "no tables under this key"

    def _schema(self, name: str = "") -> str:
        wanted = (name or self._session.name).lower()
        schemas = self._do(lambda: self._session.schemas)
        schema = next((each for known, each in schemas.items() if known.lower() == wanted), None)
        if schema is None:
            message = f"there is no table {name!r}" if name else ".schema: name a table"
            raise InputError(message, hint=did_you_mean(wanted, schemas) or ".tables lists all")
        headings = [Heading(name) for name in ("column", "kind", "type", "NULL")]
        bounds = [Heading(name, justify="right") for name in ("lower", "upper")]
        rows = [
            [
                column.name,
                str(column.kind),
                column.type,
                "yes" if column.nullable else "no",
                *("" if bound is None else str(bound) for bound in (column.lower, column.upper)),
            ]
            for column in schema.columns
        ]
        return table([*headings, *bounds], rows)


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name
