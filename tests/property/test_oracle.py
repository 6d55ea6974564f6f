"""Every answer lies within its printed bound of DuckDB's on the unsplit table; every exact one is equal.

The whole path runs: CSV, split, encrypt, both services over the embedded transport, decrypt, rejoin.
"""

from __future__ import annotations

import math
import os
import tempfile
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings

from cleave.ckks.secret_key import SecretKey
from cleave.local.embedded import embedded_services
from cleave.pipeline import Result, run_query
from cleave.sql.planner import plan_query
from cleave.table.schema import load_schema, schema_path
from cleave.table.table import open_table
from tests.property.tables import Draw, draws, oracle, query, write


class Silent:
    def stage(self, name: str, total: int) -> None: ...

    def advance(self, amount: int) -> None: ...


def ask(path: Path, sql: str, key: SecretKey) -> Result:
    schema = load_schema(schema_path(path))
    with open_table(path, schema) as table:
        transport = embedded_services()
        try:
            return run_query(table, plan_query(sql, schema, table.name), key, transport, Silent())
        finally:
            transport.close()


def fraction(value: Any) -> Fraction:
    return Fraction(int(value)) if isinstance(value, bool) else Fraction(value)


def compare(answer: Result, expected: list[tuple[Any, ...]], ratios: list[float]) -> None:
    result = answer.result
    assert len(result.rows) == len(expected)
    for row, bounds, exact, wanted in zip(result.rows, result.bounds, result.exact, expected, strict=True):
        for column, ours, bound, is_exact, theirs in zip(result.columns, row, bounds, exact, wanted, strict=True):
            where = f"{column.name}: {ours!r} against {theirs!r}, bound {bound!r}"
            if ours is None or theirs is None or column.source == "key" or is_exact:
                assert ours == theirs, where
            elif column.source == "plain":
                assert isinstance(ours, str) or math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-300), where
            elif math.isinf(theirs):  # DuckDB's float64 overflowed on the way; we may still have the number
                assert ours == theirs or bound is None, where
            else:
                assert bound is not None, where
                error = abs(fraction(ours) - fraction(theirs))
                assert error <= Fraction(bound), where
                if error:
                    ratios.append(float(Fraction(bound) / error))


@given(draws)
@settings(
    max_examples=int(os.environ.get("CLEAVE_ORACLE_EXAMPLES", "25")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@example(Draw(1, 50_000, 200, 0.2, "offset", 56, None, True))
@example(Draw(2, 1, 1, 0.0, "huge", 40, None, False))
@example(Draw(3, 400, 5, 1.0, "unit", 7, None, True))
@example(Draw(4, 3000, 40, 0.0, "wide", 20, "p < 0", True))
@example(Draw(5, 3000, 40, 0.0, "wide", 20, "p < 0", False))
def test_answers_lie_within_their_bounds(key: SecretKey, oracle_ratios: list[float], draw: Draw) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = write(Path(name), draw)
        sql = query(draw)
        with oracle(path) as connection:
            expected = connection.execute(sql).fetchall()
        compare(ask(path, sql, key), expected, oracle_ratios)


@pytest.mark.parametrize("seed", range(4))
def test_products(key: SecretKey, oracle_ratios: list[float], tmp_path: Path, seed: int) -> None:
    """PRODUCT over values near 1, so that neither engine overflows: magnitudes from 2e-9 to 1e9."""
    path = write(tmp_path, Draw(seed, 400, 5, 0.1, "unit", 1, None, True))
    sql = 'SELECT g, PRODUCT(f), PRODUCT(i), PRODUCT(d), PRODUCT(f / 3) FROM "table" GROUP BY g ORDER BY g'
    with oracle(path) as connection:
        expected = connection.execute(sql).fetchall()
    compare(ask(path, sql, key), expected, oracle_ratios)


def test_the_oracle_itself_tells_a_wrong_answer(key: SecretKey, tmp_path: Path) -> None:
    path = write(tmp_path, Draw(9, 50, 2, 0.0, "unit", 7, None, False))
    answer = ask(path, 'SELECT SUM(i), AVG(f) FROM "table"', key)
    right = [tuple(answer.result.rows[0])]
    compare(answer, right, [])
    for wrong in ((right[0][0] + 1, right[0][1]), (right[0][0], right[0][1] + 1e-6)):
        with pytest.raises(AssertionError):
            compare(answer, [wrong], [])


def test_decimals_come_back_as_decimals(key: SecretKey, tmp_path: Path) -> None:
    path = write(tmp_path, Draw(11, 3000, 2, 0.0, "unit", 40, None, False))
    (total,) = ask(path, 'SELECT SUM(d) FROM "table"', key).result.rows[0]
    with oracle(path) as connection:
        assert total == connection.execute('SELECT SUM(d) FROM "table"').fetchall()[0][0]
    assert isinstance(total, Decimal)
