"""Which columns a table is best stored by, and what that costs: told before anything is encrypted."""

from __future__ import annotations

from collections.abc import Sequence

from cleave.ckks.packing import bytes_of_chunk
from cleave.quantities import counted
from cleave.store import measures as of_measures
from cleave.store.lanes import Lanes, plan_lanes
from cleave.store.put import arguments_of
from cleave.store.segment import WINDOW, half_of, row_lanes
from cleave.table.duck import identifier
from cleave.table.schema import Column, Kind
from cleave.table.table import Table
from cleave.table.types import FLOATS
from cleave_shared.moments import SENTINELS
from cleave_shared.params import Profile

_MOST_VALUES = 400  # of a column that is proposed: days of a year
_MOST_CELLS = 8_176  # one ciphertext a lane
_ROWS_A_CELL = 20  # at least, of all cells that are proposed


def propose(table: Table) -> list[str]:
    """Columns of few values, the fewest first, as long as their combinations are few against the rows."""
    candidates = [each for each in table.schema.columns if each.kind is Kind.PLAIN and each.type not in FLOATS]
    sizes = {each.name: cells(table, [each.name]) for each in candidates}
    chosen: list[str] = []
    most = min(_MOST_CELLS, table.rows // _ROWS_A_CELL)
    for name in sorted(
        (name for name, size in sizes.items() if 1 < size <= _MOST_VALUES), key=lambda each: sizes[each]
    ):
        if cells(table, [*chosen, name]) <= most:
            chosen.append(name)
    return [each.name for each in table.schema.columns if each.name in chosen]


def cells(table: Table, by: Sequence[str]) -> int:
    """How many combinations of values there are."""
    if not by:
        return 1
    names = ", ".join(map(identifier, by))
    (found,) = table.connection.execute(
        f"SELECT count(*) FROM (SELECT {names} FROM {table.relation} GROUP BY ALL)"
    ).fetchall()[0]
    return int(found)


def describe(table: Table, by: Sequence[str], profile: Profile, *, lossless: bool) -> str:
    """One line: cells, what of the totals' ciphertexts they fill, and bytes stored for every encrypted value."""
    columns: list[Column] = [each for each in table.schema.columns if half_of(each) == "encrypted"]
    arguments = arguments_of(table.schema, [identifier(each.name) for each in columns])
    measures = [of_measures.unscaled(each.name, argument) for each, argument in zip(columns, arguments, strict=True)]
    found = cells(table, by)
    rows = row_lanes(measures, profile, lossless=lossless)
    totals = plan_lanes([each.total for each in of_measures.columns_of(measures)], WINDOW, profile)
    capacity = profile.degree - SENTINELS
    fill = found / (capacity * max(1, -(-found // capacity)))
    stored = (_chunks(rows, table.rows) + _chunks(totals, found)) * bytes_of_chunk(profile)
    values = max(1, table.rows * max(1, len(columns)))
    return (
        f"by {', '.join(by) or 'nothing'}: {counted(found, 'cell')}, filling {fill:.0%} of their ciphertexts; "
        f"{stored / values:.1f} bytes for each of {values:,} encrypted values"
    )


def _chunks(lanes: Lanes, entries: int) -> int:
    return lanes.count * lanes.chunks(entries)
