"""A row is published once (rules R1 and R3): marks and digests follow it through every change."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from cleave.ckks.key_file import create_key, open_key
from cleave.contributions.collect import collect
from cleave.contributions.invitation import remove
from cleave.maintain.alter import Alteration
from cleave.maintain.alter import alter_columns as alter
from cleave.maintain.changes import delete_rows as delete
from cleave.maintain.changes import update_rows as update
from cleave.maintain.pull import find_damage as verify
from cleave.maintain.rotate import move_table as rotate
from cleave.releases.exact import ExactDraft
from cleave.releases.page import is_page_of, page_of
from cleave.releases.releases import drafted
from cleave.store import put as putting
from cleave.store.compacting import compact
from cleave.store.manifest import MARK
from cleave.store.published import ENDS, Digests
from cleave.store.rows import Rows
from cleave.store.seen_versions import SeenVersions
from cleave.store.tables import Tables
from cleave.table.progress import Silent
from cleave.table.schema import load_schema
from cleave_shared.errors import InputError
from tests.store.contributing import SCHEMA, copied_for_each, kept_as
from tests.store.made import loaded
from tests.store.releasing import Releases, rows

A, B = ("A", "f"), ("B", "f")
FIRST = rows([A] * 6 + [B] * 3)  # of p0 to p8; the last three wait


class Keyed(Releases):
    def put_rows(
        self, *, key: Sequence[str] = ("name",), privacy: str = "", csv: str = FIRST, change: bool = False
    ) -> None:
        """`change`: the table is there, and is replaced."""
        text = SCHEMA + (f"[privacy]\n{privacy}\n" if privacy else "")
        table = loaded(self.header + csv, text)
        tables = self.tables()[0]
        putting.put(tables, table, self.name, ("ward", "sex"), Silent(), key=key, replace=change)

    def append(self, csv: str, *, upsert: bool = False) -> None:
        tables = self.tables()[0]
        with self.table(csv) as table:
            putting.append(tables, table, self.name, Silent(), again=True, upsert=upsert, yes=True)

    def delete(self, where: str) -> None:
        tables = self.tables()[0]
        delete(tables, self.name, where, Silent(), yes=True)
        tables.open(self.name)

    def marked(self, tables: Tables | None = None) -> dict[str, bool]:
        """Which rows are published, by name."""
        tables = tables or self.tables()[0]
        opened = tables.open(self.name)
        found: dict[str, bool] = {}
        with closing(Rows(tables, opened)) as stored, stored.table({"name", MARK}) as table:
            found = dict(table.connection.execute(f'SELECT name, "{MARK}" FROM {table.relation}').fetchall())
        left = sum(each.rows if each.unpublished is None else each.unpublished for each in opened.manifest.segments)
        assert left == len(found) - sum(found.values())
        return found

    def published(self) -> set[str]:
        return {name for name, mark in self.marked().items() if mark}


def names(*numbers: int) -> set[str]:
    return {f"p{number}" for number in numbers}


def keyed(world: Keyed) -> None:
    world.put_rows()
    world.release("carol")


def unkeyed(world: Keyed) -> None:
    world.put_rows(key=())
    world.release("carol")


def of_people(world: Keyed) -> None:
    world.put_rows(key=(), privacy='entity = ["name"]')
    world.release("carol")


world = copied_for_each(keyed, Keyed)


def test_a_release_marks_the_rows_of_its_parts(world: Keyed) -> None:
    assert world.published() == names(*range(6))
    assert world.shown("carol") == {A: 6}
    world.append(rows([B] * 2, 9))
    world.release()
    assert world.published() == names(*range(11))
    assert world.shown("carol") == {A: 6, B: 5}
    assert [each.unpublished for each in world.open().manifest.segments] == [0, 0]


def test_a_release_reads_no_segment_that_is_wholly_published(world: Keyed) -> None:
    world.append(rows([B] * 2, 9))
    world.release()
    world.append(rows([A] * 5, 20))
    draft = drafted(world.tables()[0], world.name, {})
    assert isinstance(draft, ExactDraft)
    assert [each.segment.rows for each in draft.found.read] == [5]
    assert [(each.key, each.rows) for each in draft.found.parts] == [(A, 5)]


CHANGES: dict[str, Callable[[Tables, Keyed], object]] = {
    "update": lambda tables, _: update(
        tables, "trial", {"age": "age + 1", "ward": "'Z'"}, "age < 24", Silent(), yes=True
    ),
    "compact": lambda tables, _: compact(tables, "trial", Silent()),
    "alter": lambda tables, _: alter(
        tables,
        "trial",
        Alteration(widen=["age=0..60000"], rename=["bill=cost"], drop=["weight"], add=["x BIGINT"]),
        Silent(),
    ),
    "by": lambda tables, _: alter(tables, "trial", Alteration(by=["sex"]), Silent()),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("change", CHANGES)
def test_marks_go_with_their_rows(world: Keyed, change: str) -> None:
    world.append(rows([A, B], 9))
    before, tables = world.marked(), world.tables()[0]
    CHANGES[change](tables, world)
    tables.open(world.name)
    assert world.marked() == before
    assert world.published() == names(*range(6))


def test_a_row_that_moves_is_not_published_again(world: Keyed) -> None:
    """With three that wait there would be nine; of p1 alone the difference would tell."""
    update(world.tables()[0], world.name, {"ward": "'B'"}, "ward = 'A'", Silent(), yes=True)
    made = world.release()
    assert (made.parts, made.waiting) == (0, 1)
    world.append(rows([B] * 2, 9))
    assert world.release().new_rows == 5
    assert world.shown("carol") == {A: 6, B: 5}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("keys", [keyed, of_people])
def test_a_deleted_row_comes_back_published(tmp_path: Path, key_file: Path, keys: Callable[[Keyed], None]) -> None:
    world = kept_as(Keyed, tmp_path / "world", key_file, keys)
    world.delete("name IN ('p0', 'p1', 'p2', 'p3', 'p4')")
    world.append(rows([B] * 5) + rows([B], 30))
    assert world.published() == names(*range(6))
    made = world.release()
    assert (made.parts, made.new_rows, made.waiting) == (0, 0, 1), "three that wait, and p30"
    world.append(rows([B], 31))
    assert world.release().new_rows == 5


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", [keyed, of_people])
def test_a_refused_update_says_that_rows_put_again_are_released_again(
    tmp_path: Path, key_file: Path, kind: Callable[[Keyed], None]
) -> None:
    world = kept_as(Keyed, tmp_path / "world", key_file, kind)
    with pytest.raises(InputError) as caught:
        update(world.tables()[0], world.name, {"name": "'other'"}, "name = 'p0'", Silent())
    assert (caught.value.hint or "").endswith("; the next release then has them again, beside what it had")


def test_no_value_breaks_the_lines_of_a_page(world: Keyed) -> None:
    hostile = '"x\n\n## Waiting\n\nApproved by: J. Doe"'
    world.append(rows([(hostile, "f")] * 5 + [("C", "f")] * 5, 20))
    draft = drafted(world.tables()[0], world.name, {})
    page = page_of(draft)
    assert [line[:12] for line in page.splitlines() if "Approved by" in line] == ["- ward = x\\n", "Approved by:"]
    assert is_page_of(draft, page.rstrip() + " J. Doe")
    assert not is_page_of(draft, page.replace("ward = C, sex = f: 5 rows", "ward = C, sex = f: 50 rows"))


def test_an_upsert_keeps_what_is_published(world: Keyed) -> None:
    world.append(rows([B] * 3) + rows([B] * 2, 40), upsert=True)
    assert world.published() == names(*range(6))
    assert world.release().new_rows == 5, "three that waited, p40 and p41"
    assert world.shown("carol") == {A: 6, B: 5}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("keys", [keyed, of_people])
def test_a_replaced_table_keeps_what_is_published(
    tmp_path: Path, key_file: Path, keys: Callable[[Keyed], None]
) -> None:
    world = kept_as(Keyed, tmp_path / "world", key_file, keys)
    key, privacy = (("name",), "") if keys is keyed else ((), 'entity = ["name"]')
    world.put_rows(key=key, privacy=privacy, csv=rows([B] * 12), change=True)
    assert world.published() == names(*range(6))
    assert world.release().new_rows == 6


def test_a_table_with_other_key_columns_gets_no_further_parts(world: Keyed) -> None:
    world.put_rows(key=("name", "age"), change=True)
    with pytest.raises(InputError, match="no further parts"):
        world.release()
    made = world.release(new_lineage=True, yes=True)
    assert (made.begins, made.parts, made.number) == (True, 1, 2)
    assert world.published() == names(*range(6))


@pytest.mark.slow  # quick: the test above
def test_a_table_with_cells_of_another_type_gets_no_further_parts(world: Keyed) -> None:
    """The cells that were released could not be read as that type."""
    text = SCHEMA.replace(
        '[columns.sex]\nkind = "sealed"\ntype = "VARCHAR"', '[columns.sex]\nkind = "sealed"\ntype = "INTEGER"'
    )
    assert text != SCHEMA
    tables, csv = world.tables()[0], world.header + FIRST.replace(",f,", ",1,")
    by, key = ("ward", "sex"), ("name",)
    putting.put(tables, loaded(csv, text), world.name, by, Silent(), key=key, replace=True)
    with pytest.raises(InputError, match="no further parts"):
        world.release()
    world.release("dave")
    assert world.shown("dave") == {A: 6}
    world.revoke("carol")
    assert world.shown("dave") == {A: 6}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("change", ["by", "replace", "delete", "remove", "collect"])
def test_what_ends_a_lineage_says_so(tmp_path: Path, key_file: Path, change: str) -> None:
    world = kept_as(Keyed, tmp_path / "world", key_file, unkeyed)
    tables = world.tables()[0]
    said: list[str] = []
    if change == "by":
        alter(tables, world.name, Alteration(by=["ward"]), Silent(), said.append)
    elif change == "replace":
        loaded_anew = loaded(world.header + FIRST, SCHEMA)
        by = ("ward", "sex")
        putting.put(tables, loaded_anew, world.name, by, Silent(), replace=True, warn=said.append)
    elif change == "delete":
        for dry_run in (True, False):
            changed = delete(tables, world.name, "name = 'p0'", Silent(), yes=True, dry_run=dry_run)
            assert changed.ends_releases
        said.append(ENDS)
    else:
        world.register("north")
        world.contribute("north", rows([A] * 5, 50))
        world.collect()
        world.append(rows([A] * 5, 60))
        assert world.release().new_rows == 10
        if change == "remove":
            remove(tables, world.name, "north", said.append)
        else:
            world.contribute("north", rows([A] * 5, 70), replace=True)
            collect(tables, world.name, Silent(), (), said.append)
            collect(tables, world.name, Silent(), (), said.append)
    assert said == [ENDS] if change != "by" else "is by ward, sex again" in said[0]
    with pytest.raises(InputError, match="no further parts"):
        world.release()
    cells = world.shown("carol")
    world.release("dave")
    assert world.shown("dave") == cells
    world.revoke("carol")
    assert world.shown("dave") == cells


def test_a_delete_of_rows_that_wait_ends_nothing(tmp_path: Path, key_file: Path) -> None:
    world = kept_as(Keyed, tmp_path / "world", key_file, unkeyed)
    for dry_run in (True, False, False):
        changed = delete(world.tables()[0], world.name, "name = 'p7'", Silent(), yes=True, dry_run=dry_run)
        assert not changed.ends_releases
    world.append(rows([B] * 3, 20))
    assert world.release().new_rows == 5


def test_a_contributor_who_puts_rows_elsewhere_publishes_none_again(tmp_path: Path, key_file: Path) -> None:
    world = Keyed(tmp_path / "world", key_file)
    world.put_rows()
    world.register("north")
    world.contribute("north", rows([A] * 6, 50))
    world.collect()
    world.release("carol")
    assert world.published() == names(*range(6), *range(50, 56))
    world.contribute("north", rows([B] * 6, 50) + rows([B] * 6, 70), replace=True)
    world.collect()
    assert world.published() == names(*range(6), *range(50, 56))
    assert world.release().parts == 0, "three of the owner's are too few for north"


def test_a_rotated_table_keeps_its_releases(world: Keyed) -> None:
    world.append(rows([A, B], 9))
    world.delete("name = 'p0'")
    before, path = world.marked(), world.root / "new.json"
    create_key(path, None)
    tables, stores = world.tables()
    new = Tables(stores, open_key(path, None), SeenVersions(world.root / "owner.json"))
    rotate(tables, new, world.name, Silent())
    assert world.marked(new) == before
    world.key = new.key
    (world.root / "carol.json").unlink(missing_ok=True)
    assert world.shown("carol") == {A: 6}
    world.append(rows([B] * 2, 30) + rows([B]))
    assert world.published() == names(*range(6)), "p0 is back"
    assert world.release().new_rows == 6


def test_a_digest_is_the_hmac_of_the_values_that_name_a_row(world: Keyed) -> None:
    digests = Digests(b"k" * 32)
    schema = load_schema(world.root / "schema.toml")
    with world.table("A,f,20,1.50,2.25,\xfcber\n,,,,,x\n") as table:
        found = digests.of(table, schema, ("name", "bill", "weight", "ward", "contributor"), "north", "FROM source")
    texts = "5:\xfcber3:1.54:2.251:A5:north", "1:x---5:north"
    assert found == [hmac.new(b"k" * 32, each.encode(), hashlib.sha256).hexdigest()[:32] for each in texts]
    assert Digests.load(replace(digests, values=frozenset(found)).dump()).values == {*found}
    sizes = [len(Digests(b"k" * 32, frozenset(f"{n:032x}" for n in range(count))).dump()) for count in (0, 64, 65, 128)]
    assert sizes[0] == sizes[1] < sizes[2] == sizes[3]


def test_stored_objects_do_not_show_whether_a_deleted_row_was_published(world: Keyed, tmp_path: Path) -> None:
    shapes = []
    for number in (0, 7):
        copy = world.copy(tmp_path / f"copy {number}")
        copy.delete(f"name = 'p{number}'")
        copy.append(rows([A], 60))
        store = copy.sensitive()
        shapes.append(
            sorted(len(store.read(each)) for each in store.names("tables") if each.rpartition("/")[2] != "head")
        )
    assert shapes[0] == shapes[1]


def test_one_who_has_most_of_a_sum_withholds_it(tmp_path: Path, key_file: Path) -> None:
    world = Keyed(tmp_path / "world", key_file)
    bills = [10, 10, 10, 10, 300, 10]
    csv = "".join(f"A,f,{20 + n},{bill},{50.5 + n},q{n}\n" for n, bill in enumerate(bills))
    world.put_rows(key=(), privacy='entity = ["name"]\ndominance = 0.8', csv=csv)
    made = world.release("carol")
    assert made.withheld == (("bill", 1),)
    assert made.counted == "people"
    answer = world.ask("carol", "SELECT COUNT(*), SUM(age), SUM(bill) FROM trial").result
    assert answer.rows == [[6, 135, None]]
    assert "most of it" not in answer.trust + " ".join(answer.warnings)
    world.put_rows(key=(), privacy='entity = ["name"]\ndominance = 0.9', csv=csv.replace(",q", ",r"), change=True)
    assert world.release().withheld == ()


@pytest.mark.slow  # quick: test_alter.py widens, releases add up above
def test_widened_columns_add_up_with_what_was_released(world: Keyed) -> None:
    tables = world.tables()[0]
    widened = Alteration(widen=["age=-5..60000", "bill=DECIMAL(12,3)"], rename=["bill=cost"])
    alter(tables, world.name, widened, Silent())
    answer = world.ask("carol", "SELECT SUM(age), SUM(bill) FROM trial").result.rows
    world.release()
    assert [*map(float, world.ask("carol", "SELECT SUM(age), SUM(cost) FROM trial").result.rows[0])] == [
        *map(float, answer[0])
    ]
    alter(tables, world.name, Alteration(drop=["age"]), Silent())
    world.release()
    assert "age" not in {each.name for each in world.totals("carol").measures}


TYPES = """
[privacy]
entity = ["person", "part"]
dominance = 0.9
[columns]
person = { kind = "sealed", type = "VARCHAR" }
part = { kind = "sealed", type = "INTEGER" }
day = { kind = "sealed", type = "DATE" }
flag = { kind = "encrypted", type = "BOOLEAN" }
big = { kind = "encrypted", type = "DECIMAL(30,5)", lower = -1000000000000000000000, upper = 1000000000000000000000 }
small = { kind = "encrypted", type = "BIGINT", lower = -50, upper = 50, nullable = false }
x = { kind = "encrypted", type = "DOUBLE", lower = -10, upper = 10 }
"""


class AnyTypes(Releases):
    schema_text, header = TYPES, "person,part,day,flag,big,small,x\n"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("by", [(), ("day",)])
def test_values_of_any_type_are_those_of_duckdb(tmp_path: Path, key_file: Path, by: tuple[str, ...]) -> None:
    world = AnyTypes(tmp_path / "world", key_file)
    days, big = ("2026-01-01", "", "2026-01-02"), 987654321098765432101
    flags = ("true", "false", "")
    lines = [
        f"p{n % 11},{n % 2},{days[n % 3]},{flags[n // 20 % 3]},{(-1) ** n * (big - n)}.25,{n - 30},{n / 7:.3f}\n"
        for n in range(60)
    ]
    world.put("".join([*lines, *(f",1,{day},true,1,0,1\n" for day in days)]), by)
    made = world.release("carol", least=4)
    assert made.counted == "people"
    assert made.parts == (3 if by else 1)
    figures = "COUNT(*), COUNT(flag), SUM(flag), SUM(big), SUM(small), AVG(x), VAR_POP(small)"
    keys = f"{by[0]}, " if by else ""
    sql = f"SELECT {keys}{figures} FROM trial {'GROUP BY day ORDER BY day' if by else ''}"
    answer = world.ask("carol", sql).result
    for row, right in zip(answer.rows, super(Releases, world).ask(sql).result.rows, strict=True):
        assert row == [pytest.approx(each) if isinstance(each, float) else each for each in right]


def test_verify_reads_all_that_releases_need(world: Keyed) -> None:
    world.delete("name = 'p0'")
    manifest = world.open().manifest
    assert manifest.release is not None
    objects = [*manifest.release.parts(), *(each.marks.object for each in manifest.segments if each.marks)]
    assert len(objects) == 4
    assert verify(world.stored(), Silent()) == []
    store = world.sensitive()
    for each in objects:
        content = store.read(each.name)
        store.delete([each.name])
        store.write(each.name, content[:-1] + bytes([content[-1] ^ 1]))
        assert len(verify(world.stored(), Silent())) == 1
        store.delete([each.name])
        store.write(each.name, content)


def test_a_release_has_no_word_about_rows_that_wait(tmp_path: Path, key_file: Path) -> None:
    """`cleave schema` writes reasons of all rows."""
    world = Keyed(tmp_path / "world", key_file)
    text = SCHEMA.replace("lower = 0\nupper = 127", 'lower = 0\nupper = 127\nreason = "7 ages of one person"')
    assert text != SCHEMA
    tables, privacy = world.tables()[0], '[privacy]\nentity = ["name"]\ndominance = 0.9\n'
    derived = '[derived.cost]\nsql = "bill - age"\nreason = "7 bills"\n'
    putting.put(tables, loaded(world.header + FIRST, text + privacy + derived), world.name, ("ward", "sex"), Silent())
    world.release("carol")
    shown = world.totals("carol").schema_toml
    assert "bill" in shown
    assert not [each for each in ("reason", "7 ages", "7 bills", "dominance", "entity") if each in shown]
