"""How far one person moves the numbers of a noisy release, and how wide its intervals are (rules N3 and N4)."""

from __future__ import annotations

import itertools
import math
import tomllib
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from cleave.ask.ways.noisy import Noised, mean_of, spread_of
from cleave.disclosure.noise import (
    MOST_TABLE_ROWS,
    Clamp,
    Statistic,
    half_width,
    micros,
    statistics,
    variance,
)
from cleave.releases.noisy_choices import _texts
from cleave.table.schema import Schema, dump_schema, read_schema
from cleave_shared.errors import InputError

PEOPLE, WARDS, MOST = 3, 2, 5  # ward 2 is not declared
VALUES = (None, -3, 0, 2)  # -3 is outside the clamp
CLAMP = Clamp("bill", -2, 1, 0, nullable=True)
NO_SPLIT: dict[str, int] = {}


def test_values_with_commas_are_in_double_quotes() -> None:
    assert _texts('A,"B, east"," C","say ""x"""') == ["A", "B, east", " C", 'say "x"']
    with pytest.raises(InputError, match="cannot be read"):
        _texts('A,"B')


def kept(rows: np.ndarray, most_rows: int, without: int) -> np.ndarray:
    """Totals (tables, statistics, wards) of tables (tables, rows, 3) of person, ward and place of the value.

    Of each person the first rows are kept: as the draws have it, which the others' rows do not change.
    """
    person, ward, value = rows[..., 0], rows[..., 1], rows[..., 2]
    there = (person >= 0) & (person != without)
    earlier = np.zeros(person.shape, int)
    for place in range(1, person.shape[1]):
        earlier[:, place] = (person[:, :place] == person[:, place : place + 1]).sum(1)
    there &= earlier < most_rows
    has_value = value > 0
    clamped = np.clip(np.array([0 if each is None else each for each in VALUES]), CLAMP.low, CLAMP.high)[value]
    parts = (there, there * clamped, there & has_value, there * clamped**2)
    return np.stack([[(part * (ward == each)).sum(1) for each in range(WARDS)] for part in parts]).transpose(2, 0, 1)


@pytest.mark.parametrize("most_rows", [2, *(pytest.param(each, marks=pytest.mark.slow) for each in (1, 3))])
def test_no_person_moves_a_number_by_more_than_its_sensitivity(most_rows: int) -> None:
    """All tables of up to 5 rows and 3 people, which differ by one person; also that no bound is larger than needed."""
    made = statistics([CLAMP], most_rows, Fraction(1), squares=True, split=NO_SPLIT)
    assert [each.part for each in made] == ["rows", "sum", "count", "square"]
    kinds = np.array(list(itertools.product(range(WARDS + 1), range(len(VALUES)))))
    farthest = np.zeros(len(made), int)
    for lengths in itertools.product(range(MOST + 1), repeat=PEOPLE):
        if sum(lengths) > MOST or list(lengths) != sorted(lengths, reverse=True):
            continue  # people are alike
        persons = np.repeat(range(PEOPLE), lengths)
        # the rows of one person: the others' add the same to both tables, so that one kind of theirs is enough
        own = list(itertools.product(range(len(kinds)), repeat=lengths[0]))
        rows = np.full((len(own), MOST, 3), -1)
        for place, person in enumerate(persons):
            rows[:, place, 0] = person
            rows[:, place, 1:] = kinds[np.array(own)[:, place]] if person == 0 else kinds[(place * 5) % len(kinds)]
        moved = abs(kept(rows, most_rows, without=-1) - kept(rows, most_rows, without=0)).sum(2).max(0)
        farthest = np.maximum(farthest, moved)
    assert farthest.tolist() == [each.sensitivity for each in made]


def test_all_statistics_spend_what_the_release_does() -> None:
    clamps = [CLAMP, Clamp("age", 0, 120, 0, nullable=False)]
    made = statistics(clamps, 8, Fraction(1, 3), squares=False, split=NO_SPLIT)
    assert [each.name for each in made] == ["rows", "bill.sum", "bill.count", "age.sum"]
    assert sum(each.epsilon for each in made) == Fraction(1, 3)
    assert {each.epsilon for each in made} == {Fraction(1, 12)}
    assert [each.sensitivity for each in made] == [8, 16, 8, 960]
    assert [each.measure for each in made] == [None, 0, 0, 1]
    uneven = statistics(clamps, 8, Fraction(1, 3), squares=False, split={"age.sum": 3})
    assert [each.epsilon for each in uneven] == [Fraction(1, 18)] * 3 + [Fraction(1, 6)]
    with pytest.raises(InputError, match=r"no statistic 'age\.mean'"):
        statistics(clamps, 8, Fraction(1), squares=False, split={"age.mean": 1})


def test_the_scale_is_never_below_sensitivity_by_epsilon() -> None:
    for sensitivity, epsilon in itertools.product(
        (1, 3, 7, 10**9 + 7), (Fraction(1, 3), Fraction(7, 10**6), Fraction(11))
    ):
        scale = Fraction(Statistic("rows", "rows", None, sensitivity, epsilon).scale)
        assert sensitivity / epsilon <= scale <= sensitivity / epsilon * (1 + Fraction(1, 1 << 50))


@pytest.mark.parametrize(
    ("clamp", "most_rows", "epsilon", "squares"),
    [
        (Clamp("x", 0, (1 << 38) + 1, 0, nullable=False), 1, Fraction(1), False),  # of all rows a table may have
        (Clamp("x", -(1 << 20), 0, 0, nullable=False), 1, Fraction(1), True),  # their squares
        (Clamp("x", 0, (1 << 62) + 1, 0, nullable=False), 1, Fraction(1), False),
        (Clamp("x", 0, 1 << 38, 0, nullable=False), 1 << 20, Fraction(1, 10), False),  # the noise
    ],
)
def test_what_64_bits_may_not_hold_is_refused(
    clamp: Clamp, most_rows: int, epsilon: Fraction, *, squares: bool
) -> None:
    with pytest.raises(InputError, match="62 bits"):
        statistics([clamp], most_rows, epsilon, squares=squares, split=NO_SPLIT)


def test_what_is_just_not_too_large_is_taken() -> None:
    (_, made) = statistics([Clamp("x", 0, 1 << 38, 0, nullable=False)], 1, Fraction(1), squares=False, split=NO_SPLIT)
    assert MOST_TABLE_ROWS * made.sensitivity == 1 << 62
    clamp = Clamp("x", 0, 1 << 38, 0, nullable=False)
    (_, made) = statistics([clamp], 1 << 18, Fraction(2), squares=False, split=NO_SPLIT)
    assert 64 * made.sensitivity / made.epsilon == 1 << 62


def law(scale: float, reach: int) -> np.ndarray:
    """P(-reach), .., P(reach) of discrete Laplace noise."""
    p = math.exp(-1 / scale)
    return (1 - p) / (1 + p) * p ** abs(np.arange(-reach, reach + 1))


@pytest.mark.parametrize("scale", [0.1, 0.3, 0.5, 0.6, 0.8, 1, 1.7, 3, 10, 40])
def test_an_interval_holds_the_noise_of_several_cells_in_95_of_100_cases(scale: float) -> None:
    one = every = law(scale, max(4, int(30 * scale)))
    assert variance(scale) == pytest.approx((one * np.arange(-(len(one) // 2), len(one) // 2 + 1) ** 2).sum())
    for cells in range(1, 6):
        half, middle = int(half_width(math.sqrt(cells * variance(scale)))), len(every) // 2
        inside = every[middle - half : middle + half + 1].sum()
        assert inside >= 0.95
        assert inside <= 0.975 or scale < 3, "no wider than it must be"
        every = np.convolve(every, one)


def test_half_an_interval_is_a_multiple_of_a_step() -> None:
    assert [half_width(1.0), half_width(1.0, step=0.5), half_width(1.0, step=4.0)] == [3.0, 2.5, 4.0]


@pytest.mark.parametrize("ratio", np.linspace(0, 1, 21))
def test_no_sum_of_two_draws_is_outside_more_often(ratio: float) -> None:
    """Fieller's and the delta method add draws of different scales: of Laplace's own law, in closed form."""
    if ratio == 0:
        return
    a, b = 1.0, ratio if ratio < 1 else 1 - 1e-6
    x = half_width(math.sqrt(2 * (a * a + b * b)), step=1e-9)
    assert (a * a * math.exp(-x / a) - b * b * math.exp(-x / b)) / (a * a - b * b) <= 0.05 + 1e-9


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "one", "1e-7", "0.1234567", "1001", ""])
def test_an_epsilon_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--epsilon"):
        micros(text, "--epsilon")


def test_an_epsilon_is_counted_in_millionths() -> None:
    assert [micros(each, "--epsilon") for each in ("1", "0.5", "1e-6", "1000")] == [1_000_000, 500_000, 1, 10**9]


def schema(values: str = '["A", 2, 1.50, true]', budget: str = "2.5", entity: str = 'entity = ["id"]') -> str:
    column = f'[columns.ward]\nkind = "plain"\ntype = "VARCHAR"\nvalues = {values}\n'
    person = '[columns.id]\nkind = "sealed"\ntype = "VARCHAR"\n'
    return f"[privacy]\n{entity}\nbudget = {budget}\n{column}{person}"


def read(text: str) -> Schema:
    return read_schema(tomllib.loads(text, parse_float=Decimal), "the schema")


def test_a_schema_has_values_and_a_budget() -> None:
    found = read(schema())
    assert found.column("ward").values == ("A", "2", "1.50", "true")
    assert found.privacy.budget == Decimal("2.5")
    again = read(dump_schema(found))
    assert (again.column("ward").values, again.privacy) == (found.column("ward").values, found.privacy)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"values": '"A"'}, r"\[columns.ward\] values: must be a list"),
        ({"values": "[]"}, "must be a list"),
        ({"values": "[[1]]"}, "must be a list"),
        ({"values": '["1", 1]'}, "has a value twice"),
        ({"values": str(list(range(5000)))}, "has more than 4,096"),
        ({"budget": "0"}, r"\[privacy\] budget: must be above 0"),
        ({"budget": "true"}, "must be a number above 0"),
        ({"budget": "0.0000001"}, "six decimals"),
        ({"budget": "inf"}, "must be above 0"),
        ({"budget": "1e4"}, "at most 1,000"),
        ({"entity": ""}, "no entity is named"),
    ],
)
def test_a_schema_with_other_values_or_budgets_is_refused(how: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(schema(**how))


def test_noise_outside_its_interval_leaves_what_the_clamp_allows() -> None:
    """Never a figure that looks exact."""
    low, high, count = Fraction(0), Fraction(100), Noised(Fraction(500), 3.0)
    mean = mean_of(Noised(Fraction(60_000), 300.0), count, Fraction(0), low, high)
    assert (mean.value, mean.bound) == (100, pytest.approx(100))
    squares, total = Noised(Fraction(0), 30_000.0), Noised(Fraction(25_000), 300.0)
    variance = spread_of("VAR_POP", squares, total, count, Fraction(1), low, high)
    assert (variance.value, variance.bound) == (0, pytest.approx(2_500))
    deviation = spread_of("STDDEV_POP", squares, total, count, Fraction(1), low, high)
    assert (deviation.value, deviation.bound) == (0, pytest.approx(50))
