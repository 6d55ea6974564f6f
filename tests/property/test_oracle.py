"""Every figure lies within its bound of the exact value, every exact one is that value correctly rounded.

The whole path runs: CSV, split, encrypt, both services over the embedded transport, decrypt, rejoin. DuckDB on the
unsplit table is compared as well, with what its own float64 may lose at worst (tests.oracle).
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from cleave.aggregates.base import Figure
from cleave.ask.question import DEFAULTS, Answer, Options
from cleave.ckks.secret_key import SecretKey
from cleave.local.embedded import embedded_services
from cleave.sql.planner import plan_query
from cleave.table.schema import load_schema, schema_path
from cleave.table.stream import open_table
from tests.answering import run_query
from tests.campaign import FACTOR
from tests.deviations import PAIRS, SINGLES, truth, wrong
from tests.oracle import Cell, decimals_of, fraction
from tests.property.conftest import Tally
from tests.property.tables import ENCRYPTED, Draw, draws, lists, oracle, query, write

Row = Sequence[Any]
WARDS = (("A", "f", 8), ("A", "m", 2), ("B", "f", 5), ("B", "m", 5))
Item = tuple[str, str]  # aggregate, expression


class Silent:
    def stage(self, name: str, total: int) -> Callable[[int], None]:  # noqa: ARG002 - shows nothing
        return lambda _: None


def ask(path: Path, sql: str, key: SecretKey, options: Options = DEFAULTS) -> Answer:
    schema = load_schema(schema_path(path))
    with open_table(path, schema) as table:
        transport = embedded_services()
        try:
            return run_query(table, plan_query(sql, schema, table.name), key, transport, Silent(), options)
        finally:
            transport.close()


def compare(answer: Answer, items: Sequence[Item], inside: list[Row], duckdbs: list[Row], tally: Tally) -> None:
    """The last columns of `answer` are `items`; `inside` has the values that each group's are of."""
    result = answer.result
    assert len(result.rows) == len(inside) == len(duckdbs)
    first = len(result.columns) - len(items)
    assert [column.source for column in result.columns[first:]] == ["encrypted"] * len(items)
    for row, bounds, exact, values, theirs in zip(
        result.rows, result.bounds, result.exact, inside, duckdbs, strict=True
    ):
        for ours, theirs_, column in zip(row[:first], theirs, result.columns, strict=False):
            same = isinstance(ours, float) and math.isclose(ours, theirs_, rel_tol=1e-9, abs_tol=1e-300)
            assert ours == theirs_ or same, column.name
        for place, (name, expression) in enumerate(items):
            of = values[place] or ()
            cell = Cell(name, [fraction(value) for value in of], decimals_of(of[0]) if of else 0)
            figure = row[first + place], bounds[first + place], exact[first + place]
            wrong = cell.wrong(*figure)
            tally.count(cell, *figure, wrong is not None)
            assert wrong is None, f"{name}({expression}): {wrong}"
            assert cell.disagrees(*figure[:2], theirs[first + place]) is None, f"{name}({expression})"


EXAMPLES = [
    Draw(2, 1, 1, 0.0, "huge", 40, None, False),
    Draw(3, 400, 5, 1.0, "unit", 7, None, True),
    Draw(4, 3000, 40, 0.0, "wide", 20, "p < 0", True),
    Draw(5, 3000, 40, 0.0, "wide", 20, "p < 0", False),
    Draw(6, 8177, 40, 0.2, "timestamps", 20, None, True),
    Draw(7, 3000, 1, 0.0, "ramp", 20, "p < 5", False),
    Draw(8, 400, 200, 0.0, "Julian days", 20, None, True),  # groups of one row and two
    Draw(9, 400, 40, 0.0, "1e200 beside 1e-200", 7, None, True),
    Draw(10, 1, 1, 0.0, "constant but one", 7, None, False),
    Draw(12, 400, 5, 0.0, "constant but one", 7, None, True),  # groups of equal values: their variances hold 0
    Draw(11, 50, 5, 0.2, "minus zero", 7, None, True),
]
LARGE = Draw(1, 50_000, 200, 0.2, "offset", 56, None, True)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("draw", [*EXAMPLES, pytest.param(LARGE, marks=pytest.mark.slow)], ids=str)
def test_answers_lie_within_their_bounds(key: SecretKey, tally: Tally, draw: Draw) -> None:
    judge(key, tally, draw)


@pytest.mark.slow  # a campaign; the examples above are the quick ones
def test_answers_over_any_table_lie_within_their_bounds(key: SecretKey, tally: Tally) -> None:
    @settings(
        max_examples=15 * FACTOR,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(draws)
    def holds(draw: Draw) -> None:
        judge(key, tally, draw)

    holds()


def judge(key: SecretKey, tally: Tally, draw: Draw) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = write(Path(name), draw)
        with oracle(path) as connection:
            expected = connection.execute(query(draw)).fetchall()
            distinct = list(dict.fromkeys(expression for _, expression in ENCRYPTED))
            fetched = connection.execute(lists(draw, distinct)).fetchall()
        inside = [[row[distinct.index(expression)] for _, expression in ENCRYPTED] for row in fetched]
        compare(ask(path, query(draw), key), ENCRYPTED, inside, expected, tally)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(4))
def test_products_agree_with_the_oracle(key: SecretKey, tally: Tally, tmp_path: Path, seed: int) -> None:
    """PRODUCT over values near 1, so that neither engine overflows: magnitudes from 2e-9 to 1e9."""
    draw = Draw(seed, 400, 5, 0.1, "unit", 1, None, True)
    path = write(tmp_path, draw)
    items = [("PRODUCT", expression) for expression in ("f", "i", "d", "f / 3")]
    calls = ", ".join(f"{name}({expression})" for name, expression in items)
    sql = f'SELECT g, {calls} FROM "table" GROUP BY g ORDER BY g'
    with oracle(path) as connection:
        expected = connection.execute(sql).fetchall()
        inside = connection.execute(lists(draw, [expression for _, expression in items])).fetchall()
    compare(ask(path, sql, key), items, inside, expected, tally)


@pytest.mark.parametrize("seed", [0, *(pytest.param(it, marks=pytest.mark.slow) for it in (1, 2))])
@pytest.mark.parametrize(
    "shape", ["offset", *(pytest.param(it, marks=pytest.mark.slow) for it in ("constant but one", "wide"))]
)
def test_statistics_of_deviations_agree_with_the_oracle(key: SecretKey, tmp_path: Path, seed: int, shape: str) -> None:
    path = write(tmp_path, Draw(seed, 400, 40, 0.1, shape, 20, None, True))
    items = [(name, arguments) for name in PAIRS for arguments in ("f, i", "i, d", "p, f")]
    items += [(name, argument) for name in SINGLES for argument in ("f", "i")]
    calls = ", ".join(f"{name}({arguments})" for name, arguments in items)
    answer = ask(path, f'SELECT {calls} FROM "table" GROUP BY g ORDER BY g', key).result
    with oracle(path) as connection:
        groups = connection.execute('SELECT list(f), list(i), list(d), list(p) FROM "table" GROUP BY g ORDER BY g')
        lists_ = [dict(zip("fidp", row, strict=True)) for row in groups.fetchall()]
    for row, bounds, exact, values in zip(answer.rows, answer.bounds, answer.exact, lists_, strict=True):
        columns = {name: [None if v is None else fraction(v) for v in column] for name, column in values.items()}
        for place, (name, arguments) in enumerate(items):
            ys, xs = columns[arguments[0]], columns[arguments[-1]]
            bound = bounds[place]
            figure = Figure(row[place], math.inf if bound is None else bound, bool(exact[place]))
            assert wrong(figure, truth(name, ys, xs)) is None, f"{name}({arguments})"


def test_columns_of_one_value_are_exact(key: SecretKey, tmp_path: Path) -> None:
    """Their scale was the smallest once: 12 +- 49 for a sum of zeros, 70.5 +- 24.7 for a group of the one row 72.5."""
    path = write(tmp_path, Draw(1, 1, 1, 0.0, "constant but one", 7, None, False))
    sql = 'SELECT SUM(f), AVG(f), VAR_POP(f), SUM(CASE WHEN p > 99 THEN f ELSE 0 END), SUM(0 * f) FROM "table"'
    result = ask(path, sql, key).result
    assert result.rows == [[72.5, 72.5, 0.0, 0.0, 0.0]]
    assert result.exact == [[True] * 5]


def test_the_oracle_itself_tells_a_wrong_answer(key: SecretKey, tmp_path: Path) -> None:
    draw = Draw(9, 50, 2, 0.0, "unit", 7, None, False)
    path = write(tmp_path, draw)
    items = [("SUM", "i"), ("AVG", "f"), ("STDDEV_POP", "i")]
    answer = ask(path, 'SELECT SUM(i), AVG(f), STDDEV_POP(i) FROM "table"', key)
    with oracle(path) as connection:
        inside = connection.execute(lists(draw, [expression for _, expression in items])).fetchall()
    right = list(answer.result.rows[0])
    compare(answer, items, inside, [right], Tally())
    for place, off in ((0, 1), (1, 1e-6), (2, right[2] * 2.0**-52)):
        answer.result.rows[0][:] = [value + off if i == place else value for i, value in enumerate(right)]
        with pytest.raises(AssertionError):
            compare(answer, items, inside, [right], Tally())


def test_decimals_come_back_as_decimals(key: SecretKey, tmp_path: Path) -> None:
    path = write(tmp_path, Draw(11, 3000, 2, 0.0, "unit", 40, None, False))
    (total,) = ask(path, 'SELECT SUM(d) FROM "table"', key).result.rows[0]
    with oracle(path) as connection:
        assert total == connection.execute('SELECT SUM(d) FROM "table"').fetchall()[0][0]
    assert isinstance(total, Decimal)


def test_a_minimum_group_size_holds_against_subtraction(key: SecretKey, tmp_path: Path) -> None:
    """Ward A has 8 and 2 rows, B 5 and 5: A's second group would follow from A, and with B from all."""
    path = tmp_path / "table.csv"
    rows = [f"{ward},{sex},{number}" for ward, sex, size in WARDS for number in range(size)]
    path.write_text("\n".join(["ward,sex,age", *rows]) + "\n")
    lines = ["[columns.ward]", 'kind = "plain"', 'type = "VARCHAR"', "[columns.sex]", 'kind = "plain"']
    lines += ['type = "VARCHAR"', "[columns.age]", 'kind = "encrypted"', 'type = "INTEGER"']
    path.with_suffix(".schema.toml").write_text("\n".join(lines) + "\n")
    items = "ward, sex, grouping(ward, sex), count(*), sum(age)"
    sql = f'SELECT {items} FROM "table" GROUP BY ROLLUP (ward, sex) ORDER BY ALL'
    everything = ask(path, sql, key).result.rows
    assert [row[3] for row in everything] == [8, 2, 10, 5, 5, 10, 20]
    shown = ask(path, sql, key, Options(min_group=3))
    assert [row[:4] for row in shown.result.rows] == [
        ["A", "f", 0, 8],
        ["B", "f", 0, 5],
        ["B", "m", 0, 5],
        ["B", None, 1, 10],
    ]
    assert (shown.usage.suppressed_groups, shown.usage.withheld_groups) == (1, 2)
    assert all(row in everything for row in shown.result.rows)
