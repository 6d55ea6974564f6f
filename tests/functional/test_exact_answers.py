"""What an answer calls exact is the exact value, correctly rounded to its type: against Python's fractions."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pandas as pd
import pytest

import cleave
from cleave.ckks.key_file import create_key, open_key
from cleave.ckks.public_key import export_public, public_side

BIG = 2**53
DAYS = [date(2020, 1, 1), date(2020, 1, 2), date(1960, 5, 5), date(2024, 2, 29)]
ROWS = {
    "g": ["a"] * 4,
    "x": [0.1, 0.7, 1.115, 0.3],
    "small": [1, 2, 4, 6],
    "big": [BIG + 1, BIG + 3, BIG + 2, 3],
    "d": [Decimal("1.1"), Decimal("2.4"), Decimal("2.5"), Decimal("0.4")],
    "day": DAYS,
}
TYPES = {
    "g": "VARCHAR",
    "x": "DOUBLE",
    "small": "INTEGER",
    "big": "BIGINT",
    "d": "DECIMAL(9,1)",
    "day": "DATE",
}
X = [Fraction(each) for each in (0.1, 0.7, 1.115, 0.3)]
SMALL = [Fraction(each) for each in (1, 2, 4, 6)]
LARGE = [Fraction(each) for each in (BIG + 1, BIG + 3, BIG + 2, 3)]
D = [Fraction(each) for each in ("1.1", "2.4", "2.5", "0.4")]
NEVER = object()  # irrational, or one of several values
_NUMBERS = {"x": X, "small": SMALL, "big": LARGE, "d": D}


def quantile(values: list[Fraction], part: Fraction) -> Fraction:
    ordered = sorted(values)
    place = part * (len(ordered) - 1)
    low = math.floor(place)
    high = math.ceil(place)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def median(values: list[Fraction]) -> Fraction:
    return quantile(values, Fraction(1, 2))


def spread(values: list[Fraction]) -> Fraction:
    mean = sum(values) / len(values)
    return sum((each - mean) ** 2 for each in values)


def middle_day(part: Fraction) -> datetime:
    days = [Fraction((each - date(1970, 1, 1)).days) for each in DAYS]
    return datetime.combine(date(1970, 1, 1), time()) + timedelta(
        microseconds=int(quantile(days, part) * 86_400_000_000)
    )


def half_away(value: Fraction, digits: int = 0) -> Fraction:
    scaled = abs(value) * 10**digits
    whole = Fraction(math.floor(scaled + Fraction(1, 2)), 10**digits)
    return whole if value >= 0 else -whole


OF_NUMBERS: dict[str, Callable[[list[Fraction]], Any]] = {
    "MEDIAN({})": median,
    "QUANTILE_CONT({}, 0.3)": lambda values: quantile(values, Fraction(3, 10)),
    "QUANTILE_CONT({}, 0.5)": median,
    "QUANTILE_DISC({}, 0.5)": lambda values: sorted(values)[1],
    "QUANTILE({}, 0.5)": lambda values: sorted(values)[1],
    "MAD({})": lambda values: quantile(
        [abs(each - quantile(values, Fraction(1, 2))) for each in values], Fraction(1, 2)
    ),
    "MIN({})": min,
    "MAX({})": max,
    "MAX({}) - MIN({})": lambda values: max(values) - min(values),
    "MAX({}) / MIN({})": lambda values: max(values) / min(values),
    "MAX({}) / 3": lambda values: max(values) / 3,
    "MAX({}) * 0.1": lambda values: max(values) / 10,
    "MAX({} * 0.1)": lambda values: max(values) / 10,
    "MAX({} / 3)": lambda values: max(values) / 3,
    "MAX(-{})": lambda values: -min(values),
    "ABS(MIN({}))": lambda values: abs(min(values)),
    "MAX({})::DOUBLE": max,
    "ROUND(MIN({}) * 10)": lambda values: half_away(min(values) * 10),
    "ROUND(MAX({}), 2)": lambda values: half_away(max(values), 2),
    "FLOOR(MAX({}))": lambda values: Fraction(math.floor(max(values))),
    "CEIL(MAX({}))": lambda values: Fraction(math.ceil(max(values))),
    "(MAX({}) * 100)::DECIMAL(38, 2)": lambda values: half_away(max(values) * 100, 2),
    "MAX({})::DECIMAL(38, 2)": lambda values: half_away(max(values), 2),
    "(MIN({}) * 3 = 0.3)": lambda values: min(values) * 3 == Fraction(3, 10),
    "MEDIAN({})::DECIMAL(38, 1)": lambda values: half_away(median(values), 1),
    "LIST_SUM(LIST({} ORDER BY {}))": sum,
    "LIST_AVG(LIST({} ORDER BY {}))": lambda values: sum(values) / 4,
    "SUM(DISTINCT {})": sum,
    "AVG(DISTINCT {})": lambda values: sum(values) / 4,
    "KAHAN_SUM({})": sum,
    "FSUM({})": sum,
    "FAVG({})": lambda values: sum(values) / 4,
    "PRODUCT({})": lambda values: functools.reduce(Fraction.__mul__, values),
    "VAR_POP({})": lambda values: spread(values) / 4,
    "VAR_SAMP(DISTINCT {})": lambda values: spread(values) / 3,
    "STDDEV({})": lambda _: NEVER,
    "SQRT(MAX({}))": lambda _: NEVER,
    "LN(MAX({}))": lambda _: NEVER,
    "POWER(MAX({}), 2)": lambda values: max(values) ** 2,
    "COVAR_POP({}, small)": lambda values: (
        sum(a * b for a, b in zip(values, SMALL, strict=True)) / 4 - sum(values) * sum(SMALL) / 16
    ),
    "REGR_SXX({}, {})": spread,
    "ENTROPY({})": lambda _: Fraction(2),
    "MODE({})": lambda _: NEVER,
    "ANY_VALUE({})": lambda _: NEVER,
    "APPROX_QUANTILE({}, 0.5)": lambda _: NEVER,
    "ARG_MAX({}, small)": lambda _: NEVER,
    "COUNT(DISTINCT {} * 0.1)": lambda values: Fraction(len(set(values))),
    "COUNT(DISTINCT {})": lambda values: Fraction(len(set(values))),
    "COUNT({} / 3)": lambda values: Fraction(len(values)),
}
OF_INTEGERS: dict[str, Callable[[list[Fraction]], Any]] = {
    "MAX({}) // 7": lambda values: Fraction(math.floor(max(values) / 7)),
    "MAX({}) % 7": lambda values: max(values) % 7,
    "BIT_XOR({})": lambda values: Fraction(functools.reduce(int.__xor__, map(int, values))),
    "SUM({}) FILTER ({} > 2)": lambda values: sum(each for each in values if each > 2),
}
OF_DAYS: dict[str, Any] = {
    "MIN(day)": date(1960, 5, 5),
    "MAX(day)": date(2024, 2, 29),
    "MEDIAN(day)": middle_day(Fraction(1, 2)),
    "QUANTILE_CONT(day, 0.3)": middle_day(Fraction(3, 10)),
    "MAX(day) - MIN(day)": (date(2024, 2, 29) - date(1960, 5, 5)).days,
}
CASES: dict[str, Any] = {
    **{
        form.format(name, name): truth(values)
        for name, values in _NUMBERS.items()
        for form, truth in OF_NUMBERS.items()
    },
    **{
        form.format(name, name): truth(values)
        for name, values in (("small", SMALL), ("big", LARGE))
        for form, truth in OF_INTEGERS.items()
    },
    **OF_DAYS,
    "STRING_AGG(small::VARCHAR, ',' ORDER BY small)": "1,2,4,6",
}
EXACT = (
    *(f"{name}({column})" for name in ("MIN", "MAX") for column in (*_NUMBERS, "day")),
    *(f"QUANTILE_DISC({column}, 0.5)" for column in _NUMBERS),
    *("MEDIAN(small)", "MEDIAN(day)", "MAX(big) // 7", "MAX(big) % 7", "MAX(d) - MIN(d)", "MAX(d) * 0.1"),
    *("COUNT(DISTINCT x)", "COUNT(x / 3)", "SUM(DISTINCT big)", "MAX(-x)", "ABS(MIN(x))", "FLOOR(MAX(x))"),
    *("BIT_XOR(big)", "ROUND(MAX(d), 2)", "STRING_AGG(small::VARCHAR, ',' ORDER BY small)"),
)
"""What must stay exact: a check that calls nothing exact guards nothing."""


def answer(kind: str, sql: str) -> cleave.Result:
    kinds = {name: {"kind": kind, "type": type_} for name, type_ in TYPES.items()}
    return cleave.query(pd.DataFrame(ROWS), sql, schema=kinds, table="rows_")


def wrong(value: Any, exact: bool | None, truth: Any) -> bool:
    """True if a value is called exact and is not."""
    if not exact:
        return False
    if isinstance(truth, Fraction | bool):
        if isinstance(value, float):
            return value != float(truth)
        return Fraction(value) != truth
    return truth is NEVER or str(value) != str(truth)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ["plain", "sealed"])
def test_of_single_outputs_only_exact_values_are_called_exact(kind: str) -> None:
    found = answer(kind, f"SELECT {', '.join(CASES)} FROM rows_")
    figures = zip(CASES, found.rows[0], found.exact[0], strict=True)
    shown = {sql: (value, exact) for sql, value, exact in figures}
    assert not {sql: shown[sql] for sql in CASES if wrong(*shown[sql], CASES[sql])}
    assert not [sql for sql in EXACT if not shown[sql][1]]


WHOLE = {
    "SELECT v FROM (SELECT {} AS v FROM rows_)": [
        *(sql for sql in CASES if re.search(r"MEDIAN|MAD|::|ROUND|=|LIST|COUNT|MAX\(d\)", sql)),
    ],
    "SELECT (SELECT {} FROM rows_)": ["MEDIAN(d)", "QUANTILE_CONT(d, 0.3)", "(MIN(x) * 3 = 0.3)", "MAX(big)"],
    "SELECT DISTINCT {} OVER () FROM rows_": ["MEDIAN(d)", "QUANTILE_CONT(day, 0.3)", "MAX(big)", "MAX(d)"],
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("form", WHOLE)
def test_of_whole_statements_only_exact_values_are_called_exact(form: str) -> None:
    broken, exacts = {}, 0
    for sql in WHOLE[form]:
        found = answer("sealed", form.format(sql))
        ((value,),), ((exact,),) = found.rows, found.exact
        exacts += bool(exact)
        if wrong(value, exact, CASES[sql]):
            broken[sql] = value
    assert not broken
    assert exacts


@pytest.fixture(scope="module")
def median_paths(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """By path, the options of a question over the rows of `x`, of which there is an even number."""
    root = tmp_path_factory.mktemp("median")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_STATE_HOME", str(root / "state"))
        patched.delenv("CLEAVE_KEY", raising=False)
        store, table, key, reader = root / "store", root / "t.csv", root / "key.json", root / "reader.json"
        table.write_text("g,x\n" + "".join(f"a,{float(x)}\n" for x in X))
        schema = table.with_suffix(".schema.toml")
        schema.write_text('[columns]\ng = {type = "VARCHAR", kind = "plain"}\nx = {type = "DOUBLE", kind = "sealed"}\n')
        create_key(key, None)
        create_key(reader, None)
        opened = open_key(reader, None)
        side = public_side(opened)
        export_public(opened, side, root / "reader.pub")
        place = {"store": str(store), "key": str(key)}
        cleave.put(table, "t", by=["g"], **place)
        cleave.add_reader("t", to=f"{root / 'reader.pub'}={side.fingerprint}", columns=["g", "x"], yes=True, **place)
        files = {"data": str(table)}
        owner = public_side(open_key(key, None)).fingerprint
        read = {"data": "t", "store": str(store), "reader": str(reader), "fingerprint": owner}
        yield {
            "file": files,
            "file, least 3": files | {"min_group": 3},
            "stored": {"data": "t", **place},
            "stored, least 3": {"data": "t", **place, "min_group": 3},
            "reader": read,
            "reader, least 3": read | {"min_group": 3},
        }


@pytest.mark.sampled(4)
@pytest.mark.parametrize("path", ["file", "stored", "reader"])
@pytest.mark.parametrize("least", ["", ", least 3"])
def test_an_interpolated_median_is_exact_on_no_path(median_paths: dict[str, Any], path: str, least: str) -> None:
    options = dict(median_paths[path + least])
    data = options.pop("data")
    for figures in ("MEDIAN(x), QUANTILE_CONT(x, 0.5), MIN(x)", "g, MEDIAN(x), QUANTILE_CONT(x, 0.3), MAX(x)"):
        found = cleave.query(data, f"SELECT {figures} FROM t GROUP BY g", **options)
        *_, median_, quantile_, extreme = zip(found.rows[0], found.exact[0], found.bounds[0], strict=True)
        assert median_[0] == pytest.approx(0.5)
        assert (median_[1:], quantile_[1:]) == ((None, None), (None, None))
        assert extreme[1:] == (True, 0.0)
