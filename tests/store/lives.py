"""Lives of a released table: random changes by its owner and contributors, and all numbers that analysts ever read.

Only the public API is used. Each version of a row has its own power of two in the column `mark`, so that a released
SUM(mark) says over which versions it is: nothing here assumes what a release shows. The large constant that `mark` has
besides keeps one row from having most of a sum.
"""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import cleave
from cleave_shared.errors import CleaveError
from tests.cli.runner import Cli
from tests.comparing import compared
from tests.solver import Number, revealed
from tests.store.made import filled

LEAST = 3
PEOPLE = 12
CELLS = [("A", "f"), ("A", "m"), ("B", "f"), ("B", "m")]
PARTIES = ("ann", "bob")
MOST_VERSIONS = 61  # bits of a mark
BASE = 1 << MOST_VERSIONS  # of each mark
VALUES = ("age", "lab")
COLUMNS = ("id", "patient", "ward", "sex", "mark", *VALUES)
EXPRESSIONS = {"twice": "2 * {age} + 1", "sum_of_both": "{age} + {lab}", "product": "{age} * {lab}"}
READS = {"age": ("age",), "lab": ("lab",), "twice": ("age",), "sum_of_both": ("age", "lab"), "mark": ("mark",)}
DOMINANCE = Fraction(8, 10)
Cell = tuple[str, str]
Unknown = tuple[Any, ...]
ENTITY = '[privacy]\nentity = ["patient"]\n'
SCHEMA = """
[columns]
id = { kind = "sealed", type = "VARCHAR", nullable = false }
patient = { kind = "sealed", type = "VARCHAR" }
ward = { kind = "plain", type = "VARCHAR" }
sex = { kind = "sealed", type = "VARCHAR" }
mark = { kind = "encrypted", type = "BIGINT", lower = 0, upper = 4611686018427387903, nullable = false }
age = { kind = "encrypted", type = "BIGINT", lower = 0, upper = 127 }
lab = { kind = "encrypted", type = "BIGINT", lower = -1000, upper = 1000 }
"""


@dataclass(frozen=True)
class Row:
    """`number` names a row for good, `version` its present values. `patient`: None, or whom it is about."""

    number: int
    patient: int | None
    cell: Cell
    age: int | None
    lab: int | None
    party: str = ""
    version: int = -1

    @property
    def mark(self) -> int:
        return BASE + (1 << self.version)

    def texts(self) -> dict[str, str]:
        """By column."""
        patient = None if self.patient is None else f"p{self.patient}"
        values = (f"r{self.number}", patient, *self.cell, self.mark, self.age, self.lab)
        return {name: "" if each is None else str(each) for name, each in zip(COLUMNS, values, strict=True)}

    def terms(self, measure: str) -> dict[Unknown, int] | None:
        """A value as a sum of unknowns; None: it is NULL. The same value of the same row is the same unknown."""
        age, lab = (("age", self.number, self.age), self.age), (("lab", self.number, self.lab), self.lab)
        one = ("row", self.number)
        if (self.age is None and measure != "lab") or (self.lab is None and measure not in ("age", "twice")):
            return None
        return {
            "age": {age[0]: 1},
            "lab": {lab[0]: 1},
            "twice": {age[0]: 2, one: 1},
            "sum_of_both": {age[0]: 1, lab[0]: 1},
        }[measure]

    def value(self, measure: str) -> int:
        assert self.age is not None or measure == "lab"
        age, lab = self.age or 0, self.lab or 0
        return {"age": age, "lab": lab, "twice": 2 * age + 1, "sum_of_both": age + lab}[measure]

    def has(self, measure: str) -> bool:
        return all(getattr(self, name) is not None for name in READS[measure])


def squared(terms: dict[Unknown, int]) -> dict[Unknown, int]:
    """The square of a sum: "row" is its own square, as a row is there or is not."""
    found: dict[Unknown, int] = {}
    for first, one in terms.items():
        for second, two in terms.items():
            pair = [each for each in (first, second) if each[0] != "row"]
            product: Unknown = ("product", first[1], *sorted(pair, key=repr)) if pair else first
            if len(pair) == 1:
                product = pair[0]
            found[product] = found.get(product, 0) + one * two
    return found


def added(all_terms: Iterable[dict[Unknown, int]]) -> Number[Unknown]:
    found: dict[Unknown, int] = {}
    for terms in all_terms:
        for unknown, factor in terms.items():
            found[unknown] = found.get(unknown, 0) + factor
    return found


class Life:
    """A table, its mirror `rows`, and `numbers`: every number that an analyst ever read, by what it is a sum of.

    `did` has the changes that took place, and `refused` those that were refused. Not `people`: the table has no entity,
    and each row is somebody. `dominance`: a sum of which one person has more than that is withheld.

    `lineages` has the numbers of those that a new lineage ended: the contract says that both can be subtracted, so each
    lineage is attacked alone.
    """

    def __init__(
        self, folder: Path, rng: random.Random, *, keyed: bool, people: bool = True, dominance: bool = False
    ) -> None:
        self.folder, self.rng, self.keyed, self.people = folder, rng, keyed, people
        self.dominance = dominance
        self.cli = Cli()
        self.rows: dict[int, Row] = {}
        self.versions: list[Row] = []
        self.away: dict[int, Row] = {}
        self.made = 0
        self.numbers: dict[frozenset[tuple[Unknown, int]], str] = {}
        self.lineages: list[dict[frozenset[tuple[Unknown, int]], str]] = []
        self.parts: set[int] = set()  # marks of those whose rule was looked at
        self.called = dict(zip(COLUMNS, COLUMNS, strict=True))  # present names; a dropped column has none
        self.columns = dict(self.called)  # by every name that a column ever had
        self.reader = ""
        self.derived: list[str] = []
        self.notes: list[str] = []
        self.gone: set[str] = set()
        self.did: list[str] = []
        self.refused: list[str] = []
        self.analysts: list[str] = []
        self.fingerprint = ""
        self.keys = 1
        self.shown: set[Cell] = set()
        self.nulls = rng.choice([0, 0, 0.05, 0.2])

    # the table

    @property
    def place(self) -> dict[str, Any]:
        return {"store": self.folder / "store", "key": self.folder / f"key{self.keys}.json"}

    def run(self, *words: object) -> str:
        ended = self.cli.run(*words, "--store", self.folder / "store", "--key", self.place["key"])
        if ended.exit_code:
            raise CleaveError(ended.stderr)
        return ended.stdout + ended.stderr

    def begin(self, rows: Sequence[Row] = ()) -> None:
        privacy = (ENTITY if self.people else "") + ("dominance = 0.8\n" if self.dominance else "")
        (self.folder / "schema.toml").write_text(privacy + SCHEMA)
        shutil.copytree(filled("keys of a life", self.make_keys), self.folder, dirs_exist_ok=True)
        rows = rows or [self.row(cell=CELLS[n % 3], patient=n % 10) for n in range(12)]
        cleave.put(self.file(rows), "t", schema=self.folder / "schema.toml", **self.keyed_by(), **self.place)
        self.take(rows)
        for name in PARTIES:
            self.register(name)

    def make_keys(self, folder: Path) -> None:
        """The owner's first key, and the identities of all others."""
        for name in ("carol", "dave"):
            assert self.cli.run("analyst", "new", "-o", folder / f"{name}.pem").exit_code == 0
        for name in PARTIES:
            assert self.cli.run("key", "contributor", "-o", folder / f"{name}.pem").exit_code == 0
        assert self.cli.run("reader", "new", folder / "erin.json", "--no-passphrase").exit_code == 0
        assert self.cli.run("key", "new", "--key", folder / "key1.json", "--no-passphrase").exit_code == 0

    def new_key(self) -> None:
        (path := self.folder / f"key{self.keys}.json").unlink(missing_ok=True)
        assert self.cli.run("key", "new", "--key", path, "--no-passphrase").exit_code == 0

    def keyed_by(self) -> dict[str, Any]:
        return {"by": ["ward", "sex"]} | ({"key_columns": ["id"]} if self.keyed else {})

    def register(self, name: str) -> None:
        self.run("contributor", "add", "t", name, "--contributor-key", compared(self.folder / f"{name}.pem.pub"))

    def file(self, rows: Iterable[Row]) -> Path:
        lines = [[*self.called.values(), *self.notes]]
        lines += [[texts[name] for name in self.called] + [""] * len(self.notes) for texts in map(Row.texts, rows)]
        (path := self.folder / "rows.csv").write_text("".join(",".join(each) + "\n" for each in lines))
        return path

    # the mirror

    def row(self, cell: Cell | None = None, patient: int | None = None, party: str = "") -> Row:
        number, self.made = self.made, self.made + 1
        if patient is None and self.rng.random() > 0.1:
            patient = self.rng.randrange(PEOPLE)
        ages, labs = (range(1, 100), range(-900, 900)) if not self.dominance else ((1, 2, 100), (-900, -1, 1, 2))
        age = None if self.rng.random() < self.nulls else self.rng.choice(ages)
        lab = None if self.rng.random() < self.nulls or "lab" not in self.called else self.rng.choice(labs)
        return self.version(Row(number, patient, cell or self.rng.choice(CELLS), age, lab, party))

    def version(self, row: Row) -> Row:
        new = replace(row, version=len(self.versions))
        self.versions.append(new)
        return new

    def made_as(self, row: Row, **values: int | None) -> Row:
        """A row that was just made, with other values."""
        self.versions[row.version] = new = replace(row, **values)  # type: ignore[arg-type]
        return new

    def take(self, rows: Iterable[Row]) -> None:
        for each in rows:
            self.rows[each.number] = each
            self.away.pop(each.number, None)

    def lose(self, rows: Iterable[Row]) -> None:
        for each in rows:
            self.away[each.number] = self.rows.pop(each.number)

    def of(self, party: str | None = None) -> list[Row]:
        return [each for each in self.rows.values() if party is None or each.party == party]

    def some(self, most: int, party: str | None = None) -> list[Row]:
        rows = self.of(party)
        return self.rng.sample(rows, min(len(rows), self.rng.randint(1, most)))

    def full(self, more: int) -> bool:
        return len(self.versions) + more > MOST_VERSIONS

    def back(self, party: str = "") -> list[Row]:
        """Rows that were deleted, as they were or in another cell, and perhaps new ones."""
        back = [each for each in self.away.values() if each.party == party]
        back = self.rng.sample(back, min(self.rng.randint(0, 4), len(back)))
        cell = self.rng.choice([None, None, *CELLS])
        rows = [self.version(replace(each, cell=cell or each.cell)) for each in back]
        return rows + [self.row(cell, party=party) for _ in range(self.rng.randint(0 if rows else 1, 3))]

    # changes

    def append(self) -> None:
        self.add(self.batch())

    def batch(self, party: str = "") -> list[Row]:
        """A row, or rows of several people in one cell, with the same columns NULL in most."""
        if self.rng.random() < 0.3:
            return [self.row(party=party)]
        cell, empty = self.rng.choice(CELLS), self.rng.choice([{}, {}, {"age": None}, {"lab": None}])
        rows = [self.row(cell, each, party) for each in self.rng.sample(range(PEOPLE), self.rng.randint(3, 6))]
        return [self.made_as(each, **empty) for each in rows] if self.rng.random() < 0.8 else rows

    def come_back(self) -> None:
        self.add(self.back())

    def add(self, rows: Sequence[Row]) -> None:
        cleave.append(self.file(rows), "t", again=True, **self.place)
        self.take(rows)

    def delete(self) -> None:
        self.remove(self.rng.choice([self.some(2), self.some(5), self.of_person(), self.of_cell()]))

    def remove(self, rows: Sequence[Row]) -> None:
        cleave.delete("t", self.chosen(rows), yes=True, **self.place)
        self.lose(rows)

    def of_person(self) -> list[Row]:
        patient = self.rng.choice([each.patient for each in self.rows.values()])
        return [each for each in self.rows.values() if each.patient == patient]

    def of_cell(self) -> list[Row]:
        return self.rows_of(self.rng.choice([each.cell for each in self.rows.values()]))

    def rows_of(self, cell: Cell) -> list[Row]:
        return [each for each in self.rows.values() if each.cell == cell]

    def update(self) -> None:
        """Correct values of a few rows."""
        self.correct([self.version(replace(each, **self.corrected(each))) for each in self.some(3)])

    def correct(self, rows: Sequence[Row]) -> None:
        self.change(rows, {self.called[name]: self.case(rows, name) for name in VALUES if name in self.called})

    def corrected(self, row: Row) -> dict[str, Any]:
        name = self.rng.choice([each for each in VALUES if each in self.called])
        old = getattr(row, name)
        return {name: self.rng.choice([None, 7] if old is None else [None, old + 1, self.rng.randrange(100)])}

    def move(self) -> None:
        """Give all of a ward, or a few rows, another ward."""
        start, to = self.rng.sample(["A", "B", "C"], 2)
        of = [each for each in self.rows.values() if each.cell[0] == start][:8]
        of = of if self.rng.random() < 0.6 else of[:2]
        if not of or self.full(len(of)):
            raise NotImplementedError
        self.rename(of, to)

    def rename(self, rows: Sequence[Row], ward: str) -> None:
        new = [self.version(replace(each, cell=(ward, each.cell[1]))) for each in rows]
        self.change(new, {self.called["ward"]: f"'{ward}'"})

    def change(self, new: Sequence[Row], sets: dict[str, str]) -> None:
        sets = sets | {self.called["mark"]: self.case(new, "mark")}
        cleave.update("t", sets, self.chosen(new), yes=True, **self.place)
        self.take(new)

    def chosen(self, rows: Iterable[Row]) -> str:
        return f"{self.called['id']} IN ({', '.join(repr(f'r{each.number}') for each in rows)})"

    def case(self, rows: Iterable[Row], name: str) -> str:
        branches = " ".join(f"WHEN 'r{each.number}' THEN {each.texts()[name] or 'NULL'}" for each in rows)
        return f"CASE {self.called['id']} {branches} ELSE {self.called[name]} END"

    def upsert(self) -> None:
        if not self.keyed:
            raise NotImplementedError
        cell = self.rng.choice([None, *CELLS])
        old = [replace(each, cell=cell or each.cell, **self.corrected(each)) for each in self.some(3, "")]
        rows = [*map(self.version, old), self.row(cell)]
        cleave.append(self.file(rows), "t", upsert=True, yes=True, **self.place)
        self.take(rows)

    def compact(self) -> None:
        cleave.compact("t", **self.place)

    def derive(self) -> None:
        self.derive_as(self.rng.choice([*EXPRESSIONS]))

    def derive_as(self, name: str) -> None:
        if "lab" in EXPRESSIONS[name] and "lab" not in self.called:
            raise NotImplementedError
        cleave.derive("t", EXPRESSIONS[name].format(**self.called), name, **self.place)
        self.derived.append(name)

    def alter(self) -> None:
        """Widen bounds, or add a column that analysts are not asked about."""
        choice = self.rng.randrange(2)
        if choice:
            cleave.alter("t", widen=[f"{self.called['age']}=0..{200 + len(self.did)}"], **self.place)
        else:
            name = f"note{len(self.did)}"
            cleave.alter("t", add=[f"{name} VARCHAR sealed"], **self.place)
            self.notes.append(name)

    def rename_column(self) -> None:
        """Give any column another name: values, marks, keys, people and cells."""
        name = self.rng.choice([*self.called])
        new = f"{name}_{len(self.did)}"
        cleave.alter("t", rename=[f"{self.called[name]}={new}"], **self.place)
        self.called[name] = new
        self.columns[new] = name

    def drop_column(self) -> None:
        """Drop `lab`, with the products of it. The rows that are there have none from now on."""
        if "lab" not in self.called:
            raise NotImplementedError
        products = [each["name"] for each in cleave.show("t", **self.place).facts["measures"] if "*" in each["name"]]
        cleave.alter("t", drop=[*products, self.called["lab"]], **self.place)
        del self.called["lab"]

    def read_columns(self) -> None:
        """Let a reader read some columns, or no longer."""
        if self.reader:
            cleave.revoke_reader("t", self.reader, **self.place)
            self.reader = ""
            return
        columns = self.rng.sample([*self.called.values()], 2)
        to = compared(self.folder / "erin.json.pub")
        self.reader = cleave.add_reader("t", to=to, columns=columns, yes=True, **self.place).name

    def contribute(self) -> None:
        """A contributor adds rows, or puts all of its rows again with some left out and others back."""
        name = self.rng.choice(PARTIES)
        again = self.rng.random() < 0.4
        mine = [*self.of(name)]
        stay = [each for each in mine if self.rng.random() < 0.7] if again else []
        new = self.back(name) if self.rng.random() < 0.4 else self.batch(name)
        self.put_by(name, [*stay, *new], again=again)

    def put_by(self, name: str, rows: Sequence[Row], *, again: bool = False) -> None:
        """A contributor puts rows, `again`: in the place of all that it has, and they are collected."""
        mine = self.of(name)
        again = again or name in self.gone  # parts that were put before are lost
        self.export()
        given = {"public_key": self.folder / "pub.json", "identity": self.folder / f"{name}.pem"}
        known = {"fingerprint": self.fingerprint, "store": self.place["store"]}
        cleave.contribute(self.file(rows), "t", replace=again, again=True, **given, **known)
        cleave.collect("t", name, **self.place)
        self.gone.discard(name)
        if again:
            self.lose(mine)
        self.take(rows)

    def expel(self) -> None:
        name = self.rng.choice(PARTIES)
        self.run("contributor", "remove", "t", name)
        self.lose(self.of(name))
        self.register(name)
        self.gone.add(name)

    def replace_all(self) -> None:
        """Put the table again: most rows that it has, some that it had, and new ones. Contributors go."""
        rows = [each for each in self.of("") if self.rng.random() < 0.8]
        rows += self.back()
        old, notes, called = [*self.rows.values()], self.notes, self.called
        self.notes, self.called = [], dict(zip(COLUMNS, COLUMNS, strict=True))
        given = {"schema": self.folder / "schema.toml", "drop_contributors": True, "replace": True}
        try:
            cleave.put(self.file(rows), "t", **given, **self.keyed_by(), **self.place)
        except CleaveError:
            self.notes, self.called = notes, called
            raise
        self.derived.clear()
        self.reader = ""
        self.lose(old)
        self.take(rows)
        for name in PARTIES:
            self.register(name)
            self.gone.add(name)

    def rotate(self) -> None:
        old = self.place
        self.keys += 1
        try:
            self.new_key()
            cleave.rotate("t", new_key=self.place["key"], **old)
        except CleaveError:
            self.keys -= 1
            raise

    def revoke(self) -> None:
        if len(self.analysts) < 2:
            raise NotImplementedError
        self.revoke_from(self.rng.choice(self.analysts))

    def revoke_from(self, name: str) -> None:
        cleave.revoke("t", name, **self.place)
        self.analysts.remove(name)

    def export(self) -> None:
        """Export the public key, with the owner's fingerprint."""
        (self.folder / "pub.json").unlink(missing_ok=True)
        said = self.run("key", "export", "--table", "t", "-o", self.folder / "pub.json")
        found = re.search(r"SHA256:[\w+/]+", said)
        assert found
        self.fingerprint = found[0]

    # releases

    def release(self) -> None:
        to = self.rng.choice([(), (), ("carol",), ("dave",)]) if self.analysts else ("carol",)
        new = [each for each in to if each not in self.analysts]
        least = {} if "release" in self.did else {"min_cell": LEAST}
        files = [compared(self.folder / f"{each}.pem.pub") for each in new]
        if "release" in self.did and self.rng.random() < 0.02:
            self.release_all(files)
        else:
            try:
                cleave.release("t", to=files, **least, **self.place)
            except CleaveError as error:  # of rows without keys and people that were deleted, or of other by columns
                if "--new-lineage" not in str(error.hint):
                    raise
                self.release_all(files)
        self.analysts += new
        self.did.append("release")
        self.read()

    def release_all(self, to: Sequence[Path | str] = ()) -> None:
        """Begin a new lineage: its numbers may be subtracted from those before, so those are attacked apart."""
        cleave.release("t", to=to, min_cell=LEAST, new_lineage=True, yes=True, **self.place)
        self.lineages.append(self.numbers)
        self.numbers, self.parts = {}, set()
        self.did.append("new lineage")

    def read(self) -> None:
        """Read every number of every analyst's release, and one answer, as they may add up what they know."""
        self.shown.clear()
        self.export()
        place = self.place["store"]
        for name in self.analysts:
            where = {"store": place, "analyst": self.folder / f"{name}.pem", "fingerprint": self.fingerprint}
            with cleave.connect("t", **where) as connection:
                totals: Any = connection._opened().source._release("t").totals  # type: ignore[attr-defined]
                self.open(totals)
                by = list(totals.by)
                if name == self.analysts[0]:  # answers to the others are of the same numbers
                    self.ask(connection, totals, self.rng.choice([by, by[:1], []]))

    def open(self, totals: Any) -> None:
        """Know all numbers of the release itself: an analyst who decrypts it sees each part."""
        names = [self.columns.get(each.name, each.name) for each in totals.measures]
        self.shown = set(totals.keys)
        for place, count in enumerate(totals.rows):
            if not totals.shown[names.index("mark")][place]:
                assert self.dominance, "`mark` is never NULL"
                continue  # one person has most of these rows
            mark = totals.sums[names.index("mark")][place]
            rows = self.versions_of(mark, count)
            if mark not in self.parts:
                self.parts.add(mark)
                shown = {name: totals.shown[number][place] for number, name in enumerate(names)}
                assert shown == self.rule(rows, names), f"what is withheld of {rows} after {self.did}"
            self.know(
                added({("row", each.number): 1} for each in rows), f"rows of {totals.keys[place]} in part {place}"
            )
            for number, name in enumerate(names):
                if name in (*VALUES, *self.derived) and (shown := totals.shown[number][place]):
                    self.figures(
                        f"{name} of {totals.keys[place]} in part {place}",
                        name,
                        rows,
                        totals.counts[number][place],
                        None,
                        None,
                    )
                    terms = [found for each in rows if (found := each.terms(name)) is not None]
                    self.know(added(terms), f"sum of {name} of {totals.keys[place]} in part {place}")
                    if shown == 2:
                        self.know(
                            added(map(squared, terms)), f"squares of {name} of {totals.keys[place]} in part {place}"
                        )

    def rule(self, rows: Sequence[Row], names: Sequence[str]) -> dict[str, int]:
        """By brute force, by measure of a new part: 0 withheld, 1 count and sum, 2 the sum of squares too."""
        joined: list[str] = []
        shown = {}
        for name in names:
            classes: dict[tuple[bool, ...], list[Row]] = {}
            for each in rows:
                classes.setdefault(tuple(each.has(other) for other in (*joined, name)), []).append(each)
            if self.dominates(rows, name) or not all(self.is_enough(each, LEAST) for each in classes.values()):
                shown[name] = 0
                continue
            joined.append(name)
            having = [each for each in rows if each.has(name)]
            many = self.is_enough(rows, 3 * LEAST) and (not having or self.is_enough(having, 3 * LEAST))
            shown[name] = 2 if many and READS[name] == (name,) else 1
        return shown

    def is_enough(self, rows: Sequence[Row], least: int) -> bool:
        """True if these rows, and those of all parties but any one of them, are none or of so many people."""
        views = [rows, *([each for each in rows if each.party != party] for party in ("", *PARTIES))]
        people = [{each.patient if self.people else each.number for each in view} - {None} for view in views if view]
        return all(len(each) >= least for each in people)

    def dominates(self, rows: Sequence[Row], name: str) -> bool:
        """True if one of the people has too much of a column's sum. All rows about nobody may be about one person."""
        if not self.dominance:
            return False
        for column in READS[name]:
            sums: dict[int | None, int] = {}
            for each in rows:
                if each.has(name):
                    sums[each.patient] = sums.get(each.patient, 0) + abs(getattr(each, column))
            if sums and max(sums.values()) > DOMINANCE * sum(sums.values()):
                return True
        return False

    def ask(self, connection: cleave.Connection, totals: Any, keys: Sequence[str]) -> None:
        """All figures of stored numbers and of those derived columns that are released."""
        names = {self.columns.get(each.name, each.name): each.name for each in totals.measures}
        released = [each for each in self.derived if self.is_released(connection, each)]
        assert "product" not in released, "no sum of products is released"
        measures = [*(each for each in VALUES if each in names), *released]
        called = [names.get(each, each) for each in measures]
        figures = ", ".join(f"COUNT({each}), SUM({each}), VAR_POP({each})" for each in called)
        listed, width = ", ".join(keys), len(keys)
        behind, first = (f"GROUP BY {listed}", f"{listed}, ") if keys else ("", "")
        sql = f"SELECT {first}COUNT(*), SUM({names['mark']}), {figures} FROM t {behind}"
        for row in connection.execute(sql).fetchall():
            key, (count, mark), found = row[:width], row[width : width + 2], row[width + 2 :]
            if not count and not mark:
                continue  # no rows at all
            if mark is None:
                assert self.dominance, "`mark` is never NULL, so the rows of each group are known"
                continue
            rows = self.versions_of(int(mark), count)
            self.know(added({("row", each.number): 1} for each in rows), f"COUNT(*) of {key}")
            for place, measure in enumerate(measures):
                self.figures(f"{measure} of {key}", measure, rows, *found[3 * place : 3 * place + 3])

    def is_released(self, connection: cleave.Connection, name: str) -> bool:
        try:
            connection.execute(f"SELECT COUNT({name}) FROM t").fetchall()
        except CleaveError:
            return False
        return True

    def figures(
        self, name: str, measure: str, rows: list[Row], count: int | None, total: Any, variance: float | None
    ) -> None:
        terms = [(each, found) for each in rows if (found := each.terms(measure)) is not None]
        values = [each.value(measure) for each, _ in terms]
        if count is not None:
            assert count == len(values), f"COUNT({name}) is {count}, and {len(values)} rows have a value"
            self.know(added({("row", each.number): 1} for each, _ in terms), f"COUNT({name})")
        if total is not None:
            assert int(total) == sum(values), f"SUM({name}) is not over the rows of its marks"
            self.know(added(found for _, found in terms), f"SUM({name})")
        if variance is not None:
            mean = sum(values) / len(values)
            assert variance == pytest.approx(sum((each - mean) ** 2 for each in values) / len(values), abs=1e-6)
            self.know(added(squared(found) for _, found in terms), f"VAR_POP({name})")

    def versions_of(self, mark: int, count: int) -> list[Row]:
        """The versions of `count` rows whose marks have this sum."""
        mark -= count * BASE
        assert mark >> len(self.versions) == 0, "marks of rows that never were"
        rows = [each for each in self.versions if mark >> each.version & 1]
        assert count == len(rows), f"{count} rows, and the marks of {len(rows)}"
        return rows

    def know(self, number: Number[Unknown], name: str) -> None:
        self.numbers.setdefault(frozenset(number.items()), f"{name} after {len(self.did)} changes")

    def has(self, start: str) -> bool:
        """True if an analyst read a number whose name begins so."""
        return any(name.startswith(start) for name in self.numbers.values())

    # the attack

    def check(self) -> None:
        """Find a combination of all numbers about fewer than `LEAST` people, as an analyst and as each party."""
        few = self.revealed()
        assert few is None, few

    def revealed(self) -> str | None:
        """Say who learns of whom, if some combination of all numbers is about fewer than `LEAST` people."""
        party_of = {each.number: each.party for each in self.versions}
        patient_of = {each.number: each.patient if self.people else each.number for each in self.versions}
        found = (self.revealed_by(each, party_of, patient_of) for each in (*self.lineages, self.numbers))
        return next((each for each in found if each is not None), None)

    def revealed_by(
        self, lineage: Iterable[frozenset[tuple[Unknown, int]]], party_of: dict[int, str], patient_of: dict[int, Any]
    ) -> str | None:
        numbers = [dict(each) for each in lineage]
        unknowns = {unknown for number in numbers for unknown in number}
        for party in (None, "", *PARTIES):
            person_of = {each: patient_of[each[1]] for each in unknowns if party_of[each[1]] != party}
            few = revealed(numbers, person_of, LEAST)
            if few is not None:
                who = {None: "an analyst", "": "an analyst who is the owner"}.get(party, f"an analyst who is {party}")
                did = f"{', '.join(self.did)} (key columns: {self.keyed})"
                whom = "patients" if self.people else "rows"
                return f"{who} learns of {whom} {sorted(few, key=str)} after {did}"
        return None

    # a life

    @property
    def changes(self) -> list[Callable[[], None]]:
        often = [self.append, self.come_back, self.delete, self.update, self.move, self.contribute]
        rare = [self.upsert, self.upsert, self.compact, self.derive, self.alter, self.expel, self.replace_all]
        columns = [self.rename_column, self.rename_column, self.drop_column, self.read_columns, self.read_columns]
        return [*often, *often, *rare, *columns, self.rotate, self.revoke]

    def do(self, change: Callable[[], None]) -> bool:
        """Check whether a change takes place. What is refused changes nothing."""
        if self.full(8) and change not in (self.delete, self.compact, self.derive, self.alter, self.rotate):
            return False
        try:
            change()
        except NotImplementedError:
            return False
        except CleaveError as error:
            self.refused.append(f"{change.__name__}: {error}")
            return False
        self.did.append(change.__name__)
        if change == self.revoke:
            self.read()
        return True

    def live(self, steps: int) -> None:
        """Make so many changes, most of them followed by a release."""
        cleave.derive("t", products=["age", "lab"], **self.place)
        self.release()
        tries = 5 * steps
        while steps and tries:
            steps, tries = steps - self.do(self.rng.choice(self.changes)), tries - 1
            if self.rng.random() < 0.7:
                self.release()
        self.release()
        self.compare()

    def compare(self) -> None:
        """Compare the mirror with the table's rows, and with the totals of products unless the table was replaced."""
        called = self.called
        sql = f"SELECT {called['id']}, {called['mark']} FROM t"
        answer = cleave.query("t", sql, min_group=1, yes=True, **self.place)
        assert {(id_, mark) for id_, mark in answer} == {(f"r{n}", e.mark) for n, e in self.rows.items()}
        if "lab" in called and f"{called['age']}*{called['lab']}" in [
            each["name"] for each in cleave.show("t", **self.place).facts["measures"]
        ]:
            both, back, cell = (f"{called[x]}, {called[y]}" for x, y in (VALUES, VALUES[::-1], ("ward", "sex")))
            figures = f"REGR_COUNT({both}), REGR_SXY({both}), REGR_SXX({back})"
            sql = f"SELECT {cell}, {figures} FROM t GROUP BY {cell}"
            found = cleave.query("t", sql, min_group=1, yes=True, cloud_only=True, **self.place)
            assert {tuple(row[:2]): tuple(row[2:]) for row in found} == self.paired()

    def paired(self) -> dict[Cell, tuple[object, ...]]:
        """By cell: the number of rows with an age and a lab, the sum of their products, and that of squared ages, both
        about the means.
        """
        cells: dict[Cell, list[tuple[int, int]]] = {each.cell: [] for each in self.rows.values()}
        for each in self.rows.values():
            if each.age is not None and each.lab is not None:
                cells[each.cell].append((each.age, each.lab))
        found: dict[Cell, tuple[object, ...]] = {}
        for cell, pairs in cells.items():
            ages, labs = [age for age, _ in pairs], [lab for _, lab in pairs]
            n, sxy = len(pairs), sum(age * lab for age, lab in pairs)
            about = [Fraction(sxy * n - sum(ages) * sum(labs), n or 1)]
            about += [Fraction(sum(age * age for age in ages) * n - sum(ages) ** 2, n or 1)]
            found[cell] = (n, *(float(each) if n else None for each in about))
        return found
