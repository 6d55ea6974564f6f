"""What the words of `plan` and `query` mean: the files of one table, a schema, and one question over it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cleave.cli.sql_file import read_sql
from cleave_shared.dataclass import dataclass

if TYPE_CHECKING:
    from cleave.table.lazy import LazyTable
    from cleave.table.schema import Schema

Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE...",
        help="The table: a CSV (.gz too), a Parquet file, several of them or a pattern in quotes, or - for standard "
        "input.",
        show_default=False,
    ),
]
Words = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE... [SQL]",
        help="The table: a CSV (.gz too), a Parquet file, several of them or a pattern in quotes, or - for standard "
        "input; then one SELECT over it.",
        show_default=False,
    ),
]
Operation = Annotated[
    str | None,
    typer.Option("--op", metavar="OP", help="Instead of SQL: sum, product, mean, count, var or stddev of all numbers."),
]
SchemaFile = Annotated[
    Path | None,
    typer.Option("--schema", metavar="FILE", help="The schema, where it is not NAME.schema.toml beside the table."),
]
TableName = Annotated[
    str | None,
    typer.Option(
        "--table", metavar="NAME", help="What SQL calls the table, if not as the schema says or like its file."
    ),
]


CloudOnly = Annotated[
    bool, typer.Option("--cloud-only", help="Refuse what no service can answer, instead of answering it here (local).")
]
With = Annotated[
    list[str] | None,
    typer.Option(
        "--with",
        metavar="FILE[=SCHEMA]",
        help="A further table to join, called like its file; read here, nothing of it is sent. Repeatable. Its schema "
        "is SCHEMA or NAME.schema.toml beside it; without one its types are guessed.",
    ),
]


@dataclass(frozen=True, slots=True)
class Asked:
    """Over a table of files, or over a stored one by its name. `sql` None: `operation` over its columns."""

    table: LazyTable | str
    others: tuple[LazyTable, ...]
    sql: str | None
    operation: str | None = None

    def begun(self) -> Asked:
        """The same, its table being read from now on if it is a small one."""
        if isinstance(self.table, str):
            return self
        from cleave.table.lazy import begun  # noqa: PLC0415 - as in read_question

        return replace(self, table=begun(self.table))

    def question(self, schema: Schema, name: str) -> str:
        """Raises QueryRefused for an operation that there is not."""
        if self.sql is not None:
            return self.sql
        from cleave.sql.planner import operation_sql  # noqa: PLC0415 - what the command's --help does without

        return operation_sql(self.operation or "", schema, name)


def read_question(
    words: Sequence[str],
    sql_file: Path | None,
    operation: str | None,
    schema: Path | None,
    table: str | None,
    others: Sequence[str] = (),
    *,
    stored: bool = False,
) -> Asked:
    """The last word is the question unless `sql_file` or `operation` asks it; the first the name of a `stored` table.

    Raises typer.BadParameter where there is not exactly one question, InputError for files that are not there and for
    a schema that cannot be read, QueryRefused for an operation that there is not.
    """
    elsewhere = operation is not None or sql_file is not None
    files = list(words) if elsewhere else list(words[:-1])
    if not files or (elsewhere and _is_sql(words[-1])) or (operation is not None and sql_file is not None):
        raise typer.BadParameter("one question is needed: either SQL, --sql-file or --op")
    if "-" in files and str(sql_file) == "-":
        raise typer.BadParameter("standard input cannot hold both the table and the SQL")
    first, further = read_tables(files, schema, table, others, stored=stored)
    if operation is not None:
        return Asked(first, further, None, operation)
    return Asked(first, further, words[-1] if sql_file is None else read_sql(sql_file))


def read_tables(
    files: Sequence[str], schema: Path | None, table: str | None, others: Sequence[str] = (), *, stored: bool = False
) -> tuple[LazyTable | str, tuple[LazyTable, ...]]:
    """The table, or the name of a `stored` one, and those of --with. Raises InputError as `read_question` does."""
    from cleave.table.lazy import of_files  # noqa: PLC0415 - what the command's --help does without

    if stored and (len(files) > 1 or schema is not None or table is not None):
        raise typer.BadParameter("--store goes with the name of one stored table, whose schema is stored with it")
    return files[0] if stored else of_files(files, schema, table), tuple(map(_other, others))


def _other(word: str) -> LazyTable:
    """The table of `--with FILE[=SCHEMA]`; either name may hold an equals sign."""
    from cleave.propose.further import further  # noqa: PLC0415 - as above

    cuts = [place for place, char in enumerate(word) if char == "=" and Path(word[:place]).exists()]
    name, schema = (word[: cuts[0]], word[cuts[0] + 1 :]) if cuts and not Path(word).exists() else (word, "")
    return further(name, Path(schema) if schema else None)


def _is_sql(word: str) -> bool:
    return " " in word.strip() and not Path(word).exists()
