"""`cleave.fit` over frames and files, against exact fractions, NIST's certified values and statsmodels."""

from __future__ import annotations

import csv
import json
import random
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from formulaic import model_matrix

import cleave
from cleave.models.design import read_formula
from cleave_shared.errors import CleaveError, InputError, QueryRefused

ROOT = Path(__file__).parents[2]
PATIENTS = ROOT / "tests" / "samples" / "patients.csv"
NIST = ROOT / "tests" / "vectors" / "nist"


pytestmark = pytest.mark.usefixtures("own_key")


# --- exact least squares by elimination of fractions

Row = list[Fraction]


def inverse(matrix: Sequence[Row]) -> list[Row]:
    """By Gauss and Jordan."""
    size = len(matrix)
    rows = [[*row, *(Fraction(i == j) for j in range(size))] for i, row in enumerate(matrix)]
    for place in range(size):
        pivot = next(row for row in range(place, size) if rows[row][place])
        rows[place], rows[pivot] = rows[pivot], rows[place]
        rows[place] = [each / rows[place][place] for each in rows[place]]
        for other in range(size):
            if other != place and rows[other][place]:
                factor = rows[other][place]
                rows[other] = [one - factor * two for one, two in zip(rows[other], rows[place], strict=True)]
    return [row[size:] for row in rows]


def least_squares(
    x: Sequence[Row], y: Row, weights: Row | None = None, ridge: Sequence[Fraction] = ()
) -> tuple[Row, Row, Fraction]:
    """Coefficients, the diagonal of the inverse, and the sum of squared residuals."""
    w = weights or [Fraction(1)] * len(y)
    size = len(x[0])
    gram = [[sum(a[i] * a[j] * b for a, b in zip(x, w, strict=True)) for j in range(size)] for i in range(size)]
    for place, each in enumerate(ridge):
        gram[place][place] += each
    cross = [sum(a[i] * c * b for a, b, c in zip(x, w, y, strict=True)) for i in range(size)]
    inverted = inverse(gram)
    found = [sum(one * two for one, two in zip(row, cross, strict=True)) for row in inverted]
    fitted = [sum(a * b for a, b in zip(row, found, strict=True)) for row in x]
    residual = sum((c - d) ** 2 * b for b, c, d in zip(w, y, fitted, strict=True))
    return found, [inverted[i][i] for i in range(size)], residual


def contains(number: Any, exact: Fraction, ulps: float = 0.5) -> bool:
    """A bound of 0 means a correctly rounded double."""
    slack = Fraction(number.bound) if number.bound else Fraction(np.spacing(abs(number.value))) * Fraction(ulps)
    return abs(Fraction(number.value) - exact) <= slack


def contains_root(number: Any, square: Fraction) -> bool:
    """Whether the root of `square` is within the bound of a number."""
    slack = Fraction(max(number.bound, np.spacing(number.value) / 2))
    low, high = Fraction(number.value) - slack, Fraction(number.value) + slack
    return max(low, Fraction(0)) ** 2 <= square <= high**2


def fractions(values: Sequence[Any]) -> Row:
    return [Fraction(each) if isinstance(each, Decimal) else Fraction(float(each)) for each in values]


def check_exactly(model: Any, x: Sequence[Row], y: Row, weights: Row | None = None) -> None:
    found, inverted, residual = least_squares(x, y, weights)
    degrees = len(y) - len(found)
    assert model.df_resid == degrees
    assert contains(model.residual, residual)
    for each, exact, square in zip(model.coefficients.values(), found, inverted, strict=True):
        assert contains(each.estimate, exact)
        assert contains_root(each.error, square * residual / degrees)


# --- NIST's data


def filip() -> tuple[list[Row], Row]:
    with (NIST / "filip.csv").open() as file:
        rows = list(csv.DictReader(file))
    x = [Fraction(row["x"]) for row in rows]
    return [[each**power for power in range(11)] for each in x], [Fraction(row["y"]) for row in rows]


FILIP = [  # certified by NIST, with standard deviations
    ("-1467.48961422980", "298.084530995537"),
    ("-2772.17959193342", "559.779865474950"),
    ("-2316.37108160893", "466.477572127796"),
    ("-1127.97394098372", "227.204274477751"),
    ("-354.478233703349", "71.6478660875927"),
    ("-75.1242017393757", "15.2897178747400"),
    ("-10.8753180355343", "2.23691159816033"),
    ("-1.06221498588947", "0.221624321934227"),
    ("-0.0670191154593408", "0.0142363763154724"),
    ("-0.00246781078275479", "0.000535617408889821"),
    ("-0.0000402962525080404", "0.00000896632837373868"),
]
POWERS = [f"I(x**{power})" for power in range(2, 11)]


def agrees(number: float, certified: str) -> bool:
    """Whether a double has the digits of a certified value."""
    value = Decimal(certified)
    return abs(Decimal(number) - value) <= Decimal(1).scaleb(value.as_tuple().exponent) * Decimal("0.51")


@pytest.mark.slow  # the degree 5 below is quick
def test_filip_has_all_certified_digits_and_float64_loses_them() -> None:
    model = cleave.fit(NIST / "filip.csv", f"y ~ x + {' + '.join(POWERS)}")
    for each, (estimate, error) in zip(model.coefficients.values(), FILIP, strict=True):
        assert agrees(each.estimate.value, estimate)
        assert agrees(each.error.value, error)
    assert agrees(model.r2.value, "0.996727416185620")
    assert agrees(model.deviation.value, "0.00334801051324544")
    x, y = filip()
    check_exactly(model, x, y)
    gram = np.array(x, float).T @ np.array(x, float)
    normal = np.linalg.lstsq(gram, np.array(x, float).T @ np.array(y, float), rcond=None)[0]
    assert not any(agrees(value, estimate) for value, (estimate, _) in zip(normal, FILIP, strict=True))


@pytest.mark.slow  # quick: the next tests
def test_powers_beyond_every_type_are_exact() -> None:
    model = cleave.fit(NIST / "filip.csv", "y ~ x + I(x**5)")
    x, y = filip()
    check_exactly(model, [[row[0], row[1], row[5]] for row in x], y)


LONGLEY = [  # certified by NIST
    ("-3482258.63459582", "890420.383607373"),
    ("15.0618722713733", "84.9149257747669"),
    ("-0.0358191792925910", "0.0334910077722432"),
    ("-2.02022980381683", "0.488399681651699"),
    ("-1.03322686717359", "0.214274163161675"),
    ("-0.0511041056535807", "0.226073200069370"),
    ("1829.15146461355", "455.478499142212"),
]


def test_sums_of_large_columns_are_exact(tmp_path: Path) -> None:
    """Each product of two fits a HUGEINT, and their sum does not."""
    rows = [(2**62 - 1 - row * row, 2**62 - 1 - 3 * row) for row in range(40)]
    file = tmp_path / "large.csv"
    pd.DataFrame(rows, columns=["y", "x"]).to_csv(file, index=False)
    columns = (f'[columns.{name}]\nkind = "encrypted"\ntype = "BIGINT"\nlower = 0\nupper = {2**62}\n' for name in "yx")
    file.with_suffix(".schema.toml").write_text("".join(columns))
    model = cleave.fit(file, "y ~ x")
    check_exactly(model, [[Fraction(1), Fraction(x)] for _, x in rows], [Fraction(y) for y, _ in rows])


def test_longley_has_all_certified_digits() -> None:
    data = sm.datasets.longley.load_pandas().data
    frame = data.astype({name: "int64" for name in data if name != "GNPDEFL"})
    frame["GNPDEFL"] = [Decimal(f"{each:.1f}") for each in data["GNPDEFL"]]
    model = cleave.fit(
        frame, "TOTEMP ~ GNPDEFL + GNP + UNEMP + ARMED + POP + YEAR", schema=dict.fromkeys(frame, "encrypted")
    )
    for each, (estimate, error) in zip(model.coefficients.values(), LONGLEY, strict=True):
        assert each.estimate.bound == 0
        assert agrees(each.estimate.value, estimate)
        assert agrees(each.error.value, error)
    assert agrees(model.r2.value, "0.995479004577296")
    assert agrees(model.deviation.value, "304.854073561965")
    assert agrees(model.f.value, "330.285339234588")
    names = ["GNPDEFL", "GNP", "UNEMP", "ARMED", "POP", "YEAR"]
    rows = [[Fraction(1), *(Fraction(row[name]) for name in names)] for row in frame.to_dict("records")]
    check_exactly(model, rows, fractions(frame["TOTEMP"]))


def test_a_perfect_fit_has_no_error() -> None:
    """Wampler's first data of NIST: all coefficients are 1."""
    x = list(range(21))
    frame = pd.DataFrame({"x": x, "y": [sum(each**power for power in range(6)) for each in x]})
    model = cleave.fit(
        frame, "y ~ x + I(x**2) + I(x**3) + I(x**4) + I(x**5)", schema={"x": "encrypted", "y": "encrypted"}
    )
    assert {each.estimate for each in model.coefficients.values()} == {(1.0, 0.0)}
    assert {each.error for each in model.coefficients.values()} == {(0.0, 0.0)}
    assert all(np.isnan(each.t.value) and np.isnan(each.p.value) for each in model.coefficients.values())
    assert (model.r2, model.residual) == ((1.0, 0.0), (0.0, 0.0))
    assert np.isnan(model.f.value)
    assert "nan" not in model.summary().lower()


# --- statsmodels, over public data


def load(name: str) -> pd.DataFrame:
    return getattr(sm.datasets, name).load_pandas().data


def whole(name: str, *columns: str) -> pd.DataFrame:
    return load(name).astype(dict.fromkeys(columns, "int64"))


def banded(name: str, column: str, into: str, parts: int = 3) -> pd.DataFrame:
    frame = load(name)
    frame[into] = pd.qcut(frame[column].rank(method="first"), parts, labels=[*"abcdefgh"][:parts]).astype(str)
    return frame


PUBLIC: dict[str, tuple[Callable[[], pd.DataFrame], list[str]]] = {
    "longley": (lambda: banded("longley", "YEAR", "era"), ["TOTEMP ~ GNP + UNEMP", "TOTEMP ~ 0 + C(era) + UNEMP"]),
    "spector": (lambda: whole("spector", "PSI"), ["GPA ~ TUCE + PSI", "GPA ~ TUCE * C(PSI)"]),
    "stackloss": (
        lambda: load("stackloss"),
        ["STACKLOSS ~ AIRFLOW + WATERTEMP + ACIDCONC", "STACKLOSS ~ AIRFLOW + I(WATERTEMP**2) + AIRFLOW:WATERTEMP"],
    ),
    "ccard": (
        lambda: whole("ccard", "OWNRENT"),
        ["AVGEXP ~ AGE + INCOME + INCOMESQ + OWNRENT", "AVGEXP ~ C(OWNRENT):INCOME - 1"],
    ),
    "copper": (lambda: load("copper"), ["WORLDCONSUMPTION ~ COPPERPRICE + INCOMEINDEX + ALUMPRICE + TIME"]),
    "engel": (lambda: banded("engel", "income", "band", 5), ["foodexp ~ income", "foodexp ~ band * income"]),
    "fair": (
        lambda: whole("fair", "occupation", "educ").sample(800, random_state=1),
        ["affairs ~ rate_marriage + age + C(occupation) + C(educ):religious"],
    ),
    "grunfeld": (lambda: load("grunfeld"), ["invest ~ value + capital + firm", "invest ~ 0 + value:firm + capital"]),
    "statecrime": (lambda: load("statecrime"), ["murder ~ urban + poverty + hs_grad + single"]),
    "scotland": (lambda: load("scotland"), ["YES ~ COUTAX + UNEMPF + MOR + ACT + GDP + AGE + COUTAX_FEMALEUNEMP"]),
}


def kinds(frame: pd.DataFrame) -> dict[str, str]:
    return {name: "plain" if frame[name].dtype.kind not in "iufb" else "encrypted" for name in frame}


def close(number: Any, other: float, relative: float = 1e-7, scale: float = 0.0) -> bool:
    """Whether statsmodels' value is within a bound, as far as float64 allows."""
    return abs(number.value - other) <= number.bound + relative * max(abs(other), scale)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("name", "formula"), [(name, each) for name, (_, formulas) in PUBLIC.items() for each in formulas]
)
def test_public_data_as_statsmodels_fits_them(name: str, formula: str) -> None:
    frame = PUBLIC[name][0]().reset_index(drop=True)
    model = cleave.fit(frame, formula, schema=kinds(frame), level=0.9)
    matrix = model_matrix(formula, frame)
    assert model.names == tuple(matrix.rhs.columns)
    expected = sm.OLS(matrix.lhs, matrix.rhs.astype(float)).fit()
    intervals = expected.conf_int(0.1).to_numpy()
    for place, each in enumerate(model.coefficients.values()):
        assert close(each.estimate, expected.params.iloc[place], scale=expected.bse.iloc[place])
        assert close(each.error, expected.bse.iloc[place])
        assert close(each.t, expected.tvalues.iloc[place], scale=1)
        assert close(each.p, expected.pvalues.iloc[place], 1e-6)
        assert close(each.low, intervals[place, 0], scale=expected.bse.iloc[place])
        assert close(each.high, intervals[place, 1], scale=expected.bse.iloc[place])
    assert (model.n, model.df_model, model.df_resid) == (expected.nobs, expected.df_model, expected.df_resid)
    assert close(model.r2, expected.rsquared)
    assert close(model.adjusted_r2, expected.rsquared_adj, scale=1)
    assert close(model.scale, expected.scale)
    assert close(model.deviation, np.sqrt(expected.scale))
    assert close(model.f, expected.fvalue)
    assert close(model.f_p, expected.f_pvalue, 1e-5)
    assert close(model.residual, expected.ssr)
    covariance = expected.cov_params().to_numpy()
    for one, row in enumerate(model.covariance):
        for two, each in enumerate(row):
            assert close(each, covariance[one, two], scale=expected.bse.iloc[one] * expected.bse.iloc[two])


# --- small tables, against exact fractions


def small() -> pd.DataFrame:
    """Rows with a missing value in each column, decimals, doubles, a boolean and a group of one row."""
    generator = np.random.default_rng(5)
    n = 60
    frame = pd.DataFrame(
        {
            "y": [Decimal(int(each)) / 100 for each in generator.integers(-900, 900, n)],
            "a": pd.array(generator.integers(-40, 90, n), "Int64"),
            "d": generator.normal(3, 2, n),
            "p": generator.exponential(1.0, n),
            "w": [Decimal(int(each)) / 4 for each in generator.integers(0, 9, n)],
            "g": ["single", *generator.choice(["x", "y", "z"], n - 1)],
            "b": pd.array(generator.integers(0, 2, n), "boolean"),
        }
    )
    for place, name in enumerate(["y", "a", "d", "w", "g", "b"]):
        frame.loc[place + 3, name] = None
    return frame


SMALL = {
    "y": "encrypted",
    "a": "encrypted",
    "d": "encrypted",
    "p": "plain",
    "w": "encrypted",
    "g": "plain",
    "b": "sealed",
}


@cache  # it is proposed, which takes 0.1 s of a processor
def small_schema() -> cleave.Schema:
    schema = cleave.schema(small(), SMALL)
    columns = [
        cleave.Column(each.name, each.kind, each.type, Decimal(0), Decimal(100)) if each.name == "w" else each
        for each in schema.columns
    ]
    return cleave.Schema(tuple(columns), schema.dialect, schema.table)


def design(frame: pd.DataFrame, columns: Sequence[Callable[[Any], Any]]) -> list[Row]:
    return [[Fraction(column(row)) for column in columns] for row in frame.to_dict("records")]


ONE = [lambda _: 1]
LEVELS = [lambda row, level=level: row["g"] == level for level in ("x", "y", "z")]  # the first is "single"
CASES: dict[str, tuple[list[str], list[Callable[[Any], Any]]]] = {
    "y ~ a": (["a"], [*ONE, lambda row: row["a"]]),
    "y ~ a + g": (["a", "g"], [*ONE, lambda row: row["a"], *LEVELS]),
    "y ~ g": (["g"], [*ONE, *LEVELS]),
    "y ~ b + a": (["a", "b"], [*ONE, lambda row: row["b"], lambda row: row["a"]]),
    "y ~ a:b - 1": (["a", "b"], [lambda row: 0 if row["b"] else row["a"], lambda row: row["a"] if row["b"] else 0]),
    "y ~ I(a**3) + w": (["a", "w"], [*ONE, lambda row: row["a"] ** 3, lambda row: row["w"]]),
    "y ~ d": (["d"], [*ONE, lambda row: row["d"]]),
    "y ~ p": ([], [*ONE, lambda row: row["p"]]),
    "y ~ 0 + p + d:p + a": (
        ["a", "d"],
        [lambda row: row["p"], lambda row: row["a"], lambda row: Fraction(row["d"]) * Fraction(row["p"])],
    ),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("formula", CASES)
def test_small_tables_exactly(formula: str) -> None:
    names, columns = CASES[formula]
    frame = small()
    model = cleave.fit(frame, formula, schema=small_schema())
    kept = frame.dropna(subset=["y", *names])
    assert (model.n, model.left_out) == (len(kept), len(frame) - len(kept))
    x, y = design(kept, columns), fractions(kept["y"])
    found, inverted, residual = least_squares(x, y)
    is_exact = not set(formula) & {"d", "p"}
    for each, exact, square in zip(model.coefficients.values(), found, inverted, strict=True):
        assert contains(each.estimate, exact)
        assert contains_root(each.error, square * residual / model.df_resid)
        assert (each.estimate.bound == 0) == is_exact
        assert each.estimate.bound < 1e-10
    assert contains(model.residual, residual)
    centre = sum(y) / len(y) if "0" not in formula and "- 1" not in formula else Fraction(0)
    total = sum((each - centre) ** 2 for each in y)
    assert contains(model.total, total)
    assert contains(model.r2, 1 - residual / total)


def test_weights_as_exact_fractions_and_statsmodels() -> None:
    frame = small()
    model = cleave.fit(frame, "y ~ a + g", weights="w", schema=small_schema())
    kept = frame.dropna(subset=["y", "a", "g", "w"])
    x, y, weights = design(kept, CASES["y ~ a + g"][1]), fractions(kept["y"]), fractions(kept["w"])
    check_exactly(model, x, y, weights)
    expected = sm.WLS(np.array(y, float), np.array(x, float), np.array(weights, float)).fit()
    assert (model.n, model.df_model, model.df_resid) == (expected.nobs, expected.df_model, expected.df_resid)
    for name in ("rsquared", "rsquared_adj", "fvalue", "f_pvalue", "scale"):
        own = {"rsquared": "r2", "rsquared_adj": "adjusted_r2", "fvalue": "f", "f_pvalue": "f_p"}.get(name, name)
        assert close(getattr(model, own), getattr(expected, name), 1e-6)
    assert "weights w" in model.summary()


def test_ridge_as_exact_fractions_and_statsmodels() -> None:
    frame = small()
    kept = frame.dropna(subset=["y", "a", "g"])
    model = cleave.fit(frame, "y ~ a + g", ridge="2.5", schema=small_schema())
    x, y = design(kept, CASES["y ~ a + g"][1]), fractions(kept["y"])
    ridge = [Fraction(0), *[Fraction(5, 2)] * 4]
    found, _, residual = least_squares(x, y, ridge=ridge)
    assert all(contains(each.estimate, exact) for each, exact in zip(model.coefficients.values(), found, strict=True))
    assert contains(model.residual, residual)
    alpha = np.array(ridge, float) / len(y)
    expected = sm.OLS(np.array(y, float), np.array(x, float)).fit_regularized(alpha=alpha, L1_wt=0)
    assert all(
        close(each.estimate, one, 1e-6) for each, one in zip(model.coefficients.values(), expected.params, strict=True)
    )
    assert all(np.isnan(each.error.value) for each in model.coefficients.values())
    assert "no standard errors" in model.summary()
    with pytest.raises(InputError, match="ridge model"):
        _ = model.covariance


def test_ridge_of_doubles_holds_the_exact_solution() -> None:
    frame = small()
    kept = frame.dropna(subset=["y", "d"])
    model = cleave.fit(frame, "y ~ d", ridge=1, schema=small_schema())
    x, y = design(kept, CASES["y ~ d"][1]), fractions(kept["y"])
    found, _, residual = least_squares(x, y, ridge=[Fraction(0), Fraction(1)])
    assert all(contains(each.estimate, exact) for each, exact in zip(model.coefficients.values(), found, strict=True))
    assert contains(model.residual, residual)
    assert 0 < model.coefficients["d"].estimate.bound < 1e-12


def test_plain_doubles_of_one_group_among_large_ones_stay_in_their_balls() -> None:
    """The errors of DuckDB's additions are relative to the sum of absolute values."""
    x = [1e15, -1e15, 3.5, 1 / 3, 2e14, -2e14, 0.1, 7.0]
    y = [1.0, -2.0, 0.5, 1e8, -3e7, 0.25, 1 / 7, 4.0]
    frame = pd.DataFrame({"x": x, "y": y})
    model = cleave.fit(frame, "y ~ x", schema={"x": "plain", "y": "plain"})
    found, _, residual = least_squares([[Fraction(1), Fraction(each)] for each in x], fractions(y))
    assert all(contains(each.estimate, exact) for each, exact in zip(model.coefficients.values(), found, strict=True))
    assert contains(model.residual, residual)


# --- frames, predictions, text, JSON


def test_the_table_of_coefficients_is_a_frame_with_statsmodels_numbers() -> None:
    frame = pd.DataFrame({"y": [1, 4, 2, 8, 5, 7], "a": [1, 2, 3, 4, 5, 7]})
    model = cleave.fit(frame, "y ~ a", schema={"y": "encrypted", "a": "encrypted"})
    table = model.df()
    theirs = smf.ols("y ~ a", frame).fit()
    assert list(table.index) == ["Intercept", "a"]
    assert list(table.columns) == ["estimate", "error", "t", "p", "low", "high"]
    interval = theirs.conf_int()
    expected = [theirs.params, theirs.bse, theirs.tvalues, theirs.pvalues, interval[0], interval[1]]
    assert np.allclose(table.to_numpy(), np.column_stack(expected), rtol=1e-10)
    bounded = model.df(bounds=True)
    assert list(bounded.columns[:4]) == ["estimate", "estimate_bound", "error", "error_bound"]
    assert bounded.loc["a", "error_bound"] == model.coefficients["a"].error.bound > 0


def test_predictions_take_a_dict_and_refuse_other_rows() -> None:
    frame = pd.DataFrame({"y": [1, 4, 2, 8, 5, 7], "a": [1, 2, 3, 4, 5, 7]})
    model = cleave.fit(frame, "y ~ a", schema={"y": "encrypted", "a": "encrypted"})
    assert model.predict({"a": [3, 9]}).equals(model.predict(pd.DataFrame({"a": [3, 9]})))
    with pytest.raises(InputError, match="the rows are list, not a pandas DataFrame"):
        model.predict([3, 9])
    for uneven in ({"a": [3, 9], "b": [1]}, {"a": 3}):
        with pytest.raises(InputError, match="not lists of the same length"):
            model.predict(uneven)


def test_predictions_are_of_the_exact_model() -> None:
    frame = small()
    model = cleave.fit(frame, "y ~ a + g", schema=small_schema())
    kept = frame.dropna(subset=["y", "a", "g"])
    columns = CASES["y ~ a + g"][1]
    found, _, _ = least_squares(design(kept, columns), fractions(kept["y"]))
    predicted = model.predict(kept[["a", "g"]].rename(columns={"g": "G"}))
    assert list(predicted.columns) == ["y", "y_bound"]
    assert list(predicted.index) == list(kept.index)
    for value, bound, row in zip(predicted["y"], predicted["y_bound"], design(kept, columns), strict=True):
        exact = sum(one * two for one, two in zip(found, row, strict=True))
        assert bound == 0
        assert abs(Fraction(value) - exact) <= Fraction(np.spacing(abs(value))) / 2
    missing = model.predict(pd.DataFrame({"a": [1, None], "g": ["x", "x"]}))
    assert missing["y"].notna().tolist() == [True, False]
    with pytest.raises(InputError, match="no level of g") as unseen:
        model.predict(pd.DataFrame({"a": [1], "g": ["secret"]}))
    assert "secret" not in str(unseen.value)
    with pytest.raises(InputError, match="no column 'g'"):
        model.predict(pd.DataFrame({"a": [1]}))
    with pytest.raises(InputError, match="no number"):
        model.predict(pd.DataFrame({"a": ["canary"], "g": ["x"]}))


def test_a_model_as_text_json_and_html() -> None:
    model = cleave.fit(PATIENTS, "bill ~ age + weight")
    assert repr(model) == model.summary()
    lines = model.summary().splitlines()
    assert lines[0] == "bill ~ age + weight"
    assert lines[2].split() == ["term", "estimate", "std", "error", "t", "p", "95%", "low", "high"]
    assert "579 rows (21 more lack a value), 3 parameters" in lines
    facts = json.loads(model.json(), parse_constant=pytest.fail)
    assert facts["coefficients"]["age"]["estimate"] == list(model.coefficients["age"].estimate)
    assert facts["n"] == 579
    assert facts["checks"]["sentinel"] == "passed"
    assert len(facts["covariance"]) == 3
    assert len(facts["seen"]) == len(model.seen) == len(model.usage) == 1
    page = model._repr_html_()
    assert page.count("<tr>") == 4
    assert "579 rows" in page


def test_services_see_neither_formula_nor_values() -> None:
    model = cleave.fit(PATIENTS, "bill ~ age + C(ward) + C(insured)")
    for seen in model.seen:
        fates = {each.name: each.destination for each in seen.columns}
        assert fates["insured"] == fates["notes"] == fates["email"] == "none"
        assert "~" not in "".join([*seen.leakage.plain, *seen.leakage.sensitive])


# --- what is refused


def refused(formula: str, *, data: Any = None, **given: Any) -> CleaveError:
    with pytest.raises(CleaveError) as error:
        cleave.fit(small() if data is None else data, formula, **{"schema": small_schema(), **given})
    return error.value


def test_no_part_of_a_formula_is_evaluated(tmp_path: Path) -> None:
    """Not when it is parsed, and not when columns are made."""
    canary = tmp_path / "canary"
    for expression in (
        f"open({str(canary)!r}, 'w')",
        f"I(open({str(canary)!r}, 'w'))",
        f"C(open({str(canary)!r}, 'w'))",
        f"a * open({str(canary)!r}, 'w')",
        f"{{open({str(canary)!r}, 'w').write('x')}}",
        f"np.log(a) + I(open({str(canary)!r}, 'w'))",
        "a.__class__",
        "I((lambda: 1)())",
    ):
        refused(f"y ~ {expression}")
        refused(f"{expression} ~ a")
    assert not canary.exists()


@pytest.mark.parametrize(
    ("formula", "said", "hint"),
    [
        ("y ~ log(a)", "'log(a)'", "derive"),
        ("y ~ poly(a, 2)", "'poly(a, 2)'", "derive"),
        ("y ~ bs(a, df=4)", "bs(a, df=4)", "derive"),
        ("y ~ C(g, Sum)", "'C(g, Sum)' chooses another coding", "reference"),
        ("y ~ C(g, contr.treatment('y'))", "chooses another coding", "reference"),
        ("log(y) ~ a", "'log(y)'", "derive"),
        ("I(y) ~ a", "response", "derive"),
        ("y ~ nosuch", "no column 'nosuch'", "names"),
        ("y ~ C(d)", "no levels", "derive"),
        ("b ~ a", "logistic", "docs/models.md"),
        ("y ~ 2:a", "scales", "derive"),
        ("y ~ I(a**0)", "I(a**0)", "derive"),
        ("y ~ I(a**30)", "I(a**30)", "derive"),
        ("y ~ I(a**12):I(a**13)", "degree", "powers"),
        ("g ~ a", "'g' is VARCHAR", "C(g)"),
        ("y ~ g + C(g)", "two names", "one way"),
        ("y", "no single response", "RESPONSE"),
        ("y + a ~ d", "no single response", "RESPONSE"),
        ("y ~ a | d", "| divides the formula into parts", "RESPONSE"),
        ("y ~", "no term after ~", "RESPONSE ~ 1 fits the mean"),
        ("~", "no term after ~", "RESPONSE ~ 1 fits the mean"),
        ("y ~ I(`import`**2)", "'import', which is a word of Python", "derive"),
        ("y ~ C(`class`)", "'class', which is a word of Python", "derive"),
        ("y ~ 0", "no term", "RESPONSE"),
        ("y ~ ((", "cannot be read", "RESPONSE"),
        ("y ~ 'text'", "cannot be read", "RESPONSE"),
        ("y ~ (a]", "cannot be read", "RESPONSE"),
        ("y ~ [)", "cannot be read", "RESPONSE"),
    ],
)
def test_formulas_that_are_refused(formula: str, said: str, hint: str) -> None:
    error = refused(formula)
    assert said in error.message
    assert hint in (error.hint or "")


_FORMULAS = ("y ~ a + g", "y ~ a * (g + d)", "y ~ (a + d) ** 2 + C(g):d", "y ~ I(a * d) - 1", "y ~ `a` %in% g / d")
_BITS = (*"~+-*/:^()[]{}`'\"|,.012yadgb\\#@=\n\0é", "**", "%in%", "1.5", "C(", "I(", "nosuch")


def test_whatever_formulaic_raises_is_an_error_of_the_formula() -> None:
    """Formulas with some of their tokens dropped, doubled and replaced are read and coded, or are a CleaveError."""
    schema, chance, read = small_schema(), random.Random(55), 0
    levels = {"g": ["u", "v"], "b": [False, True], "a": [1, 2], "d": [1, 2], "y": [1, 2]}
    for _ in range(600):
        tokens = re.findall(r"\w+\(?|\*\*|%in%|\S", chance.choice(_FORMULAS))
        for _ in range(chance.randint(1, 4)):
            start = chance.randrange(len(tokens) + 1)
            tokens[start : start + chance.randint(0, 2)] = chance.choices(_BITS, k=chance.randint(0, 2))
        try:
            formula = read_formula(chance.choice(["", " "]).join(tokens), schema)
            formula.design({factor: levels[column.name] for factor, column in formula.factors.items()})
            read += 1
        except CleaveError:
            pass
    assert read > 25


def test_options_that_are_refused() -> None:
    assert "needs rows" in refused("y ~ a", family="binomial").message
    assert "may be negative" in refused("y ~ a", weights="a").message
    assert "not numbers" in refused("y ~ a", weights="g").message
    assert "ridge" in refused("y ~ a", ridge=-1).message
    assert "ridge" in refused("y ~ a", ridge="x").message
    assert "between 0 and 1" in refused("y ~ a", level=95).message
    with pytest.raises(InputError, match="one table"):
        cleave.fit(None, "y ~ a")


def frame_of(**columns: Any) -> tuple[pd.DataFrame, dict[str, str]]:
    frame = pd.DataFrame(columns)
    return frame, {name: "plain" if frame[name].dtype.kind not in "iuf" else "encrypted" for name in frame}


def test_the_level_of_intervals_is_the_written_decimal() -> None:
    """With one degree of freedom the quantile is tan(pi 0.95 / 2). The double 0.95 gives an interval 4e-15 off."""
    from mpmath import mp, mpf  # noqa: PLC0415

    frame, schema = frame_of(x=[0, 1, 2], y=[5, 7, 10])
    found = cleave.fit(frame, "y ~ x", schema=schema).coefficients["Intercept"]
    with mp.workdps(40):
        error = mp.sqrt(mpf(5) / 36)  # s^2 = 1/6, and (1/n + mean^2 / Sxx) = 5/6
        exact = mpf(29) / 6 - mp.tan(mp.pi * mpf("0.95") / 2) * error
        assert abs(exact - mpf(found.low.value)) <= mpf(found.low.bound) * (1 + mpf(2) ** -40)


def test_collinear_columns_are_named() -> None:
    frame, schema = frame_of(y=[1, 5, 2, 8, 4, 7], one=[1, 2, 3, 4, 5, 7], two=[3, 1, 4, 1, 5, 9], g=[*"aabbcc"])
    frame["both"] = frame["one"] + 2 * frame["two"]
    frame["same"] = 3
    schema |= {"both": "encrypted", "same": "encrypted"}
    error = refused("y ~ one + two + both", data=frame, schema=schema)
    assert "both is a combination of one, two" in error.message
    assert error.hint == "leave one of them out: one, two, both"
    assert "same is a combination of Intercept" in refused("y ~ one + same", data=frame, schema=schema).message
    assert cleave.fit(frame, "y ~ one + two + both", schema=schema, ridge=1).n == 6
    frame["g2"] = frame["g"].str.upper()
    error = refused("y ~ g + g2", data=frame, schema=schema | {"g2": "plain"})
    assert "collinear: g2 is a combination of g" in error.message
    assert error.hint == "leave one of them out: g, g2"


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ (one + two) ** 1000000",
        "y ~ (one + two) ^ 99",
        "y ~ ((one + two) ** 9) ** 9",
        "y ~ one ** 9 ** 9 ** 9",
        "y ~ (one + two) ** two",
        "y ~ " + " * ".join(f"x{place}" for place in range(24)),
        "y ~ " + " : ".join(["(one + two)"] * 24),
        "y ~ " + " / ".join(["(one + two)"] * 24),
    ],
)
def test_a_formula_of_very_many_terms_is_refused_before_they_are_made(
    formula: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(*_: object, **__: object) -> None:
        raise AssertionError("formulaic made the terms")

    monkeypatch.setattr("formulaic.parser.types.ASTNode.to_terms", made)
    frame, schema = frame_of(y=[1, 5, 2, 8, 4, 7], one=[1, 2, 3, 4, 5, 7], two=[3, 1, 4, 1, 5, 9])
    message = refused(formula, data=frame, schema=schema).message
    assert "more than 10000 terms" in message or "no small whole number" in message


@pytest.mark.parametrize("ridge", ["1e400", "1e999999999", "1e-999999999", "1" + "0" * 400 + "/3"])
def test_a_ridge_beyond_doubles_is_refused(ridge: str) -> None:
    frame, schema = frame_of(y=[1, 5, 2, 8], one=[1, 2, 3, 5])
    assert "between 1e-200 and 1e200" in refused("y ~ one", data=frame, schema=schema, ridge=ridge).message


@pytest.mark.slow  # quick: a perfect fit has powers
def test_small_powers_and_crossed_terms_are_computed() -> None:
    frame, schema = frame_of(y=[1, 5, 2, 8, 4, 7], one=[1, 2, 3, 4, 5, 7], two=[3, 1, 4, 1, 5, 9])
    crossed = cleave.fit(frame, "y ~ one * two", schema=schema).coefficients
    assert cleave.fit(frame, "y ~ (one + two) ** 2", schema=schema).coefficients == crossed
    assert cleave.fit(frame, "y ~ one ** 1 + two + one:two", schema=schema).coefficients == crossed
    assert cleave.fit(frame, "y ~ one * two" + " + one" * 800, schema=schema).coefficients == crossed


def test_a_term_with_levels_that_never_meet_is_named() -> None:
    frame, schema = frame_of(y=[1, 5, 2, 8, 4, 7], g=[*"aabbab"], h=[*"xyxxyx"])
    error = refused("y ~ g:h - 1", data=frame, schema=schema)
    assert "a column of g:h is 0 in all rows" in error.message  # no level, which is a value


def test_doubles_that_may_be_collinear_are_refused() -> None:
    frame, schema = frame_of(y=[1, 5, 2, 8, 4, 7], x=[0.1, 0.7, 0.3, 1 / 3, 2.5, 4.1])
    frame["twice"] = 2 * frame["x"]
    error = refused("y ~ x + twice", data=frame, schema=schema | {"twice": "encrypted"})
    assert "leave open whether twice is a combination" in error.message
    frame = pd.concat([frame.drop(columns="twice")] * 2, ignore_index=True)
    frame["g"], frame["h"] = [*"aabbccaabbcc"], [*"ddeeffddeeff"]
    error = refused("y ~ x + g + h", data=frame, schema=schema | {"g": "plain", "h": "plain"})
    assert "collinear: h is a combination of g" in error.message


def test_too_few_rows_are_refused() -> None:
    frame, schema = frame_of(y=[1, 5, 2], x=[1, 2, 4], z=[3, 1, 1])
    assert "as many parameters (3) as rows" in refused("y ~ x + z", data=frame, schema=schema).message
    assert cleave.fit(frame, "y ~ x", schema=schema).df_resid == 1
    none = "there are no rows with values in all columns of the model"
    assert refused("y ~ x", data=frame.iloc[:0], schema=schema).message == none
    assert (
        refused("y ~ x", data=frame.assign(x=[None, None, None]).astype({"x": "Int64"}), schema=schema).message == none
    )


# --- thresholds


def test_a_small_level_is_refused_and_no_level_is_named() -> None:
    frame = small().dropna()
    frame.loc[frame.index[0], "g"] = "single"
    error = refused("y ~ a + g", data=frame, min_group=3)
    assert isinstance(error, QueryRefused)
    assert "a level of g has fewer than 3 rows" in error.message
    assert "single" not in f"{error.message} {error.hint}"
    assert "coarser" in error.hint
    assert cleave.fit(frame, "y ~ a", schema=small_schema(), min_group=3).min_group == 3
    error = refused("y ~ a", data=frame, min_group=len(frame) + 1)
    few = f"fewer than {len(frame) + 1} rows"
    assert error.message == f"the whole table has {few}, and the threshold leaves it out (rules P2 and P3)"
    assert "coarser" not in error.hint


def test_few_missing_values_are_refused_under_a_threshold() -> None:
    """A sum over all but one row, beside one over all, tells about that one."""
    frame, schema = frame_of(y=range(20), x=[*range(19), None])
    frame["x"] = frame["x"].astype("Int64")
    error = refused("y ~ x", data=frame, schema=schema | {"x": "encrypted"}, min_group=3)
    assert "fewer than 3 rows lack a value" in error.message


def test_parameters_are_at_most_a_third_of_the_people() -> None:
    """Nine people of two rows each: three parameters may be fitted, and no more."""
    generator = np.random.default_rng(2)
    frame = pd.DataFrame({name: generator.integers(0, 50, 18) for name in "yabc"})
    frame["who"] = [f"P{number // 2}" for number in range(18)]
    schema = dict.fromkeys("yabc", "encrypted") | {"who": "sealed"}
    model = cleave.fit(frame, "y ~ a + b", schema=schema, entity="who", min_group=3)
    assert (model.n, model.people, model.left_out) == (18, "people", None)
    error = refused("y ~ a + b + c", data=frame, schema=schema, entity="who", min_group=3)
    assert "4 parameters, more than a third of the people" in error.message
    assert len(cleave.fit(frame, "y ~ a + b + c", schema=schema, min_group=3).names) == 4  # 18 rows
    assert len(cleave.fit(frame, "y ~ a + b + c", schema=schema).names) == 4


@pytest.mark.slow  # quick: the tests above and below
def test_an_entity_of_two_columns_is_counted() -> None:
    generator = np.random.default_rng(2)
    frame = pd.DataFrame({name: generator.integers(0, 50, 18) for name in "yabc"})
    frame["town"] = [f"T{number % 2}" for number in range(18)]
    frame["person"] = [f"P{number // 4}" for number in range(18)]
    schema = dict.fromkeys("yabc", "encrypted") | {"town": "sealed", "person": "sealed"}
    given: dict[str, Any] = {"schema": schema, "entity": ["town", "person"], "min_group": 3}
    assert len(cleave.fit(frame, "y ~ a + b", **given).names) == 3  # of 10 people
    assert "more than a third of the people" in refused("y ~ a + b + c", data=frame, **given).message


@pytest.mark.sampled(3)
@pytest.mark.parametrize("entity", ["person", ["town", "person"]])
@pytest.mark.parametrize("way", [{}, {"cloud_only": True}])
def test_rows_with_a_null_in_the_entity_are_of_nobody(entity: Any, way: dict[str, bool]) -> None:
    """Nine people and nine rows about nobody, from other towns, allow three parameters; and so do nine with a value."""
    generator = np.random.default_rng(2)
    frame = pd.DataFrame({name: generator.integers(0, 50, 21) for name in "yabc"})
    frame["town"] = [f"T{number}" for number in range(21)]
    frame["person"] = [f"P{number}" for number in range(12)] + [None] * 9
    kinds = dict.fromkeys("yabc", "encrypted") | {"town": "sealed", "person": "sealed"}
    given: dict[str, Any] = {"schema": kinds, "entity": entity, "min_group": 3, **way}
    assert len(cleave.fit(frame, "y ~ a + b + c", **given).names) == 4  # of 12 people
    frame["c"] = [None] * 3 + frame["c"].tolist()[3:]
    frame["c"] = frame["c"].astype("Int64")
    error = refused("y ~ a + b + c", data=frame, **given)
    assert "4 parameters, more than a third of the people: " in error.message
    assert error.message.endswith("(rule P2)")
    assert len(cleave.fit(frame, "y ~ a + c", **given).names) == 3


def test_a_derived_column_is_a_term(tmp_path: Path) -> None:
    schema = (PATIENTS.parent / "patients.schema.toml").read_text()
    own = tmp_path / "own.toml"
    own.write_text(f'{schema}\n[derived.log_age]\nsql = "ln(age + 1)"\n')
    model = cleave.fit(PATIENTS, "bill ~ log_age + age:log_age", schema=own)
    rows = pd.read_csv(PATIENTS)
    rows["log_age"] = np.log(rows["age"] + 1)
    expected = smf.ols("bill ~ log_age + age:log_age", rows).fit()
    for each, estimate, error in zip(model.coefficients.values(), expected.params, expected.bse, strict=True):
        assert each.estimate.value == pytest.approx(estimate, rel=1e-7)
        assert each.error.value == pytest.approx(error, rel=1e-7)


def test_an_interaction_alone_has_columns_of_one_factor() -> None:
    """formulaic codes g:h beside an intercept as g[T.b], and h within each level of g."""
    generator = np.random.default_rng(9)
    frame = pd.DataFrame({name: generator.integers(-50, 50, 40) for name in "yx"})
    frame["g"], frame["h"] = generator.choice([*"abc"], 40), generator.choice([*"de"], 40)
    schema = {"y": "encrypted", "x": "encrypted", "g": "plain", "h": "plain"}
    for formula in ("y ~ g:h", "y ~ x + g:h", "y ~ x:g:h"):
        model = cleave.fit(frame, formula, schema=schema)
        matrix = model_matrix(formula, frame).rhs
        assert model.names == tuple(matrix.columns)
        check_exactly(model, [fractions(row) for row in matrix.to_numpy(dtype=float)], fractions(frame["y"]))
