"""The ring packing that `make bench-ring` measures: packed numbers are the results, within the bound of their noise."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.packing import noise
from benchmarks.ring import SMALL, Results, measured, scan
from cleave_shared.params import SUM60_PACK


@pytest.mark.parametrize(("levels", "count"), [(2, 3), (4, 15), (4, 9)])
def test_packed_numbers_are_the_results(levels: int, count: int) -> None:
    made = Results(SUM60_PACK, levels)
    values = [(number * 7919 + 5) << 30 for number in range(count)]
    shift = 1
    found = made.decrypted(made.packed([made.encrypted(value) for value in values], shift))
    places = found[:: made.ring.degree >> levels]
    factor = 1 << (levels - shift)
    allowed = noise(made.ring.degree, levels) + factor * 60  # and the noise of the results themselves
    assert np.abs(places[:count] - factor * np.array(values)).max() < allowed
    assert np.abs(places[count:]).max() < allowed, "unused places hold 0"


def test_a_packed_answer_is_smaller() -> None:
    line = measured(SMALL, 2, runs=1)
    assert line.results == 3
    assert line.answer < line.apart
    apart, packed = scan(levels=4, runs=1)
    assert float(packed[3]) < float(apart[3]) / 10


def test_more_results_than_places_are_refused() -> None:
    made = Results(SMALL, 2)
    with pytest.raises(ValueError, match="4 results in a ciphertext of 4 places"):
        made.packed([made.encrypted(1)] * 4)
