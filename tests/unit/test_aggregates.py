"""Every declared aggregate against exact arithmetic, from columns as they are encrypted and totals with noise."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import duckdb
import flint
import numpy as np
import pytest
from flint import arb, fmpq
from numpy.typing import NDArray

from cleave.aggregates import AGGREGATES, DECLARED
from cleave.aggregates.balls import exact_root, inexact, nearest, precision, upper
from cleave.aggregates.base import Estimate, Facts, Figure
from cleave.aggregates.columns import Domain, Exact, Real
from cleave.aggregates.formulas import FORMULAS
from cleave.aggregates.group import EncryptedAggregate
from cleave.aggregates.moments import LOGARITHM, Power, Sum
from cleave.ckks.columns import Columns
from cleave.text.figures import is_rounded
from cleave_shared.errors import InputError
from tests.oracle import Cell
from tests.unit.simulate import schema, simulate, totals, values_of

NAMES = ("COUNT", "SUM", "AVG", "VAR_SAMP", "VAR_POP", "STDDEV_SAMP", "STDDEV_POP", "PRODUCT")
OF_BOOLEANS = ("COUNT_IF", "COUNTIF", "BOOL_AND", "BOOL_OR")
Doubles = NDArray[np.float64]


@pytest.fixture(scope="module")
def engine() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


def figures(values: Sequence[Any], domain: Domain, noise: float = 0.0, bits: int = 40) -> dict[str, Figure]:
    """Of every aggregate, the totals of real columns off by `noise` of a bound like encryption's, relative 2^-bits."""
    columns = Columns([domain], [EncryptedAggregate(AGGREGATES[name], (0,)) for name in NAMES])
    encoded = columns.encode(["x"], [values_of(values, domain.decimals)])
    found = totals(columns, encoded, np.ones(len(values), bool))
    for place, (type_, column) in enumerate(zip(columns.types, encoded, strict=True)):
        if isinstance(type_, Real):
            bound = Fraction(float(np.abs(column).max(initial=0.0)) or 1.0) / 2**bits
            found[place] = Estimate(found[place].value + bound * Fraction(noise), bound)
    return dict(zip(NAMES, columns.figures(found, len(values)), strict=True))


def shapes(rows: int, random: np.random.Generator) -> Iterator[tuple[str, Doubles]]:
    normal, steps = random.normal(size=rows), np.arange(rows)
    yield "normal", normal
    yield "offset", 1e6 + normal
    yield "offset, two values", 1e6 + random.choice([-1.0, 1.0], size=rows)
    yield "offset, last bits", 1e6 + random.integers(0, 9, rows) * 2.0**-33
    yield "ramp", 100 + 0.01 * steps
    yield "timestamps", 1.7e9 + 0.1 * steps
    yield "Julian days", 2460310.5 + steps / 86400
    yield "constant", np.full(rows, 1e6 + 0.1)
    yield "constant but one", np.where(steps == 0, 0.1, 1e6 + 0.1)
    yield "ones", np.where(steps % 2, -1.0, 1.0)
    yield "all zero", np.where(steps % 2, -0.0, 0.0)
    yield "around zero", np.where(steps % 3, normal, -0.0)
    yield "heavy tail", np.exp(3 * normal)
    yield "outlier", np.concatenate([[1e9], normal[1:]])
    yield "two clusters", np.where(steps < rows // 2, 1e8, normal)
    yield "growth factors", 1 + normal / 100
    yield "near one", 1 + normal * 1e-15
    yield "huge", normal * 1e300
    yield "tiny", normal * 1e-300
    yield "subnormal", random.integers(-9, 9, rows) * 5e-324
    yield "1e200 beside 1e-200", random.choice([1e200, 1e-200, -1e200, -1e-200], rows)
    yield "every magnitude", random.choice([-1.0, 1.0], rows) * 10.0 ** random.uniform(-300, 300, rows)


@pytest.mark.parametrize("rows", [1, 2, 3, 10, 100, 1000])
@pytest.mark.parametrize(("noise", "bits"), [(0.0, 40), (0.999, 40), (-0.999, 40), (0.999, 90)])
@pytest.mark.sampled(7)
def test_aggregates_of_doubles_are_within_their_bounds(
    engine: duckdb.DuckDBPyConnection, rows: int, noise: float, bits: int
) -> None:
    """With 90 bits next to nothing but the client's own float64 is left to bound."""
    random = np.random.default_rng(rows)
    for label, values in shapes(rows, random):
        found = figures(values.tolist(), Domain(None, nullable=False), noise, bits)
        calls = ", ".join(f"{name}(x)" for name in NAMES)
        try:
            row = engine.execute(f"SELECT {calls} FROM (SELECT unnest(?::DOUBLE[]) AS x)", [values.tolist()]).fetchone()
        except duckdb.OutOfRangeException:  # DuckDB refuses a variance that overflows
            row = None
        exactly = [Fraction(value) for value in values.tolist()]
        for place, (name, figure) in enumerate(found.items()):
            cell, where = Cell(name, exactly, None), f"{name} of {rows} values, {label}"
            assert cell.wrong(figure.value, figure.bound, figure.exact) is None, where
            if row is not None:
                assert cell.disagrees(figure.value, figure.bound, row[place]) is None, where
            assert encloses(figure, cell), where


def encloses(figure: Figure, cell: Cell) -> bool:
    if figure.ball is None or cell.truth is None:
        return figure.value is None and cell.truth is None
    return bool(arb(figure.ball).overlaps(cell.truth))


@pytest.mark.parametrize("value", [72.5, 0.1, -1e300, 5e-324, 0.0])
@pytest.mark.parametrize("rows", [1, 7])
def test_a_constant_column_is_exact_whatever_the_noise(value: float, rows: int) -> None:
    for name, figure in figures([value] * rows, Domain(None, nullable=False), 0.9).items():
        if name == "PRODUCT" and value:
            continue
        assert figure.exact or not math.isfinite(figure.bound), name
        assert Cell(name, [Fraction(value)] * rows, None).wrong(figure.value, figure.bound, figure.exact) is None


EXACT_TYPES = {
    "BOOLEAN": (0, 0, 1),
    "TINYINT": (0, -128, 127),
    "SMALLINT": (0, -(2**15), 2**15 - 1),
    "INTEGER": (0, -(2**31), 2**31 - 1),
    "BIGINT": (0, -(2**63), 2**63 - 1),
    "UBIGINT": (0, 0, 2**64 - 1),
    "HUGEINT": (0, -(2**120), 2**120),
    "DECIMAL(4,1)": (1, -9999, 9999),
    "DECIMAL(9,2)": (2, -(10**9) + 1, 10**9 - 1),
    "DECIMAL(18,6)": (6, -(10**18) + 1, 10**18 - 1),
    "DECIMAL(18,18)": (18, -(10**18) + 1, 10**18 - 1),
    "DECIMAL(34,2)": (2, -(10**34) + 1, 10**34 - 1),
}


@pytest.mark.parametrize("type_", EXACT_TYPES)
def test_integers_and_decimals_are_exact(engine: duckdb.DuckDBPyConnection, type_: str) -> None:
    decimals, low, high = EXACT_TYPES[type_]
    random = np.random.default_rng(len(type_))
    for rows in (1, 2, 3, 7, 49, 300):
        units = [low + int(random.integers(0, 2**62)) * (high - low) // 2**62 for _ in range(rows)]
        if rows == 7:
            units = [high] * rows
        if rows == 3:
            units = [low, high, 0]
        values = [Fraction(unit, 10**decimals) for unit in units]
        texts = [f"{Decimal(unit).scaleb(-decimals, Context(prec=60)):f}" for unit in units]
        names = [name for name in NAMES if type_ != "BOOLEAN" or name in ("COUNT", "SUM")]
        calls = ", ".join(f"{name}(x), typeof({name}(x))" for name in names)
        row = engine.execute(f"SELECT {calls} FROM (SELECT unnest(?::{type_}[]) AS x)", [texts]).fetchone()
        assert row is not None
        domain = Domain(decimals, low, high, nullable=False)
        found = figures([None if value is None else value for value in values], domain, 0.999)
        for name, theirs, their_type in zip(names, row[::2], row[1::2], strict=True):
            figure, cell = found[name], Cell(name, values, decimals)
            where = f"{name} of {rows}"
            is_nearest = name.startswith("STDDEV") and is_rounded(figure.value, figure.bound)
            assert figure.exact or is_nearest or name == "PRODUCT", where
            assert cell.wrong(figure.value, figure.bound, figure.exact) is None, where
            assert cell.disagrees(figure.value, figure.bound, theirs) is None, where
            assert encloses(figure, cell), where
            assert AGGREGATES[name].result_type(type_) == their_type


@pytest.mark.parametrize("type_", [*EXACT_TYPES, "FLOAT", "DOUBLE"])
def test_result_types_are_duckdbs(engine: duckdb.DuckDBPyConnection, type_: str) -> None:
    for name, aggregate in AGGREGATES.items():
        if (type_ == "BOOLEAN") != (name in OF_BOOLEANS) and name not in ("COUNT", "SUM"):
            continue  # DuckDB has none of these
        if name == "SUM_NO_OVERFLOW" and type_ in ("FLOAT", "DOUBLE"):
            continue  # nor this
        arguments = ", ".join([f"NULL::{type_}"] * aggregate.arity)
        (expected,) = engine.execute(f"SELECT typeof({name}({arguments}))").fetchone()
        assert aggregate.result_type(*[type_] * aggregate.arity) == expected, name


@pytest.mark.parametrize("domain", [Domain(0, -5, 9), Domain(None)])
def test_nothing_left_is_null_and_a_count_of_zero(domain: Domain) -> None:
    for rows in (0, 3):
        for name, figure in figures([None] * rows, domain).items():
            assert figure == Figure(0 if name == "COUNT" else None, 0.0, exact=True)


def test_noise_cannot_make_a_variance_negative() -> None:
    facts = [Facts(Domain(None), Fraction(0))]
    moments = {Sum(): Estimate(Fraction(20)), Power(2): Estimate(Fraction(99), Fraction(2))}
    for name in ("VAR_SAMP", "STDDEV_POP"):
        figure = AGGREGATES[name].finish(4, moments, facts)
        assert figure.value is not None
        assert 0 <= figure.value <= figure.bound < 1
        assert figure.ball is not None
        assert arb(figure.ball).lower() > -1e-6


@pytest.mark.parametrize(
    ("factors", "product"),
    [([2, -3, 4], -24), ([-2, -3, 4], 24), ([2, 0, 4], 0), ([1, -1, -1, -1], -1), ([7] * 12, 7**12)],
)
def test_a_product_of_integers_is_exact_where_it_fits(factors: list[int], product: int) -> None:
    figure = figures(factors, Domain(0, -10, 10))["PRODUCT"]
    assert figure == Figure(float(product), 0.0, exact=True)


def test_a_product_of_decimals_is_exact_where_it_fits() -> None:
    values = [Fraction(13, 10), Fraction(-25, 10), Fraction(7, 10)]
    figure = figures(values, Domain(1, -99, 99))["PRODUCT"]
    assert figure == Figure(-2.275, 0.0, exact=True)


def test_a_product_too_large_for_its_noise_is_not_called_exact() -> None:
    figure = figures([9] * 60, Domain(0, 0, 9), 0.9)["PRODUCT"]
    assert not figure.exact
    assert Cell("PRODUCT", [Fraction(9)] * 60, 0).wrong(figure.value, figure.bound, False) is None
    assert 0 < figure.bound < 1e-6 * 9.0**60


@pytest.mark.parametrize(
    ("values", "domain"),
    [
        ([5, 11], Domain(0, 0, 10)),
        ([-1], Domain(0, 0, 10)),
        ([2**63 - 1], Domain(0, -(2**63), 2**63 - 2)),
        ([-(2**127)], Domain(0, -(2**127) + 1, 2**127 - 1)),
        ([3.5, 1.0], Domain(None, low=0.0, high=3.0)),
        ([math.inf], Domain(None)),
        ([math.nan, 1.0], Domain(None)),
        ([None, 1], Domain(0, 0, 10, nullable=False)),
        ([None, 1.0], Domain(None, nullable=False)),
    ],
)
@pytest.mark.parametrize("name", ["AVG", "COUNT"])
def test_a_value_outside_its_domain_is_refused_and_not_shown(name: str, values: list[Any], domain: Domain) -> None:
    if name == "COUNT" and None not in values:
        return  # it reads no value
    columns = Columns([domain], [EncryptedAggregate(AGGREGATES[name], (0,))])
    with pytest.raises(InputError, match=r"in 1 (row$|row,|of [12] rows)") as caught:
        columns.encode(["x"], [values_of(values, domain.decimals)])
    assert "11" not in str(caught.value)
    assert caught.value.hint


def test_a_columns_type_bounds_its_values() -> None:
    random = np.random.default_rng(3)
    for domain in (Domain(0, -7, 200), Domain(2, 5, 9), Domain(0, -(2**63), 2**63 - 1), Domain(0, 0, 2**64 - 1)):
        columns = Columns([domain], [EncryptedAggregate(AGGREGATES[name], (0,)) for name in NAMES])
        units = [domain.lower, domain.upper, domain.middle]
        units += [domain.lower + int(u) * domain.width // 2**32 for u in random.integers(0, 2**32, 20)]
        encoded = columns.encode(["x"], [values_of([Fraction(u, domain.unit) for u in units], domain.decimals)])
        for type_, column in zip(columns.types, encoded, strict=True):
            if isinstance(type_, Exact):
                values = [sum(int(word) << (64 * i) for i, word in enumerate(words)) for words in column.T]
                assert min(values) >= 0
                assert max(values) <= type_.limit
            else:
                assert np.abs(column).max() <= type_.reach


def test_differences_stay_within_the_declared_range() -> None:
    """Also where the rounded median would lie outside it."""
    low, high = 1.0000001, 1.0000002
    columns = Columns([Domain(None, nullable=False, low=low, high=high)], [EncryptedAggregate(AGGREGATES["SUM"], (0,))])
    (type_,) = columns.types
    (column,) = columns.encode(["x"], [values_of([low, low, high], None)])
    assert isinstance(type_, Real)
    assert np.abs(column).max() <= type_.reach < 1.1e-7
    assert type_.least == low


def test_types_follow_from_the_domain_alone() -> None:
    """Also where the values would allow less: what is sent may depend on the schema, never on selected values."""
    domain = Domain(0, 0, 1000)
    asked = [EncryptedAggregate(AGGREGATES[name], (0,)) for name in NAMES]
    before = Columns([domain], asked).types
    for values in ([None, None], [5, 5, 5], [0, 1000]):
        columns = Columns([domain], asked)
        columns.encode(["x"], [values_of(values, 0)])
        assert columns.types == before


def test_an_aggregate_of_two_arguments() -> None:
    """From SQL to figures; a row counts where neither argument is NULL."""
    random = np.random.default_rng(11)
    x = [None if random.random() < 0.2 else 1e6 + float(v) for v in random.normal(size=200)]
    y = [None if random.random() < 0.2 else 3.0 * float(v) for v in random.normal(size=200)]
    sql = (
        "SELECT g, COVAR_POP(x, y), COVAR_POP(x, y) FILTER (WHERE y > 0), AVG(x), COUNT(x) FROM t GROUP BY g ORDER BY g"
    )
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT unnest(range(200)) % 3 AS g, unnest(?::DOUBLE[]) AS x, unnest(?::DOUBLE[]) AS y",
            [x, y],
        )
        result = simulate(sql, schema(g="plain BIGINT", x="encrypted DOUBLE", y="encrypted DOUBLE"), connection, "t")
        expected = connection.execute(sql).fetchall()
    for row, bounds, truth in zip(result.rows, result.bounds, expected, strict=True):
        assert row[0] == truth[0]
        assert row[4] == truth[4]
        for place in (1, 2, 3):
            assert abs(row[place] - truth[place]) <= (bounds[place] or 0) + 1e-9
            assert bounds[place] < 1e-6


def test_every_name_leads_to_one_declaration() -> None:
    assert len(AGGREGATES) == sum(len(aggregate.names) for aggregate in DECLARED)


ABOVE_A_TIE = (2**53 + 1) ** 2 + Fraction(1, 2**40)


def test_a_root_is_correctly_rounded() -> None:
    random = np.random.default_rng(5)
    squares = [Fraction(int(v)) ** 2 for v in random.integers(1, 2**62, 50)]  # of integers, some of more than 53 bits
    others = [Fraction(int(a), int(b)) for a, b in random.integers(1, 2**62, (200, 2))]
    for value in [
        *squares,
        *others,
        Fraction(0),
        Fraction(2**400),
        Fraction(1, 3**400),
        Fraction((2**53 + 1) ** 2),
        ABOVE_A_TIE,
    ]:
        with flint.ctx.workprec(2000):
            right = float(arb(fmpq(value.numerator, value.denominator)).sqrt().mid())
        figure = exact_root(value)
        if value == (2**53 + 1) ** 2:
            right = 2.0**53  # a tie goes to the even one
        assert figure.value == right


def test_a_bound_is_rounded_upwards() -> None:
    for value in (Fraction(1, 3), Fraction(1, 10**400), Fraction(10**300, 7)):
        with precision():
            assert Fraction(upper(arb(fmpq(value.numerator, value.denominator)))) >= value
    assert upper(arb(0)) == 0
    assert upper(arb(10) ** 400) == math.inf
    assert nearest(Fraction(10**400)) == math.inf
    figure = inexact(arb(10) ** 400)
    assert (figure.value, figure.bound, figure.exact) == (math.inf, math.inf, False)


def test_logarithms_are_as_good_as_is_assumed() -> None:
    """`moments.LOGARITHM` on this machine's processor, for every path of numpy's: near 1, tiny, huge, subnormal."""
    random = np.random.default_rng(17)
    samples = [
        10.0 ** random.uniform(-307, 308, 20_000),
        1 + random.normal(size=20_000) * 10.0 ** random.uniform(-16, -1, 20_000),
        random.integers(1, 2**40, 2_000) * 5e-324,
        random.integers(1, 10**6, 5_000).astype(float),
    ]
    for sample in samples:
        values = sample[sample > 0]
        for size in (len(values), 3):  # the vectorised loop, and its remainder
            logs = np.log(values[:size])
            with flint.ctx.workprec(200):
                for value, log in zip(values[:size].tolist(), logs.tolist(), strict=True):
                    exact = arb(value).log()
                    assert abs(arb(log) - exact) <= abs(arb(log)) * float(LOGARITHM), value


def test_each_aggregate_has_a_formula() -> None:
    assert {each.names[0] for each in DECLARED} == FORMULAS.keys()
