"""Writers and askers of one table, and a mirror that is the oracle: it replays the log over dicts of rows.

Each writer has a user of its own, which the log names. So the log says in which order the writers' calls were made,
and nothing else: what each did comes from the writer. Every answer must be that of some version between the question's
start and its end.
"""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import cleave
from cleave.ckks.key_file import create_key, open_key
from cleave.maintain.alter import Alteration
from cleave.maintain.alter import alter_columns as alter
from cleave.maintain.changes import delete_rows as delete
from cleave.maintain.changes import update_rows as update
from cleave.maintain.derive import derive_expression as derive
from cleave.objects.locate import Folder, Stores
from cleave.objects.s3 import Bucket
from cleave.releases.exact import ExactChoices
from cleave.releases.releases import release
from cleave.store import put as putting
from cleave.store.change_drafts import drafts_of
from cleave.store.changed import ChangedError, is_replaced, on_newest
from cleave.store.compacting import compact
from cleave.store.log import Record
from cleave.store.manifest import Batch
from cleave.store.newest import MovedError
from cleave.store.reader import LostError
from cleave.store.schemas import load_stored_schema
from cleave.store.seen_versions import SeenVersions
from cleave.store.tables import Tables
from cleave.table.progress import Silent
from cleave.table.stream import open_table
from cleave_shared.errors import CleaveError, ServiceError
from tests.store.conftest import BUCKET, aws_session
from tests.store.readers import Readers, viewed

Row = tuple[str, str, int, Decimal]  # ward, sex, age, bill
State = dict[str, Row]  # by name, which is the key
Do = Callable[[State], State]
Step = tuple[str, Callable[[int, Tables], int | None], Callable[[int], Do]]  # see `times_of`

SCHEMA = """
[columns.ward]
kind = "plain"
type = "VARCHAR"
[columns.sex]
kind = "sealed"
type = "VARCHAR"
[columns.age]
kind = "encrypted"
type = "BIGINT"
lower = 0
upper = {upper}
[columns.bill]
kind = "encrypted"
type = "DECIMAL(9,2)"
lower = 0
upper = 9000
[columns.name]
kind = "sealed"
type = "VARCHAR"
"""
TOTALS = "SELECT ward, COUNT(*), SUM(bill) FROM trial GROUP BY ward ORDER BY ward"
ROWS = "SELECT name, bill FROM trial ORDER BY name"
DATA = ("append", "delete", "update")  # changes of rows, as the log calls them
MAY_CONFLICT = ("alter", "derive", "release", "reader add")
LACKS = "column 'new"  # a file that was written before the table got this column lacks it
MAY_GIVE_UP = ("compact", "delete", "update", "upsert")  # if others change what they read four times


def same(state: State) -> State:
    return state


@dataclass(frozen=True)
class Done:
    """A call of a writer that ended with success. `rows`: that it said it had changed; None: it does not say."""

    what: str
    do: Do
    span: tuple[int, int]
    rows: int | None = None


@dataclass(frozen=True)
class Answer:
    """`span`: numbers of the log's last record before and after it was asked."""

    span: tuple[int, int]
    of: Callable[[State], object]
    found: object


class World(Readers):
    """One table and those who change it. `told`: errors that callers got, by what they did."""

    schema_text, header = SCHEMA.format(upper=1000), "ward,sex,age,bill,name\n"

    def __init__(self, root: Path, key_file: Path, endpoint: str | None = None) -> None:
        super().__init__(root, key_file)
        self._endpoint = endpoint
        self.done: dict[str, list[Done]] = {}
        self.answers: list[Answer] = []
        self.told: list[tuple[str, CleaveError]] = []
        self.broken: list[BaseException] = []
        self.is_over = threading.Event()
        create_key(root / "new.json", None)
        self.first: State = {}

    @property
    def location(self) -> str:
        if self._endpoint is None:
            return f"{self.root / 's'},{self.root / 'p'}"
        return f"s3://{BUCKET}/{self.root.name}/s,s3://{BUCKET}/{self.root.name}/p"

    def stores(self) -> Stores:
        if self._endpoint is None:
            return Stores(Folder(self.root / "s"), Folder(self.root / "p"))
        return Stores(*(Bucket(aws_session(), BUCKET, f"{self.root.name}/{half}", self._endpoint) for half in "sp"))

    def as_user(self, user: str, *, new: bool = False) -> Tables:
        """The table as a process of this user sees it, which nothing remembers but its own file."""
        key = open_key(self.root / "new.json", None) if new else self.key
        return Tables(self.stores(), key, SeenVersions(self.root / f"{user}.json"), user=user)

    def newest(self, user: str) -> Tables:
        """The same, under the key that the table is under."""
        tables = self.as_user(user)
        return self.as_user(user, new=True) if tables.moved_to("trial") is not None else tables

    def count(self) -> int:
        while True:
            try:
                return self.newest("counting").open("trial").head.log.count
            except MovedError:  # since it was looked for
                continue

    def begin(self, rows: State) -> None:
        self.first = rows
        putting.put(self.as_user("first"), self.file(rows), "trial", ["ward", "sex"], Silent(), key=["name"])

    def file(self, rows: State) -> Any:
        (path := self.root / f"{next(iter(rows))}.csv").write_text(
            self.header + "".join(f"{w},{s},{a},{b},{n}\n" for n, (w, s, a, b) in rows.items())
        )
        return open_table([path], self.schema)

    # writers

    def act(self, user: str, what: str, work: Callable[[Tables], int | None], do: Do = same, kind: str = "") -> bool:
        """Do one thing. False if it ended with an error, which `told` gets under `kind`, by default `what`."""
        start = self.count()
        while True:
            try:
                rows = self._on_newest(self.newest(user), work)
                self.done[user].append(Done(what, do, (start, self.count()), rows))
                return True
            except MovedError:
                continue
            except CleaveError as error:
                self.told.append((kind or what, error))
                return False

    @staticmethod
    def _on_newest(tables: Tables, work: Callable[[Tables], int | None]) -> int | None:
        """As `cleave.maintain.task.Task` does."""

        def begins_again(error: ServiceError | LostError) -> bool:
            if is_replaced(error) and tables.has_committed:
                raise ChangedError from None
            return is_replaced(error)

        return on_newest(lambda: work(tables), begins_again)

    def run(self, works: Sequence[Callable[[], None]], askers: Sequence[Callable[[], None]]) -> None:
        """All at once; askers until the last of `works` ends."""

        def caught(work: Callable[[], None]) -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - the test raises it
                self.broken.append(error)

        def until(ask: Callable[[], None]) -> None:
            ask()
            while not self.is_over.is_set():
                ask()

        writing = [threading.Thread(target=caught, args=(each,)) for each in works]
        asking = [threading.Thread(target=caught, args=(partial(until, each),)) for each in askers]
        for each in (*writing, *asking):
            each.start()
        for each in writing:
            each.join()
        self.is_over.set()
        for each in asking:
            each.join()
        if self.broken:
            raise self.broken[0]

    # askers

    def given(self, **more: Any) -> dict[str, Any]:
        is_moved = self.as_user("asking").moved_to("trial") is not None
        return {"store": self.location, "key": self.root / "new.json" if is_moved else self.key_file, **more}

    def ask(self, of: Callable[[State], object], found: Callable[[], object]) -> None:
        start = self.count()
        try:
            answer = found()
        except MovedError:
            return
        self.answers.append(Answer((start, self.count()), of, answer))

    def totals(self) -> None:
        self.ask(totals_of, lambda: cleave.query("trial", TOTALS, **self.given(min_group=1, yes=True)).rows)

    def rows(self) -> None:
        self.ask(rows_of, lambda: cleave.query("trial", ROWS, **self.given(min_group=1, yes=True)).rows)

    def verify(self) -> None:
        self.ask(lambda _: [], lambda: cleave.verify("trial", **self.given()))

    def pull(self) -> None:
        def pulled() -> object:
            frame = cleave.pull("trial", **self.given()).arrow()  # type: ignore[union-attr]
            return sorted(zip(frame.column("name").to_pylist(), frame.column("bill").to_pylist(), strict=True))

        self.ask(rows_of, pulled)

    # the oracle

    def states(self, records: Sequence[Record]) -> list[State]:
        """The rows after each record; number 0 is before the first."""
        left = {user: [each for each in done if each.what in DATA] for user, done in self.done.items()}
        states: list[State] = [{}]
        for each in records:
            now = states[-1]
            if each.what == "put":
                now = self.first
            elif each.what in DATA and each.change:
                done = self._next(left[each.user], each, states)
                now = done.do(states[-1])
                assert each.rows == len(now) - len(states[-1]), each
            states.append(now)
        for user, rest in left.items():
            for each in rest:
                assert self._did_nothing(each, states), f"{user} was told that {each} is done, and the log lacks it"
        return states

    def _next(self, left: list[Done], record: Record, states: Sequence[State]) -> Done:
        while True:
            assert left, f"nobody was told that this was done: {record}"
            done = left.pop(0)
            if done.what == record.what and done.span[0] < record.number <= done.span[1]:
                return done
            assert self._did_nothing(done, states), f"{done} is not in the log before {record}"

    @staticmethod
    def _did_nothing(done: Done, states: Sequence[State]) -> bool:
        """True if the call says that it changed no row, and there was a version where that is right."""
        start, stop = done.span
        return done.rows == 0 and any(done.do(each) == each for each in states[start : stop + 1])

    def check(self) -> list[State]:
        """All that was told and shown is right; nothing is left over once it is a day old."""
        for what, error in self.told:
            if what in ("append", "upsert") and LACKS in str(error):
                assert error.exit_code == 3, (what, error)
                continue
            assert error.exit_code == 6, (what, error)
            assert what in (*MAY_CONFLICT, *MAY_GIVE_UP), (what, error)
        tables = self.newest("checking")
        opened = tables.open("trial")
        states = self.states(tables.log(opened))
        for each in self.answers:
            start, stop = each.span
            assert each.found in [each.of(state) for state in states[start : stop + 1]], each
        assert cleave.verify("trial", **self.given()) == []
        assert cleave.query("trial", ROWS, **self.given(min_group=1, yes=True)).rows == rows_of(states[-1])
        opened = tables.open("trial")
        cells = tables.cells(opened)
        assert sum(cells.rows) == opened.manifest.rows == len(states[-1])
        counts = Counter((row[0], row[1]) for row in states[-1].values())
        assert {key: count for key, count in zip(cells.keys, cells.rows, strict=True) if count} == counts
        self._sweep(tables)
        return states

    def _sweep(self, tables: Tables) -> None:
        if self._endpoint is not None:  # moto's dates cannot be set
            return
        for half in ("s", "p"):
            for path in (self.root / half).rglob("*"):
                if path.is_file():
                    os.utime(path, (0, 0))
        opened = compact(tables, "trial", Silent())
        tables = self.newest("checking")
        opened = tables.open("trial")
        needed = tables.named(opened) | viewed(self, opened)
        folders = [*tables.folders(opened.manifest), tables.drafts("trial")]
        there = {each for store in self.stores().distinct() for folder in folders for each in store.names(folder)}
        drafts = {
            draft for _, each in drafts_of(tables, "trial") if (found := each.find_any()) for draft in each.names(found)
        }
        assert sorted(there - needed) == sorted(drafts) == []


def totals_of(state: State) -> object:
    wards: dict[str, list[Decimal]] = {}
    for ward, _, _, bill in state.values():
        wards.setdefault(ward, []).append(bill)
    return [(ward, len(bills), sum(bills)) for ward, bills in sorted(wards.items())]


def rows_of(state: State) -> object:
    return sorted((name, row[3]) for name, row in state.items())


def some(user: str, number: int, count: int = 3) -> State:
    rng = random.Random(f"{user} {number}")
    return {
        f"{user}-{number}-{each}": (
            rng.choice("ABC"),
            rng.choice("fm"),
            rng.randrange(100),
            Decimal(rng.randrange(99999)) / 100,
        )
        for each in range(count)
    }


def adds(world: World, user: str, times: int, *, batches: bool = False, upserts: bool = False) -> Callable[[], None]:
    world.done[user] = []

    def work() -> None:
        for number in range(times):
            rows = some(user, number - number % 2 if upserts else number)
            if upserts and number % 2:
                rows = {name: (*row[:3], row[3] + 1) for name, row in rows.items()}
            batch = Batch(id=f"{user} {number}", digest="") if batches else None
            how: dict[str, Any] = {"batch": batch, "upsert": upserts, "yes": upserts}
            loaded = world.file(rows)
            world.act(
                user,
                "append",
                lambda tables: putting.append(tables, loaded, "trial", Silent(), **how) and None,  # noqa: B023
                lambda state, rows=rows: state | rows,  # type: ignore[misc]
                kind="upsert" if upserts else "",
            )

    return work


def times_of(world: World, user: str, count: int, *steps: Step) -> Callable[[], None]:
    """`steps` in turn, `count` times (0: until all others end)."""
    world.done[user] = []

    def work() -> None:
        for number in range(count):
            for what, change, do in steps:
                world.act(user, what, partial(change, number), do(number))

    return work


def deleted(number: int) -> tuple[str, Do]:
    """A condition, and what stays without the rows where it holds."""
    age = number * 7 % 100
    return f"age = {age}", lambda state: {name: row for name, row in state.items() if row[2] != age}


def raised(number: int) -> tuple[str, Do]:
    age = number * 11 % 100
    return f"age = {age}", lambda state: {
        name: (*row[:3], row[3] + 1) if row[2] == age else row for name, row in state.items()
    }


DELETES = (
    "delete",
    lambda number, tables: delete(tables, "trial", deleted(number)[0], Silent(), yes=True).rows,
    lambda number: deleted(number)[1],
)
UPDATES = (
    "update",
    lambda number, tables: (
        update(tables, "trial", {"bill": "bill + 1"}, raised(number)[0], Silent(), yes=True, again=True).rows
    ),
    lambda number: raised(number)[1],
)
COMPACTS = ("compact", lambda _, tables: compact(tables, "trial", Silent()) and None, lambda _: same)


def with_readers(world: World) -> tuple[Step, ...]:
    """Reader `dan` is added, and revoked."""

    def revoked(_: int, tables: Tables) -> None:
        if any(each.name == "dan" for each in tables.open("trial").manifest.readers):
            world.revoke_reader("dan", tables)

    def added(_: int, tables: Tables) -> None:
        world.add_reader("dan", tables=tables, yes=True)

    return ("reader add", added, lambda _: same), ("reader revoke", revoked, lambda _: same)


def with_columns() -> tuple[Step, ...]:
    def derived(number: int, tables: Tables) -> None:
        derive(tables, "trial", f"bill * {number + 2}", f"more{number}", Silent())

    def added(number: int, tables: Tables) -> None:
        alter(tables, "trial", Alteration(add=[f"new{number} BIGINT"]), Silent())

    def dropped(_: int, tables: Tables) -> None:
        names = load_stored_schema(tables.open("trial").manifest).names
        if gone := [each for each in names if each.startswith("new")]:
            alter(tables, "trial", Alteration(drop=gone), Silent())

    def widened(number: int, tables: Tables) -> None:
        alter(tables, "trial", Alteration(widen=[f"age=0..{2000 + number}"]), Silent())

    alters: list[Step] = [("alter", each, lambda _: same) for each in (added, dropped, widened)]
    return ("derive", derived, lambda _: same), *alters


def with_releases(world: World) -> tuple[Step, ...]:
    def released(_: int, tables: Tables) -> None:
        release(tables, "trial", {"carol": world.public_of("carol")}, ExactChoices(3))

    return (("release", released, lambda _: same),)
