"""Aggregates of two arguments and of higher moments, against their definitions in exact arithmetic, and DuckDB."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pytest

from cleave.aggregates import AGGREGATES
from cleave.aggregates.base import Estimate, Figure, Moment
from cleave.aggregates.columns import Domain, Exact, Real
from cleave.aggregates.group import EncryptedAggregate
from cleave.aggregates.moments import Cross, Power
from cleave.aggregates.operand import operand
from cleave.ckks.columns import Columns
from cleave.text.figures import is_rounded
from tests.deviations import PAIRS, SINGLES, Column, truth, wrong
from tests.unit.simulate import totals, values_of

NAMES = PAIRS + SINGLES


@pytest.fixture(scope="module")
def engine() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


def figures(ys: Column, xs: Column, y: Domain, x: Domain, noise: float = 0.0, bits: int = 40) -> dict[str, Figure]:
    """Every aggregate of (y, x) or y, the totals of real columns off by `noise` of a bound like encryption's."""
    asked = [EncryptedAggregate(AGGREGATES[name], (0, 1) if name in PAIRS else (0,)) for name in NAMES]
    columns = Columns([y, x], asked)
    encoded = columns.encode(["y", "x"], [values_of(ys, y.decimals), values_of(xs, x.decimals)])
    found = totals(columns, encoded, np.ones(len(ys), bool))
    for place, (type_, column) in enumerate(zip(columns.types, encoded, strict=True)):
        if isinstance(type_, Real):
            assert np.abs(column).max(initial=0.0) <= type_.reach
            bound = Fraction(float(np.abs(column).max(initial=0.0)) or 1.0) / 2**bits
            found[place] = Estimate(found[place].value + bound * Fraction(noise), bound)
        else:
            values = [sum(int(word) << (64 * i) for i, word in enumerate(words)) for words in column.T]
            assert all(0 <= value <= type_.limit for value in values)
    return dict(zip(NAMES, columns.figures(found, len(ys)), strict=True))


def shapes(rows: int, random: np.random.Generator) -> Iterator[tuple[str, list[float]]]:
    normal, steps = random.normal(size=rows), np.arange(rows)
    yield "normal", normal.tolist()
    yield "offset", (1e9 + normal).tolist()
    yield "offset, last bits", (1e6 + random.integers(0, 9, rows) * 2.0**-33).tolist()
    yield "ramp", (100 + 0.1 * steps).tolist()
    yield "constant", [1e6 + 0.1] * rows
    yield "constant but one", np.where(steps == 0, 0.1, 1e6 + 0.1).tolist()
    yield "zero", np.where(steps % 2, -0.0, 0.0).tolist()
    yield "heavy tail", np.exp(3 * normal).tolist()
    yield "outlier", np.concatenate([[1e9], normal[1:]]).tolist()
    yield "tiny", (normal * 1e-300).tolist()
    yield "huge", (normal * 1e150).tolist()
    yield "subnormal", (random.integers(-9, 9, rows) * 5e-324).tolist()


def with_nulls(values: Sequence[float], every: int) -> list[Fraction | None]:
    return [None if every and not i % every else Fraction(value) for i, value in enumerate(values)]


@pytest.mark.parametrize("rows", [4, 60, 1, 2, 3, 5])  # test_duckdb_agrees has few rows too
@pytest.mark.parametrize(("noise", "bits"), [(0.999, 40), (0.0, 40), (-0.999, 40), (0.999, 90)])
@pytest.mark.sampled(19)
def test_doubles_lie_within_their_bounds(rows: int, noise: float, bits: int) -> None:
    random = np.random.default_rng(rows)
    all_ = list(shapes(rows, random))
    pairs = itertools.product(all_, all_) if rows < 4 else zip(all_, all_[1:] + all_[:1], strict=True)
    for (one, ys), (other, xs) in pairs:
        for nulls in ((0, 0), (3, 0), (3, 2)):
            y, x = with_nulls(ys, nulls[0]), with_nulls(xs, nulls[1])
            domains = [Domain(None, nullable=bool(every)) for every in nulls]
            for name, figure in figures(y, x, domains[0], domains[1], noise, bits).items():
                why = wrong(figure, truth(name, y, x))
                assert why is None, f"{name} of {rows} rows, {one} over {other}, NULL every {nulls}: {why}"


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("REGR_COUNT",)])
def test_well_conditioned_doubles_are_known_to_many_digits(name: str) -> None:
    """So that a bound of infinity cannot pass for an answer."""
    random = np.random.default_rng(8)
    xs = [Fraction(v) for v in (1e9 + random.normal(size=200)).tolist()]
    ys = [3 * x + Fraction(e) for x, e in zip(xs, random.normal(size=200).tolist(), strict=True)]
    figure = figures([Fraction(float(y)) for y in ys], xs, Domain(None, nullable=False), Domain(None, nullable=False))[
        name
    ]
    size = {"REGR_INTERCEPT": 1e9}.get(name, abs(float(figure.value or 0.0)) or 1.0)
    assert figure.bound <= 1e-7 * max(size, 1.0)


INTEGERS = {
    "small": (0, -50, 50),
    "INTEGER": (0, -(2**31), 2**31 - 1),
    "BIGINT": (0, -(2**63), 2**63 - 1),
    "UBIGINT": (0, 0, 2**64 - 1),
    "HUGEINT": (0, -(2**127), 2**127 - 1),
    "DECIMAL(9,2)": (2, -(10**9) + 1, 10**9 - 1),
    "DECIMAL(38,6)": (6, -(10**38) + 1, 10**38 - 1),
    "one value": (0, 7, 7),
}


@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.parametrize("other", ["small", "BIGINT", "DECIMAL(9,2)"])
def test_integers_and_decimals_are_exact(kind: str, other: str) -> None:
    random = np.random.default_rng(len(kind))
    for rows in (0, 1, 2, 3, 4, 5, 40):
        columns, domains = [], []
        for decimals, low, high in (INTEGERS[kind], INTEGERS[other]):
            units = [low + int(random.integers(0, 2**62)) * (high - low) // 2**62 for _ in range(rows)]
            units[:2] = [low, high][:rows]
            if rows == 5:
                units = [high] * rows
            nulls = 3 if rows in (4, 40) else 0
            columns.append(
                [None if nulls and i % nulls == 2 else Fraction(u, 10**decimals) for i, u in enumerate(units)]
            )
            domains.append(Domain(decimals, low, high, nullable=bool(nulls)))
        for name, figure in figures(columns[0], columns[1], domains[0], domains[1], 0.999).items():
            is_root = name in ("STDDEV_SAMP", "STDDEV_POP", "SEM", "CORR", "SKEWNESS")
            is_nearest = is_root and is_rounded(figure.value, figure.bound)
            assert figure.exact or is_nearest or name == "GEOMEAN", f"{name} of {rows}"
            assert wrong(figure, truth(name, *columns)) is None, (
                f"{name} of {rows}: {wrong(figure, truth(name, *columns))}"
            )


@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.sampled(9)
def test_an_exact_argument_beside_a_double(kind: str) -> None:
    random = np.random.default_rng(len(kind))
    decimals, low, high = INTEGERS[kind]
    units = [low + int(random.integers(0, 2**62)) * (high - low) // 2**62 for _ in range(50)]
    exact = [Fraction(u, 10**decimals) for u in units]
    for _, values in shapes(50, random):
        real = [Fraction(value) for value in values]
        one, two = Domain(decimals, low, high, nullable=False), Domain(None, nullable=False)
        for columns, domains in (((exact, real), (one, two)), ((real, exact), (two, one))):
            for name, figure in figures(columns[0], columns[1], *domains, 0.9).items():
                assert wrong(figure, truth(name, *columns)) is None, name


def test_geometric_means_of_integers_are_exact_where_the_product_is() -> None:
    for values, mean in (([2, 8], 4.0), ([4, 1, 16], 4.0), ([1, 1, 1], 1.0), ([0, 5], 0.0)):
        column = [Fraction(v) for v in values]
        figure = figures(column, column, Domain(0, 0, 16, nullable=False), Domain(0, 0, 16, nullable=False))["GEOMEAN"]
        assert (figure.value, figure.exact) == (mean, True)
    domain = Domain(0, 0, 16, nullable=False)
    figure = figures([Fraction(3), Fraction(5)], [Fraction(3), Fraction(5)], domain, domain)["GEOMEAN"]
    assert figure.value == 15**0.5
    assert is_rounded(figure.value, figure.bound)


@pytest.mark.parametrize("type_", ["INTEGER", "DOUBLE", "DECIMAL(9,2)"])
def test_duckdb_agrees(engine: duckdb.DuckDBPyConnection, type_: str) -> None:
    """On small integers, whose sums of fourth powers its doubles hold: NULL, NaN, signs, denominators and digits."""
    random = np.random.default_rng(2)
    cases: list[Any] = [
        [],
        [(1, 2)],
        [(None, 2), (1, None)],
        [(2, 3)] * 4,
        [(2, v) for v in (1, 3, 4, 7)],
        [(v, 2) for v in (1, 3, 4, 7)],
    ]
    cases += [[(1, 2), (3, 5)], [(0, 1), (3, 2)], [(-1, 0), (0, 0), (5, 5)], [(None, None)], [(5, 5)] * 2]
    for rows in (2, 3, 4, 5, 30, 200):
        pairs = random.integers(-40, 40, (rows, 2)).tolist()
        cases += [pairs, [(abs(y) + 1, x) for y, x in pairs]]
        cases += [[(None if random.random() < 0.3 else y, None if random.random() < 0.3 else x) for y, x in pairs]]
    domain = {"INTEGER": Domain(0, -99, 99), "DOUBLE": Domain(None), "DECIMAL(9,2)": Domain(2, -9900, 9900)}[type_]
    calls = ", ".join(f"{name}({'y, x' if name in PAIRS else 'y'})" for name in NAMES)
    for case in cases:
        ys, xs = [y for y, _ in case], [x for _, x in case]
        theirs = engine.execute(
            f"SELECT {calls} FROM (SELECT unnest(?::{type_}[]) AS y, unnest(?::{type_}[]) AS x)", [ys, xs]
        ).fetchone()
        assert theirs is not None
        columns = [[None if v is None else Fraction(v) for v in column] for column in (ys, xs)]
        for (name, figure), their in zip(
            figures(columns[0], columns[1], domain, domain, bits=60).items(), theirs, strict=True
        ):
            where = f"{name} of {case}: {figure}, DuckDB {their}"
            if not figure.exact and math.isinf(figure.bound):
                continue
            if figure.value is None or their is None:
                assert figure.value is their, where
            elif math.isnan(their):
                assert math.isnan(figure.value), where
            else:
                assert math.isclose(figure.value, their, rel_tol=1e-9, abs_tol=1e-9), where


def test_what_is_undecided_says_so() -> None:
    """A constant group of a column that is not constant: its sum of squares is only known to be near 0."""
    domain = Domain(None, nullable=False)
    columns = Columns(
        [domain, domain], [EncryptedAggregate(AGGREGATES[name], (0, 1)) for name in ("CORR", "REGR_SLOPE", "REGR_R2")]
    )
    values = [Fraction(v) for v in (5.0, 5.0, 5.0, 1.0, 2.0)]
    encoded = columns.encode(["y", "x"], [values_of(values, None), values_of(values, None)])
    found = totals(columns, encoded, np.array([True, True, True, False, False]))
    noisy = [Estimate(each.value, Fraction(1, 2**40)) for each in found]
    for figure in columns.figures(noisy, 3):
        assert math.isnan(figure.value)
        assert (figure.bound, figure.exact) == (math.inf, False)


@pytest.mark.parametrize(
    ("nullable", "asked", "columns"),
    [
        # the sum of x is there once, for SUM(x) and for the statistics of (y, x)
        ((False, False), [("SUM", (1,)), ("CORR", (0, 1))], ["sum 1", "sum 0", "square 0", "square 1", "cross 01"]),
        ((False, False), [("CORR", (0, 1)), ("CORR", (1, 0))], ["sum 0", "sum 1", "square 0", "square 1", "cross 01"]),
        ((False, False), [("REGR_SLOPE", (0, 1)), ("VAR_POP", (1,))], ["sum 0", "sum 1", "square 1", "cross 01"]),
        # y is never NULL: the same rows count
        ((False, True), [("SUM", (1,)), ("COVAR_POP", (0, 1))], ["count 1", "sum 1", "sum 0", "cross 01"]),
        # other rows count
        ((True, True), [("SUM", (1,)), ("REGR_AVGX", (0, 1))], ["count 1", "sum 1", "count 01", "sum 1"]),
        ((True, False), [("SUM", (1,)), ("REGR_AVGX", (0, 1))], ["sum 1", "count 0", "sum 1"]),
    ],
)
def test_aggregates_share_columns(
    nullable: tuple[bool, bool], asked: list[tuple[str, tuple[int, ...]]], columns: list[str]
) -> None:
    domains = [Domain(0, 0, 100, nullable=each) for each in nullable]
    made = Columns(domains, [EncryptedAggregate(AGGREGATES[name], places) for name, places in asked])
    assert [f"{name.moment} {''.join(map(str, name.arguments))}" for name in made.names] == columns
    assert all(isinstance(type_, Exact) for type_ in made.types)


def test_both_orders_share_a_product_and_keep_their_slopes() -> None:
    values = [[Fraction(v) for v in column] for column in ([1, 4, 2, 8], [3, 1, 7, 9])]
    domains = [Domain(0, 0, 10, nullable=False), Domain(0, 0, 1000, nullable=False)]
    asked = [EncryptedAggregate(AGGREGATES["REGR_SLOPE"], (0, 1)), EncryptedAggregate(AGGREGATES["REGR_SLOPE"], (1, 0))]
    columns = Columns(domains, asked)
    encoded = columns.encode(["y", "x"], [values_of(column, 0) for column in values])
    found = columns.figures(totals(columns, encoded, np.ones(4, bool)), 4)
    assert wrong(found[0], truth("REGR_SLOPE", values[0], values[1])) is None
    assert wrong(found[1], truth("REGR_SLOPE", values[1], values[0])) is None


@pytest.mark.parametrize(
    "values", [[], [None], [True], [False], [True, None], [False, True], [True, True], [False, False]]
)
def test_conditions(engine: duckdb.DuckDBPyConnection, values: list[Any]) -> None:
    names = ("COUNT_IF", "COUNTIF", "BOOL_AND", "BOOL_OR")
    columns = Columns([Domain(0, 0, 1)], [EncryptedAggregate(AGGREGATES[name], (0,)) for name in names])
    encoded = columns.encode(["b"], [values_of(values, 0)])
    found = columns.figures(totals(columns, encoded, np.ones(len(values), bool)), len(values))
    calls = ", ".join(f"{name}(b)" for name in names)
    row = engine.execute(f"SELECT {calls} FROM (SELECT unnest(?::BOOLEAN[]) AS b)", [values]).fetchone()
    assert row is not None
    assert [figure.value for figure in found] == list(row)
    assert [type(figure.value) for figure in found] == [type(value) for value in row]


@pytest.mark.parametrize("moment", [Power(2), Power(3), Power(4), Cross()])
def test_a_reading_covers_what_its_column_lost(moment: Moment) -> None:
    """Of equal values, whose roundings do not cancel, and without any noise that would cover them."""
    random = np.random.default_rng(3)
    needed = 0
    for value in random.uniform(0.1, 1.0, 40).tolist():
        for offset in (0.0, 1e6 / 3):
            values = [Fraction(v) for v in (offset, *[offset + value] * 7)]
            made = operand("x", Domain(None, nullable=False), values_of(values, None), None)
            column, reading = moment.encode([made] * len(moment.reads))
            total = Estimate(sum(map(Fraction, column.tolist()), Fraction(0)))
            estimate = reading.estimate(total, len(values))
            power = {"square": 2, "cube": 3, "fourth power": 4, "cross": 2}[moment.name]
            right = sum(((v - made.centre) ** power for v in values), Fraction(0))
            assert abs(estimate.value - right) <= estimate.bound
            needed += estimate.value != right
    assert needed > 20  # the bound is not idle
