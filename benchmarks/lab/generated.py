"""Generated questions over two stored tables, and every way each is answered by: for the planner's test and benchmarks.

`visits` has few cells, plain columns that are no `by` columns, room for scans and two segments; `meters` is stored by
meter and hour, so that a few rows are a cell of their own.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import duckdb

from cleave.ask.options import Access
from cleave.ask.owners import open_tables
from cleave.ask.session import Session
from cleave.ask.stored import StoredSource
from cleave.ask.way import Site
from cleave.local.embedded import embedded_services
from cleave.objects.locate import Folder, Stores
from cleave.store.put import append, put
from cleave.store.seen_versions import SeenVersions
from cleave.table.progress import Silent
from cleave.table.schema import load_schema
from cleave.table.stream import open_table

_PLAIN = {
    "ward": "VARCHAR",
    "day": "INTEGER",
    "bed": "INTEGER",
    "meter": "INTEGER",
    "hour": "INTEGER",
    "zone": "INTEGER",
}
_ENCRYPTED = {
    "bill": 'type = "DECIMAL(9,2)"\nlower = 0\nupper = 1000\nnullable = false',
    "age": 'type = "BIGINT"\nlower = 0\nupper = 127\nnullable = true',
    "score": 'type = "INTEGER"\nlower = -500\nupper = 500\nnullable = false',
}
_VALUES = (
    "((i * 104729) % 100000 / 100)::DECIMAL(9,2) AS bill, CASE WHEN i % 11 > 0 THEN (i * 13) % 97 END AS age, "
    "((i * 7907) % 1001 - 500)::INTEGER AS score"
)


@dataclass(frozen=True)
class Table:
    """`wheres` and `keys`: SQL over by columns, over plain ones, and over encrypted ones."""

    name: str
    columns: str  # SQL of its plain columns, of row i
    by: tuple[str, ...]
    wheres: tuple[tuple[str, ...], ...]
    keys: tuple[tuple[str, ...], ...]
    segments: int


TABLES = (
    Table(
        "visits",
        "'ward ' || i % 7 AS ward, ((i * 7919) % 365)::INTEGER AS day, ((i * 31) % 997)::INTEGER AS bed",
        ("ward",),
        (
            ("ward = 'ward 3'", "ward IN ('ward 1', 'ward 2')", "ward <> 'ward 0'"),
            ("day < {365}", "day BETWEEN {180} AND 300", "bed < {997}", "day % 2 = 1"),
            ("bill > {1000}", "age < {97}", "score >= 0"),
        ),
        (("ward",), ("day % 2", "day // 60", "bed % 5", "day // 14", "bed"), ("age // 20",)),
        2,
    ),
    Table(
        "meters",
        "((i * 7919) % {rows} // 48)::INTEGER AS meter, (i % 24)::INTEGER AS hour, ((i * 31) % 12)::INTEGER AS zone",
        ("meter", "hour"),
        (
            ("meter < {1000}", "meter = {1000}", "hour < {24}", "meter % 100 = 7"),
            ("zone = {12}", "zone < {12}"),
            ("bill > {1000}",),
        ),
        (("hour", "hour // 6"), ("zone", "zone % 3"), ("age // 20",)),
        1,
    ),
)
_ONCE = ("COUNT(*)", "SUM({})", "AVG({})", "SUM({})", "AVG({})", "COUNT({})", "VAR_POP({})", "MAX({})", "MEDIAN({})")


def question(table: Table, seed: int) -> str:
    """Aggregates, a WHERE and a GROUP BY, each over any kind of columns."""
    random_ = random.Random(f"{table.name} {seed}")
    aggregates = [
        random_.choice(_ONCE[:7] if random_.random() < 0.8 else _ONCE).format(random_.choice([*_ENCRYPTED]))
        for _ in range(random_.choice((1, 1, 2, 3, 4)))
    ]
    kinds = random_.choices((0, 1, 2), (6, 6, 1), k=random_.choice((0, 1, 1, 1, 2)))
    where = " AND ".join(_condition(random_, random_.choice(table.wheres[kind])) for kind in kinds)
    keys = [
        random_.choice(table.keys[kind])
        for kind in random_.choices((0, 1, 2), (6, 6, 1), k=random_.choice((0, 0, 1, 1)))
    ]
    selected = ", ".join([*(f"{key} AS k" for key in keys), *dict.fromkeys(aggregates)])
    where = f" WHERE {where}" if where else ""
    return f"SELECT {selected} FROM {table.name}{where}" + (" GROUP BY k ORDER BY k" if keys else "")


def _condition(random_: random.Random, text: str) -> str:
    """`text` with a number below each that it has in braces."""
    before, _, rest = text.partition("{")
    if not rest:
        return text
    most, _, after = rest.partition("}")
    return f"{before}{max(1, int(int(most) * random_.choice((0.01, 0.1, 0.5, 0.95))))}{after}"


class World:
    """Both tables, of so many rows each, in a folder, and in DuckDB."""

    def __init__(self, folder: Path, key_file: Path, rows: int, stack: ExitStack) -> None:
        self._folder, self._key_file = folder, key_file
        self.oracle = stack.enter_context(duckdb.connect())
        tables = open_tables(self._stores(), self._access(), self._memory())
        for each in TABLES:
            columns = f"{each.columns.format(rows=rows)}, {_VALUES}"
            self.oracle.execute(f"CREATE TABLE {each.name} AS SELECT {columns} FROM range({rows}) r(i)")
            schema = folder / f"{each.name}.schema.toml"
            schema.write_text(self._schema(each))
            for number in range(each.segments):
                part = folder / f"{each.name}{number}.parquet"
                self.oracle.execute(
                    f"COPY (SELECT * FROM {each.name} WHERE rowid % {each.segments} = {number}) "
                    f"TO '{part}' (FORMAT PARQUET)"
                )
                with open_table([part], load_schema(schema)) as table:
                    if number:
                        append(tables, table, each.name, Silent())
                    else:
                        put(tables, table, each.name, each.by, Silent(), scan=True)

    def session(self, table: Table) -> Session:
        """That has read nothing of the table yet but its head."""
        return Session(
            StoredSource(table.name, self._stores(), self._access(), memory=self._memory(), embedded=embedded_services)
        )

    def _schema(self, table: Table) -> str:
        columns = [name for name, *_ in self.oracle.execute(f"DESCRIBE {table.name}").fetchall()]
        kinds = {name: f'kind = "plain"\ntype = "{type_}"\nnullable = false' for name, type_ in _PLAIN.items()}
        kinds |= {name: f'kind = "encrypted"\n{given}' for name, given in _ENCRYPTED.items()}
        return "\n".join(f"[columns.{name}]\n{kinds[name]}" for name in columns) + "\n"

    def _stores(self) -> Stores:
        return Stores(Folder(self._folder / "s"), Folder(self._folder / "p"))

    def _access(self) -> Access:
        return Access(self._key_file)

    def _memory(self) -> SeenVersions:
        return SeenVersions(self._folder / "tables.json")

    def wrong(self, sql: str, rows: list[list[object]], bounds: list[list[float | None]]) -> bool:
        """Whether DuckDB answers otherwise. Its own floats may round: by 2^-40 of the largest square of a value."""
        expected = self.oracle.execute(sql).fetchall()
        if [len(row) for row in rows] != [len(row) for row in expected]:
            return True
        return any(
            not _same(value, bound, known)
            for row, limits, wanted in zip(rows, bounds, expected, strict=True)
            for value, bound, known in zip(row, limits, wanted, strict=True)
        )


def _same(value: object, bound: float | None, known: object) -> bool:
    if isinstance(value, float) and isinstance(known, float):
        return abs(Fraction(value) - Fraction(known)) <= Fraction(bound or 0) + Fraction(1e6) / (1 << 40)
    return value == known or str(value) == str(known)


def questions(count: int) -> Iterator[tuple[Table, str]]:
    """Of both tables in turn, no two alike."""
    seen: set[str] = set()
    seed = 0
    while len(seen) < count:
        table = TABLES[len(seen) % len(TABLES)]
        sql = question(table, seed)
        seed += 1
        if sql not in seen:
            seen.add(sql)
            yield table, sql


def site_of(session: Session) -> Site:
    """The session's stored table and its services."""
    if not isinstance(session.source, StoredSource):
        raise TypeError("a session over files has no ways to choose from")
    return session.source.site()
