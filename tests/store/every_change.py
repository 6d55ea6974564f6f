"""Every change of a stored table: where it begins, the command, and the rows before and after it.

What a table should hold is stated here as lines of CSV. DuckDB over them is the oracle: it shares no code with a store.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cleave.ckks.key_file import create_key, open_key
from cleave.ckks.owner_key import OwnerKey
from cleave.contributions.collect import collect
from cleave.contributions.contribute import contribution_drafts
from cleave.contributions.invitation import remove
from cleave.maintain.alter import Alteration
from cleave.maintain.alter import alter_columns as alter
from cleave.maintain.changes import delete_rows as delete
from cleave.maintain.changes import update_rows as update
from cleave.maintain.derive import add_scan_rows as add_scan
from cleave.maintain.derive import derive_expression as derive
from cleave.maintain.derive import derive_products
from cleave.maintain.derive import drop_scan_rows as drop_scan
from cleave.maintain.pull import find_damage as verify
from cleave.maintain.rotate import move_table as rotate
from cleave.objects.locate import Stores
from cleave.objects.storage import Storage, StoreError
from cleave.releases.releases import release, revoke
from cleave.store import compacting
from cleave.store import put as putting
from cleave.store.change_drafts import drafts_of
from cleave.store.compacting import compact
from cleave.store.drafts import Draft
from cleave.store.dropping import drop
from cleave.store.heads import parsed
from cleave.store.reader import Opened
from cleave.store.seen_versions import SeenVersions
from cleave.store.tables import Tables
from cleave.sums.stored import Stored
from cleave.table.progress import Silent
from cleave_shared.errors import CheckFailed, InputError
from tests.store.asking import ask
from tests.store.faulty import KilledError
from tests.store.made import filled
from tests.store.readers import Readers, viewed
from tests.store.test_contributors import NORTH, OWN, SOUTH, expected

SUMS = """SELECT ward, COUNT(*), COUNT(bill), SUM(bill), SUM(age), AVG(weight) FROM trial GROUP BY ward ORDER BY ALL"""
MORE = "B,f,40,20.00,60.5,Dee\nA,m,30,5.00,66.5,Eve\n"
BASE = OWN + MORE + NORTH
LU = "B,m,22,8.00,64.5,Lu\n"  # with whom a part of three men can be released
DROPPED = ["age*bill", "AGE*weight "]  # products
UPSERT = "A,f,62,1.00,70.125,Ada\nC,m,20,2.00,50.5,Zoe\n"
VALUES = ("Ada", "12.50", "Di", "60.125", "Flo", "Zoe")  # some, which no message may hold


class Writes:
    """Writes of a change to both stores, counted: the change dies at number `at`, before it or once it is `made`.

    `full`: from there on each write fails as on a full disk. `kinds`: what was written, in order.
    """

    def __init__(self, at: int | None = None, *, made: bool = False, full: bool = False) -> None:
        self.at, self.made, self.full = at, made, full
        self.kinds: list[str] = []
        self._counting = threading.Lock()  # segments are written by threads

    def __call__(self, kind: str, change: Callable[[], object]) -> object:
        with self._counting:
            number = len(self.kinds)
            self.kinds.append(kind)
        if self.at is None or number < self.at or (self.full and kind == "delete"):
            return change()
        if self.full:
            raise StoreError("the disk is full")
        if self.made and number == self.at:
            change()
        raise KilledError


class Watched:
    """A store whose writes are counted."""

    def __init__(self, storage: Storage, writes: Writes) -> None:
        self._storage, self._writes = storage, writes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def write(self, name: str, content: bytes) -> None:
        self._writes(_kind(name), lambda: self._storage.write(name, content))

    def replace(self, name: str, content: bytes, expected: str | None) -> object:
        return self._writes(_kind(name), lambda: self._storage.replace(name, content, expected))

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            self._writes("delete", lambda each=name: self._storage.delete([each]))  # type: ignore[misc]


def _kind(name: str) -> str:
    """Head, draft, rotation (a note of one), or object."""
    last = name.rpartition("/")[2]
    if name.startswith("drafts/"):
        return "draft"
    return "object" if len(last) == 32 else last.split(".")[0]


class Place(Readers):
    """A table of an owner, contributors, analysts and readers, under its first key or a new one."""

    @property
    def new_key(self) -> OwnerKey:
        path = self.root / "new.json"
        if not path.exists():
            create_key(path, None)
        return open_key(path, None)

    def watched(self, writes: Writes) -> Stores:
        stores = self.stores()
        return Stores(Watched(stores.sensitive, writes), Watched(stores.plain, writes))  # type: ignore[arg-type]

    def new_tables(self, stores: Stores) -> Tables:
        return Tables(stores, self.new_key, SeenVersions(self.root / "owner.json"))

    def current(self) -> tuple[Tables, Opened] | None:
        """The table under the key that opens it; None: there is none."""
        tables, stores = self.tables()
        try:
            if (self.root / "new.json").exists() and tables.moved_to(self.name) is not None:
                tables = self.new_tables(stores)
            return tables, tables.open(self.name)
        except (InputError, CheckFailed) as failure:
            if any(each in failure.message for each in ("there is no table", "is being deleted", "no such folder")):
                return None
            raise

    def version(self) -> int:
        current = self.current()
        return current[1].manifest.version if current else 0

    def check(self, *rows: str | None) -> str | None:
        """Which of `rows` the table holds, in this order, as its sums say too. None: there is none, and may be none."""
        current = self.current()
        if current is None:
            assert None in rows
            return None
        with closing(Stored(*current)) as stored:
            names = [each.name for each in stored.schema.columns]
            with stored.rows.table(names, ordered=True) as table:
                there = [list(row) for row in table.connection.execute(f"SELECT * FROM {table.relation}").fetchall()]
            found = [each for each in rows if each and there == expected(self, each, "SELECT * FROM trial")]
            assert found, there
            assert ask(stored, SUMS).result.rows == expected(self, found[0], SUMS)
        return found[0]

    def verified(self) -> bool:
        current = self.current()
        return current is None or verify(Stored(*current), Silent()) == []

    def draft(self) -> Draft | None:
        """The draft of the table's next version, or of north's next contribution; None: there is none."""
        tables, stores = self.tables()
        try:
            opened = tables.find(self.name) if tables.moved_to(self.name) is None else None
        except InputError as failure:  # as after a drop that stopped behind the head
            if "is being deleted" not in failure.message:
                raise
            opened = None
        under = [tables]
        if (self.root / "new.json").exists() and opened is not None:
            under.append(self.new_tables(stores))
        for each in under:
            for _, drafts in drafts_of(each, self.name):
                if (found := drafts.find_any()) is not None:
                    return found
        if opened is not None and any(each.name == "north" for each in opened.manifest.contributors):
            drafts = contribution_drafts(stores, self.folder_of("north"), self.identity("north"))
            for replace in (False, True):
                found = drafts.find(self.contributions("north")._request(replace=replace))
                if found is not None:
                    return found
        return None

    def objects(self) -> dict[str, Storage]:
        """Every object of either store, and where it is."""
        return {name: store for store in self.stores().distinct() for name in store.names("")}

    def left_over(self) -> list[str]:
        """What no table, contribution, release or head of a table that moved needs."""
        current, objects = self.current(), self.objects()
        there = {name for name in objects if name.rpartition("/")[2] not in ("head", "draft")}
        heads = [name for name in objects if name.rpartition("/")[2] == "head"]
        there -= {parsed(objects[name].read(name)).get("changes", "") for name in heads}
        if current is None:
            return sorted(there)
        _tables, opened = current
        needed = opened.manifest.objects() | {
            opened.head.manifest.name,
            opened.head.log.page.name,
            *viewed(self, opened),
            *self.kept_where_it_was(),
        }
        return sorted(there - needed)

    def kept_where_it_was(self) -> set[str]:
        """What the head of a table that moved to another key leads to."""
        head = self.root / "s" / self.tables()[0].folder(self.name) / "head"
        found = json.loads(head.read_text()).get("changes") if head.exists() else None
        return {found} if found else set()

    def settle(self, *, contributes: bool) -> None:
        """Delete what was left, a day later; and make one more contribution, which is taken in."""
        current = self.current()
        if current is None:
            with suppress(InputError):
                drop(self.tables()[0], self.name)
            return
        tables, _ = current
        if contributes:
            self.contribute("north", "C,m,33,3.00,77.5,Ned\n")
            self.collect()
        for half in ("s", "p"):
            for path in (self.root / half).rglob("*"):
                if path.is_file():
                    os.utime(path, (0, 0))
        compact(tables, self.name, Silent())


Work = Callable[[Place, Stores], object]


@dataclass(frozen=True)
class Change:
    """`start` makes the place where `work` begins. The rows are `before` it, and `after` it; None: there is no table.

    `finish`: what shows what was changed. `also`: what else is so then. `refused`: the rows if `finish` refuses what
    was contributed instead of other rows, which are gone in any case.
    """

    name: str
    work: Work
    after: str | None
    before: str | None = BASE
    start: Callable[[Place], object] = field(default_factory=lambda: based)
    finish: Callable[[Place], object] = lambda _: None
    also: Callable[[Place], object] = lambda _: None
    refused: str | None = None

    @property
    def writes_segments(self) -> bool:
        """Whether its draft has segments."""
        return self.name not in ("remove", "scan drop", "release", "revoke", "reader add", "drop")

    @property
    def contributes(self) -> bool:
        return self.name.startswith(("contribute", "collect"))

    def begin(self, to: Path, key_file: Path) -> Place:
        """A copy of the place where it begins, which is made once."""
        start = filled(("change", self.name, key_file), lambda it: self.start(Place(it / "place", key_file)))
        place = Place(start / "place", key_file).copy(to)
        place.current()  # so that it is remembered
        return place


def based(place: Place) -> None:
    """Three segments of the owner's and one of a contributor's, of rows that a key names."""
    tables = place.tables()[0]
    putting.put(tables, place.loaded(OWN), "trial", ("ward", "sex"), Silent(), key=["name"], segment_rows=2)
    append(MORE)(place, tables.stores)
    place.register("north")
    place.contribute("north", NORTH)
    place.collect()


def of_owner(change: Callable[[Tables, Place], object]) -> Work:
    """The change by the owner."""

    def work(place: Place, stores: Stores) -> None:
        change(place.tables(stores)[0], place)

    return work


def append(rows: str, *, upsert: bool = False) -> Work:
    how = {"upsert": upsert, "yes": upsert, "segment_rows": 2}
    return of_owner(lambda tables, place: putting.append(tables, place.loaded(rows), "trial", Silent(), **how))


def merge(place: Place, stores: Stores) -> None:
    """An append that merges segments in the same step."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compacting, "MOST_SMALL", 1)
        patch.setattr(compacting, "_FEWEST", 2)
        append(SOUTH)(place, stores)


def contribute(*, replace: bool) -> Work:
    return lambda place, stores: place.contribute("north", SOUTH, stores=stores, segment_rows=2, replace=replace)


def waiting(place: Place) -> None:
    """Two parts that are not taken in, one of two segments."""
    based(place)
    contribute(replace=False)(place, place.stores())
    place.contribute("north", "C,m,21,4.00,55.5,Ivo\n")


def released(place: Place) -> None:
    """Rows of which a part can be published are new."""
    based(place)
    place.release("carol", "dave", least=3)
    append(SOUTH + LU)(place, place.stores())


def opened_to(*names: str) -> Callable[[Place], None]:
    """Columns are open to readers."""

    def start(place: Place) -> None:
        based(place)
        for name in names:
            place.add_reader(name, yes=True)

    return start


def scanned(place: Place) -> None:
    based(place)
    of_owner(lambda tables, _: add_scan(tables, "trial", Silent()))(place, place.stores())


def derived(place: Place) -> None:
    based(place)
    derive(place.tables()[0], "trial", "bill * age", "weighted", Silent())


def weighted(place: Place) -> None:
    current = place.current()
    assert current is not None
    with closing(Stored(*current)) as stored:
        sql = "SELECT ward, SUM(bill * age) FROM trial GROUP BY ward ORDER BY ALL"
        assert ask(stored, sql).result.rows == expected(place, BASE, sql)


def paired(place: Place) -> None:
    """Statistics of two columns are those of the rows, and need none."""
    current = place.current()
    assert current is not None
    figures = "REGR_COUNT(bill, weight), COVAR_POP(bill, weight), REGR_SXY(age, bill), REGR_SLOPE(age, weight)"
    sql = f"SELECT ward, {figures} FROM trial GROUP BY ward ORDER BY ALL"
    with closing(Stored(*current)) as stored:
        found = ask(stored, sql).result.rows
    for row, wanted in zip(found, expected(place, BASE, sql), strict=True):
        assert row == [each if isinstance(each, str) else pytest.approx(each, nan_ok=True) for each in wanted]


def multiplied(place: Place) -> None:
    based(place)
    tables = place.tables()[0]
    derive_products(tables, "trial", ["age", "bill", "weight"], Silent())


def paired_still(place: Place) -> None:
    """The products that stay answer, and those that were dropped are gone."""
    names = {each.name for each in place.open().manifest.measures}
    assert names.isdisjoint(DROPPED)
    assert "bill*weight" in names
    current = place.current()
    assert current is not None
    sql = "SELECT ward, COVAR_POP(bill, weight) FROM trial GROUP BY ward ORDER BY ALL"
    with closing(Stored(*current)) as stored:
        found = ask(stored, sql).result
    assert found.columns[1].source == "encrypted"
    for row, wanted in zip(found.rows, expected(place, BASE, sql), strict=True):
        assert row == [each if isinstance(each, str) else pytest.approx(each, nan_ok=True) for each in wanted]


def rows_for_scans(wanted: int) -> Callable[[Place], None]:
    def check(place: Place) -> None:
        manifest = place.open().manifest
        assert manifest.scanned == wanted
        assert all((each.scan is not None) == bool(wanted) for each in manifest.segments)

    return check


def counted(*names: str) -> Callable[[Place], None]:
    def check(place: Place) -> None:
        for name in names:
            rows = expected(
                place, BASE + SOUTH + LU, "SELECT ward, sex, COUNT(*) FROM trial GROUP BY ALL HAVING COUNT(*) >= 3"
            )
            assert {(*key, count) for key, count in place.shown(name).items()} == {tuple(row) for row in rows}

    return check


def without(rows: str, *names: str) -> str:
    return "".join(line for line in rows.splitlines(keepends=True) if line.strip().rpartition(",")[2] not in names)


UPDATED = BASE.replace(",33,7.25,", ",33,8.25,").replace(",30,5.00,", ",30,6.00,").replace(",20,2.00,", ",20,3.00,")
CHANGES = [
    Change(
        "put",
        of_owner(
            lambda tables, place: putting.put(
                tables, place.loaded(OWN), "trial", ("ward", "sex"), Silent(), segment_rows=2
            )
        ),
        OWN,
        None,
        lambda _: None,
    ),
    Change(
        "replace",
        of_owner(
            lambda tables, place: putting.put(
                tables,
                place.loaded(SOUTH),
                "trial",
                ("ward",),
                Silent(),
                replace=True,
                drop_contributors=True,
                segment_rows=2,
            )
        ),
        SOUTH,
    ),
    Change("append", append(SOUTH), BASE + SOUTH),
    Change("merge", merge, BASE + SOUTH),
    Change("upsert", append(UPSERT, upsert=True), without(BASE, "Ada") + UPSERT),
    Change(
        "delete",
        of_owner(lambda tables, _: delete(tables, "trial", "name IN ('Ada', 'Di', 'Ed')", Silent(), yes=True)),
        without(BASE, "Ada", "Di", "Ed"),
    ),
    Change(
        "update",
        of_owner(lambda tables, _: update(tables, "trial", {"bill": "bill + 1"}, "age < 34", Silent())),
        UPDATED,
    ),
    Change(
        "alter", of_owner(lambda tables, _: alter(tables, "trial", Alteration(widen=["age=0..4000"]), Silent())), BASE
    ),
    Change("by", of_owner(lambda tables, _: alter(tables, "trial", Alteration(by=["ward"]), Silent())), BASE),
    Change(
        "derive",
        of_owner(lambda tables, _: derive(tables, "trial", "bill * age", "weighted", Silent())),
        BASE,
        also=weighted,
    ),
    Change(
        "derive products",
        of_owner(lambda tables, _: derive_products(tables, "trial", ["age", "bill", "weight"], Silent())),
        BASE,
        also=paired,
    ),
    Change(
        "drop products",
        of_owner(lambda tables, _: alter(tables, "trial", Alteration(drop=DROPPED), Silent())),
        BASE,
        start=multiplied,
        also=paired_still,
    ),
    Change("scan add", of_owner(lambda tables, _: add_scan(tables, "trial", Silent())), BASE, also=rows_for_scans(3)),
    Change(
        "scan drop", of_owner(lambda tables, _: drop_scan(tables, "trial")), BASE, start=scanned, also=rows_for_scans(0)
    ),
    Change("compact", of_owner(lambda tables, _: compact(tables, "trial", Silent())), BASE),
    Change(
        "rotate",
        lambda place, stores: rotate(place.tables(stores)[0], place.new_tables(stores), "trial", Silent()),
        BASE,
        start=derived,
        also=weighted,
    ),
    Change(
        "collect",
        lambda place, stores: collect(place.tables(stores)[0], "trial", Silent()),
        BASE + SOUTH + "C,m,21,4.00,55.5,Ivo\n",
        start=waiting,
    ),
    Change("contribute", contribute(replace=False), BASE + SOUTH, finish=Place.collect),
    Change(
        "contribute anew",
        contribute(replace=True),
        OWN + MORE + SOUTH,
        finish=Place.collect,
        refused=OWN + MORE,
    ),
    Change("remove", of_owner(lambda tables, _: remove(tables, "trial", "north")), OWN + MORE),
    Change(
        "release",
        lambda place, stores: release(place.tables(stores)[0], "trial", {}),
        BASE + SOUTH + LU,
        BASE + SOUTH + LU,
        released,
        also=counted("carol", "dave"),
    ),
    Change(
        "revoke",
        lambda place, stores: revoke(place.tables(stores)[0], "trial", "dave"),
        BASE + SOUTH + LU,
        BASE + SOUTH + LU,
        released,
        also=lambda place: place.shown("carol"),
    ),
    Change(
        "reader add",
        of_owner(lambda tables, place: place.add_reader("eve", tables=tables, yes=True)),
        BASE,
        start=opened_to("dan"),
        also=lambda place: place.require_reads("dan", "eve"),
    ),
    Change(
        "reader revoke",
        of_owner(lambda tables, place: place.revoke_reader("eve", tables)),
        BASE,
        start=opened_to("dan", "eve"),
        also=lambda place: place.require_reads("dan"),
    ),
    Change("drop", lambda place, stores: drop(place.tables(stores)[0], "trial"), None),
]
EVERY_CHANGE = pytest.mark.parametrize(
    "change",
    [pytest.param(each, id=each.name, marks=pytest.mark.slow if at % 8 else ()) for at, each in enumerate(CHANGES)],
)
