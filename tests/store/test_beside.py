"""One whole change by another process at a read or a write of every change: both are made, or one is told why not.

At that place the call may also be killed, or its answer be lost. Then it is run again. outcomes.toml says how each pair
may end. DuckDB says which rows there are then: nothing is lost or doubled, and nothing is left over.
"""

from __future__ import annotations

import random
import shutil
import threading
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from cleave.contributions.collect import collect
from cleave.contributions.invitation import remove
from cleave.maintain.alter import Alteration
from cleave.maintain.alter import alter_columns as alter
from cleave.maintain.changes import delete_rows as delete
from cleave.maintain.changes import update_rows as update
from cleave.maintain.derive import add_scan_rows as add_scan
from cleave.maintain.derive import derive_expression as derive
from cleave.maintain.derive import derive_products
from cleave.maintain.rotate import move_table as rotate
from cleave.objects.locate import Stores
from cleave.objects.storage import Storage, StoreError
from cleave.releases.releases import release, revoke
from cleave.store import put as putting
from cleave.store.changed import ChangedError, is_replaced, on_newest
from cleave.store.compacting import compact
from cleave.store.dropping import drop
from cleave.store.moving import clear
from cleave.store.newest import MovedError
from cleave.store.reader import LostError
from cleave.table.progress import Silent
from cleave_shared.errors import CleaveError, CleaveWarning, InputError, ServiceError
from tests.campaign import FACTOR, FULL
from tests.store.every_change import LU, MORE, UPSERT, Place, Work, append, based, of_owner, without
from tests.store.faulty import KilledError
from tests.store.made import filled
from tests.store.nonces import never_twice
from tests.store.test_contributors import NORTH, OWN, SOUTH

IVO = "C,m,21,4.00,55.5,Ivo\n"
LATE = "A,m,29,4.00,61.5,Jo\nB,f,51,4.25,62.5,Kim\n"
MERGED = "C,f,22,9.00,58.5,Mia\n"
BASE = OWN + MORE + NORTH + SOUTH + LU
OF_NORTH = [each.rpartition(",")[2] for each in (NORTH + IVO).splitlines()]


@dataclass(frozen=True)
class Command:
    """`rows`: what it makes of rows; None: there is no table."""

    name: str
    work: Work
    rows: Callable[[str], str | None] = lambda rows: rows


def raised(rows: str) -> str:
    """One more in `bill` where `age` is below 34."""
    lines = [each.split(",") for each in rows.splitlines()]
    for each in lines:
        if each[2] and int(each[2]) < 34 and each[3]:
            each[3] = str(Decimal(each[3]) + 1)
    return "".join(",".join(each) + "\n" for each in lines)


def merged(place: Place, stores: Stores) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cleave.store.compacting.MOST_SMALL", 1)
        patch.setattr("cleave.store.compacting._FEWEST", 2)
        append(MERGED)(place, stores)


def replaced(place: Place, stores: Stores) -> None:
    tables, how = place.tables(stores)[0], {"replace": True, "drop_contributors": True, "segment_rows": 2}
    putting.put(tables, place.loaded(LATE), "trial", ("ward",), Silent(), **how)


COMMANDS = [
    Command("append", append(LATE), lambda rows: rows + LATE),
    Command("merge", merged, lambda rows: rows + MERGED),
    Command("upsert", append(UPSERT, upsert=True), lambda rows: without(rows, "Ada", "Zoe") + UPSERT),
    Command(
        "delete",
        of_owner(lambda tables, _: delete(tables, "trial", "name IN ('Ada', 'Di', 'Kim')", Silent(), yes=True)),
        lambda rows: without(rows, "Ada", "Di", "Kim"),
    ),
    Command(
        "update",
        of_owner(lambda tables, _: update(tables, "trial", {"bill": "bill + 1"}, "age < 34", Silent())),
        raised,
    ),
    Command("compact", of_owner(lambda tables, _: compact(tables, "trial", Silent()))),
    Command("alter", of_owner(lambda tables, _: alter(tables, "trial", Alteration(widen=["age=0..4000"]), Silent()))),
    Command("by", of_owner(lambda tables, _: alter(tables, "trial", Alteration(by=["ward"]), Silent()))),
    Command("derive", of_owner(lambda tables, _: derive(tables, "trial", "bill * age", "weighted", Silent()))),
    Command("products", of_owner(lambda tables, _: derive_products(tables, "trial", ["age", "bill"], Silent()))),
    Command("scan add", of_owner(lambda tables, _: add_scan(tables, "trial", Silent()))),
    Command(
        "collect", lambda place, stores: collect(place.tables(stores)[0], "trial", Silent()), lambda rows: rows + IVO
    ),
    Command(
        "remove", of_owner(lambda tables, _: remove(tables, "trial", "north")), lambda rows: without(rows, *OF_NORTH)
    ),
    Command("release", lambda place, stores: release(place.tables(stores)[0], "trial", {})),
    Command("revoke", lambda place, stores: revoke(place.tables(stores)[0], "trial", "dave")),
    Command("reader add", of_owner(lambda tables, place: place.add_reader("fay", tables=tables, yes=True))),
    Command("reader revoke", of_owner(lambda tables, place: place.revoke_reader("eve", tables))),
    Command("replace", replaced, lambda _: LATE),
    Command(
        "rotate", lambda place, stores: rotate(place.tables(stores)[0], place.new_tables(stores), "trial", Silent())
    ),
    Command("drop", lambda place, stores: drop(place.tables(stores)[0], "trial"), lambda _: None),
]
NAMED = {each.name: each for each in COMMANDS}
BESIDE = [
    "append",
    "delete",
    "update",
    "compact",
    "release",
    "rotate",
    "alter",
    "upsert",
    "collect",
    "replace",
    "reader revoke",
    "drop",
    "merge",
]
PAIRS = [("upsert", "update"), ("append", "delete"), ("alter", "append"), ("compact", "upsert"), ("release", "append")]
ENDS = "DCBMR"  # see `ended`
OUTCOMES: dict[str, dict[str, str]] = tomllib.loads((Path(__file__).parent / "outcomes.toml").read_text())
READ_ONCE = ("append", "merge", "upsert", "replace", "rotate")  # their input: they do not begin again by themselves


def begun(place: Place, *, waits: bool) -> None:
    """`waits`: a part of a contributor is not collected, which no rotation takes."""
    based(place)
    place.release("carol", "dave", least=3)
    append(SOUTH + LU)(place, place.stores())
    for name in ("dan", "eve"):
        place.add_reader(name, yes=True)
    if waits:
        place.contribute("north", IVO)


def begin(to: Path, key_file: Path, *names: str) -> Place:
    waits = "collect" in names
    folder = filled(("beside", waits, key_file), lambda it: begun(Place(it / "place", key_file), waits=waits))
    place = Place(folder / "place", key_file).copy(to)
    place.current()  # so that it is remembered
    return place


class Beside:
    """Calls of both stores, counted. At number `at` another process makes `change`; then the call is made, or `way`.

    `way`: "", "killed before", "killed after", "lost" (the answer), "busy" (the answer is 503, and it is made).
    """

    WAYS = ("", "killed before", "killed after", "lost", "busy")

    def __init__(self, at: int | None = None, change: Callable[[], object] = lambda: None, way: str = "") -> None:
        self.kinds: list[str] = []
        self._at, self._change, self._way = at, change, way
        self._counting = threading.Lock()

    def __call__(self, kind: str, call: Callable[[], object]) -> object:
        with self._counting:
            number = len(self.kinds)
            self.kinds.append(kind)
            if number == self._at:
                self._change()
        if number != self._at or not self._way:
            if self._at is not None and number > self._at and self._way.startswith("killed"):
                raise KilledError
            return call()
        if self._way == "killed before":
            raise KilledError
        answer = call()
        if self._way == "killed after":
            raise KilledError
        if kind == "read":
            return answer
        raise StoreError("the answer is lost", status=503 if self._way == "busy" else None)


class Watched:
    def __init__(self, storage: Storage, calls: Beside) -> None:
        self._storage, self._calls = storage, calls

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._storage, name)
        if name in ("read", "read_versioned", "sizes", "dates"):
            return lambda *given, **named: self._calls("read", lambda: member(*given, **named))
        if name in ("write", "replace"):
            return lambda *given: self._calls("write", lambda: member(*given))
        return member

    def names(self, prefix: str) -> Iterator[str]:
        return iter(self.sizes(prefix))

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            self._calls("write", lambda each=name: self._storage.delete([each]))  # type: ignore[misc]


def watched(place: Place, calls: Beside) -> Stores:
    stores = place.stores()
    return Stores(Watched(stores.sensitive, calls), Watched(stores.plain, calls))  # type: ignore[arg-type]


def ended(command: Command, place: Place, stores: Stores) -> str:
    """How it ends: D (done), C (in conflict, exit 6), B (told to begin again, exit 6), M (the table is under another
    key), R (refused, exit 3); K: killed, or the answer was lost.
    """

    def begins_again(error: ServiceError | LostError) -> bool:  # as every command of the product does
        if is_replaced(error) and command.name in READ_ONCE:
            raise ChangedError
        return is_replaced(error)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CleaveWarning)
            on_newest(lambda: command.work(place, stores), begins_again)
    except KilledError:
        return "K"
    except ChangedError:
        return "B"
    except MovedError:
        return "M"
    except CleaveError as error:
        if "answer is lost" in error.message or "answer is lost" in str(error.hint):
            return "K"
        if command.name == "collect" and "made by another invitation" in str(error.hint):
            return "R"
        return {3: "R", 6: "C"}.get(error.exit_code) or f"{error!r} {error.hint}"
    return "D"


def after(command: Command, rows: str | None) -> str | None:
    """What it makes of rows; where there is no table, only a put makes one."""
    return None if rows is None and command.name != "replace" else command.rows(rows or "")


def tried(command: Command, change: Command, at: int, way: str, place: Place) -> str:
    """The outcome of `command`, with `change` at its call number `at`; if it was stopped, of its repetition."""
    of_north = place.folder_of("north")  # where its parts stay if it is removed before they are collected
    others: list[str] = []
    calls = Beside(at, lambda: others.append(ended(change, place, place.stores())), way)
    end = ended(command, place, watched(place, calls))
    (other,) = others
    before, alone = command.rows(BASE), change.rows(BASE) if other == "D" else BASE
    both = {after(second, one) for one, second in ((before, change), (alone, command))}
    if other != "D":
        both = {before}
    elif command is change:  # made once, or twice
        both.add(alone)
    if end == "D":
        place.check(*both)
    elif end != "K":
        place.check(alone)
        assert end in "CBMR", end
    again = ended(command, place, place.stores()) if end in "KCB" else end
    place.check(*(both if again == "D" else {alone, *both}))
    assert place.verified()
    if "collect" in (command.name, change.name):
        with suppress(CleaveError):
            place.collect()
    place.settle(contributes=False)
    if place.tables()[0].moved_to("trial"):  # nobody looks for what others had written there
        clear(place.tables()[0], "trial")
    elif {command.name, change.name} == {"rotate", "drop"}:  # nor for what is copied, if there is no table any more
        with suppress(InputError):
            drop(place.new_tables(place.stores()), "trial")
    assert [each for each in place.left_over() if not each.startswith(f"{of_north}/")] == []
    assert other in "DCMR", other
    return again if end == "K" else end


def calls_of(command: Command, change: Command, tmp_path: Path, key_file: Path) -> list[str]:
    calls, place = Beside(), begin(tmp_path / "whole", key_file, command.name, change.name)
    return calls.kinds if ended(command, place, watched(place, calls)) == "D" else []


def places_in(kinds: list[str], count: int, rng: random.Random) -> list[int]:
    """Numbers of some calls, reads and writes; `count` 0: of all."""
    if not count:
        return list(range(len(kinds)))
    by_kind = [[at for at, each in enumerate(kinds) if each == kind] for kind in ("write", "read")]
    return [rng.choice(by_kind[turn % 2] or by_kind[1]) for turn in range(count)]


def outcomes(command: Command, change: Command, count: int, tmp_path: Path, key_file: Path) -> set[str]:
    rng = random.Random(f"{command.name} beside {change.name}")
    kinds = calls_of(command, change, tmp_path, key_file)
    if not kinds:  # it is refused anyhow, as a rotation while a part waits
        return {"R"}
    found = set()
    for turn, at in enumerate(places_in(kinds, count, rng)):
        way = "" if turn % 2 == 0 and count else rng.choice(Beside.WAYS)
        place = begin(tmp_path / f"place-{at}-{turn}", key_file, command.name, change.name)
        try:
            found.add(tried(command, change, at, way, place))
        except BaseException as error:
            error.add_note(
                f"{command.name} beside {change.name} at {at} of {len(kinds)}, a {kinds[at]}, {way or 'whole'}"
            )
            raise
        shutil.rmtree(place.root)
    return found


def allowed(command: Command, change: Command) -> set[str]:
    return set(OUTCOMES[command.name][change.name])


@pytest.mark.slow  # `test_of_two_writers_both_change_the_table` is quick
@pytest.mark.parametrize(
    ("command", "change"),
    [(NAMED[command], NAMED[change]) for command, change in PAIRS],
    ids=map(" beside ".join, PAIRS),
)
def test_a_change_beside_another(command: Command, change: Command, tmp_path: Path, key_file: Path) -> None:
    with never_twice():
        assert outcomes(command, change, 2, tmp_path, key_file) <= allowed(command, change)


@pytest.mark.slow  # quick: test_writers.py, of appends
@pytest.mark.sampled(2)
@pytest.mark.parametrize("change", ["delete", "update"])
def test_a_collection_is_made_though_segments_of_its_contributor_changed(
    change: str, tmp_path: Path, key_file: Path
) -> None:
    place = begin(tmp_path / "place", key_file, "collect")
    tables, left = place.tables()[0], [change]
    real = tables.commit

    def meanwhile(*given: Any, **more: Any) -> Any:
        if left:
            NAMED[left.pop()].work(place, place.stores())
        return real(*given, **more)

    tables.commit = meanwhile  # type: ignore[method-assign]
    collect(tables, "trial", Silent())
    assert left == []
    assert place.check(NAMED["collect"].rows(NAMED[change].rows(BASE)))


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=[each.name for each in COMMANDS])
def test_every_change_beside_others(command: Command, tmp_path: Path, key_file: Path) -> None:
    """One other, in two places; in a campaign all, in many."""
    first = COMMANDS.index(command)
    some = BESIDE if FULL else [BESIDE[(first + 5) % len(BESIDE)]]
    with never_twice(seals=command.name != "drop"):
        for change in (NAMED[name] for name in some):
            folder = tmp_path / change.name
            assert outcomes(command, change, FACTOR if FULL else 2, folder, key_file) <= allowed(command, change)


def test_the_table_has_every_pair() -> None:
    assert {name: set(of) for name, of in OUTCOMES.items()} == {each.name: set(BESIDE) for each in COMMANDS}
    assert {letter for of in OUTCOMES.values() for ends in of.values() for letter in ends} <= set(ENDS)
    for name in ("append", "merge", "upsert", "delete", "update", "compact"):  # docs/stored.md: as if each came last
        ends = {change: ends for change, ends in OUTCOMES[name].items() if change not in ("alter", "rotate", "drop")}
        assert set(ends.values()) == {"D"}, name
