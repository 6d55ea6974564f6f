"""What the words of `plan`, `query` and `shell` mean: files of one table, or a stored one, and a question."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cleave.ask.access import STORE_VARIABLE
from cleave.cli.options import Asking
from cleave.cli.sql_file import read_sql
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import InputError

if TYPE_CHECKING:
    from cleave.ask.session import Session
    from cleave.table.lazy import LazyTable

Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE...",
        help="The table: a CSV (.gz too), a Parquet file, several of them or a pattern in quotes, or - for standard "
        "input.",
        show_default=False,
    ),
]
Tables = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILE... | NAME",
        help="Files as of `query`; with a store the name of a stored table, or nothing: then questions name tables.",
        show_default=False,
    ),
]
Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FILE... | NAME] [SQL]",
        help="The table: a CSV (.gz too), a Parquet file, several of them or a pattern in quotes, or - for standard "
        "input; with a store the name of a stored table, or nothing: then the question names tables. Last, one SELECT.",
        show_default=False,
    ),
]
Operation = Annotated[
    str | None,
    typer.Option("--op", metavar="OP", help="Instead of SQL: sum, product, mean, count, var or stddev of all numbers."),
]


@dataclass(frozen=True, slots=True)
class Asked:
    """Over a table of files, a stored one by its name, or the stored ones that `sql` names (None).

    `sql` None: `operation` over the table's columns.
    """

    table: LazyTable | str | None
    others: tuple[LazyTable, ...]
    sql: str | None
    operation: str | None = None

    def begun(self) -> Asked:
        """The same, its table being read from now on if it is a small one."""
        if self.table is None or isinstance(self.table, str):
            return self
        from cleave.table.lazy import begun  # noqa: PLC0415 - as in read_question

        return replace(self, table=begun(self.table))

    def question(self, session: Session | LazyTable) -> str:
        """Raises QueryRefused for an operation that there is not."""
        if self.sql is not None:
            return self.sql
        from cleave.sql.planner import operation_sql  # noqa: PLC0415 - what the command's --help does without

        return operation_sql(self.operation or "", session.schema, session.name)


def read_question(words: Sequence[str] | None, sql_file: Path | None, operation: str | None, asking: Asking) -> Asked:
    """The last word is the question unless `sql_file` or `operation` asks it.

    Raises typer.BadParameter where there is not exactly one question, InputError for files that are not there and for
    a schema that cannot be read, QueryRefused for an operation that there is not.
    """
    elsewhere = operation is not None or sql_file is not None
    given = list(words or ())
    files = given if elsewhere else given[:-1]
    named = bool(files) or (asking.store is not None and operation is None and bool(given or elsewhere))
    if not named or (elsewhere and given and _is_sql(given[-1])) or (operation is not None and sql_file is not None):
        raise typer.BadParameter("one question is needed: either SQL, --sql-file or --op")
    if "-" in files and str(sql_file) == "-":
        raise typer.BadParameter("standard input cannot hold both the table and the SQL")
    first, further = read_tables(files, asking)
    if operation is not None:
        return Asked(first, further, None, operation)
    return Asked(first, further, given[-1] if sql_file is None else read_sql(sql_file))


def read_tables(files: Sequence[str], asking: Asking) -> tuple[LazyTable | str | None, tuple[LazyTable, ...]]:
    """The table of files, the name of a stored one, or None for those that questions name; and those of --with.

    Raises InputError as `read_question` does, and for a word that may be a file or a stored table.
    """
    from cleave.table.lazy import of_files  # noqa: PLC0415 - what the command's --help does without

    others = tuple(map(_other, asking.others or ()))
    if asking.store is None or _are_files(files, asking.store):
        return of_files(files, asking.schema, asking.table), others
    if len(files) > 1 or asking.schema is not None or asking.table is not None:
        raise typer.BadParameter("--store goes with the name of one stored table, whose schema is stored with it")
    return files[0] if files else None, others


def _are_files(words: Sequence[str], store: str) -> bool:
    """Whether the words are files though there is a store.

    They may be where only CLEAVE_STORE names it. A word that is a file and may be a table's name is refused.
    """
    usual = os.environ.get(STORE_VARIABLE) == store
    for word in words:
        if Path(word).is_file() and Path(word).name == word and not Path(word).suffix:
            raise InputError(
                f"{word!r} is a file here, and may be a stored table",
                hint=f"./{word} is the file; move the file away to ask the table",
            )
    return usual and bool(words) and all(word == "-" or set(word) & set("*?[") or Path(word).exists() for word in words)


def _other(word: str) -> LazyTable:
    """The table of `--with FILE[=SCHEMA]`; either name may hold an equals sign."""
    from cleave.propose.further import further  # noqa: PLC0415 - as above

    cuts = [place for place, char in enumerate(word) if char == "=" and Path(word[:place]).exists()]
    name, schema = (word[: cuts[0]], word[cuts[0] + 1 :]) if cuts and not Path(word).exists() else (word, "")
    return further(name, Path(schema) if schema else None)


def _is_sql(word: str) -> bool:
    return " " in word.strip() and not Path(word).exists()
