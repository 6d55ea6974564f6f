"""A DuckDB table that has what a stored table must have. Nothing here is Cleave's.

Columns `came` (the order in which rows came) and `contributor` are the mirror's own.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa

OWNER = "owner"
GROUPS = ("", "A", "B", "a\nb", " C ", "NULL", 'ü, "x"', "nan")
TEXTS = (
    "",
    "a",
    "line\none\n",
    "two\r\nlines",
    "it's",
    '"',
    "\u2028",
    "\U0001f600",
    "-0.0",
    "null",
    "x" * 300,
    ",",
    " ",
)
DATES = ("1969-12-31", "1970-01-01", "1899-12-31", "0001-01-01", "9999-12-31", "2000-02-29", "2024-02-29")
TIMES = ("1969-12-31 23:59:59.999999", "1900-01-01 00:00:00", "2024-02-29 12:00:00.5", "1970-01-01 00:00:00")
DOUBLES = (0.0, -0.0, 1e-300, 0.1, -0.1, 5e-324, 1.0)
BEYOND = (float("nan"), float("inf"), float("-inf"), 1e300, -1e-300)  # an encrypted column holds none of them
EDGE = Decimal(1000)


@dataclass(frozen=True, slots=True)
class Column:
    """`lower` and `upper`: the declared bounds."""

    name: str
    type: str
    kind: str
    lower: Decimal | None = None
    upper: Decimal | None = None
    nullable: bool = True

    @property
    def sql(self) -> str:
        return '"' + self.name.replace('"', '""') + '"'

    @property
    def is_number(self) -> bool:
        return self.type.endswith("INT") or self.type == "INTEGER" or self.type.startswith("DECIMAL")

    def limits(self) -> tuple[Decimal, Decimal]:
        """Least and largest value of a number."""
        if found := re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", self.type):
            most = Decimal((0, (9,) * int(found[1]), -int(found[2])))
            least = most.copy_negate()  # `-` rounds to 28 digits
        else:
            bits = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}[self.type]
            least, most = Decimal(-(2 ** (bits - 1))), Decimal(2 ** (bits - 1) - 1)
        return (least if self.lower is None else self.lower, most if self.upper is None else self.upper)

    def value(self, rng: Random) -> Any:
        if self.nullable and rng.random() < 0.15:
            return None
        if self.is_number:
            least, most = self.limits()
            near = [least, most, Decimal(0), Decimal(1), Decimal(-1), *(Decimal(rng.randint(-9, 9)) for _ in range(4))]
            return rng.choice([each for each in near if least <= each <= most])
        if self.type == "DOUBLE":
            if self.kind == "encrypted":
                return rng.choice([*DOUBLES, float(EDGE), -float(EDGE), rng.uniform(-1000, 1000)])
            return rng.choice([*DOUBLES, *BEYOND, rng.gauss(0, 1)])
        if self.type == "BOOLEAN":
            return rng.random() < 0.5
        if self.type == "DATE":
            return datetime.date.fromisoformat(rng.choice(DATES))
        if self.type == "TIMESTAMP":
            return datetime.datetime.fromisoformat(rng.choice(TIMES))
        return rng.choice(GROUPS if self.name in "gs" else TEXTS)


COLUMNS = (
    Column("id", "BIGINT", "sealed", Decimal(0), Decimal(10**9), nullable=False),
    Column("g", "VARCHAR", "plain"),
    Column("s", "VARCHAR", "sealed"),
    Column("p", "INTEGER", "plain", Decimal(-1000), Decimal(1000)),
    Column("q", "DOUBLE", "plain"),
    Column("i", "BIGINT", "encrypted", -EDGE, EDGE),
    Column("h", "SMALLINT", "encrypted"),
    Column("d", "DECIMAL(9,2)", "encrypted"),
    Column("f", "DOUBLE", "encrypted", -EDGE, EDGE),
    Column("b", "BOOLEAN", "encrypted"),
    Column("e", "DATE", "encrypted"),
    Column("t", "VARCHAR", "sealed"),
    Column("x", "DECIMAL(38,10)", "sealed"),
    Column("z", "DOUBLE", "sealed"),
    Column("day", "DATE", "plain"),
    Column("ts", "TIMESTAMP", "sealed"),
)
MORE = (
    ("VARCHAR", "sealed"),
    ("VARCHAR", "plain"),
    ("INTEGER", "encrypted"),
    ("BOOLEAN", "plain"),
    ("DECIMAL(18,4)", "encrypted"),
    ("DECIMAL(4,1)", "plain"),
    ("DATE", "sealed"),
    ("DOUBLE", "sealed"),
    ("TIMESTAMP", "plain"),
)
NAMES = ("Größe", "select", "a-b", "n1", "The_Name", "c.d", "o'clock")


class Mirror:
    """`rows` of the table are in `mirror`; new ones begin in `fresh`."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.duckdb = duckdb.connect()
        self.duckdb.execute("SET TimeZone = 'UTC'; SET threads = 1")
        self.columns = [*COLUMNS]
        self.next_id = self.next_came = 0

    def restart(self) -> None:
        """Make an empty table of the first columns."""
        self.columns = [*COLUMNS]
        self.execute(f"CREATE OR REPLACE TABLE mirror ({self._typed()}, came BIGINT, contributor VARCHAR)")

    def execute(self, sql: str) -> list[tuple[Any, ...]]:
        return self.duckdb.execute(sql).fetchall()

    def _typed(self) -> str:
        return ", ".join(f"{each.sql} {each.type}" for each in self.columns)

    @property
    def listed(self) -> str:
        return ", ".join(each.sql for each in self.columns)

    def make(self, count: int, *, ids: list[int] | None = None) -> None:
        """Put `count` new rows into `fresh`."""
        self.execute(f"CREATE OR REPLACE TABLE fresh ({self._typed()})")
        rows: list[list[Any]] = []
        for place in range(count):
            number = ids[place] if ids else self.new_id()
            rows.append([number if each.name == "id" else each.value(self.rng) for each in self.columns])
        marks = ", ".join(["(" + ", ".join("?" * len(self.columns)) + ")"] * count)
        self.duckdb.execute(f"INSERT INTO fresh VALUES {marks}", [value for row in rows for value in row])

    def new_id(self) -> int:
        self.next_id += 1
        return self.next_id

    def double(self) -> None:
        """Repeat some rows of `fresh`."""
        self.execute("INSERT INTO fresh FROM (FROM fresh LIMIT 3)")

    def frame(self) -> pa.Table:
        return self.duckdb.sql("FROM fresh").to_arrow_table()

    def write(self, path: Path) -> Path:
        texts = ", ".join(each.sql for each in self.columns if each.type == "VARCHAR")
        how = "PARQUET" if path.suffix == ".parquet" else f"CSV, HEADER, FORCE_QUOTE ({texts})"
        self.execute(f"COPY fresh TO '{path}' (FORMAT {how})")
        return path

    def take(self, whose: str = OWNER) -> None:
        """Add the rows of `fresh`."""
        came = self.next_came
        self.next_came += self.execute("SELECT count(*) FROM fresh")[0][0]
        own = f"{came} + row_number() OVER () AS came, '{whose}' AS contributor"
        self.execute(f"INSERT INTO mirror BY NAME SELECT *, {own} FROM fresh")

    def update(self, values: dict[str, str], where: str) -> int:
        """Set columns by new rows in place of the old: DuckDB's UPDATE leaves -0.0 where 0.0 is set."""
        new = ", ".join(f'({sql}) AS "{name}"' for name, sql in values.items())
        self.execute(f"CREATE OR REPLACE TABLE changed AS SELECT * REPLACE ({new}) FROM mirror WHERE {where}")
        self.execute(f"DELETE FROM mirror WHERE {where}")
        return int(self.execute("INSERT INTO mirror FROM changed")[0][0])

    def replace(self, old: Column, **changed: Any) -> None:
        """State a column anew, and change the table by DuckDB's ALTER."""
        new = replace(old, **changed)
        if new.type != old.type:
            self.execute(f"ALTER TABLE mirror ALTER {old.sql} TYPE {new.type}")
        if new.name != old.name:
            self.execute(f"ALTER TABLE mirror RENAME {old.sql} TO {new.sql}")
        self.columns[self.columns.index(old)] = new

    def add(self, column: Column) -> None:
        self.execute(f"ALTER TABLE mirror ADD COLUMN {column.sql} {column.type}")
        self.columns.append(column)

    def drop(self, column: Column) -> None:
        self.execute(f"ALTER TABLE mirror DROP COLUMN {column.sql}")
        self.columns.remove(column)

    def schema(self) -> str:
        """The schema file of the table."""
        lines = []
        for each in self.columns:
            lines += [f"[columns.{each.sql}]", f'kind = "{each.kind}"', f'type = "{each.type}"']
            lines += [f"lower = {each.lower}", f"upper = {each.upper}"] if each.lower is not None else []
            lines += [] if each.nullable else ["nullable = false"]
        return "\n".join(lines) + "\n"
