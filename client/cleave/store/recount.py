"""Totals of a segment's rows, made of the rows themselves: what a derived column needs, and what a contributor tells is
compared with.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cleave.aggregates.columns import Values, Words
from cleave.split import Halves
from cleave.sql.rejoin import Texts
from cleave.store import measures as of_measures
from cleave.store.contributed import Facts
from cleave.store.manifest import Manifest, Measure, Segment
from cleave.store.rows import Rows
from cleave.store.schemas import arguments_of, load_stored_schema
from cleave.store.segment import selection
from cleave.table.table import Table
from cleave_shared import duckdb
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import CheckFailed, InputError


@dataclass(frozen=True, slots=True)
class Found:
    """The rows of a segment by cell: `counts` and `keys` of each, and the integers of each measure's parts, in the
    order of the cells.
    """

    keys: list[Texts]
    counts: NDArray[np.int64]
    values: list[Values]
    parts: list[dict[str, Words]]


def parts_of_rows(rows: Rows, segment: Segment, manifest: Manifest, measures: Sequence[Measure]) -> Found:
    """Reads what `measures` are computed of. Raises CheckFailed, StoreError."""
    arguments = arguments_of(load_stored_schema(manifest), [each.sql for each in measures])
    names = {column for each in arguments for column in each.columns}
    with rows.table({*names, *manifest.by}, segments=[segment]) as table:
        return _found(table, manifest, measures)


def check_rows(rows: Rows, segment: Segment, manifest: Manifest, facts: Facts) -> None:
    """Whether every row of a segment opens and its cells are what `facts` tell of them. Raises CheckFailed."""
    every = [each.name for each in load_stored_schema(manifest).columns]
    try:
        with rows.table(every, ordered=True, segments=[segment]) as table:
            found = _found(table, manifest, facts.measures)
    except (duckdb.Error, InputError) as error:  # either may quote values
        raise CheckFailed("stored", f"its rows are not the table's ({type(error).__name__})") from None
    if {key: int(size) for key, size in zip(found.keys, found.counts, strict=True)} != dict(
        zip(facts.keys, facts.rows, strict=True)
    ):
        raise CheckFailed("stored", "its rows are not in the cells it tells")
    places = {key: cell for cell, key in enumerate(facts.keys)}
    order = [places[key] for key in found.keys]
    starts = np.cumsum(found.counts) - found.counts
    for at, column in enumerate(of_measures.columns_of(facts.measures)):
        measure = facts.measures[column.measure]
        sums = of_measures.as_integers(of_measures.totals(found.parts[column.measure][column.part], starts))
        slack = _slack(measure, found.values[column.measure], column.part, lossless=manifest.lossless)
        for cell, total, size in zip(order, sums, found.counts, strict=True):
            if abs(int(total) - facts.totals[at][cell]) > slack * int(size):
                raise CheckFailed("stored", f"a total it tells of column {measure.name!r} is not that of its rows")


def _found(table: Table, manifest: Manifest, measures: Sequence[Measure]) -> Found:
    arguments = [of_measures.argument_of(each) for each in measures]
    halves = Halves(table, selection(manifest, arguments))
    values = halves.values()
    parts = [of_measures.values_of(measure, each) for measure, each in zip(measures, values, strict=True)]
    found = Found(halves.keys, halves.counts, values, parts)
    halves.close()
    return found


def _slack(measure: Measure, values: Values, part: str, *, lossless: bool) -> int:
    """By how many units of a total each row may differ that was kept to 52 bits and is a double again.

    The double errs by half its last place, and its distance from the centre by another half; of the square, in units of
    2^-52 of the largest, by twice as much.
    """
    if lossless or measure.decimals is not None or part == "count" or not values.rows:
        return 0
    known = values.values if values.valid is None else values.values[values.valid]
    reach = max((float(np.abs(known.astype(np.float64)).max()) if known.size else 0.0), abs(measure.centre))
    slack = 2 + math.ceil(math.ldexp(reach, measure.exponent - of_measures.BITS))
    return 2 * slack + 2 if part == "square" else slack
