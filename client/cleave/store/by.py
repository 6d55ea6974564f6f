"""Proposes by columns and estimates their cost, before anything is encrypted."""

from __future__ import annotations

from collections.abc import Sequence

from cleave.ckks.packing import bytes_of_chunk
from cleave.store.cells import is_too_long, longest_in, require_cells, too_long, too_many_cells
from cleave.store.lanes import Lanes, row_lanes, total_lanes
from cleave.store.manifest import Manifest, Measure
from cleave.table.duck import identifier
from cleave.table.faults import TooLargeError
from cleave.table.schema import Kind
from cleave.table.stream import Stream, Survey
from cleave.table.types import FLOATS
from cleave.text.quantities import counted, sized
from cleave_shared.params import Profile

_MOST_VALUES = 400  # values of a proposed column: days of a year
_MOST_CELLS = 8_176  # one ciphertext per lane
_ROWS_A_CELL = 20  # minimum average rows per cell for a proposal
_SAMPLE = 100_000  # rows; for smaller tables the counts are exact


def propose(stream: Stream, rows: int) -> tuple[list[str], list[str]]:
    """Propose by columns: plain columns with few values, as long as their combinations are few compared to `rows`. Also
    returns encrypted or sealed columns that could be added.

    It uses a sample of the rows; the combinations of plain columns are then counted over all rows.
    """
    columns = [each for each in stream.schema.columns if each.type not in (*FLOATS, "INTERVAL")]
    names = [each.name for each in columns if each.kind is not Kind.LOCAL]
    plain = stream.schema.plain
    most = min(_MOST_CELLS, rows // _ROWS_A_CELL)
    hashes = ", ".join(f"hash({identifier(each)}) AS {identifier(each)}" for each in names)
    if not names or most < 2:
        return [], []
    stream.gather(names, f"SELECT {hashes} FROM rows USING SAMPLE reservoir({_SAMPLE} ROWS)", "sample")
    sizes = {each: _distinct(stream, [each], "sample") for each in names}
    few = sorted((name for name, size in sizes.items() if 1 < size <= _MOST_VALUES), key=lambda it: sizes[it])
    candidates: list[str] = []
    for name in sorted(few, key=lambda it: it not in plain):
        if _distinct(stream, [*candidates, name], "sample") <= most:
            candidates.append(name)
    chosen, more = [each for each in candidates if each in plain], [each for each in candidates if each not in plain]
    while chosen:
        cells, longest = _cells_of(stream, chosen)
        if not (long := too_long(chosen, longest)) and cells <= most:
            break
        chosen = [each for each in chosen if each not in long] if long else chosen[:-1]
    return [each for each in names if each in chosen], more


def count_cells(stream: Stream, by: Sequence[str]) -> int:
    """Count the combinations of values. Raises InputError if a table may not have them (`require_cells`)."""
    if not by:
        return 1
    cells, longest = _cells_of(stream, by)
    place = _place_of_long(stream, long[0]) if (long := too_long(by, longest)) else ""
    require_cells(by, cells, longest, place)
    return cells


def _cells_of(stream: Stream, by: Sequence[str]) -> tuple[int, list[int]]:
    """The number of combinations of values, and the bytes of the longest of each column, as in a record."""
    names = ", ".join(map(identifier, by))
    try:
        stream.gather(by, f"SELECT {names} FROM rows GROUP BY ALL", "cells")
    except TooLargeError:
        raise too_many_cells(by) from None
    # several sources may have the same cells
    ((cells, *longest),) = stream.query(f"SELECT count(*), {longest_in(by)} FROM (SELECT DISTINCT * FROM cells)")
    return int(cells), longest


def _place_of_long(stream: Stream, name: str) -> str:
    """The first row, in words, whose value in a by column is too long."""
    stream.gather([name], f"SELECT {is_too_long(name)} AS long FROM rows", "long")
    ((row,),) = stream.query("SELECT min(rowid) FROM long WHERE long")  # DuckDB keeps the order of inserted rows
    return stream.place(row)


def _distinct(stream: Stream, columns: Sequence[str], relation: str) -> int:
    names = ", ".join(map(identifier, columns))
    ((count,),) = stream.query(f"SELECT count(*) FROM (SELECT {names} FROM {relation} GROUP BY ALL)")
    return int(count)


def describe(manifest: Manifest, survey: Survey, cells: int, segments: int, profile: Profile) -> str:
    """Return one line: the groups that have totals, and the bytes to be stored."""
    size = estimated_bytes(manifest, survey, cells, segments, profile)
    return (
        f"totals for {counted(cells, 'group')} (by {', '.join(manifest.by) or 'no column'}); "
        f"about {sized(size)} will be stored, "
        f"{size / max(1, survey.rows):,.0f} bytes for each of {counted(survey.rows, 'row')}"
    )


def estimated_bytes(manifest: Manifest, survey: Survey, cells: int, segments: int, profile: Profile) -> int:
    """Approximate bytes that a put stores: sealed values, texts, and the ciphertexts of all segments.

    Plain columns other than texts are not counted; they compress well.
    """
    rows = survey.rows
    values = int(rows * sum(each.width + each.nullable / 8 for each in manifest.sealed))
    each = min(cells, rows // max(1, segments) + 1)
    chunks = segments * _chunks(total_lanes(manifest.measures, profile), each)
    chunks += _chunks(row_lanes(manifest, profile), rows) if manifest.scanned else 0
    return values + survey.text_bytes + chunks * bytes_of_chunk(profile)


def bytes_of_totals(measures: Sequence[Measure], cells: Sequence[int], profile: Profile) -> int:
    """Bytes of the totals of `measures`. `cells`: number of each segment."""
    lanes = total_lanes(measures, profile)
    return sum(_chunks(lanes, each) for each in cells) * bytes_of_chunk(profile)


def _chunks(lanes: Lanes, entries: int) -> int:
    return lanes.count * lanes.chunks(entries)
