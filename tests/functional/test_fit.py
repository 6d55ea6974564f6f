"""`cleave.fit` over frames and files, against exact fractions, NIST's certified values and statsmodels."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from formulaic import model_matrix

import cleave

ROOT = Path(__file__).parents[2]
PATIENTS = ROOT / "tests" / "samples" / "patients.csv"
NIST = ROOT / "tests" / "vectors" / "nist"


@pytest.fixture(autouse=True)
def own_key(key_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEAVE_KEY", str(key_file))


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
