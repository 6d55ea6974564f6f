"""Words of `plan`, `query` and `shell`: files of a table, or a stored one, and a question."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cleave.ask.opening import analyst_file, is_remote, open_session, read_data
from cleave.cli.options import argument, flag
from cleave_shared.errors import InputError

if TYPE_CHECKING:
    from cleave.ask.options import Asking
    from cleave.ask.session import Session
    from cleave.cli.group import Settings
    from cleave.table.lazy import LazyTable
    from cleave.table.progress import Bars

_LONGEST = 1_000_000  # bytes of SQL; the services take far less

Words = Annotated[
    list[str] | None,
    argument(
        "[FILE... | NAME] [SQL]",
        "CSV, Parquet, JSON or Excel files, or - for stdin; with a store, a stored table or none. Last, one SELECT.",
    ),
]
# For what should not stand in a shell's history or a list of processes.
SqlFile = Annotated[Path | None, flag("--sql-file FILE", "Read the SQL from this file, or from stdin if it is -.")]


def read_question(words: Sequence[str] | None, sql_file: Path | None) -> tuple[list[str], str]:
    """The words before the question, and the question: the last word, or what `sql_file` holds.

    Raises typer.BadParameter where there is not exactly one question, InputError for a file that holds no SQL.
    """
    given = list(words or ())
    if sql_file is None:
        if not given or (len(given) == 1 and not _is_sql(given[0])):
            raise typer.BadParameter("a query is needed: one SELECT as the last word, or --sql-file")
        return given[:-1], given[-1]
    if given and _is_sql(given[-1]):
        raise typer.BadParameter("one query is needed: either SQL or --sql-file")
    if "-" in given and str(sql_file) == "-":
        raise typer.BadParameter("standard input cannot hold both the table and the SQL")
    return given, read_sql(sql_file)


@contextlib.contextmanager
def session_over(
    words: Sequence[str], asking: Asking, settings: Settings, bars: Bars | None = None, machine: str | None = None
) -> Iterator[Session]:
    """A session over the table of `words`; a small file is read from now on."""
    from cleave.table.lazy import LazyTable, begun  # noqa: PLC0415 - what --help does without

    table = read_data(words or None, asking)
    others = list(map(_other, asking["others"] or ()))
    if not (is_remote(asking) or (not isinstance(table, LazyTable) and analyst_file(asking))):
        settings.prepare()
    if isinstance(table, LazyTable):
        table = begun(table)
    with open_session(table, others, asking, settings.embedded, bars or settings.bars, machine) as session:
        yield session


def _other(word: str) -> LazyTable:
    """The table of `--with FILE[=SCHEMA]`; either name may hold an equals sign."""
    from cleave.propose.further import further  # noqa: PLC0415 - as above

    cuts = [place for place, char in enumerate(word) if char == "=" and Path(word[:place]).exists()]
    name, schema = (word[: cuts[0]], word[cuts[0] + 1 :]) if cuts and not Path(word).exists() else (word, "")
    return further(name, Path(schema) if schema else None)


def _is_sql(word: str) -> bool:
    return " " in word.strip() and not Path(word).exists()


def read_sql(path: Path) -> str:
    """Raises InputError for what cannot be read or holds no SQL."""
    name = "standard input" if str(path) == "-" else str(path)
    try:
        with contextlib.nullcontext(sys.stdin.buffer) if str(path) == "-" else path.open("rb") as file:
            content = file.read(_LONGEST + 1)
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{name}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise InputError(f"{name}: is not UTF-8 text", hint="SQL is expected there") from None
    if len(content) > _LONGEST:
        raise InputError(f"{name}: holds more than {_LONGEST // 1_000_000} MB", hint="SQL is expected there, not data")
    if not text.strip():
        raise InputError(f"{name}: holds no SQL")
    return text
