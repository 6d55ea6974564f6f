"""The life of a stored table against a DuckDB table that is changed by DuckDB's own SQL.

Every kind of change in random order. After each the rows are the mirror's, in order; so are the answers to random
questions, by every way that answers them and through sessions that were opened at the beginning.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import cleave
from cleave.ask.plan import AnswerPlan
from cleave.ask.question import Options
from cleave.ckks.key_file import create_key, open_key
from cleave.ckks.public_key import public_side
from cleave_shared.errors import CheckFailed, InputError
from tests.campaign import FACTOR
from tests.cli.runner import Cli
from tests.comparing import compared
from tests.gateway.fronts import REFUSED, Fronts, Ports, Shown, by_command, gateway_over
from tests.gateway.mirror import EDGE, MORE, NAMES, Column, Mirror
from tests.gateway.questions import Asking, Question, Truth, differs

pytestmark = pytest.mark.filterwarnings("ignore::cleave.UndecidedWarning")  # of releases that lack cells
STEPS = 12
LEAST = 4  # rows of a released cell
_NUMBERS = itertools.count()


@dataclass(frozen=True, slots=True)
class Stage:
    """A store with its key, another key, and a gateway over it."""

    folder: Path
    ports: Ports
    compared: Counter[str]

    @property
    def given(self) -> dict[str, Any]:
        return {"store": self.folder / "store", "key": self.folder / "key.json"}


@pytest.fixture(scope="module")
def stage(
    tmp_path_factory: pytest.TempPathFactory, free_port: Callable[[], int], printed_figures: list[str]
) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("life")
    create_key(folder / "key.json", None)
    create_key(folder / "other.json", None)
    for command in (("key", "contributor", "-o", folder / "north.pem"), ("analyst", "new", "-o", folder / "carol.pem")):
        ended = Cli().run(*command)
        assert ended.exit_code == 0, ended.stderr
    with ExitStack() as stack:
        stage = Stage(folder, gateway_over(folder, free_port(), stack), Counter())
        yield stage
    printed_figures.append(f"lives: {', '.join(f'{name} {count}' for name, count in sorted(stage.compared.items()))}")


class Life:
    """A stored table, its mirror and what was done to both."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self.stage, self.rng = stage, Random(seed)
        self.given = stage.given
        self.name = f"life{next(_NUMBERS)}"
        self.mirror = Mirror(self.rng)
        self.done: list[str] = []
        self.compared = stage.compared
        self.said: list[str] = []
        self.files = itertools.count()
        self.newest = 0  # number of the newest release that the analyst saw, of this table or of one that was dropped
        self.parted = False  # whether the contributor was removed since its last put

    # what both tables have

    def begin(self) -> None:
        """Put the first rows, or other ones after a drop or in place of those there are."""
        rng = self.rng
        self.by: list[str] = rng.choice([["g"], ["g", "s"], ["b", "g"], ["s"], [], ["p"], ["day", "b"]])
        self.keyed = rng.random() < 0.5
        self.scanned = rng.random() < 0.3
        self.derived: dict[str, str] = {}
        self.batches: list[str] = []
        self.shared = self.released = False
        self.counts: dict[tuple[Any, ...], set[int]] = {}
        self.mirror.restart()
        self.mirror.make(rng.choice([1, 5, 20, 40]))
        if not self.keyed:
            self.mirror.double()

    def stored(self, **options: Any) -> None:
        path = self.stage.folder / "schema.toml"
        path.write_text(self.mirror.schema())
        key = {"key_columns": ["id"]} if self.keyed else {}
        data, form = self.data()
        self.note(f"put {form} by {self.by} {key} scan={self.scanned} {options}")
        cleave.put(data, self.name, schema=path, by=self.by, scan=self.scanned, **key, **options, **self.given)
        self.mirror.take()

    def data(self) -> tuple[Any, str]:
        form = self.rng.choice(["frame", "csv", "parquet"])
        if form == "frame":
            return self.mirror.frame(), form
        return self.mirror.write(self.stage.folder / f"{self.name}_{next(self.files)}.{form}"), form

    def note(self, text: str) -> None:
        self.done.append(text)

    def count(self) -> int:
        return int(self.mirror.execute("SELECT count(*) FROM mirror")[0][0])

    def asking(self) -> Asking:
        return Asking(self.mirror, self.name, self.by, self.derived, keyed=self.keyed)

    def reads(self, column: Column) -> bool:
        return any(column.sql in sql for sql in self.derived.values())

    def refused(self, match: str, work: Callable[[], object]) -> None:
        self.note(f"  refused: {match}")
        with pytest.raises(InputError, match=match):
            work()

    # changes

    def append(self) -> None:
        self.mirror.make(self.rng.choice([1, 3, 20]))
        if not self.keyed and self.rng.random() < 0.3:
            self.mirror.double()
        data, form = self.data()
        batch = f"batch {len(self.batches)}" if self.rng.random() < 0.4 else None
        self.note(f"append {form} {batch or ''}")
        cleave.append(data, self.name, batch=batch, say=self.said.append, **self.given)
        self.mirror.take()
        if batch:
            self.batches.append(batch)
            again = {"batch": batch}
        elif self.rng.random() < 0.7:
            again = {}
        else:
            return
        self.note(f"  the same rows {again}: nothing is added")
        cleave.append(data, self.name, say=self.said.append, **again, **self.given)
        if not self.keyed and self.rng.random() < 0.5:
            self.note("  again")
            cleave.append(data, self.name, again=True, say=self.said.append, **self.given)
            self.mirror.take()

    def upsert(self) -> None:
        there = [row[0] for row in self.mirror.execute("SELECT id FROM mirror ORDER BY came")]
        if not self.keyed or not there or self.released:
            return self.append()
        ids = self.rng.sample(there, self.rng.randint(1, min(5, len(there))))
        fresh = [self.mirror.new_id() for _ in range(self.rng.randint(0, 3))]
        self.mirror.make(len(ids) + len(fresh), ids=ids + fresh)
        data, form = self.data()
        self.note(f"upsert {form} of {ids} and {fresh}")
        self.refused("already has", lambda: cleave.append(data, self.name, **self.given))
        cleave.append(data, self.name, upsert=True, yes=True, say=self.said.append, **self.given)
        self.mirror.execute("DELETE FROM mirror WHERE id IN (SELECT id FROM fresh)")
        self.mirror.take()
        return None

    def delete(self) -> None:
        where = self.asking().condition()
        if self.rng.random() < 0.06:
            where = f"({where}) OR ({where}) IS NOT TRUE"
        else:
            where = f"({where}) AND id % {self.rng.choice([2, 3, 5])} = 1"
        self.note(f"delete {where}")
        gone = self.mirror.execute(f"DELETE FROM mirror WHERE {where}")[0][0]
        assert cleave.delete(self.name, where, yes=True, **self.given).rows == gone

    def update(self) -> None:
        where, values = self.asking().condition(), {}
        for column in self.rng.sample(self.mirror.columns, 2):
            if column.name == "id" or (self.released and column.name in self.by):
                continue
            name = column.sql
            if column.is_number:
                least, most = column.limits()
                new = [f"-{name}"] if least.copy_negate() == most else []
                new += [f"CASE WHEN {name} < {most} THEN {name} + 1 ELSE {name} END", str(most), "NULL"]
            elif column.type == "DOUBLE":
                new = [f"-{name}", f"abs({name})", "NULL", f"{name} / 2"]
            elif column.type == "BOOLEAN":
                new = [f"NOT {name}", "TRUE", f"{name} IS NULL"]
            elif column.type == "DATE":
                new = ["DATE '1969-01-01'", f"greatest({name}, DATE '1900-01-01')", "NULL"]
            elif column.type == "TIMESTAMP":
                new = ["TIMESTAMP '1969-01-01 00:00:00.1'", "NULL", f"date_trunc('day', {name})"]
            else:
                new = [f"{name} || 'x'", "''", "NULL", f"upper({name})", f"coalesce({name}, 'a\nb')"]
            values[column.name] = self.rng.choice(new)
        if not values:
            return
        self.note(f"update {values} where {where}")
        changed = self.mirror.update(values, where)
        found = cleave.update(self.name, values, where, yes=True, again=True, **self.given)
        assert found.rows == changed
        if changed:
            assert cleave.update(self.name, values, where, yes=True, **self.given).repeated

    def alter(self) -> None:
        if self.released:
            return self.refused("was released", lambda: cleave.alter(self.name, add=["n BIGINT"], **self.given))
        what = self.rng.choice(["add", "rename", "drop", "widen", "by", "add", "widen"])
        others = [each for each in self.mirror.columns if each.name != "id"]
        column = self.rng.choice(others)
        free = [each for each in NAMES if each not in {one.name for one in self.mirror.columns} | set(self.derived)]
        if what == "add" and free:
            type_, kind = self.rng.choice(MORE)
            name = self.rng.choice(free)
            self.note(f"alter --add {name} {type_} {kind}")
            cleave.alter(self.name, add=[f"{name} {type_} {kind}"], **self.given)
            self.mirror.add(Column(name, type_, kind))
        elif what == "rename" and free:
            name = self.rng.choice(free)
            self.note(f"alter --rename {column.name}={name}")
            rename = lambda: cleave.alter(self.name, rename=[f"{column.name}={name}"], **self.given)  # noqa: E731
            if self.reads(column):
                return self.refused("cannot be renamed", rename)
            rename()
            self.by = [name if each == column.name else each for each in self.by]
            self.mirror.replace(column, name=name)
        elif what == "drop" and len(others) > 6:
            self.note(f"alter --drop {column.name}")
            drop = lambda: cleave.alter(self.name, drop=[column.name], **self.given)  # noqa: E731
            if self.reads(column):
                return self.refused("cannot be dropped", drop)
            if column.name in self.by:
                return self.refused("is one of --by", drop)
            drop()
            self.mirror.drop(column)
        elif what == "widen":
            self.widen(column)
        elif what == "by":
            few = [each.name for each in others if each.type in ("VARCHAR", "BOOLEAN", "DATE", "INTEGER", "SMALLINT")]
            self.by = self.rng.sample(few, self.rng.randint(0, min(2, len(few))))
            self.note(f"alter --by {self.by}")
            cleave.alter(self.name, by=self.by, **self.given)
        return None

    def widen(self, column: Column) -> None:
        wider = {
            "SMALLINT": "INTEGER",
            "INTEGER": "BIGINT",
            "DECIMAL(9,2)": "DECIMAL(12,3)",
            "DECIMAL(4,1)": "DECIMAL(18,4)",
        }
        if column.type in wider and not self.reads(column):
            self.note(f"alter --widen {column.name}={wider[column.type]}")
            cleave.alter(self.name, widen=[f"{column.name}={wider[column.type]}"], **self.given)
            self.mirror.replace(column, type=wider[column.type])
        elif column.lower is not None and column.upper is not None and column.upper < 4 * EDGE:
            upper = column.upper * 2
            self.note(f"alter --widen {column.name}={column.lower}..{upper}")
            cleave.alter(self.name, widen=[f"{column.name}={column.lower}..{upper}"], **self.given)
            self.mirror.replace(column, upper=Decimal(upper))

    def derive(self) -> None:
        # of which no product or sum overflows
        numbers = [each for each in self.mirror.columns if each.kind == "encrypted" and each.is_number]
        small = [each for each in numbers if each.lower is not None]
        numbers = [each for each in numbers if each in small or each.type.startswith("DECIMAL")]
        if not small:
            return None
        one, other = self.rng.choice(numbers), self.rng.choice(small)
        sql = self.rng.choice(
            [f"{one.sql} * 2 - {other.sql}", f"{other.sql} * {other.sql}", f"{one.sql} + {other.sql}"]
        )
        if not self.count():
            return self.refused("has no rows", lambda: cleave.derive(self.name, sql, "first_of", **self.given))
        if sql in self.derived.values():
            return self.refused(
                "stored already|already exists", lambda: cleave.derive(self.name, sql, "same_as", **self.given)
            )
        name = f"made{len(self.derived)}"
        self.note(f"derive {name} = {sql}")
        cleave.derive(self.name, sql, name, **self.given)
        self.derived[name] = sql
        return None

    def scan(self) -> None:
        self.note("scan drop" if self.scanned else "scan add")
        (cleave.drop_scan if self.scanned else cleave.add_scan)(self.name, **self.given)
        self.scanned = not self.scanned
        if self.rng.random() < 0.3:
            again = cleave.add_scan if self.scanned else cleave.drop_scan
            self.refused("rows for scans", lambda: again(self.name, **self.given))

    def compact(self) -> None:
        self.note("compact")
        cleave.compact(self.name, **self.given)

    def rotate(self, fronts: Fronts) -> None:
        """To another key and back; meanwhile old sessions answer nothing."""
        other = self.stage.folder / "other.json"
        self.note("rotate")
        cleave.rotate(self.name, other, **self.given)
        self.nothing(fronts, "under another key|there is no table|is another one")
        self.compare("a command with the other key", lambda sql: by_command(self.given["store"], other, sql))
        self.note("drop the note at the old place, rotate back, drop the other note")
        cleave.drop(self.name, **self.given)
        cleave.rotate(self.name, self.given["key"], store=self.given["store"], key=other)
        cleave.drop(self.name, store=self.given["store"], key=other)

    def replace(self) -> None:
        if self.released:
            self.mirror.make(3)
            frame, path = self.mirror.frame(), self.stage.folder / "schema.toml"
            path.write_text(self.mirror.schema())
            more = {"schema": path, "by": self.by, "replace": True, "drop_contributors": True, **self.given}
            return self.refused("was released", lambda: cleave.put(frame, self.name, **more))
        shared = self.shared
        self.begin()
        self.parted |= shared
        if shared:
            path = self.stage.folder / "schema.toml"
            path.write_text(self.mirror.schema())
            frame = self.mirror.frame()
            more = {"schema": path, "by": self.by, "replace": True, **self.given}
            self.refused("would lose", lambda: cleave.put(frame, self.name, **more))
        return self.stored(replace=True, drop_contributors=shared)

    def drop(self, fronts: Fronts) -> None:
        self.note("drop")
        cleave.drop(self.name, **self.given)
        self.nothing(fronts, "there is no table")
        self.begin()
        self.parted = False  # a new table
        self.stored()

    def contribute(self) -> None:
        folder = self.stage.folder
        place = ("--store", self.given["store"], "--key", self.given["key"])
        if not self.shared:
            self.command(
                "contributor",
                "add",
                self.name,
                "north",
                "--contributor-key",
                compared(folder / "north.pem.pub"),
                *place,
            )
            self.shared = True
        elif self.rng.random() < 0.15:
            self.command("contributor", "remove", self.name, "north", *place)
            self.mirror.execute("DELETE FROM mirror WHERE contributor = 'north'")
            self.shared, self.parted = False, True
            return
        public = folder / f"{self.name}_{next(self.files)}.pub.json"
        self.command("key", "export", "--table", self.name, "-o", public, *place)
        replace = self.rng.random() < 0.3 or self.parted
        self.parted = False
        self.mirror.make(self.rng.choice([1, 6, 15]))
        self.note(f"contribute replace={replace}, collect")
        cleave.contribute(
            *(self.mirror.frame(), self.name),
            **{"store": self.given["store"], "public_key": public, "identity": folder / "north.pem"},
            fingerprint=self.fingerprint(),
            replace=replace,
            say=self.said.append,
        )
        cleave.collect(self.name, **self.given)
        if replace:
            self.mirror.execute("DELETE FROM mirror WHERE contributor = 'north'")
        self.mirror.take("north")

    def fingerprint(self) -> str:
        return public_side(open_key(self.given["key"], None)).fingerprint

    def command(self, *words: object) -> None:
        self.note("cleave " + " ".join(str(each) for each in words[:4]))
        ended = Cli().run(*words)
        assert ended.exit_code == 0, ended.stderr

    def release(self) -> None:
        """An analyst reads of each cell its number of rows at one of the releases; at the first, all that are shown."""
        self.note("release")
        first = not self.released
        to = {"to": [self.stage.folder / "carol.pem.pub"], "min_cell": LEAST} if first else {}
        if first and not self.count():
            return
        number = cleave.release(self.name, **to, **self.given).number
        self.released = True
        keys = "".join(f"{each.sql}, " for each in self.mirror.columns if each.name in self.by)
        end = "GROUP BY ALL ORDER BY ALL" if keys else ""
        truth = self.mirror.execute(f"SELECT {keys}COUNT(*) FROM mirror {end}")
        for *key, rows in truth:
            self.counts.setdefault(tuple(key), set()).add(rows)
        analyst = {"analyst": self.stage.folder / "carol.pem", "fingerprint": self.fingerprint()}
        sql = f"SELECT {keys}COUNT(*) AS n FROM {self.name} {end}"
        if number <= self.newest:  # after a drop: for the analyst it may be an older state
            with pytest.raises(CheckFailed, match="older than or different"):
                cleave.query(self.name, sql, store=self.given["store"], **analyst)
            return
        self.newest = number
        shown = cleave.query(self.name, sql, store=self.given["store"], **analyst).rows
        for *key, rows in shown:
            assert rows >= LEAST or not keys, key
            assert rows in self.counts.get(tuple(key), ()) or (not keys and not rows), key
        if first and keys:
            assert [tuple(row) for row in shown] == [row for row in truth if row[-1] >= LEAST]

    # questions

    def nothing(self, fronts: Fronts, why: str) -> None:
        for name, ask in fronts.asks.items():
            with pytest.raises(REFUSED, match=why):
                ask(f"SELECT COUNT(*) AS n FROM {self.name}")
            self.compared[f"{name}, refused"] += 1

    def compare(self, name: str, ask: Callable[[str], Shown]) -> None:
        question = self.asking().question()
        self.judge(name, question, lambda: ask(question.ours), question.truth(self.mirror))

    def by_every_way(self, fronts: Fronts) -> None:
        question = self.asking().question()
        truth = question.truth(self.mirror)
        for plan in fronts.session.ways(question.ours, Options(min_group=1, yes=True)):

            def ask(plan: AnswerPlan = plan) -> Shown:
                result = fronts.session.ask(plan).result
                return Shown(result.rows, result.bounds, result.exact)

            self.judge(f"by {plan.name}", question, ask, truth)

    def judge(self, name: str, question: Question, ask: Callable[[], Shown], truth: Truth) -> None:
        """Ask, and compare with the mirror's answer; DuckDB's error there is a refusal here."""
        if isinstance(truth, str):
            with pytest.raises(REFUSED):
                ask()
            self.compared[f"{name}, refused"] += 1
            return
        try:
            shown = ask()
        except REFUSED as error:
            raise AssertionError(f"{name}: {question.ours}: {error}") from error
        wrong = differs(question, shown, truth)
        assert wrong is None, f"{name}: {question.ours}; {question.theirs}: {wrong}"
        self.compared[name] += 1

    def check(self, fronts: Fronts) -> None:
        self.pulled()
        for _ in range(2):
            self.by_every_way(fronts)
        for name, ask in fronts.asks.items():
            self.compare(name, ask)
        if self.rng.random() < 0.4:
            self.compare("a command", lambda sql: by_command(self.given["store"], self.given["key"], sql))

    def pulled(self) -> None:
        """Every row and column, in order."""
        found = cleave.pull(self.name, **self.given)
        assert found is not None
        expected = self.mirror.duckdb.sql(f"SELECT {self.mirror.listed} FROM mirror ORDER BY came").to_arrow_table()
        assert list(found.columns) == expected.column_names
        for name in expected.column_names:
            ours, theirs = (values(each.column(name)) for each in (found.arrow(), expected))
            assert ours == theirs, name
        self.compared["pull"] += 1

    def step(self, fronts: Fronts) -> None:
        changes: dict[str, tuple[int, Callable[[], object]]] = {
            "append": (4, self.append),
            "upsert": (2, self.upsert),
            "delete": (3, self.delete),
            "update": (4, self.update),
            "alter": (5, self.alter),
            "derive": (2, self.derive),
            "scan": (2, self.scan),
            "compact": (1, self.compact),
            "rotate": (1, lambda: self.rotate(fronts)),
            "replace": (1, self.replace),
            "drop": (1, lambda: self.drop(fronts)),
            "contribute": (2, self.contribute),
            "release": (1, self.release),
        }
        (what,) = self.rng.choices([*changes], [weight for weight, _ in changes.values()])
        changes[what][1]()
        self.compared["steps"] += 1

    def live(self, steps: int) -> None:
        self.begin()
        self.stored()
        with ExitStack() as stack:
            fronts = Fronts(self.name, self.given["store"], self.given["key"], self.stage.ports, stack)
            self.check(fronts)
            for _ in range(steps):
                self.step(fronts)
                self.check(fronts)
        assert cleave.verify(self.name, **self.given) == []
        cleave.drop(self.name, **self.given)


def values(column: pa.ChunkedArray) -> list[str]:
    return [repr(each) for each in column.to_pylist()]


def lives(stage: Stage, seed: int, steps: int) -> None:
    life = Life(stage, seed)
    try:
        life.live(steps)
    except BaseException as error:
        error.add_note("\n".join([f"life {seed}, {steps} steps:", *life.done]))
        raise
    stage.compared["lives"] += 1


def test_a_life_of_a_table_is_answered_as_duckdb_answers(stage: Stage) -> None:
    lives(stage, 1, STEPS // 3)


@pytest.mark.slow  # the life above is quick
@pytest.mark.parametrize("seed", range(1, 2 + FACTOR))
def test_random_lives_of_a_table_are_answered_as_duckdb_answers(stage: Stage, seed: int) -> None:
    lives(stage, seed, STEPS)
