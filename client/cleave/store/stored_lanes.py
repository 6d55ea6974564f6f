"""In which lanes the rows and the totals of a segment stand, and whose sentinels these bear."""

from __future__ import annotations

from collections.abc import Sequence

from cleave.aggregates.columns import Exact
from cleave.ckks.cipher import Sentinels
from cleave.ckks.layout import FRESH_VARIANCE, public_sum_variance, public_variance
from cleave.store import measures as of_measures
from cleave.store.lanes import Lanes, plan_lanes
from cleave.store.manifest import WINDOW, Manifest, Measure, Segment
from cleave_shared.dataclass import dataclass
from cleave_shared.params import Profile

# Rows that a service may select and add up into one value of a field, where a table is stored for that (`put --scan`):
# 16 full ciphertexts. Fields are 17 bits wider than a value then, and the rows up to twice as long.
SCAN_ROWS = 1 << 17
OBJECT_CHUNKS = 64  # of a lane's ciphertexts in one object: 4.2 MB


@dataclass(frozen=True, slots=True)
class RowColumn:
    """One column of a segment's rows: `part` (count, sum, square, bits) of measure number `measure`."""

    measure: int
    part: str
    limit: int
    value: bool  # whether rows are made of it again; else it is there to be added up


def row_columns(measures: Sequence[Measure], *, lossless: bool, scanned: int = 0) -> list[RowColumn]:
    """What is stored of every row: of the encrypted columns; squares and derived columns of the first `scanned`."""
    found = []
    for column in of_measures.columns_of(measures):
        value = column.part != "square" and not measures[column.measure].derived
        if value or column.measure < scanned:
            found.append(RowColumn(column.measure, column.part, column.limit, value))
    if lossless:
        found += [
            RowColumn(number, "bits", (1 << 64) - 1, value=True)
            for number, measure in enumerate(measures)
            if measure.decimals is None and not measure.derived
        ]
    return found


def columns_of_rows(manifest: Manifest) -> list[RowColumn]:
    return row_columns(manifest.measures, lossless=manifest.lossless, scanned=manifest.scanned or 0)


def row_lanes(manifest: Manifest, profile: Profile, *, public: bool = False) -> Lanes:
    """`public`: of ciphertexts made with the public key, whose guards are wider, for so is their noise."""
    variance = FRESH_VARIANCE
    if public:
        of = public_variance if manifest.scanned is None else public_sum_variance
        variance = of(profile.degree)
    columns = [Exact(each.limit) for each in columns_of_rows(manifest)]
    return plan_lanes(columns, manifest.window, profile, variance)


def window_of(measures: Sequence[Measure], profile: Profile, *, lossless: bool, scan: bool) -> int:
    """Values that a field of the rows' lanes may be the sum of.

    SCAN_ROWS if services are to add up rows (`scan`); else as many as take no further lane, if a chunk's rows are no
    more than that.
    """
    if scan:
        return SCAN_ROWS
    columns = [Exact(each.limit) for each in row_columns(measures, lossless=lossless)]
    fewest = plan_lanes(columns, WINDOW, profile).count
    window = SCAN_ROWS
    while window > profile.degree // 2:
        if plan_lanes(columns, window, profile).count == fewest:
            return window
        window //= 2
    return WINDOW


def lanes_of(manifest: Manifest, segment: Segment, profile: Profile) -> Lanes:
    """Where the rows of `segment` lie: the owner's, or a contributor's."""
    return row_lanes(manifest, profile, public=segment.sentinels is not None)


def marks_of(segment: Segment, cipher: Sentinels) -> Sentinels:
    """Whose sentinels the ciphertexts of the rows bear: those of `cipher`, the owner's, or a contributor's."""
    return cipher if segment.sentinels is None else Sentinels(bytes.fromhex(segment.sentinels))


def total_lanes(measures: Sequence[Measure], profile: Profile) -> Lanes:
    return plan_lanes([column.total for column in of_measures.columns_of(measures)], WINDOW, profile)


def total_label(segment: str, first: int) -> bytes:
    return f"totals/{segment}/{first}".encode()
