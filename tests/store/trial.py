"""The sample table in a store, and DuckDB over the file itself."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from cleave.ckks.secret_key import SecretKey
from cleave.pipeline import DEFAULTS, Options, Result
from cleave.session import Silent
from cleave.store import put as putting
from cleave.store.locate import Stores
from cleave.store.memory import Memory
from cleave.store.storage import Storage
from cleave.store.stored import Stored
from cleave.store.tables import Tables
from cleave.table.schema import load_schema
from cleave.table.table import open_table
from tests.store.asking import ask

SAMPLE = Path(__file__).parents[1] / "samples"


class World:
    def __init__(self, storage: Storage, key: SecretKey, tmp_path: Path) -> None:
        self.key = key
        self.stores = Stores(storage, storage)
        self.tables = Tables(self.stores, key, Memory(tmp_path / "tables.json"))

    def put(self, *by: str, append: bool = False, **options: int) -> None:
        schema = load_schema(SAMPLE / "patients.schema.toml")
        with open_table([SAMPLE / "patients.csv"], schema) as table:
            if append:
                putting.append(self.tables, self.stores, self.key, table, "trial", Silent(), again=True)
            else:
                putting.put(self.tables, self.stores, self.key, table, "trial", by, Silent(), **options)

    def stored(self) -> Stored:
        return Stored(self.tables, self.tables.open("trial"), self.key)

    def ask(self, sql: str, options: Options = DEFAULTS, *, cloud_only: bool = True) -> Result:
        """`cloud_only`: no row is read for it."""
        return ask(self.stored(), sql, options, cloud_only=cloud_only)


def truth(sql: str) -> list[tuple[object, ...]]:
    schema = load_schema(SAMPLE / "patients.schema.toml")
    with open_table([SAMPLE / "patients.csv"], schema) as table:
        table.connection.execute(f"CREATE VIEW trial AS SELECT * FROM {table.relation}")
        return table.connection.execute(sql).fetchall()


def check(rows: list[list[object]], bounds: list[list[float | None]], expected: list[tuple[object, ...]]) -> None:
    assert len(rows) == len(expected)
    for row, limits, wanted in zip(rows, bounds, expected, strict=True):
        for value, bound, exact in zip(row, limits, wanted, strict=True):
            if isinstance(exact, float) and isinstance(value, float):
                assert abs(Fraction(value) - Fraction(exact)) <= Fraction(bound or 0) + abs(Fraction(exact)) / 10**12
            else:
                assert value == exact or str(value) == str(exact)
