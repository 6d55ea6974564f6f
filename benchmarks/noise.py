"""Errors of a noisy release beside those of OpenDP's own Context API, over the sample of patients.

Both release, for each ward, the number of rows and the sums of two clamped columns, at the same epsilon and the same
number of rows of a person. Needs `opendp[polars]`, which the project does not lock:

    PYTHONPATH=client:shared python -m benchmarks.noise
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from statistics import mean
from typing import Any

import polars as pl

from cleave.disclosure.noise import Clamp, statistics
from cleave.releases.drawing import noisy

dp: Any = import_module("opendp.prelude")
SAMPLE = Path(__file__).parents[1] / "tests/samples/patients.csv"
RELEASES = 40
CLAMPS = (Clamp("age", 0, 100, 0, nullable=False), Clamp("bill", 0, 3000, 0, nullable=False))
Row = tuple[str, int, int]  # ward, age, bill in whole units


def rows() -> list[Row]:
    with SAMPLE.open(newline="") as file:
        return [(each["ward"], int(each["age"]), round(float(each["bill"]))) for each in csv.DictReader(file)]


def totals(table: Sequence[Row], wards: Sequence[str]) -> list[list[int]]:
    """By statistic, then by ward, without noise."""
    clamped = [(ward, min(max(age, 0), 100), min(max(bill, 0), 3000)) for ward, age, bill in table]
    return [
        [sum(value(each) for each in clamped if each[0] == ward) for ward in wards]
        for value in (lambda _: 1, lambda each: each[1], lambda each: each[2])
    ]


def of_cleave(exact: Sequence[Sequence[int]], most_rows: int, epsilon: int) -> list[list[int]]:
    numbers = statistics(CLAMPS, most_rows, Fraction(epsilon), squares=False, split={})
    return [noisy(each, totals)[1] for each, totals in zip(numbers, exact, strict=True)]


def of_context(table: Sequence[Row], wards: Sequence[str], most_rows: int, epsilon: int) -> list[list[int]]:
    """One query of the Context API for all three, over the wards that are given as keys."""
    frame = pl.LazyFrame(table, schema={"ward": pl.String, "age": pl.Int64, "bill": pl.Int64}, orient="row")
    context = dp.Context.compositor(
        data=frame,
        privacy_unit=dp.unit_of(contributions=most_rows),
        privacy_loss=dp.loss_of(epsilon=float(epsilon)),
        split_evenly_over=1,
        margins=[dp.polars.Margin(by=["ward"], max_length=1_000)],
    )
    sums = [pl.col(name).fill_null(0).dp.sum((0, most)) for name, most in (("age", 100), ("bill", 3000))]
    keys = pl.LazyFrame({"ward": list(wards)})
    query = context.query().group_by("ward").agg(dp.len(signed=True), *sums).with_keys(keys)
    answer = {row[0]: row[1:] for row in query.release().collect().iter_rows()}
    return [[answer[ward][place] for ward in wards] for place in range(3)]


def errors(releases: Sequence[Sequence[Sequence[int]]], exact: Sequence[Sequence[int]]) -> list[float]:
    """Mean absolute error of each statistic."""
    return [
        mean(abs(value - right) for of in releases for value, right in zip(of[place], exact[place], strict=True))
        for place in range(len(exact))
    ]


def main() -> None:
    dp.enable_features("contrib")
    table = rows()
    wards = sorted({each[0] for each in table})
    exact = totals(table, wards)
    print(f"{len(table)} rows, {len(wards)} wards, epsilon 1, {RELEASES} releases: mean absolute error")
    print("| | COUNT | SUM(age) | SUM(bill) |")
    ours = errors([of_cleave(exact, 1, 1) for _ in range(RELEASES)], exact)
    theirs = errors([of_context(table, wards, 1, 1) for _ in range(RELEASES)], exact)
    expected = [3.0 * reach for reach in (1, 100, 3000)]
    for name, found in (("Cleave", ours), ("Context API", theirs), ("scale of the noise", expected)):
        print(f"| {name} | {' | '.join(f'{each:,.1f}' for each in found)} |")


if __name__ == "__main__":
    main()
