"""Integers of several words against Python's."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cleave.aggregates import columns
from cleave.aggregates.columns import Words

WIDTH = 2
integers = st.integers(0, 2 ** (64 * WIDTH) - 1) | st.integers(0, 5) | st.integers(2**64 - 3, 2**64 + 3)
rows = st.lists(integers, min_size=1, max_size=5)


def made(values: list[int]) -> Words:
    return np.array([[value >> 64 * place & 2**64 - 1 for value in values] for place in range(WIDTH)], np.uint64)


def read(array: Words) -> list[int]:
    return [sum(int(word) << 64 * place for place, word in enumerate(value)) for value in array.T]


@given(rows, integers)
def test_differences(values: list[int], constant: int) -> None:
    out, below = columns.subtract(made(values), constant)
    assert read(out) == [(value - constant) % 2 ** (64 * WIDTH) for value in values]
    assert below.tolist() == [value < constant for value in values]
    out, below = columns.distance(made(values), constant)
    assert read(out) == [abs(value - constant) for value in values]
    assert below.tolist() == [value < constant for value in values]


@given(rows, integers | st.integers(2**127, 2**130))
def test_what_exceeds_a_limit(values: list[int], limit: int) -> None:
    assert columns.exceed(made(values), limit).tolist() == [value > limit for value in values]


@given(rows)
def test_squares(values: list[int]) -> None:
    assert read(columns.multiply(made(values), made(values), max(values), max(values))) == [
        value * value for value in values
    ]


@given(rows, st.integers(0, 200), st.integers(1, 64))
def test_bits(values: list[int], shift: int, count: int) -> None:
    assert columns.bits(made(values), shift, count).tolist() == [value >> shift & 2**count - 1 for value in values]


@given(rows)
def test_doubles(values: list[int]) -> None:
    for value, double in zip(values, columns.doubles(made(values)).tolist(), strict=True):
        assert abs(int(double) - value) <= value * 3 // 2**53


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5), st.booleans())
def test_signed_integers_in_twos_complement(values: list[int], wide: bool) -> None:
    lower, upper = (-(2**100), 2**100) if wide else (-(2**63), 2**63 - 1)
    array = columns.of_integers(np.array(values, np.int64), lower, upper)
    assert len(array) == 1 + wide
    assert read(array) == [value % 2 ** (64 * len(array)) for value in values]


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=5), st.booleans())
def test_unsigned_integers(values: list[int], wide: bool) -> None:
    array = columns.of_integers(np.array(values, np.uint64), -1 if wide else 0, 2**64 - 1)
    assert len(array) == 1 + wide
    assert read(array) == values
