"""Every declared aggregate against DuckDB, from moments made exactly with fractions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction

import duckdb
import numpy as np
import pytest
from numpy.typing import NDArray

from cleave.aggregates import AGGREGATES, DECLARED
from cleave.aggregates.base import ColumnFacts, Estimate, Figure, Moment
from cleave.aggregates.doubles import nearest, square_root, upper
from cleave.aggregates.product import exponential

FLOAT_AGGREGATES = ("SUM", "AVG", "VAR_SAMP", "VAR_POP", "STDDEV_SAMP", "STDDEV_POP", "PRODUCT")
Doubles = NDArray[np.float64]


@pytest.fixture(scope="module")
def engine() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


def total(values: Sequence[Fraction]) -> Fraction:
    numerators: Counter[int] = Counter()
    for value in values:
        numerators[value.denominator] += value.numerator
    return sum((Fraction(n, d) for d, n in numerators.items()), Fraction(0))


def moments_of(values: Sequence[Fraction], centre: Fraction, relative_noise: float = 0.0) -> dict[Moment, Estimate]:
    """The moments, those of floats off by `relative_noise` of their bound."""

    def noisy(exact: Fraction, scale: Fraction) -> Estimate:
        bound = scale * Fraction(1e-13) if relative_noise else Fraction(0)
        return Estimate(exact + bound * Fraction(relative_noise), bound)

    shifted = [value - centre for value in values]
    widest = max((abs(value) for value in shifted), default=Fraction(0))
    logs = [Fraction(math.log(abs(value))) for value in values if value]
    return {
        Moment.COUNT: Estimate(Fraction(len(values))),
        Moment.SUM: noisy(total(shifted), widest),
        Moment.SQUARE: noisy(total([value * value for value in shifted]), widest**2),
        Moment.LOG: Estimate(total(logs), Fraction(2.0**-52) * total([abs(log) for log in logs])),
        Moment.NEGATIVE: Estimate(Fraction(sum(value < 0 for value in values))),
        Moment.ZERO: Estimate(Fraction(sum(value == 0 for value in values))),
    }


def facts_of(values: Doubles, centre: Fraction) -> ColumnFacts:
    sizes = np.abs(values[values != 0])
    return ColumnFacts(
        "DOUBLE", None, centre, float(np.abs(values).max()), float(values.min()), float(sizes.min(initial=math.inf))
    )


def shapes(rows: int, random: np.random.Generator) -> Iterator[tuple[str, Doubles]]:
    normal = random.normal(size=rows)
    yield "normal", normal
    yield "offset", 1e6 + normal
    yield "offset, sorted", np.sort(1e6 + normal)
    yield "offset, two values", 1e6 + random.choice([-1.0, 1.0], size=rows)
    yield "offset, last bits", np.sort(1e6 + random.integers(0, 9, rows) * 2.0**-33)
    yield "constant", np.full(rows, 1e6 + 0.1)
    yield "steps", 1e3 * np.arange(rows) + 0.1
    yield "heavy tail", np.sort(np.exp(3 * normal))
    yield "outlier first", np.concatenate([[1e9], normal[1:]])
    yield "two clusters", np.where(np.arange(rows) < rows // 2, 1e8, normal)
    yield "zeros", np.where(random.random(rows) < 0.3, 0.0, normal)
    yield "growth factors", 1 + normal / 100
    yield "fractions", random.uniform(0.5, 1, rows)
    yield "huge", normal * 1e300
    yield "tiny", normal * 1e-300
    yield "tiny squares", normal * 1e-160
    yield "every magnitude", random.choice([-1.0, 1.0], rows) * 10.0 ** random.uniform(-300, 300, rows)


@pytest.mark.parametrize("rows", [1, 2, 3, 10, 100, 1000])
@pytest.mark.parametrize("noise", [0.0, 0.9, -0.9])
def test_bounds_of_doubles_hold_against_duckdb(engine: duckdb.DuckDBPyConnection, rows: int, noise: float) -> None:
    random = np.random.default_rng(rows)
    ratios: dict[str, list[float]] = {name: [] for name in FLOAT_AGGREGATES}
    for label, values in shapes(rows, random):
        centre = (
            Fraction(0)
            if not 1e-9 < np.abs(values).max() < 1e200
            else Fraction(round(float(np.median(values)) * 2**8), 2**8)
        )
        moments = moments_of([Fraction(float(value)) for value in values], centre, noise)
        calls = ", ".join(f"{name}(x)" for name in FLOAT_AGGREGATES)
        row = engine.execute(f"SELECT {calls} FROM (SELECT unnest(?::DOUBLE[]) AS x)", [values.tolist()]).fetchone()
        assert row is not None
        for name, expected in zip(FLOAT_AGGREGATES, row, strict=True):
            needed = {moment: moments[moment] for moment in AGGREGATES[name].needs(None)}
            answer = AGGREGATES[name].finish(needed, facts_of(values, centre), rows)
            place = f"{name} of {rows} values, {label}: {answer}, DuckDB {expected}"
            assert (expected is None) == (answer.value is None), place
            if expected is None or math.isinf(answer.bound):
                continue
            assert math.isfinite(expected), place
            assert answer.value is not None
            error = abs(Fraction(expected) - Fraction(answer.value))
            assert error <= Fraction(answer.bound), place
            assert not answer.exact or error == 0, place
            if error and not noise and label != "tiny":  # whose squares underflow in any engine
                ratios[name].append(float(Fraction(answer.bound) / error))
    for name, found in ratios.items():
        assert not found or np.median(found) < 2e4, f"{name}: bounds are a median of {np.median(found)} times the error"


def test_a_constant_column_is_rounded_the_same_way_in_every_step(engine: duckdb.DuckDBPyConnection) -> None:
    rows, value = 50_000, 1e6 + 0.1
    moments = moments_of([Fraction(value)] * rows, Fraction(10**6))
    answer = AGGREGATES["SUM"].finish(moments, ColumnFacts("DOUBLE", None, Fraction(10**6), value, value), rows)
    (expected,) = engine.execute(f"SELECT sum(x) FROM (SELECT {value!r}::DOUBLE AS x FROM range({rows}))").fetchone()
    assert answer.value is not None
    assert 0 < abs(Fraction(expected) - Fraction(answer.value)) <= Fraction(answer.bound)


EXACT_TYPES = {
    "BOOLEAN": (0, 0, 1),
    "TINYINT": (0, -128, 127),
    "SMALLINT": (0, -(2**15), 2**15 - 1),
    "INTEGER": (0, -(2**31), 2**31 - 1),
    "BIGINT": (0, -(2**63), 2**63 - 1),
    "UBIGINT": (0, 0, 2**64 - 1),
    "DECIMAL(4,1)": (1, -9999, 9999),
    "DECIMAL(9,2)": (2, -(10**9) + 1, 10**9 - 1),
    "DECIMAL(18,6)": (6, -(10**18) + 1, 10**18 - 1),
    "DECIMAL(18,18)": (18, -(10**18) + 1, 10**18 - 1),
}


@pytest.mark.parametrize("type_", EXACT_TYPES)
def test_exact_types_come_back_as_duckdb_gives_them(engine: duckdb.DuckDBPyConnection, type_: str) -> None:
    decimals, low, high = EXACT_TYPES[type_]
    random = np.random.default_rng(len(type_))
    for rows in (1, 2, 3, 7, 49, 1000):
        units = [int(unit) for unit in random.integers(low, high, rows, dtype=np.uint64 if low == 0 else np.int64)]
        if rows == 7:
            units = [high] * rows
        values = [Fraction(unit, 10**decimals) for unit in units]
        texts = [str(Decimal(unit).scaleb(-decimals)) for unit in units]
        calls = ["COUNT", "SUM"]
        selected = ", ".join(f"{name}(x), typeof({name}(x))" for name in calls)
        row = engine.execute(f"SELECT {selected} FROM (SELECT unnest(?::{type_}[]) AS x)", [texts]).fetchone()
        assert row is not None
        centre = values[0]
        facts = ColumnFacts(type_, decimals, centre, float(max(map(abs, values))))
        for name, expected, expected_type in zip(calls, row[::2], row[1::2], strict=True):
            answer = AGGREGATES[name].finish(moments_of(values, centre), facts, rows)
            assert answer.exact
            assert answer.bound == 0
            assert answer.value == (Fraction(expected) if isinstance(expected, Decimal) else expected), (name, rows)
            assert AGGREGATES[name].result_type(type_) == expected_type


@pytest.mark.parametrize("type_", [type_ for type_ in EXACT_TYPES if type_ != "BOOLEAN"])
def test_an_exact_mean_is_duckdbs_however_it_divides(engine: duckdb.DuckDBPyConnection, type_: str) -> None:
    decimals, low, high = EXACT_TYPES[type_]
    random = np.random.default_rng(len(type_))
    exact = 0
    for rows in [1, 2, 1000, *range(3, 50)]:
        units = [int(unit) for unit in random.integers(low, high, rows, dtype=np.uint64 if low == 0 else np.int64)]
        values = [Fraction(unit, 10**decimals) for unit in units]
        texts = [str(Decimal(unit).scaleb(-decimals)) for unit in units]
        facts = ColumnFacts(type_, decimals, values[0], float(max(map(abs, values))))
        answer = AGGREGATES["AVG"].finish(moments_of(values, values[0]), facts, rows)
        assert answer.value is not None
        for sql in ("SELECT avg(x)", "SELECT avg(x) FILTER (WHERE true)", "SELECT avg(x), sum(x)"):
            for grouped in ("", "GROUP BY g"):
                (expected, *_) = engine.execute(
                    f"{sql} FROM (SELECT unnest(?::{type_}[]) AS x, 1 AS g) {grouped}", [texts]
                ).fetchone()
                assert abs(Fraction(expected) - Fraction(answer.value)) <= Fraction(answer.bound), (sql, grouped, rows)
        assert answer.exact == (answer.bound == 0)
        assert answer.bound <= 4e-16 * abs(answer.value)
        exact += answer.exact
    assert exact > 25


@pytest.mark.parametrize("type_", [*EXACT_TYPES, "FLOAT", "DOUBLE"])
def test_result_types_are_duckdbs(engine: duckdb.DuckDBPyConnection, type_: str) -> None:
    for name, aggregate in AGGREGATES.items():
        if type_ == "BOOLEAN" and name not in ("COUNT", "SUM"):
            continue  # DuckDB has none of these over booleans
        (expected,) = engine.execute(f"SELECT typeof({name}(NULL::{type_}))").fetchone()
        assert aggregate.result_type(type_) == expected, name


@pytest.mark.parametrize("name", AGGREGATES)
def test_nothing_left_is_null_and_a_count_of_zero(name: str) -> None:
    facts = ColumnFacts("BIGINT", 0, Fraction(0), 0.0)
    answer = AGGREGATES[name].finish(moments_of([], Fraction(0)), facts, 3)
    assert answer == Figure(0 if name == "COUNT" else None, 0.0, exact=True)


def test_one_value_has_no_sample_variance_and_no_spread() -> None:
    facts = ColumnFacts("BIGINT", 0, Fraction(0), 5.0)
    for name, value in [("VAR_SAMP", None), ("STDDEV", None), ("VAR_POP", 0.0), ("STDDEV_POP", 0.0)]:
        answer = AGGREGATES[name].finish(moments_of([Fraction(5)], Fraction(0)), facts, 1)
        assert answer == Figure(value, 0.0, exact=True)


def test_noise_cannot_make_a_variance_negative() -> None:
    moments = moments_of([Fraction(5)] * 4, Fraction(0))
    moments[Moment.SQUARE] = Estimate(moments[Moment.SQUARE].value - 1, Fraction(2))
    for name in ("VAR_SAMP", "STDDEV_POP"):
        answer = AGGREGATES[name].finish(moments, ColumnFacts("DOUBLE", None, Fraction(0), 5.0), 4)
        assert answer.value == 0
        assert 0 < answer.bound < 10


def test_an_inexact_total_of_integers_is_an_integer_with_a_bound() -> None:
    moments = {Moment.COUNT: Estimate(Fraction(3)), Moment.SUM: Estimate(Fraction(1001, 10), Fraction(1, 2))}
    answer = AGGREGATES["SUM"].finish(moments, ColumnFacts("BIGINT", 0, Fraction(0), 99.0), 3)
    assert answer.value == 100
    assert answer.bound >= 0.6
    assert not answer.exact


def test_a_product_has_its_sign_and_its_zero() -> None:
    facts = ColumnFacts("BIGINT", 0, Fraction(0), 4.0, -3.0, 2.0)
    for factors, expected in [([2, -3, 4], -24), ([-2, -3, 4], 24), ([2, 0, 4], 0)]:
        answer = AGGREGATES["PRODUCT"].finish(moments_of([Fraction(f) for f in factors], Fraction(0)), facts, 3)
        assert answer.value is not None
        assert abs(answer.value - expected) <= answer.bound
        assert answer.exact == (expected == 0)


def test_a_product_that_could_overflow_half_way_has_no_bound() -> None:
    values = [Fraction(1e200), Fraction(1e200), Fraction(1e-200), Fraction(1e-200)]
    facts = ColumnFacts("DOUBLE", None, Fraction(0), 1e200, 1e-200, 1e-200)
    answer = AGGREGATES["PRODUCT"].finish(moments_of(values, Fraction(0)), facts, 4)
    assert math.isinf(answer.bound)
    assert not answer.exact


def test_every_name_leads_to_one_declaration() -> None:
    assert len(AGGREGATES) == sum(len(aggregate.names) for aggregate in DECLARED)
    for aggregate in DECLARED:
        assert Moment.COUNT in aggregate.needs(0)
        assert aggregate.formula
        assert aggregate.leaks


def test_square_root_and_exponential_to_the_last_digits() -> None:
    for value in (Fraction(2), Fraction(10) ** 500, Fraction(1, 10**500), Fraction(0)):
        root = square_root(value)
        assert root * root <= value
        assert value - root * root <= value * Fraction(2) ** -70
    for power in (0, 1, -1, 700, -744, Fraction(1, 3)):
        assert nearest(exponential(Fraction(power))) == pytest.approx(math.exp(power), rel=1e-15)
    assert nearest(exponential(Fraction(10**9))) == math.inf
    assert nearest(exponential(Fraction(-(10**9)))) == 0


def test_a_bound_is_rounded_upwards() -> None:
    assert Fraction(upper(Fraction(1, 3))) >= Fraction(1, 3)
    assert upper(Fraction(1, 10**400)) > 0
    assert upper(Fraction(0)) == 0
