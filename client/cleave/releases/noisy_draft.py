"""Draft a noisy release: what follows from its arguments and the schema of the table. No row is read for it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction

import duckdb

from cleave.ckks.public_key import PublicKey
from cleave.disclosure.noise import (
    MOST_CELLS,
    MOST_NUMBERS,
    MOST_ROWS,
    MOST_TABLE_ROWS,
    Clamp,
    Statistic,
    StatisticKind,
    statistics,
)
from cleave.releases.analysts import joined
from cleave.releases.drafting import exclusion
from cleave.releases.kept import NoisyReading
from cleave.releases.noisy import NoisyTotals
from cleave.sql.rejoin import Texts
from cleave.store.cells import require_cells
from cleave.store.manifest import Analyst
from cleave.store.padding import text_bytes
from cleave.store.reader import Opened
from cleave.store.schemas import load_stored_schema
from cleave.store.tables import Tables
from cleave.table.duck import literal, private
from cleave.table.privacy import MICRO, epsilon_text
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
class Noise:
    """The owner's choices for a noisy release.

    `epsilon`: in millionths. `clamps`: measure -> both bounds as text. `values`: column -> values instead of the
    schema's. `split`: statistic -> its share of epsilon. `again`: draw even if the last change of the table was the
    same release.
    """

    epsilon: int
    most_rows: int
    clamps: Mapping[str, tuple[str, str]]
    values: Mapping[str, Sequence[str]]
    split: Mapping[str, int]
    squares: bool = False
    again: bool = False


@dataclass(frozen=True, slots=True)
class NoisyDraft:
    """A noisy release before it is drawn. It follows from arguments and schema; no row is read for it."""

    tables: Tables
    opened: Opened
    schema: Schema
    analysts: tuple[Analyst, ...]
    revoked: tuple[Analyst, ...]
    noise: Noise
    reading: NoisyReading
    statistics: tuple[Statistic, ...]
    request: str

    @property
    def number(self) -> int:
        return self.opened.manifest.next_release

    @property
    def is_done(self) -> bool:
        """True if the last change of the table was this release."""
        manifest, newest = self.opened.manifest, self.opened.manifest.release
        is_same = newest is not None and newest.request == self.request and newest.drawn == manifest.version
        return is_same and not self.noise.again

    @property
    def is_void(self) -> bool:
        """True if the table has or had exact releases, so that nothing is promised."""
        newest = self.opened.manifest.release
        return newest is not None and (not newest.epsilon or bool(newest.ended))

    @property
    def cells(self) -> int:
        return math.prod(map(len, self.reading.values))

    @property
    def left_out(self) -> tuple[str, ...]:
        return tuple(each for each in self.opened.manifest.by if each not in self.reading.by)

    @property
    def lost(self) -> tuple[str, ...]:
        """What analysts read in the newest release and would not find in this one, such as "cells by ward"."""
        newest = self.opened.manifest.release
        if newest is None or not newest.epsilon or not newest.analysts:
            return ()
        return tuple(self._missing(drawn_totals(self.tables, self.opened)))

    def _missing(self, before: NoisyTotals) -> Iterator[str]:
        """What `before` has and this release lacks, of columns that the table still has."""
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

    @property
    def spent(self) -> int:
        """Epsilon of earlier releases, in millionths."""
        return self.tables.spent(self.opened)

    @property
    def budget(self) -> int | None:
        budget = self.schema.privacy.budget
        return None if budget is None else int(budget * MICRO)


def drafted(tables: Tables, table: str, to: Mapping[str, PublicKey], noise: Noise, *, yes: bool = False) -> NoisyDraft:
    """The draft of a noisy release. `yes`: allow it after an exact release, which voids the noisy one's promise, and
    let it lack what the newest release has.

    Raises InputError for a table without an entity, values or clamps that do not fit it, and numbers that are too
    large.
    """
    opened = tables.open(table)
    manifest, newest = opened.manifest, opened.manifest.release
    schema = load_stored_schema(manifest)
    analysts, revoked = joined(table, newest, to)
    if not schema.privacy.entity:
        raise InputError(
            f"table {table!r} names no entity: noise hides what one person adds to the totals",
            hint="`cleave alter NAME --entity patient_id` names the columns, once for all",
        )
    if newest is not None and not newest.epsilon and not yes:
        raise exclusion(table, "exact", "a noisy one")
    if manifest.rows > MOST_TABLE_ROWS:
        raise InputError(f"a noisy release is of a table of at most {MOST_TABLE_ROWS:,} rows")
    if not 0 < noise.most_rows <= MOST_ROWS:
        raise InputError(f"--most-rows: must be a number of rows, from 1 to {MOST_ROWS:,}")
    by, values = _values(schema, manifest.by, noise.values)
    clamps = tuple(_clamp(schema, manifest.by, *each) for each in noise.clamps.items())
    names = [each.name for each in clamps]
    if doubled := [name for name in names if names.count(name) > 1]:
        raise InputError(f"--clamp: column {doubled[0]!r} is named twice")
    epsilon = Fraction(noise.epsilon, MICRO)
    numbers = statistics(clamps, noise.most_rows, epsilon, squares=noise.squares, split=noise.split)
    reading = NoisyReading(by, values, schema.privacy.entity, clamps, noise.most_rows)
    _require_few(values, len(numbers))
    named = [(each.name, each.low, each.high) for each in clamps]
    request = [
        noise.epsilon,
        noise.most_rows,
        named,
        by,
        values,
        noise.squares,
        sorted(noise.split.items()),
        sorted(each.box for each in analysts),
    ]
    digest = hashlib.sha256(json.dumps(request).encode()).hexdigest()
    draft = NoisyDraft(tables, opened, schema, analysts, revoked, noise, reading, numbers, digest)
    if not yes and (lost := draft.lost):
        raise InputError(
            f"analysts would lose what release {draft.number - 1} shows them: {', '.join(lost)}",
            hint="name these too, or confirm with --yes (yes=True in Python): analysts query only the newest release",
        )
    return draft


def drawn_totals(tables: Tables, opened: Opened) -> NoisyTotals:
    """The numbers of the newest release, which is a noisy one."""
    newest = opened.manifest.release
    assert newest is not None  # noqa: S101 - the callers have looked
    ledger = json.loads(tables.unseal(opened.vault, "release", newest.ledger))
    return NoisyTotals.model_validate_json(ledger["noisy"])


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


def require_budget(draft: NoisyDraft) -> None:
    budget, needed = draft.budget, draft.spent + draft.noise.epsilon
    if budget is not None and needed > budget:
        raise InputError(
            f"the budget of table {draft.opened.manifest.table!r} is epsilon {epsilon_text(budget)}, "
            f"{epsilon_text(draft.spent)} of it is spent, and this release takes {epsilon_text(draft.noise.epsilon)}",
            hint="earlier releases still answer all questions; a smaller --epsilon may fit",
        )
