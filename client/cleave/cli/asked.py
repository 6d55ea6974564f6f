"""What the words of `plan` and `query` mean: the files of one table, a schema, and one question over it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from cleave.sql.plan import QueryPlan
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


@dataclass(frozen=True, slots=True)
class Asked:
    files: list[str]
    schema: Schema
    plan: QueryPlan


def read_question(words: Sequence[str], operation: str | None, schema: Path | None, table: str | None) -> Asked:
    """The last word is the question unless `operation` asks it.

    Raises typer.BadParameter where there is not exactly one question, InputError for files that are not there and for
    a schema that cannot be read, QueryRefused for a question that cannot be answered.
    """
    files = list(words) if operation is not None else list(words[:-1])
    if not files or (operation is not None and _is_sql(words[-1])):
        raise typer.BadParameter("one question is needed: either SQL or --op")
    from cleave.sql.planner import operation_sql, plan_query  # noqa: PLC0415 - what the command's --help does without
    from cleave.table.inputs import check_there, table_name  # noqa: PLC0415
    from cleave.table.schema import load_schema, schema_path  # noqa: PLC0415

    check_there(files)
    contract = load_schema(schema or schema_path(files))
    name = table or contract.table or table_name(files)
    sql = words[-1] if operation is None else operation_sql(operation, contract, name)
    return Asked(files, contract, plan_query(sql, contract, name))


def _is_sql(word: str) -> bool:
    return " " in word.strip() and not Path(word).exists()
