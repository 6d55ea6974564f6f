"""No combination of all numbers ever released is over fewer rows than --min-cell, whatever happens to the table.

A table lives through random changes: rows come, go, come back, move between cells, change their values and are
replaced, by the owner and by a contributor. A mirror in plain Python knows who is where. At each release every number
that the analyst reads is compared with the mirror; then `tests.solver`, which knows no rule of releases, looks for a
combination of all numbers read so far that is over few rows.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from cleave.maintain import changes
from cleave.maintain.derive import derive
from cleave.store import put as putting
from cleave.store.contributors import remove
from cleave.table.progress import Silent
from cleave_shared.errors import InputError
from tests.campaign import FACTOR, sampled
from tests.solver import singled_out
from tests.store.contributing import kept_as
from tests.store.releasing import Releases

MIN_CELL = 3
CELLS = [("A", "f"), ("A", "m"), ("B", "f"), ("B", "m"), ("C", "f"), ("C", "m")]  # rows are in three of them at first
MEASURES = {"age": 1, "bill": 100, "twice": 1}  # units of one; a released sum counts from the lower bound, which is 0
Cell = tuple[str, str]


@dataclass(frozen=True)
class Person:
    """A row. `number` names it for good, wherever it is; `party` put it: the owner, or a contributor."""

    number: int
    cell: Cell
    age: int
    bill: int | None  # hundredths
    party: str = ""

    @property
    def line(self) -> str:
        bill = "" if self.bill is None else f"{self.bill / 100:.2f}"
        return f"{self.cell[0]},{self.cell[1]},{self.age},{bill},{50 + self.number},p{self.number}\n"

    def value(self, measure: str) -> int | None:
        return {"age": self.age, "bill": self.bill, "twice": 2 * self.age}[measure]


def lines(people: list[Person]) -> str:
    return "".join(each.line for each in people)


class Life:
    """A table and its mirror; `away` are rows that left it, as they were."""

    def __init__(self, world: Releases, people: list[Person], rng: random.Random, *, keyed: bool) -> None:
        self.world, self.rng, self.keyed = world, rng, keyed
        self.people = {each.number: each for each in people}
        self.away: dict[int, Person] = {}
        self.made = len(people)
        self.known: dict[int, dict[Cell, list[Person]]] = {}  # the table at each release, by its number
        # released sums: of rows by measure ("" for all), and of values
        self.presence: dict[str, set[frozenset[int]]] = defaultdict(set)
        self.values: dict[str, set[frozenset[tuple[int, int]]]] = defaultdict(set)
        self.did: list[str] = []

    def person(self, cell: Cell | None = None) -> Person:
        number, self.made = self.made, self.made + 1
        bill = None if self.rng.random() < 0.2 else self.rng.randrange(1, 90_000)
        return Person(number, cell or self.rng.choice(CELLS), self.rng.randrange(1, 100), bill)

    def some(self, most: int, party: str = "") -> list[Person]:
        of = [each for each in self.people.values() if each.party == party]
        return self.rng.sample(of, min(len(of), self.rng.randint(1, most)))

    def returning(self) -> list[Person]:
        """Rows that left, some of them for other cells, perhaps with a new one among them."""
        back = [each for each in self.away.values() if not each.party]
        back = self.rng.sample(back, self.rng.randint(0, len(back)))
        cell = self.rng.choice([None, *CELLS])
        return [replace(each, cell=cell or each.cell) for each in back] + [
            self.person(cell) for _ in range(self.rng.randint(0 if back else 1, 2))
        ]

    # changes

    def append(self, people: list[Person] | None = None) -> None:
        people = people or [self.person() for _ in range(self.rng.choice([1, 2, 4, 7]))]
        self._append(people)
        self._in(people)

    def come_back(self) -> None:
        self.append(self.returning())

    def delete(self, people: list[Person] | None = None) -> None:
        people = people or self.rng.choice([self.some(2), self.some(7)])
        names = ", ".join(f"'p{each.number}'" for each in people)
        tables, _ = self.world.tables()
        changes.delete(tables, self.world.name, f"name IN ({names})", Silent(), yes=True)
        self._out(people)

    def move(self) -> None:
        """All of a cell, and perhaps more, to another cell: refused as an update, done by deleting and appending."""
        start, to = self.rng.sample(CELLS, 2)
        of = [each for each in self.people.values() if each.cell == start and not each.party]
        if not of:
            return
        tables, _ = self.world.tables()
        with pytest.raises(InputError, match="was released to analysts"):
            changes.update(tables, self.world.name, {"ward": f"'{to[0]}'"}, "sex = 'f'", Silent(), yes=True)
        self.delete(of)
        new = [self.person(to) for _ in range(self.rng.randint(0, 2))]
        self.append([*(replace(each, cell=to) for each in of), *new])

    def update(self) -> None:
        people = self.some(3)
        names = ", ".join(f"'p{each.number}'" for each in people)
        tables, _ = self.world.tables()
        changes.update(
            tables, self.world.name, {"age": "age + 1"}, f"name IN ({names})", Silent(), yes=True, again=True
        )
        self.people |= {each.number: replace(each, age=each.age + 1) for each in people}

    def upsert(self) -> None:
        if not self.keyed:
            return
        changed = [replace(each, bill=self.rng.randrange(1, 90_000)) for each in self.some(3)]
        elsewhere = [replace(changed[0], cell=next(each for each in CELLS if each != changed[0].cell)), *changed[1:]]
        with pytest.raises(InputError, match="was released to analysts"):
            self._append(elsewhere, upsert=True)
        self._append([*changed, new := self.person()], upsert=True)
        self._in([*changed, new])

    def compact(self) -> None:
        tables, _ = self.world.tables()
        tables.sweep(changes.compact(tables, self.world.name, Silent()))

    def contribute(self) -> None:
        """What the contributor has is replaced, by part of it and rows that it had before; or it adds to it."""
        mine = [each for each in self.people.values() if each.party]
        stay = [each for each in mine if self.rng.random() < 0.7]
        back = [each for each in self.away.values() if each.party and self.rng.random() < 0.7]
        new = [replace(self.person(), party="ann") for _ in range(self.rng.choice([1, 3, 5]))]
        put_again = self.rng.random() < 0.6
        people = [*(stay if put_again else ()), *back, *new]
        self.world.contribute("ann", lines(people), replace=put_again)
        self.world.collect()
        if put_again:
            self._out(mine)
        self._in(people)

    def expel(self) -> None:
        tables, _ = self.world.tables()
        tables.sweep(remove(tables, self.world.name, "ann"))
        self._out([each for each in self.people.values() if each.party])
        self.world.register("ann")

    def derive(self) -> None:
        tables, _ = self.world.tables()
        if "twice" not in {each.name for each in self.world.open().manifest.measures} and self.people:
            tables.sweep(derive(tables, self.world.name, "age * 2", "twice", Silent()))

    def _append(self, people: list[Person], *, upsert: bool = False) -> None:
        tables, _ = self.world.tables()
        with self.world.table(lines(people)) as table:
            done = putting.append(tables, table, self.world.name, Silent(), again=True, upsert=upsert, yes=True)
        tables.sweep(done)

    def _in(self, people: list[Person]) -> None:
        self.people |= {each.number: each for each in people}
        for each in people:
            self.away.pop(each.number, None)

    def _out(self, people: list[Person]) -> None:
        for each in people:
            self.away[each.number] = self.people.pop(each.number)

    # releases

    def release(self) -> None:
        self.read(self.world.release("carol", least=MIN_CELL).number)

    def read(self, number: int) -> None:
        """Read release `number`, which was just made."""
        now: dict[Cell, list[Person]] = defaultdict(list)
        for each in self.people.values():
            now[each.cell].append(each)
        self.known[number] = now
        source = self.world.source("carol")
        totals = source._release(self.world.name).totals
        source.close()
        names = [each.name for each in totals.measures]
        for place, (key, rows, as_of) in enumerate(zip(totals.keys, totals.rows, totals.as_of, strict=True)):
            people = self.known[totals.times[as_of][0]][str(key[0]), str(key[1])]
            assert rows == len(people)
            every = frozenset(each.number for each in people)
            for sums in self.presence.values():
                sums.add(every)
            self.presence[""].add(every)
            for measure, name in enumerate(names):
                if not totals.shown[measure][place] or name not in MEASURES:
                    continue
                there = {each.number: each.value(name) for each in people if each.value(name) is not None}
                if totals.measures[measure].nullable:
                    assert totals.counts[measure][place] == len(there)
                assert totals.sums[measure][place] == sum(filter(None, there.values()))
                self.presence[name] |= {frozenset(there), every}
                self.values[name].add(frozenset(there.items()))  # type: ignore[arg-type]

    def check(self) -> None:
        rows = {number: number for number in range(self.made)}
        for name, presence in self.presence.items():
            few = singled_out(presence, rows, MIN_CELL)
            assert few is None, f"rows {few} by counts of {name or 'rows'} after {', '.join(self.did)}"
        for name, values in self.values.items():
            row_of = {unknown: unknown[0] for each in values for unknown in each}
            few = singled_out(values, row_of, MIN_CELL)
            assert few is None, f"rows {few} by sums of {name} after {', '.join(self.did)}"

    def step(self) -> None:
        often = (self.append, self.come_back, self.delete, self.move, self.contribute)
        step = self.rng.choice((*often, *often, self.update, self.upsert, self.compact, self.expel, self.derive))
        self.did.append(step.__name__)
        step()
        if self.rng.random() < 0.7:
            self.release()


def first() -> Iterator[Person]:
    for number in range(20):
        yield Person(number, CELLS[number % 3 if number < 18 else 0], 20 + number, 1_000 + 3 * number)


def begun(world: Releases) -> None:
    _begin(world)


def begun_with_keys(world: Releases) -> None:
    _begin(world, "name")


def _begin(world: Releases, *key: str) -> None:
    tables, _ = world.tables()
    putting.put(tables, world.loaded(lines([*first()])), world.name, ("ward", "sex"), Silent(), key=key)
    world.register("ann")
    world.release("carol", least=MIN_CELL)


def life(folder: Path, key_file: Path, seed: int, *, keyed: bool) -> Life:
    world = kept_as(Releases, folder / "world", key_file, begun_with_keys if keyed else begun)
    found = Life(world, [*first()], random.Random(seed), keyed=keyed)
    release = world.open().manifest.release
    assert release is not None
    found.read(release.number)
    return found


@pytest.mark.parametrize("seed", range(1, 1 + FACTOR))
@pytest.mark.parametrize("steps", sampled(5, 9, 9))  # changes, most of them followed by a release
def test_no_numbers_of_any_releases_are_over_few_rows(tmp_path: Path, key_file: Path, seed: int, steps: int) -> None:
    table = life(tmp_path, key_file, seed, keyed=seed % 2 == 1)
    for _ in range(steps):
        table.step()
    table.release()
    table.check()


# lives that once gave single rows away


def test_a_cell_that_moves_as_a_whole_with_one_more_row(tmp_path: Path, key_file: Path) -> None:
    table = life(tmp_path, key_file, 0, keyed=False)
    of = [each for each in table.people.values() if each.cell == ("A", "m")]
    table.delete(of)
    table.append([*(replace(each, cell=("C", "f")) for each in of), table.person(("C", "f"))])
    table.release()
    table.check()
    assert ("C", "f") not in table.world.shown("carol")


@pytest.mark.slow  # quick: a random life, and one that moves a cell
def test_a_cell_that_was_empty_and_is_filled_again(tmp_path: Path, key_file: Path) -> None:
    table = life(tmp_path, key_file, 0, keyed=False)
    of = [each for each in table.people.values() if each.cell == ("A", "m")]
    table.delete(of)
    table.release()
    assert ("A", "m") not in table.world.shown("carol")
    table.append([*of, table.person(("A", "m"))])
    table.release()
    table.check()
    assert ("A", "m") not in table.world.shown("carol")


@pytest.mark.slow  # quick: a random life, and one that moves a cell
def test_rows_that_are_deleted_come_back_in_another_cell(tmp_path: Path, key_file: Path) -> None:
    """The difference of both releases of the first cell is the rows that went; that of the second has one more."""
    table = life(tmp_path, key_file, 0, keyed=False)
    went = [each for each in table.people.values() if each.cell == ("A", "f")][:4]
    table.delete(went)
    table.release()
    assert table.world.shown("carol")["A", "f"] == 4, "the other rows"
    table.append([replace(each, cell=("B", "f")) for each in went])
    table.append([table.person(("B", "f"))])
    table.release()
    table.check()


@pytest.mark.slow  # quick: a random life, and one that moves a cell
def test_rows_that_a_contributor_takes_back_and_puts_elsewhere(tmp_path: Path, key_file: Path) -> None:
    table = life(tmp_path, key_file, 0, keyed=False)
    people = [replace(table.person(("C", "f")), party="ann") for _ in range(5)]
    table.world.contribute("ann", lines(people))
    table.world.collect()
    table._in(people)
    table.release()
    assert table.world.shown("carol")["C", "f"] == 5
    elsewhere = [replace(each, cell=("C", "m")) for each in people]
    more = replace(table.person(("C", "m")), party="ann")
    table.world.contribute("ann", lines([*elsewhere, more]), replace=True)
    table.world.collect()
    table._in([*elsewhere, more])
    table.release()
    table.check()
