"""How wide the fields of stored rows are: wide enough for masked sums where that is asked for, or costs nothing."""

from __future__ import annotations

import pytest

from cleave.ckks.layout import noise, public_sum_variance
from cleave.store.manifest import WINDOW, Manifest, Measure
from cleave.store.stored_lanes import SCAN_ROWS, row_lanes, window_of
from cleave_shared.params import SUM60_PACK


def _measures(*limits: int) -> list[Measure]:
    return [
        Measure(
            name=f"m{place}",
            sql=f"m{place}",
            type="BIGINT",
            decimals=0,
            lower=0,
            upper=limit,
            nullable=False,
            square=True,
            derived=False,
        )
        for place, limit in enumerate(limits)
    ]


def _manifest(measures: list[Measure], window: int, scanned: int | None = None) -> Manifest:
    return Manifest.model_construct(measures=tuple(measures), lossless=False, window=window, scanned=scanned)


@pytest.mark.parametrize(
    ("limits", "window"),
    [((5_000, 10_494_950), SCAN_ROWS), ((127, 1_000, 100_000), 1 << 13), ((100,) * 8, WINDOW), ((), SCAN_ROWS)],
)
def test_fields_are_as_wide_as_takes_no_further_lane(limits: tuple[int, ...], window: int) -> None:
    measures = _measures(*limits)
    found = window_of(measures, SUM60_PACK, lossless=False, scan=False)
    assert found == window
    lanes = [row_lanes(_manifest(measures, each), SUM60_PACK).count for each in (WINDOW, found, 2 * found)]
    assert lanes[0] == lanes[1]
    if WINDOW < found < SCAN_ROWS:
        assert lanes[2] > lanes[0]


def test_whoever_asks_for_scans_gets_the_room() -> None:
    assert window_of(_measures(*(100,) * 8), SUM60_PACK, lossless=False, scan=True) == SCAN_ROWS


def test_guards_of_contributors_leave_room_for_the_noise_of_scans() -> None:
    measures = _measures(5_000)
    old, made = (
        row_lanes(_manifest(measures, SCAN_ROWS, scanned), SUM60_PACK, public=True).layout for scanned in (None, 0)
    )
    assert (old.guard, made.guard) == (18, 22)
    assert 2 * noise(SCAN_ROWS, public_sum_variance(SUM60_PACK.degree)) <= 1 << made.guard
