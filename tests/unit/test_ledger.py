"""Totals of a measure as it was, in the units that it has now: the same as those of the values themselves (rule R2)."""

from __future__ import annotations

import random

import pytest

from cleave.releases.ledger import Ledger, MeasureTotals, converting, load_ledger
from cleave.store.manifest import Measure


def measure(
    name: str = "bill", type_: str = "DECIMAL(9,2)", lower: int = 0, upper: int = 1000, **more: object
) -> Measure:
    fields = {"decimals": int(type_[-2]) if "," in type_ else 0, "nullable": True, "derived": False, **more}
    return Measure.model_validate(
        {"name": name, "sql": f'"{name}"', "type": type_, "lower": lower, "upper": upper, **fields}
    )


def sums(values: list[int], of: Measure) -> MeasureTotals:
    """`values`: in units of the last decimal of `of`."""
    lower, middle = int(of.lower or 0), (int(of.lower or 0) + int(of.upper or 0)) // 2
    return MeasureTotals(
        2, len(values), sum(each - lower for each in values), sum((each - middle) ** 2 for each in values)
    )


@pytest.mark.parametrize(
    ("new", "scale"),
    [
        (measure(), 1),
        (measure(lower=-7, upper=1000), 1),
        (measure(lower=0, upper=99_999), 1),
        (measure(type_="DECIMAL(12,4)", lower=-1, upper=100_001), 100),
        (measure(type_="DECIMAL(30,3)", lower=0, upper=10_000), 10),
    ],
)
def test_totals_in_new_units(new: Measure, scale: int) -> None:
    old, rng = measure(), random.Random(1)
    values = [rng.randrange(1001) for _ in range(50)]
    conversion = converting(old, new)
    assert conversion is not None
    assert conversion(sums(values, old)) == sums([scale * each for each in values], new)
    without = MeasureTotals(1, 50, sums(values, old).sum, 0)
    assert conversion(without).square == 0


@pytest.mark.parametrize(
    "new",
    [
        measure(lower=1, upper=1000),
        measure(lower=0, upper=999),
        measure(type_="DECIMAL(9,1)", lower=0, upper=1000),
        measure("cost"),
        measure(nullable=False),
        measure(derived=True),
        measure(type_="DOUBLE", decimals=None),
    ],
)
def test_another_measure_has_no_totals_of_it(new: Measure) -> None:
    assert converting(measure(), new) is None


def test_a_ledger_adds_measures_and_keeps_what_it_has() -> None:
    ledger, bill, age = Ledger(b"k" * 32, 5, ("ward",), (), ("patient",)), measure(), measure("age", "BIGINT")
    ledger = ledger.with_parts(1, "then", [bill], [(("A",), 7, [MeasureTotals(1, 6, 60)])])
    ledger = ledger.with_parts(2, "now", [age, bill], [((None,), 5, [MeasureTotals(2, 5, 5, 9), MeasureTotals()])])
    assert ledger.with_parts(3, "later", [age], []) == ledger
    read = load_ledger(ledger.dump())
    assert read.dump() == ledger.dump()
    assert read.sums(bill) == [MeasureTotals(1, 6, 60), MeasureTotals()]
    assert read.sums(age) == [MeasureTotals(), MeasureTotals(2, 5, 5, 9)]
    renamed = read.renamed({"bill": "cost", "ward": "unit"}, {"age"})
    assert (renamed.by, renamed.entity) == (("unit",), ("patient",))
    assert renamed.sums(measure("cost")) == read.sums(bill)
    assert renamed.sums(age) == [MeasureTotals(), MeasureTotals()]


def test_the_size_of_a_ledger_follows_from_counts() -> None:
    sizes = set()
    for total in (0, 7, 10**6):
        ledger = Ledger(b"k" * 32, 5, ("ward",), (), ())
        ledger = ledger.with_parts(1, "then", [measure()], [(("A",), 7, [MeasureTotals(2, 5, total, total)])])
        sizes.add(len(ledger.dump()))
    assert len(sizes) == 1
