"""Random small tables of an owner and contributors, random questions of a user without rows, and what each answer says.

Nothing here knows a rule of thresholds: from the table's rows follows what a shown figure is a sum of.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import pytest

import cleave
from tests.cli.runner import Cli
from tests.comparing import compared
from tests.gateway.test_rights import Worker
from tests.solver import Number, revealed
from tests.store.made import filled

LEAST = 3
PEOPLE = 12
PARTIES = ("ann", "bob")
BY = ("ward", "sex", "stage")
ENTITIES = {"patients": ["patient"], "patients of a party": ["contributor", "patient"], "rows": []}
COLUMNS = """
[columns]
patient = { kind = "sealed", type = "VARCHAR" }
ward = { kind = "plain", type = "VARCHAR" }
sex = { kind = "sealed", type = "VARCHAR" }
stage = { kind = "plain", type = "INTEGER" }
age = { kind = "encrypted", type = "BIGINT", lower = 0, upper = 1000 }
lab = { kind = "encrypted", type = "BIGINT", lower = -1000, upper = 1000 }
bill = { kind = "encrypted", type = "BIGINT", lower = 0, upper = 1000, nullable = false }
"""
Unknown = tuple[str, Any]
Key = tuple[str | None, ...]


@dataclass(frozen=True)
class Stay:
    number: int
    patient: int | None
    party: str
    ward: str
    sex: str | None
    stage: int
    age: int | None
    lab: int | None
    bill: int

    @property
    def line(self) -> str:
        patient = None if self.patient is None else f"p{self.patient}"
        values = [patient, self.ward, self.sex, self.stage, self.age, self.lab, self.bill]
        return ",".join("" if each is None else str(each) for each in values)

    def key(self, names: Sequence[str]) -> Key:
        return tuple(None if (value := getattr(self, name)) is None else str(value) for name in names)


@dataclass(frozen=True)
class Sum:
    """A sum of columns with factors, and a constant: NULL if a column is, also one with the factor 0."""

    factors: Mapping[str, int]
    constant: int = 0

    @property
    def sql(self) -> str:
        terms = [name if factor == 1 else f"{factor} * {name}" for name, factor in self.factors.items()]
        return " + ".join([*terms, str(self.constant)] if self.constant or not terms else terms)

    def value(self, stay: Stay) -> int | None:
        values = [getattr(stay, name) for name in self.factors]
        if None in values:
            return None
        return sum(f * v for f, v in zip(self.factors.values(), values, strict=True)) + self.constant

    def terms(self, stay: Stay) -> dict[Unknown, int]:
        return {(name, stay.number): factor for name, factor in self.factors.items()} | {
            ("row", stay.number): self.constant
        }


@dataclass(frozen=True)
class Figure:
    """An aggregate. `of` None: COUNT(*), or of people."""

    name: str
    of: Sum | None = None

    @property
    def sql(self) -> str:
        return (
            f"{self.name}({self.of.sql})"
            if self.of
            else {"people": "COUNT(DISTINCT patient)"}.get(self.name, "COUNT(*)")
        )

    def require(self, shown: str, stays: Sequence[Stay]) -> None:
        """Raise unless the shown figure is over just these stays."""
        found: Any = len(stays)
        if self.name == "people":
            found = len({each.patient for each in stays if each.patient is not None})
        if self.of is not None:
            values = [value for each in stays if (value := self.of.value(each)) is not None]
            n, total, squares = len(values), sum(values), sum(each * each for each in values)
            about = squares - total * total / n if n else 0
            found = {
                "COUNT": n,
                "SUM": total,
                "AVG": total / max(n, 1),
                "VAR_POP": about / max(n, 1),
                "VARIANCE": about / max(n - 1, 1),
                "STDDEV": max(about / max(n - 1, 1), 0) ** 0.5,
            }[self.name]
        assert float(shown) == pytest.approx(found, rel=1e-6, abs=1e-3), f"{self.sql} is over other rows"

    def numbers(self, stays: Sequence[Stay]) -> Iterator[Number[Unknown]]:
        """What the shown figure gives away: a mean its sum and count, a variance the sum of squares too."""
        if self.name == "people":
            yield {("person", each.patient): 1 for each in stays if each.patient is not None}
            return
        if self.of is None:
            yield {("row", each.number): 1 for each in stays}
            return
        stays = [each for each in stays if self.of.value(each) is not None]
        if self.name != "SUM":
            yield {("row", each.number): 1 for each in stays}
        if self.name != "COUNT":
            yield dict(chain.from_iterable(self.of.terms(each).items() for each in stays))
        if self.name in SPREADS:
            ((name, factor),) = self.of.factors.items()
            yield {(f"{name} squared", each.number): factor * factor for each in stays}


SPREADS = ("VAR_POP", "VARIANCE", "STDDEV")
Truth = bool | None


@dataclass(frozen=True)
class Condition:
    sql: str
    holds: Callable[[Stay], Truth]

    def __invert__(self) -> Condition:
        return Condition(f"NOT ({self.sql})", lambda stay: None if (it := self.holds(stay)) is None else not it)

    def __and__(self, other: Condition) -> Condition:
        return ~(~self | ~other)

    def __or__(self, other: Condition) -> Condition:
        def either(stay: Stay) -> Truth:
            found = self.holds(stay), other.holds(stay)
            return True if True in found else None if None in found else False

        return Condition(f"({self.sql}) OR ({other.sql})", either)


def _is_in(name: str, *values: object) -> Condition:
    listed = ", ".join(repr(each) for each in values)
    return Condition(
        f"{name} IN ({listed})", lambda stay: None if (it := getattr(stay, name)) is None else it in values
    )


CONDITIONS = [
    *(_is_in("ward", *each) for each in ("A", "B", "AB", "BC")),
    *(_is_in("sex", each) for each in "fm"),
    *(_is_in("stage", each) for each in (0, 1)),
    Condition("sex IS NULL", lambda stay: stay.sex is None),
    Condition("stage < 1", lambda stay: stay.stage < 1),
    Condition("ward LIKE 'A%'", lambda stay: stay.ward == "A"),
]


@dataclass(frozen=True)
class Question:
    """`sets`: the keys of each group set; None: plain GROUP BY of `keys`."""

    keys: Sequence[str]
    figures: Sequence[Figure]
    where: Condition | None
    grouped: str
    sets: Sequence[Sequence[str]]

    @property
    def sql(self) -> str:
        where = f" WHERE {self.where.sql}" if self.where else ""
        grouping = f"GROUPING({', '.join(self.keys)})" if self.keys else "0"
        shown = ", ".join([*self.keys, grouping, *(each.sql for each in self.figures)])
        return f"SELECT {shown} FROM t{where}{self.grouped}"

    def stays(self, stays: Sequence[Stay], shown: Sequence[str | None]) -> list[Stay]:
        """Those that a row of the answer is over, by its keys and its GROUPING."""
        width, bits = len(self.keys), int(shown[len(self.keys)] or 0)
        names = [name for place, name in enumerate(self.keys) if not bits >> (width - 1 - place) & 1]
        wanted = tuple(shown[place] for place, name in enumerate(self.keys) if name in names)
        selected = [each for each in stays if self.where is None or self.where.holds(each)]
        return [each for each in selected if each.key(names) == wanted]

    def numbers(self, stays: Sequence[Stay], rows: Sequence[Sequence[str | None]]) -> list[Number[Unknown]]:
        """All numbers of an answer. Raises AssertionError if a figure is over other rows than SQL says."""
        numbers: list[Number[Unknown]] = []
        for row in rows:
            of = self.stays(stays, row)
            for figure, shown in zip(self.figures, row[len(self.keys) + 1 :], strict=True):
                if shown is not None:
                    figure.require(shown, of)
                    numbers += figure.numbers(of)
        return numbers


def question(rng: random.Random, *, people: bool) -> Question:
    """A question that is answered, perhaps by no group. `people`: patients may be counted."""
    keys = rng.sample(BY, rng.choice([0, 1, 1, 2, 2, 2, 3]))
    sets: Sequence[Sequence[str]] = [keys]
    grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
    if keys and rng.random() < 0.7:
        sets, grouped = _sets(rng, keys)
    figures = [_figure(rng) for _ in range(rng.randint(1, 4))]
    if people and len(sets) == 1 and "(" not in grouped and rng.random() < 0.2:
        figures.append(Figure("people"))
    return Question(keys, figures, _where(rng), grouped, sets)


def _sets(rng: random.Random, keys: Sequence[str]) -> tuple[Sequence[Sequence[str]], str]:
    listed = ", ".join(keys)
    every = [list(each) for size in range(len(keys) + 1) for each in combinations(keys, size)]
    kind = rng.choice(["ROLLUP", "CUBE", "GROUPING SETS", "GROUPING SETS"])
    if kind == "ROLLUP":
        return [list(keys[:size]) for size in range(len(keys) + 1)], f" GROUP BY ROLLUP ({listed})"
    if kind == "CUBE":
        return every, f" GROUP BY CUBE ({listed})"
    sets = rng.sample(every, rng.randint(1, len(every)))
    missing = [each for each in keys if not any(each in one for one in sets)]
    sets = [*sets, missing] if missing else sets
    written = ", ".join(f"({', '.join(each)})" for each in sets)
    return sets, f" GROUP BY GROUPING SETS ({written})"


def _figure(rng: random.Random) -> Figure:
    name = rng.choice(["*", "COUNT", "SUM", "SUM", "AVG", *SPREADS])
    if name == "*":
        return Figure(name)
    one = rng.choice(["age", "age", "lab", "lab", "bill"])
    if name in SPREADS:
        return Figure(name, Sum({one: rng.choice([1, 1, -1, 3])}))
    if rng.random() < 0.5:
        return Figure(name, Sum({one: 1}))
    names = rng.sample(["age", "lab", "bill"], rng.randint(1, 3))
    return Figure(name, Sum({each: rng.randint(-2, 3) for each in names}, rng.choice([0, 0, 1, 5])))


def _where(rng: random.Random) -> Condition | None:
    if rng.random() < 0.6:
        return None
    one, two = rng.sample(CONDITIONS, 2)
    return rng.choice([one, ~one, one | two, one & two, ~(one & two), one | ~two])


class SmallTable:
    """A table and its rows. `people`: a key of ENTITIES."""

    def __init__(self, folder: Path, rng: random.Random, stays: Sequence[Stay] = (), people: str = "") -> None:
        self.folder, self.rng = folder, rng
        self.parties = rng.choice([(), (), PARTIES[:1], PARTIES])
        self.people = people or rng.choice(
            ["patients", "patients", "rows", *(["patients of a party"] * bool(self.parties))]
        )
        self.stays = list(stays) or self._stays()
        if stays:
            self.parties = tuple(sorted({each.party for each in stays} - {""}))
        self._put()

    # rows

    def _stays(self) -> list[Stay]:
        """Blocks of people in one cell, of one party, mostly with the same columns NULL."""
        rng, stays = self.rng, list[Stay]()
        sexes, stages, nulls = rng.choice(["f", "fm", "fm"]), rng.choice([(0,), (0, 1)]), rng.choice([0, 0, 0.05, 0.2])
        everyone = range(rng.randint(6, PEOPLE))
        for _ in range(rng.randint(3, 10)):
            cell = rng.choice("ABC"), None if rng.random() < 0.1 else rng.choice(sexes), rng.choice(stages)
            party, empty = rng.choice(["", *self.parties]), rng.choice([{}, {}, {"age": None}, {"lab": None}])
            few = rng.random() < 0.4
            for patient in rng.sample(everyone, rng.randint(1, 2) if few else rng.randint(3, min(6, len(everyone)))):
                age, lab = (None if rng.random() < nulls else rng.randrange(1, 999) for _ in range(2))
                whom = None if rng.random() < 0.03 else patient
                stay = Stay(len(stays), whom, party, *cell, age, lab, rng.randrange(999))
                stays.append(replace(stay, **empty))  # type: ignore[arg-type]
        if not any(each.party == "" for each in stays):
            stays.append(Stay(len(stays), 0, "", "C", "f", 0, 1, 2, 3))
        return stays

    # the stored table

    def _put(self) -> None:
        folder, entity = self.folder, ENTITIES[self.people]
        shutil.copytree(filled("keys of small tables", _keys), folder, dirs_exist_ok=True)
        (folder / "schema.toml").write_text((f"[privacy]\nentity = {json.dumps(entity)}\n" if entity else "") + COLUMNS)
        place = {"store": folder / "store", "key": folder / "key.json"}
        cleave.put(self._file(""), "t", schema=folder / "schema.toml", by=list(BY), **place)
        parties = [each for each in self.parties if any(stay.party == each for stay in self.stays)]
        for name in parties:
            cleave.add_contributor("t", name, compared(folder / f"{name}.pem.pub"), **place)
        if parties:
            where = ("--table", "t", "--store", place["store"], "--key", place["key"])
            said = Cli().run("key", "export", *where, "-o", folder / "pub.json")
            found = re.search(r"SHA256:[\w+/]+", said.stdout + said.stderr)
            assert found, said.output
        for name in parties:
            known = {"public_key": folder / "pub.json", "fingerprint": found[0], "store": place["store"]}
            cleave.contribute(self._file(name), "t", identity=folder / f"{name}.pem", **known)
            cleave.collect("t", name, **place)

    def _file(self, party: str) -> Path:
        path = self.folder / "rows.csv"
        lines = [each.line for each in self.stays if each.party == party]
        path.write_text("\n".join(["patient,ward,sex,stage,age,lab,bill", *lines, ""]))
        return path

    # the attack

    def person_of(self, stay: Stay) -> object | None:
        if self.people == "rows":
            return stay.number
        if stay.patient is None:
            return None
        return stay.patient if self.people == "patients" else (stay.party, stay.patient)

    def few(self, numbers: Sequence[Number[Unknown]]) -> str | None:
        """Say who learns of whom from these numbers together; None: nobody of fewer than LEAST people."""
        unknowns = {unknown for number in numbers for unknown in number}
        for party in (None, "", *self.parties):
            others = {each.number: each for each in self.stays if each.party != party}
            known = {each.patient for each in self.stays if each.party == party}
            person_of = {
                (kind, each): each if kind == "person" else self.person_of(others[each])
                for kind, each in unknowns
                if (each not in known if kind == "person" else each in others)
            }
            found = revealed(numbers, person_of, LEAST)
            if found is not None:
                who = {None: "an outsider", "": "the owner"}.get(party, party)
                return f"{who} learns of {self.people} {sorted(found, key=str)}"
        return None


def _keys(folder: Path) -> None:
    cli = Cli()
    assert cli.run("key", "new", "--key", folder / "key.json", "--no-passphrase").exit_code == 0
    for name in PARTIES:
        assert cli.run("key", "contributor", "-o", folder / f"{name}.pem").exit_code == 0


class User:
    """A gateway user without rows of one table: a worker of the gateway answers in this process."""

    def __init__(self, table: SmallTable) -> None:
        self._worker = Worker(table.folder)

    def ask(self, sql: str) -> tuple[list[list[str | None]], str]:
        """The rows that the user gets, and the error."""
        head, rows, _ = self._worker.ask(sql, rows=False, min_group=LEAST)
        return rows, str(head.get("error", ""))
