"""Plan a noisy release: its cells, clamps and statistics, from choices and schema. No row is read for it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction

import duckdb

from cleave.disclosure.noise import MOST_CELLS, MOST_NUMBERS, MOST_ROWS, Clamp, Statistic, StatisticKind, statistics
from cleave.releases.kept import NoisyReading
from cleave.releases.noisy_choices import NoisyChoices
from cleave.releases.noisy_totals import NoisyTotals
from cleave.sql.rejoin import Texts
from cleave.store.cells import require_cells
from cleave.store.padding import text_bytes
from cleave.table.duck import literal, private
from cleave.table.privacy import MICRO
from cleave.table.schema import MOST_VALUES, Column, Schema
from cleave.table.types import range_of
from cleave.text.quantities import counted
from cleave_shared.errors import InputError

_FAR = 40  # digits of an end of a clamp


_WORDS: Mapping[StatisticKind, str] = {
    "sum": "the sum",
    "square": "squares",
}  # a count follows from whether NULL is allowed


@dataclass(frozen=True, slots=True)
class NoisyPlan:
    """What a noisy release of a table by `table_by` has."""

    schema: Schema
    table_by: tuple[str, ...]
    choices: NoisyChoices
    reading: NoisyReading
    statistics: tuple[Statistic, ...]

    @property
    def cells(self) -> int:
        return math.prod(map(len, self.reading.values))

    @property
    def left_out(self) -> tuple[str, ...]:
        """By columns without declared values."""
        return tuple(each for each in self.table_by if each not in self.reading.by)

    def request(self, boxes: Iterable[str]) -> str:
        """Digest of all choices. `boxes`: public keys of the analysts."""
        choices, reading = self.choices, self.reading
        fields = [
            choices.epsilon,
            choices.most_rows,
            [(each.name, each.low, each.high) for each in reading.clamps],
            reading.by,
            reading.values,
            choices.squares,
            sorted(choices.split.items()),
            sorted(boxes),
        ]
        return hashlib.sha256(json.dumps(fields).encode()).hexdigest()

    def missing(self, before: NoisyTotals) -> Iterator[str]:
        """What `before` has and this plan lacks, of columns that the table still has, such as "cells by ward"."""
        names, reading = {each.name for each in self.schema.columns}, self.reading
        now = dict(zip(reading.by, reading.values, strict=True))
        for name, values in zip(before.by, before.values, strict=True):
            if name in names and name not in now:
                yield f"cells by {name}"
            elif gone := set(values).difference(now.get(name, values), (None,)):  # NULL has a cell by the schema
                yield f"cells of {counted(len(gone), 'value')} of {name}"
        numbers = {
            (each.part, reading.clamps[each.measure].name) for each in self.statistics if each.measure is not None
        }
        for each in before.statistics:
            name = "" if each.measure is None else before.measures[each.measure].name
            if name in names and each.part in _WORDS and (each.part, name) not in numbers:
                yield f"{_WORDS[each.part]} of {name}"


def planned(schema: Schema, table_by: tuple[str, ...], choices: NoisyChoices) -> NoisyPlan:
    """Raises InputError for values or clamps that do not fit the table, and numbers that are too large."""
    if not 0 < choices.most_rows <= MOST_ROWS:
        raise InputError(f"--most-rows: must be a number of rows, from 1 to {MOST_ROWS:,}")
    by, values = _values(schema, table_by, choices.values)
    clamps = tuple(_clamp(schema, table_by, *each) for each in choices.clamps.items())
    names = [each.name for each in clamps]
    if doubled := [name for name in names if names.count(name) > 1]:
        raise InputError(f"--clamp: column {doubled[0]!r} is named twice")
    epsilon = Fraction(choices.epsilon, MICRO)
    numbers = statistics(clamps, choices.most_rows, epsilon, squares=choices.squares, split=choices.split)
    _require_few(values, len(numbers))
    reading = NoisyReading(by, values, schema.privacy.entity, clamps, choices.most_rows)
    return NoisyPlan(schema, table_by, choices, reading, numbers)


def _values(
    schema: Schema, by: Sequence[str], given: Mapping[str, Sequence[str]]
) -> tuple[tuple[str, ...], tuple[Texts, ...]]:
    """The by columns that have declared values, and those values as DuckDB writes them, NULL last where there may be
    any.
    """
    named = {schema.column(name).name: texts for name, texts in given.items()}
    for name in named:
        if name not in by:
            raise InputError(
                f"--values: the table is not stored by {name!r}", hint=f"it is by {', '.join(by) or 'nothing'}"
            )
    columns = [schema.column(name) for name in by]
    declared = [(each, named.get(each.name, each.values)) for each in columns]
    cells = [(each, _texts(each, values)) for each, values in declared if values]
    return tuple(each.name for each, _ in cells), tuple(texts for _, texts in cells)


def _texts(column: Column, values: Sequence[str]) -> Texts:
    if len(values) > MOST_VALUES:
        raise InputError(f"--values: column {column.name!r} has more than {MOST_VALUES:,} values")
    texts: list[str] = []
    with private() as connection:
        for number, value in enumerate(values, 1):
            sql = f"SELECT CAST(TRY_CAST({literal(value)} AS {column.type}) AS VARCHAR)"
            try:
                ((text,),) = connection.execute(sql).fetchall()
            except duckdb.Error:
                text = None
            if text is None:
                raise InputError(f"value {number} of column {column.name!r} is no {column.type}", hint="see --values")
            require_cells([column.name], 1, [text_bytes(text)], f"value {number}")
            texts.append(text)
    if len(set(texts)) < len(texts):
        raise InputError(f"--values: column {column.name!r} has a value twice")
    return (*texts, None) if column.nullable else tuple(texts)


def _clamp(schema: Schema, by: Sequence[str], name: str, ends: tuple[str, str]) -> Clamp:
    column = schema.column(name)
    decimals = column.decimals
    if decimals is None:
        raise InputError(
            f"--clamp: column {column.name!r} is {column.type}: noisy sums are of whole numbers, decimals and booleans",
            hint="store it as DECIMAL",
        )
    if column.name in by or column.name in schema.privacy.entity:
        raise InputError(f"--clamp: column {column.name!r} makes cells or names people, so it is not summed")
    low, high = (_end(column.name, decimals, each) for each in ends)
    least, largest = range_of(column.type)
    if not least <= low < high <= largest:
        raise InputError(
            f"--clamp {column.name}: must be two values of {column.type}, the lower one first",
            hint=f"--clamp {column.name}=0..1" if column.type == "BOOLEAN" else f"as in --clamp {column.name}=0..5000",
        )
    return Clamp(column.name, low, high, decimals, column.nullable)


def _end(name: str, decimals: int, text: str) -> int:
    try:
        end = Decimal(text)
    except InvalidOperation:
        end = Decimal("NaN")
    if end.is_finite() and abs(end.adjusted()) < _FAR and (units := Fraction(end) * 10**decimals).denominator == 1:
        return int(units)
    raise InputError(
        f"--clamp {name}: {text!r} is no number of at most {decimals} decimals", hint=f"as in --clamp {name}=0..5000"
    )


def _require_few(values: Sequence[Texts], count: int) -> None:
    cells = 1
    for declared in values:
        cells *= len(declared)
        if cells > MOST_CELLS or cells * count > MOST_NUMBERS:
            raise InputError(
                f"the declared values make more than {MOST_CELLS:,} cells, or {MOST_NUMBERS:,} numbers",
                hint="declare fewer values, or of fewer columns: every cell gets noise",
            )
