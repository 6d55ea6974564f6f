"""A mirror of answers under a threshold: which groups and figures of random questions over random rows are shown.

It shares no code with Cleave and none of its ideas: rows are dicts, and every class is formed and counted by itself.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
HEADER = ("ward", "sex", "patient", "house", "x", "y", "z")
SCHEMA = """
[columns.ward]
kind = "plain"
type = "VARCHAR"
[columns.sex]
kind = "sealed"
type = "VARCHAR"
[columns.patient]
kind = "sealed"
type = "VARCHAR"
[columns.house]
kind = "plain"
type = "BIGINT"
[columns.x]
kind = "encrypted"
type = "BIGINT"
lower = 0
upper = 100
[columns.y]
kind = "encrypted"
type = "BIGINT"
lower = 0
upper = 100
[columns.z]
kind = "encrypted"
type = "BIGINT"
nullable = false
lower = 0
upper = 100
"""


@dataclass(frozen=True)
class Item:
    """An aggregate: its SQL; arguments that may be NULL, by their SQL, as functions of a row; and its value."""

    sql: str
    arguments: tuple[tuple[str, Callable[[Row], Any]], ...]
    value: Callable[[list[Row]], Any]


def _of(name: str) -> tuple[str, Callable[[Row], Any]]:
    return name, lambda row: row[name]


def _plus(row: Row) -> Any:
    return None if row["x"] is None or row["y"] is None else row["x"] + row["y"]


def _women(row: Row) -> Any:
    return row["x"] if row["sex"] == "f" else None


def _high(row: Row) -> Any:
    return 1 if row["y"] is not None and row["y"] > 30 else None


def _sum(values: Iterable[Any]) -> Any:
    there = [each for each in values if each is not None]
    return sum(there) if there else None


def _count(values: Iterable[Any]) -> int:
    return sum(each is not None for each in values)


def _max(values: Iterable[Any]) -> Any:
    return max((each for each in values if each is not None), default=None)


def _both(rows: list[Row]) -> Any:
    one, two = _sum(row["x"] for row in rows), _sum(row["y"] for row in rows)
    return None if one is None or two is None else one + two


ITEMS = (
    Item("COUNT(*)", (), len),
    Item("SUM(x)", (_of("x"),), lambda rows: _sum(row["x"] for row in rows)),
    Item("SUM(y)", (_of("y"),), lambda rows: _sum(row["y"] for row in rows)),
    Item("SUM(z)", (), lambda rows: _sum(row["z"] for row in rows)),
    Item("COUNT(y)", (_of("y"),), lambda rows: _count(row["y"] for row in rows)),
    Item("MAX(x)", (_of("x"),), lambda rows: _max(row["x"] for row in rows)),
    Item("COUNT(DISTINCT y)", (_of("y"),), lambda rows: len({row["y"] for row in rows} - {None})),
    Item("COUNT(DISTINCT house)", (_of("house"),), lambda rows: len({row["house"] for row in rows} - {None})),
    Item("SUM(x + y)", (("x + y", _plus),), lambda rows: _sum(map(_plus, rows))),
    Item("SUM(x) + SUM(y)", (_of("x"), _of("y")), _both),
    Item("COALESCE(SUM(y), 0)", (_of("y"),), lambda rows: _sum(row["y"] for row in rows) or 0),
    Item("SUM(x) FILTER (WHERE sex = 'f')", (("women", _women),), lambda rows: _sum(map(_women, rows))),
    Item("COUNT(*) FILTER (WHERE y > 30)", (("high", _high),), lambda rows: _count(map(_high, rows))),
)


@dataclass(frozen=True)
class Asked:
    sql: str
    keys: tuple[str, ...]
    items: tuple[Item, ...]
    where: Callable[[Row], bool]
    having: Callable[[Any], bool] | None  # of the value of the last item


def rows_of(chance: random.Random, most: int = 40) -> list[Row]:
    """Random rows in which people, NULLs and wards are few."""
    nulls = chance.choice([0.05, 0.3])

    def some(value: Any, share: float = nulls) -> Any:
        return None if chance.random() < share else value

    return [
        {
            "ward": chance.choice("ABC"),
            "sex": some(chance.choice("fm"), 0.1),
            "patient": some(f"p{chance.randrange(14)}", 0.1),
            "house": some(chance.randrange(3), 0.1),
            "x": some(chance.randrange(100)),
            "y": some(chance.randrange(100)),
            "z": chance.randrange(100),
        }
        for _ in range(chance.randint(0, most))
    ]


def question(chance: random.Random, table: str) -> Asked:
    keys = tuple(chance.sample(("ward", "sex"), chance.choice([0, 1, 1, 2])))
    items = tuple(chance.sample(ITEMS, chance.randint(1, 4)))
    condition, where = chance.choice(
        [
            ("", lambda _: True),
            (" WHERE ward <> 'C'", lambda row: row["ward"] != "C"),
            (" WHERE z < 70", lambda row: row["z"] < 70),
            (" WHERE sex = 'm'", lambda row: row["sex"] == "m"),
        ]
    )
    having = chance.random() < 0.3
    names = ", ".join(keys)
    sql = f"SELECT {', '.join([*keys, *(each.sql for each in items)])} FROM {table}{condition}"
    sql += f" GROUP BY {names}" if keys else ""
    sql += f" HAVING {items[-1].sql} > 40" if having else ""
    sql += f" ORDER BY {names}" if keys else ""
    return Asked(sql, keys, items, where, (lambda value: value is not None and value > 40) if having else None)


def is_large(rows: Sequence[Row], least: int, entity: Sequence[str]) -> bool:
    def size(some: Sequence[Row]) -> int:
        if not entity:
            return len(some)
        return len({ids for row in some if None not in (ids := tuple(row[name] for name in entity))})

    for party in {row.get("party") for row in rows}:
        others = [row for row in rows if row.get("party") != party]
        if others and size(others) < least:
            return False
    return size(rows) >= least


def hidden(asked: Asked, rows: Sequence[Row], least: int, entity: Sequence[str]) -> set[str]:
    """The arguments that do not join in a group."""
    arguments = {name: read for item in asked.items for name, read in item.arguments}  # in their order
    joined: list[str] = []
    for name in arguments:
        classes: dict[tuple[bool, ...], list[Row]] = {}
        for row in rows:
            classes.setdefault(tuple(arguments[each](row) is None for each in [*joined, name]), []).append(row)
        if all(is_large(each, least, entity) for each in classes.values()):
            joined.append(name)
    return arguments.keys() - set(joined)


def expected(asked: Asked, rows: Sequence[Row], least: int, entity: Sequence[str]) -> tuple[list[Any], list[Any]]:
    """The rows of the answer, and which of their cells are hidden."""
    groups: dict[tuple[Any, ...], list[Row]] = {} if asked.keys else {(): []}
    for row in rows:
        if asked.where(row):
            groups.setdefault(tuple(row[key] for key in asked.keys), []).append(row)
    shown, marks = [], []
    for key, members in sorted(groups.items(), key=lambda group: [(each is None, each or "") for each in group[0]]):
        if not is_large(members, least, entity):
            continue
        away = hidden(asked, members, least, entity)
        is_hidden = [bool(away.intersection(name for name, _ in item.arguments)) for item in asked.items]
        values = [None if no else item.value(members) for no, item in zip(is_hidden, asked.items, strict=True)]
        last = asked.items[-1].value(members) if not is_hidden[-1] else _of_nulls(asked.items[-1])
        if asked.having is None or asked.having(last):
            shown.append([*key, *values])
            marks.append([*(False for _ in key), *is_hidden])
    return shown, marks


def _of_nulls(item: Item) -> Any:
    """What HAVING makes of a hidden figure."""
    return 0 if item.sql.startswith("COALESCE") else None
