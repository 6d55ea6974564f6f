"""Writers killed by SIGKILL, in processes of their own: at every change, and at any moment, one after the other.

What a killed command left is what the next one finds. Whatever happens, the table is as it was before the command or as
it is after it, all of it, and what was left is in no other command's way, nor is any of it there in the end.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

import pytest

from cleave.ckks.owner_key import OwnerKey
from cleave.maintain.pull import find_damage as verify
from cleave.objects.locate import Stores, open_stores
from cleave.store.schemas import load_stored_schema
from cleave.store.seen_versions import SeenVersions
from cleave.store.tables import Tables
from cleave.sums.stored import Stored
from cleave.table.progress import Silent
from cleave_shared.errors import CheckFailed, InputError
from tests.campaign import FACTOR, FULL
from tests.store.asking import ask
from tests.store.commands import Commands, Death
from tests.store.conftest import BUCKET, aws_environment, aws_session
from tests.store.test_faults import CSV, SCHEMA

KILLS = (  # store, seed, and times that each command is killed; CLEAVE_CAMPAIGN has more
    [("folder", 0, 4 * FACTOR), ("s3", 1, 4 * FACTOR)]
    if FULL
    else [pytest.param("s3", 1, 1, marks=pytest.mark.first), *(("folder", seed, 1) for seed in range(2))]
)
WORDS = {
    "put": ["put", "{csv}", "--table", "trial", "--by", "ward"],
    "replace": ["put", "{csv}", "--table", "trial", "--by", "", "--replace"],
    "append": ["put", "{csv}", "--table", "trial", "--append"],
    "again": ["put", "{csv}", "--table", "trial", "--append", "--again"],
    "batch": ["put", "{csv}", "--table", "trial", "--append", "--batch", "monday"],
    "keyed": ["put", "{csv}", "--table", "trial", "--by", "ward", "--replace", "--key-columns", "name"],
    "upsert": ["put", "{more}", "--table", "trial", "--append", "--upsert", "--yes"],
    "derive": ["derive", "trial", "bill * age", "--as", "weighted"],
    "delete": ["delete", "trial", "--where", "name = 'Ada'", "--yes"],
    "update": ["update", "trial", "--set", "bill = bill + 1", "--where", "name = 'Bo'"],
    "alter": ["alter", "trial", "--widen", "age=0..4000"],
    "compact": ["compact", "trial"],
    "drop": ["drop", "trial", "--yes"],
}
ONCE = ("append", "again", "batch", "update")  # a call that repeats one of the newest changes changes nothing
FILE = (("Ada", "A", 61, Decimal("12.50")), ("Bo", "B", 47, Decimal("99.00")), ("Cy", "A", 33, Decimal("7.25")))
MORE = (("Bo", "C", 20, Decimal("5.00")), ("Dee", "A", 21, Decimal("1.50")))
Row = tuple[str, str, int, Decimal]


@dataclass(frozen=True)
class State:
    """`rows` as they were put; none: there is no table. `loaded`: the batch is in it."""

    rows: tuple[Row, ...] = ()
    derived: bool = False
    keyed: bool = False
    loaded: bool = False
    wide: bool = False

    def allowed(self) -> list[str]:
        if not self.rows:
            return ["put"]
        rest = ["upsert"] if self.keyed else ["append", "again", "batch"]
        rest += [] if self.derived else ["derive"]
        rest += [] if self.wide else ["alter"]
        rest += ["delete"] if any(name == "Ada" for name, *_ in self.rows) else []
        return ["replace", "keyed", "update", "compact", "drop", *rest]

    def after(self, command: str) -> State:
        if command == "drop":
            return State()
        if command in ("put", "replace", "keyed"):
            return State(FILE, keyed=command == "keyed")
        if command == "derive":
            return replace(self, derived=True)
        if command == "alter":
            return replace(self, wide=True)
        if command == "batch" and self.loaded:
            return self
        rows = self.rows
        if command == "upsert":
            rows = (*(each for each in rows if each[0] not in {name for name, *_ in MORE}), *MORE)
        elif command in ("append", "again", "batch"):
            rows = (*rows, *FILE)
        elif command == "delete":
            rows = tuple(each for each in rows if each[0] != "Ada")
        elif command == "update":
            rows = tuple((*each[:3], each[3] + (each[0] == "Bo")) for each in rows)
        return replace(self, rows=rows, loaded=self.loaded or command == "batch")


class World:
    def __init__(self, root: Path, key_file: Path, key: OwnerKey, store: str, endpoint: str | None) -> None:
        self.root, self.key, self.store, self._endpoint = root, key, store, endpoint
        (root / "trial.csv").write_text(CSV)
        (root / "more.csv").write_text("ward,age,bill,name\n" + "".join(f"{w},{a},{b},{n}\n" for n, w, a, b in MORE))
        for name in ("trial", "more"):
            (root / f"{name}.schema.toml").write_text(SCHEMA)
        (root / "logs").mkdir()
        self._words = ["--store", store, "--key", str(key_file)]
        self.environment = {"XDG_STATE_HOME": str(root / "state")}
        if endpoint:
            self.environment |= aws_environment(endpoint)

    def words(self, command: str) -> list[str]:
        files = {"csv": self.root / "trial.csv", "more": self.root / "more.csv"}
        return [each.format(**files) for each in WORDS[command]] + self._words

    def stores(self) -> Stores:
        return open_stores(self.store, aws_session, self._endpoint)

    def tables(self, stores: Stores) -> Tables:
        return Tables(stores, self.key, SeenVersions(self.root / "state" / "cleave" / "tables.json"))

    def state(self) -> State:
        """What a reader sees now; every figure and every row of it is right."""
        with contextlib.closing(self.stores()) as stores:
            return self._state(self.tables(stores))

    def _state(self, tables: Tables) -> State:
        try:
            opened = tables.open("trial")
        except (InputError, CheckFailed) as failure:
            if isinstance(failure, CheckFailed) and "was there and is gone" not in failure.message:
                raise
            return State()
        stored = Stored(tables, opened)
        manifest = stored.manifest
        derived = any(each.derived for each in manifest.measures)
        wide = load_stored_schema(manifest).column("age").upper == 4000
        assert verify(stored, Silent()) == []
        with stored.rows.table(["ward", "age", "bill", "name"], ordered=True) as table:
            rows = table.connection.execute(f"SELECT name, ward, age, bill FROM {table.relation}").fetchall()
        assert ask(stored, "SELECT COUNT(*), SUM(bill) FROM trial").result.rows == [
            [len(rows), sum(bill for *_, bill in rows)]
        ]
        if derived:
            (row,) = ask(stored, "SELECT SUM(bill * age) FROM trial").result.rows
            assert row == [sum(bill * age for *_, age, bill in rows)]
        return State(tuple(rows), derived, bool(manifest.key), bool(manifest.batches), wide)

    def left(self) -> list[str]:
        with contextlib.closing(self.stores()) as stores:
            return [name for store in (stores.sensitive, stores.plain) for name in store.names("")]


@pytest.fixture
def world(request: pytest.FixtureRequest, tmp_path: Path, key_file: Path, key: OwnerKey, kind: str) -> World:
    if kind == "folder":
        return World(tmp_path, key_file, key, f"{tmp_path / 's'},{tmp_path / 'p'}", None)
    endpoint = request.getfixturevalue("s3_endpoint")
    place = f"s3://{BUCKET}/killed/{tmp_path.name}"
    return World(tmp_path, key_file, key, f"{place}/s,{place}/p", endpoint)


@pytest.fixture
def commands(world: World) -> Iterator[Commands]:
    with Commands(world.root / "logs", **world.environment) as started:
        yield started


@pytest.mark.slow
def test_of_writers_at_once_each_is_told_what_became_of_it(world: World) -> None:
    """Processes of their own append at once: every row of those that say so is there, and none of the others'."""
    rounds, writers = (2, 2) if not FULL else (50, 3)
    rng = random.Random(5)
    with contextlib.ExitStack() as stack:
        several = []
        for number in range(writers):
            (folder := world.root / f"writer-{number}").mkdir()
            several.append(stack.enter_context(Commands(folder, **world.environment)))
        assert several[0].run(*world.words("put")).code == 0
        copies, told = 1, set()
        for _ in range(rounds):
            for each in several:
                each.start(*world.words("again"))
                time.sleep(rng.random() * 0.3)
            for each in several:
                ended = each.result()
                assert ended.code in (0, 6), ended
                assert ended.code == 0 or "hint: " in ended.stderr
                told.add(ended.code)
                copies += ended.code == 0
            assert world.state() == State(FILE * copies)
        assert 0 in told


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "seed", "wanted"), KILLS)
def test_a_killed_writer_changes_all_or_nothing(world: World, commands: Commands, seed: int, wanted: int) -> None:
    rng = random.Random(seed)
    kills = dict.fromkeys(WORDS, 0)
    changes, seconds, both = dict.fromkeys(WORDS, 1), dict.fromkeys(WORDS, 0.5), set()
    state = State()
    made: set[str] = set()  # what was made of this table, among its newest changes
    while min(kills.values()) < wanted:
        # what was killed least, where the state allows it; some are left to their end, else the table is never there
        command = min(state.allowed(), key=lambda each: (kills[each], rng.random()))
        if kills[command] >= wanted or rng.random() < 0.25:
            death = Death()
        elif rng.random() < 0.6:
            death = Death(at=rng.randrange(changes[command]), made=rng.random() < 0.5)
        else:
            death = Death(after=rng.uniform(0.2, 1.1) * seconds[command])
        ended = commands.run(*world.words(command), death=death)
        found = world.state()
        told = (command, death, state, found, ended)
        if ended.code == 0:
            repeated = "nothing is added" in ended.stderr or "nothing is changed now" in ended.stderr
            alike = {"append", "again"} if command == "append" else {command}
            assert not repeated or command in ("batch", "upsert") or (command in ONCE and made & alike), told
            assert found == (state if repeated else state.after(command)), told
            changes[command], seconds[command] = max(changes[command], ended.changes), ended.seconds
        else:
            assert ended.code == -9, told
            kills[command] += 1
            assert found in (state, state.after(command)), told
            both.add((command, found == state))
        made.add(command)
        state = found
        if not state.rows:  # a table that is gone half way is dropped all the way, or was never there
            assert commands.run(*world.words("drop")).code in (0, 3)
            assert world.left() == []
            made.clear()
    assert {command for command, old in both if old} == set(WORDS) or not FULL
    assert commands.run(*world.words("drop")).code in (0, 3)
    assert world.left() == []
