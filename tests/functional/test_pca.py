"""`cleave pca` and `cleave.pca` against mpmath's eigenvalues of the exact matrix, numpy, and DuckDB's covariances."""

from __future__ import annotations

import itertools
import json
import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import mpmath
import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from flint import arb, fmpq

import cleave
from cleave.ckks.key_file import open_key
from cleave.ckks.public_key import public_side
from cleave.models.certified import Certified
from cleave.models.components import Covariances, directions
from cleave.models.pca import Components
from cleave.store.identity import create_identity
from tests.cli.runner import Cli, cli

__all__ = ["cli"]


def whole(rows: int, columns: int, seed: int) -> pd.DataFrame:
    """Columns of whole numbers that depend on each other."""
    draw = np.random.default_rng(seed)
    base = draw.integers(-50, 50, (rows, columns))
    mix = draw.integers(-3, 4, (columns, columns)) + 5 * np.eye(columns, dtype=np.int64)
    return pd.DataFrame(base @ mix, columns=[f"c{place}" for place in range(columns)])


def kinds(frame: pd.DataFrame) -> dict[str, str]:
    return dict.fromkeys(frame, "encrypted")


def covariance(frame: pd.DataFrame) -> list[list[Fraction]]:
    columns = [[Fraction(value) for value in frame[name]] for name in frame]
    n = len(frame)
    means = [sum(column) / n for column in columns]
    return [
        [
            sum((a - one) * (b - two) for a, b in zip(x, y, strict=True)) / (n - 1)
            for y, two in zip(columns, means, strict=True)
        ]
        for x, one in zip(columns, means, strict=True)
    ]


def eigen(matrix: list[list[Fraction]], *, standardize: bool) -> list[tuple[mpmath.mpf, list[mpmath.mpf]]]:
    """Eigenvalues and unit vectors to 50 digits, the largest first. The largest part of a vector is positive; of
    equal ones, the first.
    """
    size = len(matrix)
    numbers = mpmath.matrix([[mpmath.mpf(each.numerator) / each.denominator for each in row] for row in matrix])
    if standardize:
        roots = [mpmath.sqrt(numbers[place, place]) for place in range(size)]
        numbers = mpmath.matrix([[numbers[a, b] / (roots[a] * roots[b]) for b in range(size)] for a in range(size)])
    values, vectors = mpmath.eigsy(numbers)
    found = []
    for place in range(size - 1, -1, -1):
        vector = [vectors[row, place] for row in range(size)]
        largest = max(map(abs, vector))
        first = next(each for each in vector if abs(each) > largest * (1 - mpmath.mpf(10) ** -30))
        found.append((values[place], [each * mpmath.sign(first) for each in vector]))
    return found


def holds(number: Certified, value: mpmath.mpf, least: float = 1e-9) -> None:
    """The value is within the bound, and the bound is small. A bound of 0: the nearest double."""
    distance = abs(mpmath.mpf(number.value) - value)
    assert distance <= max(mpmath.mpf(number.bound), mpmath.mpf(math.ulp(number.value)) / 2)
    assert number.bound <= least * max(1, abs(number.value))


def check(found: Components, frame: pd.DataFrame, least: float = 1e-12) -> None:
    with mpmath.workdps(50):
        wanted = eigen(covariance(frame), standardize=found.standardize)
        total = sum(value for value, _ in wanted)
        assert len(found.components) == len(wanted)
        for component, (value, vector) in zip(found.components, wanted, strict=True):
            holds(component.variance, value, least)
            holds(component.share, value / total, least)
            for number, part in zip(component.loadings.values(), vector, strict=True):
                holds(number, part, least)
        assert found.components[-1].cumulative == Certified(1.0, 0.0)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize(("rows", "columns", "seed"), [(40, 2, 1), (60, 4, 2), (25, 7, 3)])
def test_components_of_whole_numbers(rows: int, columns: int, seed: int, standardize: bool) -> None:
    frame = whole(rows, columns, seed)
    found = cleave.pca(frame, list(frame), standardize=standardize, schema=kinds(frame))
    check(found, frame, 1e-15)
    matrix = np.corrcoef(frame.T) if standardize else np.cov(frame.T)
    values, vectors = np.linalg.eigh(matrix)
    assert found.variances == pytest.approx(values[::-1], rel=1e-9)
    assert np.abs(found.loadings) == pytest.approx(np.abs(vectors.T[::-1]), abs=1e-9)
    assert (found.n, found.left_out) == (rows, 0)


@pytest.mark.parametrize("standardize", [True, False])
def test_components_of_public_data_in_doubles(standardize: bool) -> None:
    """Longley's data, whose columns nearly follow from each other: bounds are wider, and true."""
    frame = sm.datasets.longley.load_pandas().data.drop(columns="TOTEMP")
    found = cleave.pca(frame, ",".join(frame), standardize=standardize, schema=kinds(frame))
    check(found, frame, 1e-3)


def test_two_by_two_is_exact() -> None:
    """Covariances 2 and 1: the variances are 3 and 1, the directions halves of a square."""
    moments = Covariances(("a", "b"), 9, 0, (fmpq(0), fmpq(0)), ((fmpq(2), fmpq(1)), (fmpq(1), fmpq(2))))
    one, two = directions(moments, standardize=False)
    assert (float(arb(one.variance).mid()), float(arb(two.variance).mid())) == (3.0, 1.0)
    half = arb(2).sqrt() / 2
    for found, wanted in ((one, (half, half)), (two, (half, -half))):  # of two equal parts the first is positive
        assert all(abs(a - b) < 1e-15 for a, b in zip(found.vector, wanted, strict=True))


def test_decimals_scores_and_bounds() -> None:
    frame = pd.DataFrame(
        {
            "a": [Decimal(each) / 100 for each in (10, 25, 31, 47, 59, 60)],
            "b": [3, 1, 4, 1, 5, 9],
        }
    )
    found = cleave.pca(frame, ["a", "b"], schema=kinds(frame))
    scores = found.transform(frame, bounds=True)
    values = frame.astype(float)
    centred = (values - values.mean()) / values.std()
    assert scores[["PC1", "PC2"]].to_numpy() == pytest.approx(
        centred.to_numpy() @ np.array(found.loadings).T, abs=1e-12
    )
    assert scores["PC1"].var() == pytest.approx(found.variances[0])
    assert (scores[["PC1_bound", "PC2_bound"]] < 1e-14).all().all()
    assert found.transform({"a": [0.1], "b": [3]}).equals(found.transform(pd.DataFrame({"a": [0.1], "b": [3]})))
    loadings = found.df(bounds=True)
    assert list(loadings.index) == ["a", "b"]
    assert list(loadings.columns) == ["PC1", "PC1_bound", "PC2", "PC2_bound"]
    assert loadings[["PC1", "PC2"]].to_numpy().T.tolist() == found.loadings
    missing = found.transform(pd.DataFrame({"B": [1, None], "A": [1, 2]}))
    assert missing["PC1"].isna().tolist() == [False, True]
    with pytest.raises(cleave.InputError, match="no column 'b'"):
        found.transform(frame[["a"]])
    with pytest.raises(cleave.InputError, match="a value that is no number"):
        found.transform(frame.assign(b="x"))


def test_missing_values_are_left_out_and_counted() -> None:
    frame = whole(80, 3, 5).astype("Int64")
    for place, name in enumerate(frame):
        frame[name] = frame[name].mask(frame.index % 9 == place)
    found = cleave.pca(frame, list(frame), schema=kinds(frame))
    check(found, frame.dropna().astype(int), 1e-14)
    assert (found.n, found.left_out) == (len(frame.dropna()), len(frame) - len(frame.dropna()))


def test_one_component_that_explains_nothing_is_exactly_zero() -> None:
    frame = whole(30, 3, 6)
    frame["sum"] = frame["c0"] + frame["c1"]
    found = cleave.pca(frame, list(frame), schema=kinds(frame))
    assert found.components[-1].variance == Certified(0.0, 0.0)
    assert abs(found.components[-1].loadings["c2"].value) < 1e-30


SQUARE = pd.DataFrame(list(itertools.product((0, 1), (0, 1))), columns=["a", "b"])


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        (SQUARE, {}, "exactly the same variance"),
        (SQUARE, {"standardize": False}, "exactly the same variance"),
        (SQUARE.astype(float), {}, "leave open whether it is the same"),
        (SQUARE.assign(b=7), {}, "column 'b' is constant and cannot be standardized"),
        (SQUARE.assign(b=0.1), {}, "column 'b' is constant within the error bounds"),
        (SQUARE[:1], {}, "at least two rows"),
        (SQUARE, {"columns": "a"}, "at least two different columns"),
        (SQUARE, {"columns": "a,A"}, "at least two different columns"),
        (SQUARE, {"columns": "a,c"}, "there is no column 'c'"),
        (SQUARE.assign(b="x"), {"schema": {"a": "plain", "b": "plain"}}, "column 'b' is VARCHAR, not a number"),
        (whole(26, 3, 8), {"columns": "c0,c1,c2", "min_group": 3}, "3 means and 6 covariances are more than a third"),
        (whole(20, 51, 8), {"columns": [f"c{place}" for place in range(51)]}, "at most 50 columns"),
        (whole(20, 2, 8), {"columns": "c0,c1", "min_group": 30}, "fewer than 30 rows have values in all columns"),
    ],
)
def test_what_has_no_components_is_refused(frame: pd.DataFrame, options: dict[str, Any], message: str) -> None:
    with pytest.raises(cleave.CleaveError) as caught:
        cleave.pca(frame, **{"columns": "a,b", "schema": kinds(frame)} | options)
    assert message in caught.value.message


def test_a_third_of_the_people_is_enough() -> None:
    frame = whole(60, 2, 9)
    frame["person"] = [f"P{row // 4}" for row in range(60)]
    options: dict[str, Any] = {"schema": {**kinds(frame), "person": "sealed"}, "entity": "person"}
    found = cleave.pca(frame, "c0,c1", min_group=3, **options)  # 15 people, 5 numbers
    assert (found.n, found.left_out, found.people) == (60, None, "people")
    with pytest.raises(cleave.QueryRefused, match="more than a third of the people"):
        cleave.pca(frame[:56], "c0,c1", min_group=3, **options)


def test_components_are_the_same_by_every_path(tmp_path: Path, key_file: Path, cli: Cli) -> None:
    frame = whole(90, 3, 10)
    frame["ward"] = ["A", "B", "C"] * 30
    schema = {**kinds(frame), "ward": "plain"}
    place: dict[str, Any] = {"store": tmp_path / "s", "key": key_file}
    cleave.put(frame, "t", schema=schema, by=["ward"], **place)
    columns = ["c0", "c1", "c2"]
    wanted = cleave.pca(frame, columns, schema=schema)
    check(wanted, frame[columns], 1e-15)
    stored = cleave.pca("t", columns, **place)
    assert stored.components == wanted.components
    assert "bytes" in wanted.json()
    printed = cli.run("pca", "t", "c0,c1,c2", "--json", "--store", place["store"], "--key", key_file)
    assert json.loads(printed.stdout)["components"] == json.loads(wanted.json())["components"]
    shown = cli.run("pca", "t", "c0,c1,c2", "--no-standardize", "--store", place["store"], "--key", key_file)
    assert "of the covariance matrix" in shown.stdout
    assert [each.variance.short in shown.stdout for each in wanted.components] != [True] * 3
    assert "columns are needed" in cli.run("pca", "t").stderr
    assert "<th" in wanted._repr_html_()
    sums = duckdb.sql("SELECT covar_samp(c0, c1), stddev_samp(c0) FROM frame").fetchall()[0]
    assert wanted.deviations["c0"].value == pytest.approx(sums[1], rel=1e-12)


def test_totals_of_products_need_no_row(tmp_path: Path, key_file: Path) -> None:
    frame = whole(90, 3, 12).assign(ward=["A", "B", "C"] * 30)
    columns = ["c0", "c1", "c2"]
    schema = cleave.schema(frame, {**kinds(frame), "ward": "plain"})
    place: dict[str, Any] = {"store": tmp_path / "s", "key": key_file}
    cleave.put(frame, "t", schema=schema, by=["ward"], products=columns, **place)
    found = cleave.pca("t", columns, cloud_only=True, **place)
    assert {way.name for each in found.seen for way in each.ways if way.taken} == {"totals"}
    check(found, frame[columns], 1e-15)


def test_a_release_has_no_products(tmp_path: Path, key_file: Path) -> None:
    frame = whole(90, 2, 10).assign(ward=["A", "B", "C"] * 30)
    place: dict[str, Any] = {"store": tmp_path / "s", "key": key_file}
    cleave.put(frame, "t", schema={**kinds(frame), "ward": "plain"}, by=["ward"], **place)
    identity, public = create_identity(tmp_path / "carol.pem", analyst=True)
    cleave.release("t", to=f"{public}={public_side(identity).fingerprint}", min_cell=5, **place)
    known = public_side(open_key(key_file, None)).fingerprint
    with pytest.raises(cleave.QueryRefused, match="products of columns, which are in no release"):
        cleave.pca("t", "c0,c1", store=place["store"], analyst=tmp_path / "carol.pem", fingerprint=known)
