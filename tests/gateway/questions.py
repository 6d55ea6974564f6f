"""Random questions over a table and its mirror, and what an answer must be."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any, TypeAlias

import duckdb

from tests.gateway.fronts import Shown
from tests.gateway.mirror import OWNER, Column, Mirror
from tests.oracle import TINY, UNIT, Cell, decimals_of, duckdb_loss, fraction

FLOATING = ("AVG", "VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP")
_COARSE = 1e-9  # what a front without bounds may be off, relative to the values

Truth: TypeAlias = list[tuple[Any, ...]] | str
"""The mirror's answer, or DuckDB's error."""


@dataclass(frozen=True, slots=True)
class Item:
    """An output. `theirs`: of the mirror, if other than `ours`; `figure`: aggregate, argument, filter of a double."""

    ours: str
    theirs: str = ""
    figure: tuple[str, str, str] | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """`ours` with the table's name, `theirs` over the mirror, with the lists of values of `figures` behind its outputs.

    `figures`: by place of the output. `in_order`: rows have one order.
    """

    ours: str
    theirs: str
    figures: Mapping[int, str]
    in_order: bool = True

    def truth(self, mirror: Mirror) -> Truth:
        try:
            return mirror.execute(self.theirs)
        except duckdb.Error as error:
            return str(error)


class Asking:
    """Draws questions over the columns of `mirror`. `by`: names of the by columns; `derived`: SQL by name."""

    def __init__(
        self, mirror: Mirror, table: str, by: Sequence[str], derived: Mapping[str, str], *, keyed: bool
    ) -> None:
        self.rng: Random = mirror.rng
        self.mirror, self.table, self.by, self.derived, self.keyed = mirror, table, by, derived, keyed
        self.shared = bool(mirror.execute(f"SELECT 1 FROM mirror WHERE contributor <> '{OWNER}' LIMIT 1"))

    def question(self) -> Question:
        return self.rng.choice([self.grouped] * 6 + [self.rows, self.first, self.listed, self.rolled, self.nested])()

    def condition(self, columns: Sequence[Column] = ()) -> str:
        column = self.rng.choice(columns or self.mirror.columns)
        name = column.sql
        if column.is_number:
            tests = [f"{name} > 0", f"{name} <= 1", f"{name} = 0", f"{name} BETWEEN -3 AND 3"]
        elif column.type == "DOUBLE":
            tests = [f"{name} > 0", f"{name} = 0", f"{name} < 0.5", f"isnan({name})"]
        elif column.type == "BOOLEAN":
            tests = [name, f"NOT {name}", f"{name} IS NOT TRUE"]
        elif column.type == "DATE":
            tests = [f"{name} < DATE '1970-01-01'", f"{name} = DATE '2024-02-29'", f"year({name}) > 1900"]
        elif column.type == "TIMESTAMP":
            tests = [f"{name} < TIMESTAMP '1970-01-01'", f"{name} >= TIMESTAMP '1969-12-31 23:59:59.999999'"]
        else:
            tests = [f"{name} = ''", f"{name} > 'A'", f"{name} LIKE '%a%'", f"length({name}) = 1", f"{name} <> 'A'"]
        tests.append(f"{name} IS {self.rng.choice(['NULL', 'NOT NULL'])}")
        one = self.rng.choice(tests)
        if self.rng.random() < 0.25:
            return f"({one} {self.rng.choice(['AND', 'OR'])} {self.condition(columns)})"
        return one

    def _by(self) -> list[Column]:
        return [each for each in self.mirror.columns if each.name in self.by]

    def _where(self) -> str:
        chance = self.rng.random()
        if chance < 0.45:
            return ""
        if chance < 0.7 and self.by:
            return f"WHERE {self.condition(self._by())}"
        if self.shared and chance < 0.78:
            return f"WHERE contributor = '{self.rng.choice([OWNER, 'north'])}'"
        plain = [each for each in self.mirror.columns if each.kind == "plain"]
        return f"WHERE {self.condition(plain if plain and chance < 0.85 else ())}"

    def _keys(self) -> list[str]:
        chance = self.rng.random()
        if chance < 0.3:
            return []
        if chance < 0.7 and self.by:
            return [each.sql for each in self.rng.sample(self._by(), self.rng.randint(1, len(self.by)))]
        if self.shared and chance < 0.8:
            return ["contributor"]
        few = [each.sql for each in self.mirror.columns if each.type in ("VARCHAR", "BOOLEAN", "DATE")]
        few += [f"{each.sql} % 3" for each in self.mirror.columns if each.type in ("INTEGER", "SMALLINT")]
        return [self.rng.choice(few)] if few else []

    def _item(self) -> Item:
        chance = self.rng.random()
        if chance < 0.15:
            return Item("COUNT(*)")
        if chance < 0.35 and self.derived:
            name, sql = self.rng.choice(sorted(self.derived.items()))
            return self._figure(self.rng.choice(["SUM", "COUNT", "AVG"]), f'"{name}"', f"({sql})", exact=True)
        encrypted = [each for each in self.mirror.columns if each.kind == "encrypted"]
        column = self.rng.choice(encrypted if encrypted and chance < 0.8 else self.mirror.columns)
        name = column.sql
        if column.is_number or column.type == "DOUBLE":
            exact = column.is_number
            aggregates = ["COUNT", "MIN", "MAX"]
            if "(38," not in column.type:  # sums of its largest values overflow, or not, by the order of the rows
                aggregates += ["SUM", "SUM", "AVG"]
            if column.lower is not None:
                aggregates += FLOATING
            aggregate = self.rng.choice(aggregates)
            if aggregate in ("MIN", "MAX"):  # which of 0.0 and -0.0 is the least is no one's promise
                return Item(f"{aggregate}({name})" if exact else f"{aggregate}({name} + 0)")
            if exact and aggregate == "SUM" and column.lower is not None and self.rng.random() < 0.3:
                return self._figure("SUM", f"2 * {name} - 1", f"2 * {name} - 1", exact=True)
            return self._figure(aggregate, name, name, exact=exact)
        if column.type == "BOOLEAN":
            return self.rng.choice([Item(f"COUNT({name})"), Item(f"SUM({name}::INT)"), Item(f"bool_or({name})")])
        aggregates = ("COUNT(", "MIN(", "MAX(", "COUNT(DISTINCT ")
        return Item(f"{self.rng.choice(aggregates)}{name})")

    def _figure(self, aggregate: str, ours: str, theirs: str, *, exact: bool) -> Item:
        where = self.condition(self._by()) if self.by and self.rng.random() < 0.2 else ""
        behind = f" FILTER (WHERE {where})" if where else ""
        is_double = aggregate in FLOATING or (aggregate == "SUM" and not exact)
        figure = (aggregate, theirs, where) if is_double else None
        return Item(f"{aggregate}({ours}){behind}", f"{aggregate}({theirs}){behind}", figure)

    def _of(self, keys: Sequence[str], items: Sequence[Item], where: str, group: str, order: str) -> Question:
        lists, figures = [], {}
        for place, item in enumerate(items, start=len(keys)):
            if item.figure:
                aggregate, argument, condition = item.figure
                only = f"({argument}) IS NOT NULL" + (f" AND ({condition})" if condition else "")
                lists.append(f"list({argument}) FILTER (WHERE {only})")
                figures[place] = aggregate
        ours = ", ".join(f"{sql} AS o{place}" for place, sql in enumerate([*keys, *(each.ours for each in items)]))
        theirs = ", ".join([*keys, *(each.theirs or each.ours for each in items), *lists])
        end = " ".join(each for each in (where, group, order) if each)
        return Question(f"SELECT {ours} FROM {self.table} {end}", f"SELECT {theirs} FROM mirror {end}", figures)

    def _items(self) -> list[Item]:
        return [self._item() for _ in range(self.rng.randint(1, 4))]

    def grouped(self) -> Question:
        keys = self._keys()
        places = ", ".join(str(place) for place in range(1, len(keys) + 1))
        having = " HAVING COUNT(*) > 1" if keys and self.rng.random() < 0.15 else ""
        group = f"GROUP BY {places}{having}" if keys else ""
        return self._of(keys, self._items(), self._where(), group, f"ORDER BY {places}" if keys else "")

    def rolled(self) -> Question:
        keys = [each.sql for each in self._by() if each.type != "DOUBLE"]
        if not keys:
            return self.grouped()
        items = [*self._items(), Item(f"GROUPING({', '.join(keys)})")]
        places = [*map(str, range(1, len(keys) + 1)), str(len(keys) + len(items))]
        return self._of(
            keys, items, self._where(), f"GROUP BY ROLLUP ({', '.join(keys)})", f"ORDER BY {', '.join(places)}"
        )

    def nested(self) -> Question:
        """A subquery that totals may answer."""
        numbers = [each.sql for each in self.mirror.columns if each.kind == "encrypted" and each.is_number]
        by = [each.sql for each in self._by()]
        if not numbers or not by:
            return self.grouped()
        inner = f"SELECT {by[0]} AS k, SUM({self.rng.choice(numbers)}) AS v, COUNT(*) AS n FROM {{}} GROUP BY {by[0]}"
        outer = f"SELECT COUNT(*) AS o0, MAX(v) AS o1, SUM(n) AS o2, COUNT(k) AS o3 FROM ({inner}) AS inside"
        return Question(outer.format(self.table), outer.format("mirror"), {})

    def _some(self) -> str:
        chosen = self.rng.sample(self.mirror.columns, min(4, len(self.mirror.columns)))
        return ", ".join(each.sql for each in chosen)

    def rows(self) -> Question:
        """All rows of some columns, in any order."""
        columns, where = self._some(), self._where()
        return Question(
            f"SELECT {columns} FROM {self.table} {where}", f"SELECT {columns} FROM mirror {where}", {}, in_order=False
        )

    def first(self) -> Question:
        """The first rows, in the order of the file."""
        columns, where, count = self._some(), self._where(), self.rng.randint(1, 9)
        return Question(
            f"SELECT {columns} FROM {self.table} {where} LIMIT {count}",
            f"SELECT {columns} FROM mirror {where} ORDER BY came LIMIT {count}",
            {},
        )

    def listed(self) -> Question:
        """Aggregates that depend on the order of the file."""
        column, where = self.rng.choice(self.mirror.columns).sql, self._where()
        ours = f"list({column})::VARCHAR AS o0, first({column}) AS o1, last({column}) AS o2"
        theirs = f"list({column} ORDER BY came)::VARCHAR, first({column} ORDER BY came), last({column} ORDER BY came)"
        return Question(f"SELECT {ours} FROM {self.table} {where}", f"SELECT {theirs} FROM mirror {where}", {})


def differs(question: Question, shown: Shown, truth: Sequence[Sequence[Any]]) -> str | None:
    """What is wrong with an answer; None if nothing is."""
    ours = [list(row) for row in shown.rows]
    if len(ours) != len(truth):
        return f"{len(ours)} rows for {len(truth)}"
    if not question.in_order:
        left = [*truth]
        for row in ours:
            found = [each for each in left if all(map(same, row, each))]
            if not found:
                return f"no such row: {row!r} in {left!r}"
            # a NULL may be an infinity too: that is for a row that has no other
            left.remove(min(found, key=lambda each: sum(theirs is not None for theirs in each)))
        return None
    for number, (row, expected) in enumerate(zip(ours, truth, strict=True)):
        lists = iter(expected[len(row) :])
        for place, value in enumerate(row):
            wrong = None
            if place in question.figures:
                bound = shown.bounds[number][place] if shown.bounds else None
                exact = shown.exact[number][place] if shown.exact else None
                figure = None if bound is None else float(bound), exact, shown.bounds is not None
                wrong = _figure_differs(question.figures[place], value, figure, expected[place], next(lists) or ())
            elif not same(value, expected[place]):
                wrong = f"{value!r} for {expected[place]!r}"
            if wrong:
                return f"row {number}, output {place}: {wrong}; {row!r} for {expected!r}"
    return None


def _figure_differs(
    aggregate: str,
    value: Any,
    stated: tuple[float | None, bool | None, bool],
    theirs: Any,
    inside: Sequence[Any],
) -> str | None:
    bound, exact, is_stated = stated
    if any(not math.isfinite(each) for each in inside):
        return None if same(value, theirs) else f"{value!r} for {theirs!r}"
    if value is not None:
        value = float(value)
        if not math.isfinite(value):
            return f"{value!r} for {theirs!r}"
    decimals = decimals_of(inside[0]) if inside else 0
    cell = Cell(aggregate, [fraction(each) for each in inside], decimals)
    if bound is not None or exact or value is None or cell.truth is None:
        return cell.wrong(value, bound, exact)
    loss = duckdb_loss(aggregate, cell.values, decimals)
    if loss is None:
        return None
    allowed = loss + 2 * UNIT * abs(Fraction(value)) + TINY
    if not is_stated:
        size = sum(abs(each) for each in cell.values)
        allowed += Fraction(_COARSE) * (1 + size + (size * size if aggregate[0] in "VS" and aggregate != "SUM" else 0))
    error = cell.error(value)
    return f"{value!r} is off by {error} of {theirs!r}" if error.lower() > float(allowed) else None


def same(value: Any, expected: Any) -> bool:
    """Check whether a front's value, or its text, is the mirror's."""
    if isinstance(expected, float) and not math.isfinite(expected):
        return value is None or str(float(value)) == str(expected)  # a gateway shows them as NULL
    if value is None or expected is None:
        return value is None and expected is None
    if isinstance(expected, bool):
        return str(value).lower() in (str(expected).lower(), str(int(expected)))
    if isinstance(expected, float):
        return repr(float(value)) == repr(expected)
    if isinstance(expected, int | Decimal):
        return Decimal(str(value)) == expected
    if isinstance(expected, datetime.datetime):
        return value == expected or datetime.datetime.fromisoformat(str(value)) == expected
    return str(value) == str(expected)
