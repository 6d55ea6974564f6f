"""No object of any version, draft or list holds an erased value: everything in the store is decrypted and searched.

The canaries stand in a plain and a sealed `by` column, in a plain and a sealed column, in a text and in a number. Other
commands were stopped with them in their hands.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cleave.contributions.collect import collect
from cleave.maintain.alter import Alteration
from cleave.maintain.alter import alter_columns as alter
from cleave.maintain.changes import delete_rows as delete
from cleave.maintain.changes import update_rows as update
from cleave.maintain.derive import add_scan_rows as add_scan
from cleave.maintain.derive import derive_expression as derive
from cleave.maintain.pull import find_damage as verify
from cleave.maintain.rotate import move_table as rotate
from cleave.maintain.rotate import undo
from cleave.objects.locate import Stores
from cleave.objects.storage import ConflictError
from cleave.releases.releases import release
from cleave.store import compacting
from cleave.store import put as putting
from cleave.store.compacting import compact
from cleave.store.tables import Tables
from cleave.sums.stored import Stored
from cleave.table.progress import Silent
from cleave_shared.errors import InputError
from tests.campaign import FULL
from tests.store.every_change import Place, Work, Writes, of_owner
from tests.store.faulty import KilledError
from tests.store.made import filled
from tests.store.searching import Search
from tests.store.test_erased_cells import Sealing

SCHEMA = """
[columns.ward]
kind = "plain"
type = "VARCHAR"
[columns.sex]
kind = "sealed"
type = "VARCHAR"
[columns.phone]
kind = "encrypted"
type = "BIGINT"
lower = 0
upper = 1000000000000
[columns.note]
kind = "plain"
type = "VARCHAR"
[columns.memo]
kind = "sealed"
type = "VARCHAR"
[columns.name]
kind = "sealed"
type = "VARCHAR"
"""
PHONE = 753_908_642_197
WORDS: dict[str, Any] = {  # by column
    "ward": "Ward-canary-7f3a",
    "sex": "Sex-canary-7f3b",
    "phone": PHONE.to_bytes(8, "little"),
    "note": "Note-canary-7f3c",
    "memo": "Memo-canary-7f3d",
    "name": "Name-canary-7f3e",
}
KEPT = "Memo-kept-0000"  # shows that the search still finds what stays


def canary(name: str = "") -> str:
    ward, sex, note, memo = (WORDS[each] for each in ("ward", "sex", "note", "memo"))
    return f"{ward},{sex},{PHONE},{note},{memo} {'x' * 40},{WORDS['name']}{name}\n"


def others(start: int, count: int) -> str:
    return "".join(f"{'AB'[n % 2]},{'fm'[n // 2 % 2]},{n},note,{KEPT},n{n}\n" for n in range(start, start + count))


class Trial(Place):
    schema_text, header = SCHEMA, "ward,sex,phone,note,memo,name\n"

    def search(self) -> Search:
        table_id = (self.root / "table_id").read_text()
        ids = [table_id, self.new_key.tag(f"rotated {table_id}")]
        return Search(self.root / "both", [self.key, self.new_key], self.name, ids)

    def left(self, words: Iterable[str | bytes]) -> dict[str | bytes, set[str]]:
        """Objects that hold one of `words`."""
        shutil.rmtree(self.root / "both", ignore_errors=True)
        for half in "sp":
            shutil.copytree(self.root / half, self.root / "both" / half)
        search = self.search()
        assert search.having(KEPT)
        return {word: found for word in words if (found := search.having(word))}

    def names(self) -> list[str]:
        current = self.current()
        assert current is not None
        with closing(Stored(*current)) as stored:
            assert verify(stored, Silent()) == []
            with stored.rows.table(["name"]) as table:
                return sorted(each for (each,) in table.connection.execute(f"FROM {table.relation}").fetchall())

    def now(self) -> Tables:
        """The table under the key that it is under."""
        current = self.current()
        assert current is not None
        return current[0]

    def age(self, names: Iterable[str]) -> None:
        for half, name in ((half, name) for half in "sp" for name in names):
            with suppress(FileNotFoundError):
                os.utime(self.root / half / name, (0, 0))


def append(rows: str, *, upsert: bool = False) -> Work:
    return of_owner(
        lambda tables, place: putting.append(tables, place.loaded(rows), "trial", Silent(), upsert=upsert, yes=upsert)
    )


def erase(place: Place, stores: Stores) -> None:
    assert isinstance(place, Trial)
    delete(place.now(), "trial", f"ward = '{WORDS['ward']}' OR name LIKE '{WORDS['name']}%'", Silent(), yes=True)


def begun(place: Trial) -> None:
    """Three segments of the owner's and one of a contributor's, with a canary in two of them."""
    tables = place.tables()[0]
    rows = place.loaded(others(0, 16) + canary())
    putting.put(tables, rows, "trial", ("ward", "sex"), Silent(), key=["name"], segment_rows=10)
    (place.root / "table_id").write_text(tables.open("trial").manifest.table_id)
    append(others(16, 4) + canary(" 2"))(place, tables.stores)
    place.register("north")
    place.contribute("north", others(20, 3) + canary(" 3"))
    place.collect()
    place.release("carol", least=4)
    place.add_reader("dan", "ward,sex,phone,note,memo,name", yes=True)


def begin(to: Path, key_file: Path, work: Work | None = None) -> Trial:
    def fill(folder: Path) -> None:
        place = Trial(folder / "place", key_file)
        begun(place)
        if work is not None:
            work(place, place.stores())

    folder = filled(("erased", work, key_file), fill)
    place = Trial(folder / "place", key_file).copy(to)
    place.current()  # so that it is remembered
    return place


def stopped(place: Trial, work: Work, at: int, *, made: bool = False) -> bool:
    """Kill `work` at write number `at`; False if it ended before."""
    try:
        work(place, place.watched(Writes(at, made=made)))
    except KilledError:
        return True
    return False


def writes_of(place: Trial, work: Work) -> list[str]:
    """Kinds of the writes of `work`, which is made in a copy."""
    copy, writes = place.copy(place.root.with_name(f"{place.root.name} whole")), Writes()
    copy.current()
    work(copy, copy.watched(writes))
    shutil.rmtree(copy.root)
    return writes.kinds


def merged(place: Place, stores: Stores) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compacting, "MOST_SMALL", 1)
        patch.setattr(compacting, "_FEWEST", 2)
        append(others(60, 2) + canary(" 60"))(place, stores)


def replaced(place: Place, stores: Stores) -> None:
    tables, rows = place.tables(stores)[0], place.loaded(others(70, 3) + canary(" 70"))
    putting.put(tables, rows, "trial", ("sex",), Silent(), replace=True, drop_contributors=True)


def waiting(place: Trial, _: Stores) -> None:
    place.contribute("north", others(30, 3) + canary(" 30"))


@dataclass(frozen=True)
class Command:
    """`start`: what comes before it."""

    name: str
    work: Work
    start: Work | None = None


UPSERTED = canary().replace("Memo-canary-7f3d", "Memo-canary-7f3d new")
COMMANDS = [
    Command("append", append(others(40, 3) + canary(" 40"))),
    Command("upsert", append(others(0, 2) + UPSERTED + canary(" 50"), upsert=True)),
    Command("merge", merged),
    Command(
        "update",
        of_owner(lambda tables, _: update(tables, "trial", {"phone": "phone + 0"}, "TRUE", Silent(), yes=True)),
    ),
    Command("compact", of_owner(lambda tables, _: compact(tables, "trial", Silent()))),
    Command(
        "alter",
        of_owner(lambda tables, _: alter(tables, "trial", Alteration(widen=["phone=0..2000000000000"]), Silent())),
    ),
    Command("by", of_owner(lambda tables, _: alter(tables, "trial", Alteration(by=["ward"]), Silent()))),
    Command("derive", of_owner(lambda tables, _: derive(tables, "trial", "phone * 2", "twice", Silent()))),
    Command("scan add", of_owner(lambda tables, _: add_scan(tables, "trial", Silent()))),
    Command("collect", lambda place, stores: collect(place.tables(stores)[0], "trial", Silent()), waiting),
    Command("release", lambda place, stores: release(place.tables(stores)[0], "trial", {}), append(others(80, 16))),
    Command(
        "reader add", of_owner(lambda tables, place: place.add_reader("eve", "memo,name", tables=tables, yes=True))
    ),
    Command("reader revoke", of_owner(lambda tables, place: place.revoke_reader("dan", tables))),
    Command("replace", replaced),
    Command(
        "rotate", lambda place, stores: rotate(place.tables(stores)[0], place.new_tables(stores), "trial", Silent())
    ),
]


# Quick: the first, in one place; slow: the others, in two; in a campaign everywhere.
EVERY_COMMAND = pytest.mark.parametrize(
    ("command", "few"),
    [
        pytest.param(COMMANDS[0], True, id=COMMANDS[0].name),
        *(pytest.param(each, False, id=each.name, marks=pytest.mark.slow) for each in COMMANDS[1:]),
    ],
)


@pytest.mark.slow  # `test_what_replaces_rows_leaves_nothing_of_them` finds some, quick
def test_the_search_finds_what_is_sealed(tmp_path: Path, key_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is found in what was sealed, which needs no key, is found under the owner's keys too."""
    made = Sealing(monkeypatch)
    place = Trial(tmp_path / "place", key_file)
    begun(place)
    stopped(place, COMMANDS[0].work, 14)
    found = place.left(WORDS.values())
    for word in WORDS.values():
        sealed = {each for each in made.having(place.root / "both", word) if len(each) == 32}
        assert sealed <= {each.rpartition("/")[2] for each in found[word]}, word
        assert len(sealed) > 3 or word == WORDS["note"]


@pytest.mark.slow  # quick: the last test, of one command
def test_a_delete_leaves_nothing(tmp_path: Path, key_file: Path) -> None:
    """Nor of drafts and objects that nobody names, young or a day old."""
    place = begin(tmp_path / "place", key_file)
    before = place.objects().keys()
    for number in range(3):
        kinds = writes_of(place, COMMANDS[number].work)
        assert stopped(place, COMMANDS[number].work, kinds.index("draft"))
        if not number:
            place.age(place.objects().keys() - before)
        assert stopped(place, COMMANDS[number].work, kinds.index("head"))
    found = place.left(WORDS.values())
    new = place.objects().keys() - before
    for word in WORDS.values():
        assert len({each.partition("/")[2] for each in found[word]} & new) >= 3, word
    assert any("/drafts/" in each for each in found[WORDS["ward"]])
    erase(place, place.stores())
    assert place.left(WORDS.values()) == {}
    assert place.names() == sorted(f"n{number}" for number in range(23))
    assert stopped(place, COMMANDS[0].work, writes_of(place, COMMANDS[0].work).index("head"))
    assert place.left(WORDS.values())
    erase(place, place.stores())  # no row of the table, but of what was stopped
    assert place.left(WORDS.values()) == {}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("change", ["upsert", "update"])
def test_what_replaces_rows_leaves_nothing_of_them(tmp_path: Path, key_file: Path, change: str) -> None:
    """But their key, which the new ones have. What others had in their hands goes when it is a day old."""
    place = begin(tmp_path / "place", key_file)
    assert stopped(place, COMMANDS[0].work, 14)
    names = [f"{WORDS['name']}{which}" for which in ("", " 2", " 3")]
    words = [word for column, word in WORDS.items() if column != "name"]
    if change == "upsert":
        append("".join(f"A,f,1,note,{KEPT},{name}\n" for name in names), upsert=True)(place, place.stores())
    else:
        new = {"ward": "'A'", "sex": "'f'", "phone": "1", "note": "'note'", "memo": f"'{KEPT}'"}
        update(place.tables()[0], "trial", new, f"ward = '{WORDS['ward']}'", Silent(), yes=True)
    left = {each for found in place.left(words).values() for each in found}
    tables = place.now()
    assert left
    assert left.isdisjoint({f"{half}/{each}" for half in "sp" for each in tables.named(tables.open("trial"))})
    place.age(place.objects())
    compact(tables, "trial", Silent())
    assert place.left(words) == {}
    assert sum(each.startswith(WORDS["name"]) for each in place.names()) == 3


@pytest.mark.slow
def test_a_rotation_that_is_undone_leaves_nothing(tmp_path: Path, key_file: Path) -> None:
    place = begin(tmp_path / "place", key_file)
    work = COMMANDS[-1].work
    assert stopped(place, work, writes_of(place, work).index("head") + 1)
    erase(place, place.stores())
    tables, stores = place.tables()
    copy = place.new_tables(stores).tag("trial")
    assert all(f"/{copy}/" in each for of in place.left(WORDS.values()).values() for each in of)
    undo(tables, place.new_tables(stores), "trial")
    assert place.left(WORDS.values()) == {}


@pytest.mark.slow  # quick: the test above, and test_writers.py
@EVERY_COMMAND
def test_a_delete_leaves_nothing_in_the_hands_of_others(
    command: Command, few: bool, tmp_path: Path, key_file: Path
) -> None:
    """A command was stopped at a write. After the delete it is run again: it is made, or told that it is too late.

    What a rotation left goes a day after it is finished, as docs/erasure.md says.
    """
    place = begin(tmp_path / "start", key_file, command.start)
    kinds = writes_of(place, command.work)
    head = kinds.index("head")
    places = range(len(kinds)) if FULL else [head] if few else [head // 2, min(head + 1, len(kinds) - 1)]
    for at in places:
        copy = place.copy(tmp_path / f"at-{at}")
        copy.current()
        assert stopped(copy, command.work, at)
        erase(copy, copy.stores())
        assert command.name == "rotate" or copy.left(WORDS.values()) == {}, at
        with suppress(InputError, ConflictError):
            command.work(copy, copy.stores())
        erase(copy, copy.stores())
        if command.name == "rotate":
            copy.age(copy.objects())
            compact(copy.now(), "trial", Silent())
        assert copy.left(WORDS.values()) == {}, at
        others_there = {each for each in copy.names() if not each.startswith(WORDS["name"])}
        assert command.name == "replace" or others_there >= {f"n{number}" for number in range(23)}, at
        shutil.rmtree(copy.root)
