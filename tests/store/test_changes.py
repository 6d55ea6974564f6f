"""Rows deleted and changed: what is left is what DuckDB leaves of the unsplit table, in every total and row."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from cryptography.exceptions import InvalidSignature

import cleave
from cleave.ckks.owner_key import OwnerKey
from cleave.maintain.changes import delete_rows as delete
from cleave.maintain.changes import update_rows as update
from cleave.maintain.derive import derive_expression as derive
from cleave.maintain.pull import find_damage as verify
from cleave.maintain.record import Deleted, OldVersions, signed_record
from cleave.objects.locate import Folder
from cleave.store import put as putting
from cleave.store.cells import Cells
from cleave.store.compacting import MOST_SMALL, compact, merge_due, merges
from cleave.store.manifest import Manifest, Segments
from cleave.store.pages import pages_of
from cleave.sums.stored import Stored
from cleave.table.progress import Silent
from cleave.table.schema import Kind
from cleave_shared.errors import InputError
from tests.store.asking import ask, reads_of
from tests.store.contributing import World as Parties
from tests.store.contributing import kept
from tests.store.faulty import KilledError
from tests.store.test_contributors import NORTH, OWN, SOUTH
from tests.store.trial import World, samples, truth

QUESTIONS = (
    "SELECT ward, COUNT(*), COUNT(bill), SUM(bill), SUM(age), VAR_POP(age) FROM trial GROUP BY ward ORDER BY ward",
    "SELECT COUNT(*), SUM(bill * age), AVG(weight) FROM trial",
)
DELETES = (
    "ward = 'Surgery'",
    "age > 60",
    "bill > 3000 AND ward <> 'Oncology'",
    "email LIKE '%a%'",
    "admitted < DATE '2025-03-01'",
    "NOT (weight > 60)",
    "ward IS NOT NULL OR ward IS NULL",
)
UPDATES = (
    ({"bill": "bill * 1.1"}, "age > 50"),
    ({"age": "least(age + 1, 100)", "email": "upper(email)"}, "ward = 'Surgery'"),
    ({"bill": "age", "age": "CAST(least(bill / 100, 99) AS BIGINT)"}, "bill IS NOT NULL AND age IS NOT NULL"),
    ({"ward": "'Ward of ' || length(ward)"}, "age < 40"),
)


@pytest.fixture
def world(tmp_path: Path, key: OwnerKey) -> World:
    world = World(Folder(tmp_path / "s"), key, tmp_path, Folder(tmp_path / "p"))
    world.put("ward", appended=1)
    return world


class Unsplit:
    """The same rows in one DuckDB table, in a database of its own."""

    _numbers = itertools.count()

    def __init__(self, copies: int = 2) -> None:
        one = samples()
        self.connection = one.connection.cursor()
        self.source = f"memory.main.{one.relation}"
        database = f"unsplit_{next(self._numbers)}"
        self.connection.execute(f"ATTACH ':memory:' AS {database}; USE {database}")
        every = " UNION ALL ".join([f"FROM {self.source}"] * copies)
        kept = ", ".join(each.name for each in one.schema.columns if each.kind is not Kind.LOCAL)
        self.connection.execute(f"CREATE TABLE trial AS SELECT {kept} FROM ({every})")

    def rows(self, sql: str = "FROM trial") -> list[tuple[object, ...]]:
        return self.connection.execute(sql).fetchall()


def pulled(world: World, names: Sequence[str] | None = None) -> list[tuple[object, ...]]:
    with closing(world.stored()) as stored:
        return rows_of(stored, names)


def rows_of(stored: Stored, names: Sequence[str] | None = None) -> list[tuple[object, ...]]:
    with stored.rows.table(names or stored.schema.names, ordered=True) as table:
        return table.connection.execute(f"SELECT {', '.join(names or ['*'])} FROM {table.relation}").fetchall()


def agrees(world: World, unsplit: Unsplit, *, in_order: bool = True, by: Sequence[str] = ("ward",)) -> None:
    """Rows, answers by totals and from rows, cells; every object is as it was written."""
    with closing(world.stored()) as stored:
        found, wanted = list(map(str, rows_of(stored))), list(map(str, unsplit.rows()))
        assert found == wanted if in_order else sorted(found) == sorted(wanted)
        for sql in QUESTIONS:
            found = ask(stored, sql, cloud_only=False).result.rows
            wanted = unsplit.rows(sql)
            assert len(found) == len(wanted)
            for row, expected in zip(found, wanted, strict=True):
                for value, exact in zip(row, expected, strict=True):
                    if isinstance(exact, float):
                        assert value == pytest.approx(exact, rel=1e-12)
                    else:
                        assert value == exact or str(value) == str(exact)
        assert verify(stored, Silent()) == []
    tables = world.tables
    opened = tables.open("trial")
    cells = tables.cells(opened)
    filled = sum(rows > 0 for rows in cells.rows)
    assert filled == len(unsplit.rows(f"SELECT DISTINCT {', '.join(by) or '1'} FROM trial"))
    assert sum(cells.rows) == opened.manifest.rows


@pytest.mark.sampled(6)  # the first and the last, which leaves no row
@pytest.mark.parametrize("where", DELETES)
def test_what_is_left_is_what_duckdb_leaves(world: World, where: str) -> None:
    unsplit = Unsplit()
    ((gone,),) = unsplit.rows(f"DELETE FROM trial WHERE {where}")
    before = world.stored().manifest
    changed = delete(world.tables, "trial", where, Silent(), yes=True)
    done = world.tables.open("trial")
    assert changed.rows == gone == before.rows - done.manifest.rows
    assert world.tables.log(done)[-1].what == "delete"
    assert world.tables.log(done)[-1].rows == -gone
    agrees(world, unsplit)
    there = {*world.stores.sensitive.names("tables"), *world.stores.plain.names("tables")}
    left = {each.rpartition("/")[2] for each in there - done.manifest.objects()}
    assert len(left) == 3  # the head, the manifest, the log
    assert changed.segments == tuple((number, gone // 2, 600) for number in (1, 2))
    if where == DELETES[-1]:
        assert done.manifest.segments == ()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["plain", "sealed"])
def test_an_update_says_that_the_plain_place_sees_its_segments(
    tmp_path: Path, key_file: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A segment is rewritten whole, so its plain columns are read, though only a sealed one changes."""
    place = {"store": f"{tmp_path}/s,{tmp_path}/p", "key": key_file}
    first, second = (pd.DataFrame({"ward": ["A", "B"], "note": notes}) for notes in (["v", "w"], ["x", "y"]))
    cleave.put(first, "t", by=[], schema={"ward": kind, "note": "sealed"}, **place)
    cleave.append(second, "t", schema={"ward": kind, "note": "sealed"}, **place)
    read = reads_of(f"{tmp_path}/p", monkeypatch)
    changed = cleave.update("t", {"note": "NULL"}, "note = 'y'", **place)
    assert len(read) == (kind == "plain")
    assert changed.reveals == ("which segments have changed rows" if kind == "plain" else "")


@pytest.mark.sampled(4)  # plain columns: `test_all_rows_change_where_the_condition_is_true`
@pytest.mark.parametrize(("values", "where"), UPDATES)
def test_new_values_are_duckdbs(world: World, values: dict[str, str], where: str) -> None:
    unsplit = Unsplit()
    sets = ", ".join(f"{name} = {value}" for name, value in values.items())
    ((touched,),) = unsplit.rows(f"UPDATE trial SET {sets} WHERE {where}")
    before = world.stored().manifest
    changed = update(world.tables, "trial", values, where, Silent(), yes=True)
    done = world.tables.open("trial")
    assert changed.rows == touched
    plain = {each.plain.name for each in before.segments if each.plain}
    kept = before.objects() & done.manifest.objects()
    assert kept == {
        before.secret.name,
        *(set() if "ward" in values else {*plain, *(each.name for each in before.cells)}),
    }
    assert changed.reveals.startswith("which rows change" if "ward" in values else "which segments have changed rows")
    agrees(world, unsplit, in_order=False)  # DuckDB's updates may change the order of rows
    names = ["age", "bill"] if "bill" in values else ["ward", "age"]
    world.put(append=True)  # after it, the table is as any other
    unsplit.connection.execute(f"INSERT INTO trial BY NAME SELECT ward, age, bill FROM {unsplit.source}")
    assert sorted(map(str, pulled(world, names))) == sorted(
        map(str, unsplit.rows(f"SELECT {', '.join(names)} FROM trial"))
    )


def test_rows_keep_their_order_and_null_is_no_match(world: World) -> None:
    nulls = [row[0] is None for row in pulled(world, ["weight"])]
    assert any(nulls)
    delete(world.tables, "trial", "weight > 0", Silent(), yes=True)
    assert [row[0] for row in pulled(world, ["weight"])] == [None] * sum(nulls)


def test_all_rows_change_where_the_condition_is_true(world: World) -> None:
    unsplit = Unsplit()
    unsplit.connection.execute("UPDATE trial SET bill = bill / 2, ward = ward || '!'")
    values = {"bill": "bill / 2", "ward": "ward || '!'"}
    assert update(world.tables, "trial", values, "TRUE", Silent(), dry_run=True).rows == 1200
    update(world.tables, "trial", values, "TRUE", Silent(), yes=True)
    agrees(world, unsplit)


@pytest.mark.parametrize("dry_run", [False, True])
def test_nothing_is_written_for_nothing(world: World, *, dry_run: bool) -> None:
    before = {*world.stores.sensitive.names("tables"), *world.stores.plain.names("tables")}
    changed = delete(world.tables, "trial", "age > 60" if dry_run else "age > 126", Silent(), dry_run=dry_run)
    assert bool(changed.rows) == dry_run
    found = update(world.tables, "trial", {"age": "1"}, "age > 126", Silent())
    assert (found.rows, found.repeated) == (0, False)
    assert {*world.stores.sensitive.names("tables"), *world.stores.plain.names("tables")} == before


@pytest.mark.parametrize(
    ("where", "values", "said"),
    [
        ("age > 60", None, "the plain place would learn which rows are deleted, .* not plain: age"),
        ("age > 60", {"ward": "'x'"}, "would learn which rows change, and their new values of ward.*: age"),
        ("ward = 'Surgery'", {"ward": "upper(email)"}, "new values of ward.*: email"),
        ("age > ", None, "the condition is not one expression"),
        ("age", None, "the condition is BIGINT, and must be BOOLEAN"),
        ("agee > 1", None, "the condition names no column"),
        ("TRUE", None, "the condition names no column"),
        ("TRUE", {"age": "1"}, "the condition names no column: it holds for all rows"),
        ("age > 1; DROP TABLE x", None, "is not one expression"),
        ("age > 1) OR (true", None, "is not one expression"),
        ("age > 1 -- x", None, "the plain place would learn which rows are deleted"),
        ("age > 1\0 OR true", None, "is not one expression"),
        ("age > ?", None, "the condition is no expression over a row: a parameter has no value"),
        ("random() > age", None, "depends on more than the row"),
        ("CAST(email AS BIGINT) = 1", None, "the condition cannot be computed in some row"),
        ("age > 60", {"agee": "1"}, "agee"),
        ("age > 60", {"age": "SUM(age)"}, "new value of column 'age'"),
        ("age > 60", {"age": "age * 1000"}, "column 'age': its new value in some row breaks the schema.*above upper"),
        ("age > 60", {"age": "email"}, "column 'age': its new value cannot be computed in some row"),
        ("age > 60", {"bill": "-16777217"}, "column 'bill'.*below lower"),
    ],
)
def test_wrong_changes_are_refused(untouched: World, where: str, values: dict[str, str] | None, said: str) -> None:
    world = untouched
    there = {*world.stores.sensitive.names("tables"), *world.stores.plain.names("tables")}
    change = delete if values is None else partial(update, values=values)
    with pytest.raises(InputError, match=said) as error:
        change(world.tables, "trial", where=where, progress=Silent())
    assert not any(value in str(error.value) for value in unquoted())
    assert {*world.stores.sensitive.names("tables"), *world.stores.plain.names("tables")} == there


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory, key: OwnerKey) -> World:
    """Each test shows that it changed nothing."""
    folder = tmp_path_factory.mktemp("untouched")
    world = World(Folder(folder / "s"), key, folder, Folder(folder / "p"))
    world.put("ward", appended=1)
    return world


def unquoted() -> list[str]:
    return [str(email) for (email,) in truth("SELECT DISTINCT email FROM trial WHERE email IS NOT NULL")]


@pytest.mark.slow  # quick: test_kills.py repeats changes
def test_the_same_update_is_made_once(world: World) -> None:
    values, where = {"bill": "bill * 1.5"}, "bill < 1000"
    unsplit = Unsplit()
    unsplit.rows("UPDATE trial SET bill = bill * 1.5 WHERE bill < 1000")
    update(world.tables, "trial", values, where, Silent())
    version = world.stored().manifest.version
    world.tables.record(world.tables.open("trial"), "an event of others", 0)
    assert update(world.tables, "trial", values, where, Silent()).repeated
    agrees(world, unsplit, in_order=False)
    assert update(world.tables, "trial", values, where, Silent(), again=True).version == version + 1
    assert update(world.tables, "trial", values, "bill < 999", Silent()).version == version + 2
    assert update(world.tables, "trial", values, where, Silent()).version == version + 3, "another was made since"
    world.put(append=True)
    assert update(world.tables, "trial", values, where, Silent()).repeated, "only an append was made since"


@pytest.mark.slow  # quick: test_products.py changes rows under products
@pytest.mark.parametrize("by", [("insured", "ward"), ("ward",), ()])
@pytest.mark.sampled(3)
def test_derived_totals_and_scans_follow(tmp_path: Path, key: OwnerKey, by: tuple[str, ...]) -> None:
    world = World(Folder(tmp_path / "s"), key, tmp_path, Folder(tmp_path / "p"))
    world.put(*by, scan=True)
    derive(world.tables, "trial", "bill * age", "weighted", Silent())
    unsplit = Unsplit(1)
    unsplit.rows("DELETE FROM trial WHERE age > 60")
    delete(world.tables, "trial", "age > 60", Silent(), yes=True)
    done = world.tables.open("trial")
    assert all(each.scan is not None for each in done.manifest.segments)
    agrees(world, unsplit, by=by)
    (row,) = world.ask("SELECT SUM(weighted) FROM trial").result.rows
    assert row == list(unsplit.rows("SELECT SUM(bill * age) FROM trial")[0])


def test_a_record_is_signed_and_says_what_is_gone(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Verified as docs/erasure.md says."""
    before, deletions = world.stored().manifest, list[Deleted]()
    changed = delete(world.tables, "trial", "ward = 'Surgery'", Silent(), finish=deletions.append)
    done = world.tables.open("trial")
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "erasure.md").read_text()
    recipe = page.partition("```python\n")[2].partition("```")[0]
    file, ends = tmp_path / "erased.json", []
    for stated in (None, 30):
        old_versions = OldVersions.from_stores(world.tables.stores, stated)
        record, unsure = signed_record(world.key, deletions[0], old_versions)
        file.write_bytes(record)
        exec(recipe)  # noqa: S102 - ours
        found = json.loads(file.read_text())
        later = datetime.fromisoformat(found["restorable_until"]) - datetime.fromisoformat(found["at"])
        ends.append((found["restorable_source"], later.days, unsure))
    assert ends == [("store", 0, ""), ("user", 30, "")], "a folder keeps no old versions"
    assert (found["rows_deleted"], found["rows_left"]) == (changed.rows, done.manifest.rows)
    gone = {each["name"] for each in found["objects_gone"]}
    plain = {each.plain.name for each in before.segments if each.plain}
    lists = {*pages_of(before), *(each.name for each in before.cells)}
    assert gone == before.objects() - done.manifest.objects() - plain - lists
    file.write_text(json.dumps({**found, "rows_deleted": 1}))
    with pytest.raises(InvalidSignature):
        exec(recipe)  # noqa: S102 - ours


@pytest.mark.sampled(2)
@pytest.mark.parametrize("where", ["ward = 'Surgery'", "ward = 'Surgery' OR true"])  # the second leaves no segment
def test_a_delete_that_was_stopped_before_its_record_is_repeated_for_it(
    world: World, tmp_path: Path, where: str
) -> None:
    def stop(_: Deleted) -> None:
        raise KilledError

    with pytest.raises(KilledError):
        delete(world.tables, "trial", where, Silent(), finish=stop)
    done, deletions = world.tables.open("trial"), list[Deleted]()
    world.put(append=True)  # others go on meanwhile
    again = delete(world.tables, "trial", where, Silent(), finish=deletions.append)
    assert (again.version, again.repeated) == (done.manifest.version, True)
    assert deletions[0].changed == again
    assert deletions[0].left == done.manifest.rows
    assert signed_record(world.key, deletions[0], OldVersions(30))
    found = delete(world.tables, "trial", "age > 126", Silent())
    assert (found.rows, found.repeated) == (0, False)


def test_small_segments_are_merged_in_order(world: World) -> None:
    world.put(append=True)
    rows = pulled(world)
    done = compact(world.tables, "trial", Silent())
    assert len(done.manifest.segments) == 1
    assert pulled(world) == rows
    agrees(world, Unsplit(3))
    assert compact(world.tables, "trial", Silent()).manifest.version == done.manifest.version
    assert world.tables.log(done)[-1].rows == 0


def merged(sizes: list[int], manifest: Manifest) -> list[int]:
    """Sizes after `merge_due`, of segments like the first of `manifest`."""
    first = manifest.segments[0]
    segments = Segments.of(first.model_copy(update={"id": f"{i:032x}", "rows": n}) for i, n in enumerate(sizes))
    if together := merge_due(manifest.model_copy(update={"segments": segments})):
        start = int(together[0].id, 16)
        sizes = [*sizes[:start], sum(each.rows for each in together), *sizes[start + len(together) :]]
    return sizes


def test_appends_merge_a_bounded_amount(world: World) -> None:
    """However many appends: few segments are left, and each row is written again a few times only."""
    manifest, sizes, written, appends = world.stored().manifest, [1000], 0, 3000
    for _ in range(appends):
        after = merged(sizes, manifest)
        written += sum(after) - sum(min(one, other) for one, other in zip(after, sizes, strict=False))
        assert sum(after) == sum(sizes)
        sizes = [*after, 1000]
        assert len(sizes) <= MOST_SMALL + 8
    assert written < 8 * 1000 * appends


@pytest.mark.slow  # quick: test_kills.py and test_keys.py merge so
def test_an_append_beyond_the_limit_merges_and_is_recognised(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cleave.store.compacting.MOST_SMALL", 2)
    monkeypatch.setattr("cleave.store.compacting._FEWEST", 2)
    world.put(append=True)
    assert len(world.stored().manifest.segments) == 1, "a change of its own, after the append"
    opened = putting.append(world.tables, samples(), "trial", Silent(), again=True)
    assert len(opened.manifest.segments) == 2
    said: list[str] = []
    again = putting.append(world.tables, samples(), "trial", Silent(), say=said.append)
    assert again.manifest.version == opened.manifest.version
    assert "nothing is added" in said[-1]
    agrees(world, Unsplit(4))


def test_rows_of_contributors_are_deleted_and_taken_back(tmp_path: Path, key_file: Path) -> None:
    """The contributor stays; what it takes back later is what was left of its part."""
    world = kept(tmp_path / "world", key_file, contributed)
    tables, _stores = world.tables()
    before = tables.open("trial").manifest
    delete(tables, "trial", "name LIKE '%a%'", Silent(), yes=True)
    done = tables.open("trial")
    (who,) = done.manifest.contributors
    named = {id_ for part in who.parts for id_ in part.segments}
    mine = {each.id for each in done.manifest.segments if each.contributor == "north"}
    assert named == mine
    assert mine
    assert done.manifest.rows < before.rows
    world.contribute("north", NORTH.splitlines(keepends=True)[0], replace=True)
    world.collect()
    left = tables.open("trial").manifest
    assert not mine & {each.id for each in left.segments}


def cells_of(world: World) -> Cells:
    return world.tables.cells(world.tables.open("trial"))


def contributed(world: Parties) -> None:
    world.put(OWN)
    world.register("north")
    world.contribute("north", NORTH)
    world.collect()


@pytest.mark.slow  # quick: the test above
def test_parts_of_contributors_are_not_mixed(tmp_path: Path, key_file: Path) -> None:
    world = kept(tmp_path / "world", key_file, contributed)
    world.contribute("north", SOUTH)
    world.collect()
    tables, _stores = world.tables()
    before = [each.contributor for each in tables.open("trial").manifest.segments]
    assert before == [None, "north", "north"]
    assert merges(tables.open("trial").manifest) == []
