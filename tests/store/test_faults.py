"""Writers side by side, keys, nonces and canaries. How changes stop, and harms: test_kills.py, test_harms.py."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest

from cleave.ckks.owner_key import OwnerKey
from cleave.maintain.changes import delete_rows as delete
from cleave.maintain.changes import update_rows as update
from cleave.maintain.derive import derive_expression as derive
from cleave.maintain.pull import find_damage as verify
from cleave.objects.locate import Folder, Stores
from cleave.store import compacting
from cleave.store import put as putting
from cleave.store.compacting import compact
from cleave.store.seen_versions import SeenVersions
from cleave.store.tables import Tables
from cleave.sums.stored import Stored
from cleave.table.progress import Silent
from cleave.table.schema import load_schema
from cleave.table.stream import open_table
from cleave.table.table import Table
from cleave_shared.errors import CleaveError, InputError
from tests.store.asking import ask
from tests.store.faulty import Failing, KilledError
from tests.store.made import filled, loaded
from tests.store.nonces import never_twice

SUM = "SELECT COUNT(*), SUM(bill) FROM trial"
CSV = "ward,age,bill,name\nA,61,12.50,Ada\nB,47,99.00,Bo\nA,33,7.25,Cy\n"
SCHEMA = """
[columns.ward]
kind = "plain"
type = "VARCHAR"
[columns.age]
kind = "encrypted"
type = "BIGINT"
lower = 0
upper = 127
[columns.bill]
kind = "encrypted"
type = "DECIMAL(9,2)"
lower = 0
upper = 1000
[columns.name]
kind = "sealed"
type = "VARCHAR"
"""
ROWS, TOTAL = 3, "118.75"


@pytest.fixture
def table() -> Table:
    return loaded(CSV, SCHEMA)


class Place:
    """Two stores and the state of the client beside them, copied as a whole."""

    def __init__(self, root: Path, key: OwnerKey) -> None:
        self.root = root
        self.key = key

    def tables(self, wrap: Callable[[Folder], object] = lambda it: it) -> tuple[Tables, Stores]:
        stores = Stores(wrap(Folder(self.root / "s")), wrap(Folder(self.root / "p")))  # type: ignore[arg-type]
        return Tables(stores, self.key, SeenVersions(self.root / "tables.json")), stores

    def copy(self, to: Path) -> Place:
        shutil.copytree(self.root, to)
        return Place(to, self.key)

    def answer(self, sql: str) -> list[list[object]]:
        tables, _ = self.tables()
        with closing(Stored(tables, tables.open("trial"))) as stored:
            return ask(stored, sql).result.rows


Work = Callable[[Tables, Table], object]


def put_it(tables: Tables, table: Table) -> object:
    return putting.put(tables, table, "trial", ["ward"], Silent())


def put_at(root: Path, key: OwnerKey, table: Table) -> Place:
    """A place where the table was put, which is done once."""
    made = filled(("faults", key.key_id), lambda folder: put_it(Place(folder, key).tables()[0], table))
    return Place(made, key).copy(root)


def append_it(tables: Tables, table: Table) -> object:
    return putting.append(tables, table, "trial", Silent())


def add_it(tables: Tables, table: Table) -> object:
    return putting.append(tables, table, "trial", Silent(), again=True)


def derive_it(tables: Tables, _table: Table) -> object:
    return derive(tables, "trial", "bill * age", "weighted", Silent())


def delete_it(tables: Tables, _table: Table) -> object:
    return delete(tables, "trial", "name = 'Ada'", Silent(), yes=True)


def update_it(tables: Tables, _table: Table) -> object:
    return update(tables, "trial", {"bill": "bill + 1"}, "name <> 'Cy'", Silent())


def compact_it(tables: Tables, _table: Table) -> object:
    done = compact(tables, "trial", Silent())
    assert len(done.manifest.segments) < 3, "that of another's append stays"
    return done


def merge_it(tables: Tables, table: Table) -> object:
    """An append, and the change after it that merges two segments."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compacting, "MOST_SMALL", 1)
        patch.setattr(compacting, "_FEWEST", 2)
        return putting.append(tables, table, "trial", Silent(), again=True)


def killed_at(place: Place, work: Work, table: Table, at: int, *, made: bool) -> bool:
    """Whether `work` was killed at its change number `at`, counted over both stores."""
    wrapped: list[Failing] = []

    def wrap(folder: Folder) -> Failing:
        wrapped.append(Failing(folder, at if not wrapped else 10**6, made=made))
        return wrapped[-1]

    tables, _stores = place.tables(wrap)
    try:
        work(tables, table)
    except KilledError:
        return True
    return False


CHANGES = [
    (delete_it, [2 * ROWS, "237.50"], [4, "212.50"]),
    (update_it, [2 * ROWS, "237.50"], [2 * ROWS, "241.50"]),
    (compact_it, [2 * ROWS, "237.50"], [2 * ROWS, "237.50"]),
    (merge_it, [2 * ROWS, "237.50"], [3 * ROWS, "356.25"]),
]


def start_of(work: Work, root: Path, key: OwnerKey, table: Table) -> Place:
    """The table where `work` begins: of two segments for what changes rows."""
    if work not in [each for each, _, _ in CHANGES]:
        return put_at(root, key, table)

    def fill(folder: Path) -> None:
        append_it(put_at(folder / "two", key, table).tables()[0], table)

    return Place(filled(("faults", "two", key.key_id), fill) / "two", key).copy(root)


@pytest.mark.parametrize(("work", "before", "after"), CHANGES)
@pytest.mark.sampled(4)
def test_of_two_writers_both_change_the_table(
    tmp_path: Path, key: OwnerKey, table: Table, work: Work, before: object, after: object
) -> None:
    """Another one appends before the commit: the work is done as if it came last."""
    place = start_of(work, tmp_path / "place", key, table)
    tables, _stores = place.tables()
    real = tables.commit

    def meanwhile(*given: object, **more: object) -> object:
        tables.commit = real  # type: ignore[method-assign]
        putting.append(place.tables()[0], table, "trial", Silent(), again=True)
        return real(*given, **more)  # type: ignore[arg-type]

    tables.commit = meanwhile  # type: ignore[method-assign,assignment]
    work(tables, table)
    alone = start_of(work, tmp_path / "alone", key, table)
    putting.append(alone.tables()[0], table, "trial", Silent(), again=True)
    work(alone.tables()[0], table)
    assert place.answer(SUM) == alone.answer(SUM)
    tables = place.tables()[0]
    assert verify(Stored(tables, tables.open("trial")), Silent()) == []
    assert before != after or work is compact_it


def test_rows_that_cannot_be_compared_with_those_of_a_stopped_append_are_refused(
    tmp_path: Path, key: OwnerKey, table: Table
) -> None:
    """It was stopped after its commit, and columns have changed since: they are not added a second time."""
    place = put_at(tmp_path / "place", key, table)
    tables, _stores = place.tables()
    real = tables.commit

    def killed(*given: object, **more: object) -> object:
        real(*given, **more)  # type: ignore[arg-type]
        raise KilledError

    tables.commit = killed  # type: ignore[method-assign,assignment]
    with pytest.raises(KilledError):
        putting.append(tables, table, "trial", Silent())
    tables, _stores = place.tables()
    derive_it(tables, table)
    with pytest.raises(InputError, match="cannot be told"):
        putting.append(tables, table, "trial", Silent())
    assert place.answer(SUM) == [[2 * ROWS, Decimal("237.50")]]
    putting.append(tables, table, "trial", Silent(), again=True)
    assert place.answer(SUM) == [[3 * ROWS, Decimal("356.25")]]


def test_no_key_seals_twice_with_one_nonce(tmp_path: Path, key: OwnerKey, table: Table) -> None:
    """Whatever is changed, killed and repeated."""
    with never_twice():
        place = start_of(delete_it, tmp_path / "place", key, table)
        for work in (update_it, merge_it, delete_it, add_it, compact_it):
            for at in (5, 9):
                assert killed_at(place, work, table, at, made=True)
            work(place.tables()[0], table)


def test_leftovers_are_swept_when_they_are_a_day_old(tmp_path: Path, key: OwnerKey, table: Table) -> None:
    """By `compact`: until then somebody may still write them."""
    place = put_at(tmp_path / "place", key, table)
    assert killed_at(place, append_it, table, 3, made=True)
    tables, stores = place.tables()
    opened = compact(tables, "trial", Silent())
    left = {*stores.sensitive.names("tables")} - tables.named(opened)
    assert left
    for name in left:
        os.utime(place.root / "s" / name, (0, 0))
    opened = compact(tables, "trial", Silent())
    assert {*stores.sensitive.names("tables")} <= tables.named(opened)
    assert verify(Stored(tables, opened), Silent()) == []


def test_another_key_reads_nothing(tmp_path: Path, key: OwnerKey, other_key: OwnerKey, table: Table) -> None:
    put_at(tmp_path / "place", key, table)
    with pytest.raises(CleaveError):
        Place(tmp_path / "place", other_key).answer(SUM)


def test_nothing_can_be_read_in_either_store(tmp_path: Path, key: OwnerKey) -> None:
    """Canaries: sensitive cells, names, keys of cells that are sealed, and names of columns."""
    canaries = ["Zweifelsdorf", "Krankenakte", "diagnosis_code", "C50.911", "8675309", "Quarantaene"]
    (tmp_path / "Quarantaene.csv").write_text(
        "ward,diagnosis_code,phone,name\n" + "A,C50.911,8675309,Zweifelsdorf\n" * 50 + "B,C50.911,8675309,Krankenakte\n"
    )
    text = SCHEMA.replace(
        "[columns.age]", "[columns.diagnosis_code]\nkind = 'sealed'\ntype = 'VARCHAR'\n[columns.phone]"
    )
    text = text[: text.index("[columns.bill]")].replace("upper = 127", "upper = 9000000") + "[columns.name]\n"
    (tmp_path / "q.toml").write_text(text + 'kind = "sealed"\ntype = "VARCHAR"\n')
    place = Place(tmp_path / "place", key)
    with open_table([tmp_path / "Quarantaene.csv"], load_schema(tmp_path / "q.toml")) as table:
        tables, _stores = place.tables()
        putting.put(tables, table, "Quarantaene", ["diagnosis_code", "ward"], Silent())
    files = [path for path in (tmp_path / "place").rglob("*") if path.is_file()]
    assert len(files) > 8
    for path in files:
        content = str(path.relative_to(tmp_path)).encode() + path.read_bytes()
        for canary in canaries:
            assert canary.encode() not in content, path
            assert canary.lower().encode() not in content.lower(), path
