"""In which lanes the totals of a segment are stored, and its rows for scans."""

from __future__ import annotations

from collections.abc import Sequence

from cleave.aggregates.columns import Exact
from cleave.store import measures as of_measures
from cleave.store.lanes import Lanes, plan_lanes
from cleave.store.manifest import WINDOW, Manifest, Measure
from cleave_shared.params import Profile

# Rows that a service may select and add up into one value of a field: 16 full ciphertexts. Fields are 17 bits wider
# than a value then.
SCAN_ROWS = 1 << 17
OBJECT_CHUNKS = 64  # ciphertexts of a lane in one object: 4.2 MB


def columns_of_rows(manifest: Manifest) -> list[of_measures.Column]:
    """The columns of the rows that scans add up."""
    return of_measures.columns_of(manifest.measures[: manifest.scanned])


def row_lanes(manifest: Manifest, profile: Profile) -> Lanes:
    return plan_lanes([Exact(each.limit) for each in columns_of_rows(manifest)], SCAN_ROWS, profile)


def total_lanes(measures: Sequence[Measure], profile: Profile) -> Lanes:
    return plan_lanes([column.total for column in of_measures.columns_of(measures)], WINDOW, profile)


def total_label(segment: str, first: int) -> bytes:
    return f"totals/{segment}/{first}".encode()
