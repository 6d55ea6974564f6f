"""Add up a segment's measures by cell, or read each row's terms for scans. Both use DuckDB and the same SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import duckdb
import numpy as np
from numpy.typing import NDArray

from cleave.aggregates.columns import Words
from cleave.sql.plan import Argument
from cleave.sql.rejoin import Texts
from cleave.sql.split import blame, computing
from cleave.store import measures as of_measures
from cleave.store.manifest import NUMBER, Measure
from cleave.store.measures import SEGMENT_ROWS
from cleave.table.blaming import not_computable
from cleave.table.duck import identifier
from cleave.table.running import fetched
from cleave.table.stream import Extent
from cleave.table.table import Table
from cleave_shared.duckdb_errors import Fault

_CELLS = "cells"
_NUMBER = identifier(NUMBER)  # no column of the rows has this name, also not of sorted ones
_LOW = (1 << 64) - 1
_ONE_WORD = 1 << 63

T = TypeVar("T")
_all = duckdb.DuckDBPyConnection.fetchall
_arrays = duckdb.DuckDBPyConnection.fetchnumpy


@dataclass(frozen=True, slots=True)
class CellSums:
    """The cells of some rows: the text of each cell's keys, its rows, and its sums (words, cells) by column.

    Without by columns there is one cell, even if there are no rows.
    """

    keys: list[Texts]
    counts: NDArray[np.int64]
    columns: list[Words]


@dataclass(frozen=True, slots=True)
class ScanRows:
    """Rows for scans: each row's number, its cell's number, and its values (words, rows) by column."""

    numbers: NDArray[np.int64]
    cells: NDArray[np.int64]
    columns: list[Words]

    def ordered(self, order: NDArray[np.int64]) -> tuple[list[Words], bytes]:
        """The columns with their rows in `order`, and the rows' numbers as they are stored."""
        return [each[:, order] for each in self.columns], self.numbers[order].astype(np.uint32).tobytes()


class Summing:
    """Reads `measures` over the rows of `table` by the columns `by`.

    Raises InputError for values outside the measures' range, and for expressions that cannot be computed.
    """

    def __init__(self, table: Table, by: Sequence[str], measures: Sequence[Measure]) -> None:
        self._table = table
        self._measures = measures
        self._columns = of_measures.columns_of(measures)
        self._terms = [of_measures.terms_of(each, measures[each.measure], f"v{each.measure}") for each in self._columns]
        self._keys = [f"k{place}" for place in range(len(by))]
        self._selected = [f"{identifier(name)} AS {key}" for name, key in zip(by, self._keys, strict=True)]
        self._selected += [f"{of_measures.value_of(each)} AS v{place}" for place, each in enumerate(measures)]
        self._check()

    def sums(self) -> CellSums:
        """Return the totals of every cell, in any order."""
        added = [f"count(v{place}) AS n{place}" for place in range(len(self._measures))]
        added += [f"coalesce(sum({each.sql}), 0) AS {name}" for name, each in self._named()]
        grouped = f" GROUP BY {', '.join(self._keys)}" if self._keys else ""
        named = ", ".join([*self._keys, "count(*) AS size", *added])
        self._run(f"CREATE OR REPLACE TEMP TABLE {_CELLS} AS SELECT {named} FROM {self._source()}{grouped}", _all)
        texts = ", ".join(f"CAST({key} AS VARCHAR)" for key in self._keys)
        keys: list[Texts] = self._run(f"SELECT {texts} FROM {_CELLS}", _all) if texts else [()]
        figures = self._run(f"SELECT size, {self._words(SEGMENT_ROWS)} FROM {_CELLS}", _arrays)
        limits = [each.total.limit for each in self._columns]
        return CellSums(keys, figures["size"].astype(np.int64), self._combined(figures, limits))

    def rows(self) -> ScanRows:
        """For every row, the terms that the totals add up."""
        cell = f"dense_rank() OVER (ORDER BY {', '.join(self._keys)}) - 1" if self._keys else "0"
        values = [f"CAST(v{place} IS NOT NULL AS TINYINT) AS n{place}" for place in range(len(self._measures))]
        values += [f"coalesce({each.sql}, 0) AS {name}" for name, each in self._named()]
        rows = f"SELECT {_NUMBER} AS number, {cell} AS cell, {', '.join(values)} FROM {self._source(numbered=True)}"
        figures = self._run(f"SELECT number, cell, {self._words(1)} FROM ({rows})", _arrays)
        limits = [each.limit for each in self._columns]
        return ScanRows(
            figures["number"].astype(np.int64), figures["cell"].astype(np.int64), self._combined(figures, limits)
        )

    def _check(self) -> None:
        """Raise InputError if a value is out of its measure's range, because the sums would be wrong."""
        if not self._measures:
            return
        figures = ", ".join(f"count(v{i}), min(v{i}), max(v{i})" for i in range(len(self._measures)))
        ((rows, *figures_row),) = self._run(f"SELECT count(*), {figures} FROM {self._source()}", _all)
        for measure, *of in zip(self._measures, figures_row[::3], figures_row[1::3], figures_row[2::3], strict=True):
            of_measures.require_within(measure, rows, *of)

    def _source(self, *, numbered: bool = False) -> str:
        relation = self._table.relation
        selected = [*self._selected, *([_NUMBER] if numbered else [])]
        if numbered:
            relation = f"(SELECT *, row_number() OVER () - 1 AS {_NUMBER} FROM {relation})"
        return f"(SELECT {', '.join(selected or ['1 AS one'])} FROM {relation})"

    def _named(self) -> list[tuple[str, of_measures.SumTerm]]:
        every = [term for each in self._terms for term in each.terms]
        return [(f"s{place}", each) for place, each in enumerate(every)]

    def _words(self, rows: int) -> str:
        """Return SQL for the counts and for the sums of up to `rows` rows, each in one or two words."""
        words = [f"n{place}" for place in range(len(self._measures))]
        for name, term in self._named():
            if term.most * rows < _ONE_WORD:
                words.append(f"CAST({name} AS BIGINT) AS {name}")
            else:
                words += [f"CAST({name} & {_LOW} AS UBIGINT) AS {name}", f"CAST({name} >> 64 AS BIGINT) AS {name}_high"]
        return ", ".join(words) or "1 AS one"

    def _combined(self, figures: Mapping[str, NDArray[Any]], limits: Sequence[int]) -> list[Words]:
        """Put the values of every column together from its terms."""
        names = iter(self._named())
        columns = []
        for column, terms, limit in zip(self._columns, self._terms, limits, strict=True):
            parts = []
            for term in terms.terms:
                name, _ = next(names)
                words = [figures[each].view(np.uint64) for each in (name, f"{name}_high") if each in figures]
                parts.append((np.stack(words), term.shift))
            counts = figures[f"n{column.measure}"].astype(np.int64)
            columns.append(of_measures.combined(parts, terms.constant, counts, limit))
        return columns

    def _run(self, statement: str, fetch: Callable[[duckdb.DuckDBPyConnection], T]) -> T:
        values = {each.sql: of_measures.value_of(each) for each in self._measures}
        return _computed(self._table, values, statement, fetch)


def extent_of(table: Table, argument: Argument) -> Extent | None:
    """Return the range of the doubles of `argument`. Raises InputError if they cannot be computed."""
    figures = of_measures.EXTENT.format(argument.sql, 0)
    statement = f"SELECT {figures} FROM {table.relation}"
    ((least, middle, largest),) = _computed(table, {argument.sql: argument.sql}, statement, _all)
    return None if least is None else Extent(float(least), float(middle), float(largest))


def _computed(
    table: Table, values: Mapping[str, str], statement: str, fetch: Callable[[duckdb.DuckDBPyConnection], T]
) -> T:
    """Run a statement and return what `fetch` takes from its result.

    Raises InputError naming the first of `values` that fails; they are SQL by expression as it was written.
    """

    def refusal(fault: Fault) -> Exception:
        statements = {sql: computing(value, table.relation) for sql, value in values.items()}
        return blame(table.connection, statements) or not_computable("the rows cannot be added up", fault)

    result: T = fetched(table.connection, statement, refusal, fetch)
    return result
