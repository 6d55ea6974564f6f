"""Readers of some columns: what they read through every change, and that their keys open nothing else."""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from cleave.ask.owners import tag_of
from cleave.ckks.owner_key import encoded
from cleave.maintain.alter import Alteration
from cleave.maintain.alter import alter_columns as alter
from cleave.maintain.changes import delete_rows as delete
from cleave.maintain.changes import update_rows as update
from cleave.maintain.derive import derive_expression as derive
from cleave.maintain.pull import find_damage as verify
from cleave.maintain.rotate import move_table as rotate
from cleave.objects.locate import Folder
from cleave.objects.storage import replaced
from cleave.share.addressed import MOST_HEAD, SUITE, place_of
from cleave.share.bundle import Bundle, open_bundle, publish_bundle
from cleave.store import pages
from cleave.store import put as putting
from cleave.store.accepting import accept
from cleave.store.compacting import compact
from cleave.store.dropping import drop
from cleave.store.heads import Heads
from cleave.store.manifest import ROW, Batch, Batches, Manifest, Object, ScanObjects, Sealed, Segment, Segments
from cleave.store.paged import Content
from cleave.store.reader import Opened
from cleave.store.reading import place_of as place_in
from cleave.store.rows import Rows
from cleave.store.schemas import load_stored_schema
from cleave.store.sealed import ColumnPlace, cut, open_blocks, seal_column, values_of
from cleave.store.seen_versions import SeenVersions
from cleave.store.vault import Purpose, Vault, key_of_object, open_record, seal_record
from cleave.store.views import View, open_view, view_in, view_of, views_in, write_views
from cleave.table.derived import Derived
from cleave.table.progress import Silent
from cleave.table.schema import dump_schema
from cleave.table.stream import open_table
from cleave_shared.errors import CheckFailed, CleaveError, CleaveWarning, InputError, KeyFileError, QueryRefused
from tests.store.contributing import copied_for_each
from tests.store.every_change import Place
from tests.store.readers import COLUMNS, reader_tables, viewed
from tests.store.releasing import truth

ROWS = "B,f,40,20.00,60.5,Dee\nA,m,30,5.00,66.5,Eve\nA,f,,,50.5,Flo\nB,m,22,7.25,55.5,Zoë\n"
MORE = "A,f,62,1.00,70.125,Ada\n"


def opened(world: Place) -> None:
    world.put(ROWS)
    world.add_reader("dan")


world = copied_for_each(opened, Place)


QUESTIONS = (
    f"SELECT {COLUMNS} FROM trial",
    "SELECT * FROM trial WHERE ward = 'A'",
    "SELECT ward, COUNT(*), COUNT(bill), SUM(bill), AVG(bill) FROM trial GROUP BY ward ORDER BY ward",
    "SELECT MEDIAN(bill), MAX(name) FROM trial WHERE bill > 1",
    "SELECT a.name FROM trial a JOIN trial b ON a.bill < b.bill ORDER BY ALL",
    "SELECT COUNT(*) FROM trial",
)


@pytest.mark.parametrize("sql", QUESTIONS)
def test_a_reader_has_the_answers_of_the_unsplit_table(world: Place, sql: str) -> None:
    own = sql if "JOIN" in sql else sql.replace("FROM trial", f"FROM (SELECT {COLUMNS} FROM trial) AS trial")
    assert [tuple(row) for row in world.ask_as("dan", sql).result.rows] == truth(ROWS, own)


def widened(world: Place) -> None:
    alter(world.tables()[0], "trial", Alteration(widen=["bill=0..100000"]), Silent())


CHANGES: Mapping[str, Callable[[Place], object]] = {
    "append": lambda world: putting.append(world.tables()[0], world.loaded(MORE), "trial", Silent()),
    "delete": lambda world: delete(world.tables()[0], "trial", "name = 'Dee'", Silent(), yes=True),
    "update": lambda world: update(world.tables()[0], "trial", {"bill": "bill + 1"}, "ward = 'A'", Silent()),
    "widen": widened,
    "derive": lambda world: derive(world.tables()[0], "trial", "bill * age", "weighted", Silent()),
    "compact": lambda world: (CHANGES["append"](world), compact(world.tables()[0], "trial", Silent())),
    "replace": lambda world: putting.put(
        world.tables()[0], world.loaded(MORE), "trial", ("ward",), Silent(), replace=True
    ),
    "release": lambda world: world.release("carol", least=3),
    "collect": lambda world: (
        world.contribute("north", "C,m,33,3.00,77.5,Ned\n"),
        world.collect(),
    ),
    "record": lambda world: world.tables()[0].record(world.open(), "queries", 0),
    "another reader": lambda world: world.add_reader("eve", "bill,sex"),
    "another is revoked": lambda world: (world.add_reader("eve", "bill,sex"), world.revoke_reader("eve")),
    "rotate": lambda world: rotate(world.tables()[0], world.new_tables(world.stores()), "trial", Silent()),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("change", CHANGES)
def test_a_reader_reads_on_through_every_change(world: Place, change: str) -> None:
    if change == "collect":  # the owner confirms that readers read contributors' rows
        world.revoke_reader("dan")
        world.register("north")
        world.add_reader("dan", yes=True)
    with world.read_as("dan") as session:
        session.ask(session.plan("SELECT COUNT(*) FROM trial"))
        CHANGES[change](world)
        rows = [] if change == "rotate" else session.ask(session.plan(f"SELECT {COLUMNS} FROM trial")).result.rows
    if change == "rotate":
        with pytest.raises(KeyFileError, match="was expected") as told:
            world.ask_as("dan", "SELECT COUNT(*) FROM trial", fingerprint=None)
        assert "cleave key rotate" in (told.value.hint or "")
        rows = world.ask_as("dan", f"SELECT {COLUMNS} FROM trial").result.rows
    current = world.current()
    assert current is not None
    with closing(Rows(*current)) as stored, stored.table(COLUMNS.split(","), ordered=True) as table:
        there = [list(each) for each in table.connection.execute(f"FROM {table.relation}").fetchall()]
    assert [list(row) for row in rows] == there != []


def test_names_of_columns_change_with_the_table(world: Place) -> None:
    alter(world.tables()[0], "trial", Alteration(rename=["bill=paid"], add=["bill BIGINT sealed"]), Silent())
    assert world.ask_as("dan", "SELECT SUM(paid) FROM trial").result.rows == [[Decimal("32.25")]]
    with pytest.raises(QueryRefused, match="no column 'bill'"):  # a new one of the old name
        world.ask_as("dan", "SELECT bill FROM trial")
    alter(world.tables()[0], "trial", Alteration(drop=["paid", "bill"]), Silent())
    assert world.ask_as("dan", "SELECT * FROM trial").result.types == ["VARCHAR", "VARCHAR"]
    with pytest.raises(InputError, match="reader 'dan' has no other column"):
        alter(world.tables()[0], "trial", Alteration(drop=["name", "ward"], by=["sex"]), Silent())
    with pytest.raises(InputError, match="reader 'dan' has column 'ward', which is missing in the new rows"):
        _replaced_without(world, "ward")


def _replaced_without(world: Place, name: str) -> None:
    schema = replace(world.schema, columns=tuple(each for each in world.schema.columns if each.name != name))
    (path := world.root / "rows.csv").write_text("sex,age,bill,weight,name\nf,1,2,3,Ada\n")
    with open_table([path], schema) as table:
        putting.put(world.tables()[0], table, "trial", (), Silent(), replace=True)


REFUSED = ("SELECT COUNT(*) FROM trial WHERE sex = 'f'", "SELECT age FROM trial", "SELECT a.sex FROM trial a")


@pytest.mark.parametrize("sql", REFUSED)
def test_a_column_that_a_reader_has_not_is_refused_before_anything_is_read(
    world: Place, sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    original = Folder.read

    def noted(self: Folder, name: str, *more: Any, **how: Any) -> bytes:
        read.append(name)
        return original(self, name, *more, **how)

    monkeypatch.setattr(Folder, "read", noted)
    with pytest.raises(QueryRefused, match="no column") as caught:
        world.ask_as("dan", sql)
    assert "weight" not in f"{caught.value.message}{caught.value.hint}", "a column that is not named"
    assert {each for each in read if not each.endswith("/head")} <= viewed(world, world.open()), "the view alone"


def test_names_of_others_are_shown_only_if_the_owner_says_so(world: Place) -> None:
    opened = world.add_reader("eve", "ward", names=True)
    with pytest.raises(QueryRefused, match="this reader has no key of column 'sex'") as caught:
        world.ask_as("eve", "SELECT COUNT(*) FROM trial WHERE SEX = 'f'")
    assert caught.value.hint == "it has the columns ward; the owner gives others"
    assert view(world, "eve", opened).others == ("sex", "age", "bill", "weight", "name")
    content = view(world, "dan", opened).model_dump_json()
    assert view(world, "dan", opened).others == ()
    assert not re.findall(r"\b(sex|age|weight)\b", content)


def view(world: Place, name: str, opened: Opened) -> View:
    """The view that a reader has of a version."""
    _, _, key = bundle(world, name)
    assert opened.head.views is not None
    store = world.stores().sensitive
    reader = next(each.id for each in opened.manifest.readers if each.name == name)
    which = view_in(store.read(opened.head.views.name), reader)
    assert which is not None
    found = open_view(key, opened.head, which, store.read(which.name))

    def read(page: Object) -> bytes:
        return open_record(key_of_object(key, page.name), page.name, store.read(page.name))

    manifest = pages.opened(found.manifest, read, "forbid", {})
    manifest.segments.read()
    return found.model_copy(update={"manifest": manifest})


def bundle(world: Place, name: str) -> tuple[Bundle, str, bytes]:
    holder = world.reader_public(name)
    content = world.stores().sensitive.read(f"{place_of(Bundle, holder, 'trial')}/head")
    return open_bundle(world.reader(name), holder, "trial", content)


def state(world: Place) -> dict[str, bytes]:
    """Every object of the sensitive place, drafts included."""
    store = world.stores().sensitive
    return {name: store.read(name) for top in ("tables", "releases") for name in store.names(top)}


def test_a_bundle_opens_its_columns_and_nothing_else(world: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every object there ever was, drafts and old versions included, with every key that the reader ever had."""
    there: set[tuple[str, bytes]] = set()
    original = Folder.write

    def noted(self: Folder, name: str, content: bytes) -> None:
        there.add((name, bytes(content)))
        original(self, name, content)

    monkeypatch.setattr(Folder, "write", noted)
    there |= state(world).items()
    versions: list[Opened] = []
    views: list[View] = []
    for work in ("append", "widen", "release", "derive"):
        CHANGES[work](world)
        versions.append(world.open())
        versions[-1].manifest.segments.read()
        views.append(view(world, "dan", versions[-1]))
        there |= state(world).items()
    seen, (_, _, view_key) = views[-1], bundle(world, "dan")
    revoked = world.revoke_reader("dan")
    revoked.manifest.segments.read()
    CHANGES["append"](world)
    versions += [revoked, world.open()]
    there |= state(world).items()
    columns = {id_: key for each in views for id_, key in each.vault._columns.items()}
    own = {each.id: each for one in views for each in one.manifest.sealed}
    assert {each.name for each in own.values()} == {"bill", "name", ROW}
    shown, opened = set[str](), set[str]()
    public, dan = world.reader_public("dan"), world.reader("dan")
    for name, content in there:
        for key in (*columns.values(), view_key, *_secrets(world)):
            for one in (key, key_of_object(key, name), *(Vault(_Key(key), name).key_of(each, name) for each in _ALL)):
                if opens(lambda: open_record(one, name, content)):  # noqa: B023
                    record = open_record(one, name, content)
                    kind: type[View | Content[Segment]] = View if b'"manifest":' in record else Segments.CONTENT
                    assert getattr(kind.model_validate_json(record), "others", ()) == ()
                    shown.add(name)
        if opens(lambda: open_bundle(dan, public, "trial", content)):  # noqa: B023
            assert name == f"{place_of(Bundle, public, 'trial')}/head"
        for version in versions:
            for place, stored in _places(version.manifest, name):
                for key in columns.values():
                    sizes = place.sizes(stored.lengths)
                    if len(content) == sum(sizes) and opens(
                        lambda: open_blocks(key_of_object(key, name), place, 0, cut(content, sizes))  # noqa: B023
                    ):
                        assert place.column.id in own, "a column that it has"
                        opened.add(name)
    assert opened, "it opens something"
    assert len(shown) >= len(views)
    assert shown.isdisjoint(each.object.name for one in versions for s in one.manifest.segments for each in s.columns)
    newest = {each.object.name for segment in revoked.manifest.segments for each in segment.columns}
    given = {each.object.name for segment in seen.manifest.segments for each in segment.columns}
    assert given <= opened
    assert newest.isdisjoint(opened), "nothing of the version without it"


def test_pages_of_a_view_stay_until_their_segments_change(world: Place) -> None:
    """An append names those of each reader again; what a version replaces is deleted, and all after a revocation."""

    def appended() -> set[str]:
        putting.append(world.tables()[0], world.loaded(MORE), "trial", Silent(), again=True)
        return {*pages.pages_of(view(world, "dan", world.open()).manifest)}

    appended()
    before = appended()
    assert len(before) == len(world.open().manifest.segments.pages) > 0
    appended()
    after = appended()
    assert before < after
    update(world.tables()[0], "trial", {"bill": "bill + 1"}, "bill IS NOT NULL", Silent(), yes=True)
    left = {*pages.pages_of(view(world, "dan", world.open()).manifest)}
    there = {*world.stores().sensitive.names("tables")}
    assert after - left
    assert not (after - left) & there
    assert left <= there
    appended()
    world.revoke_reader("dan")
    assert not (after | left) & {*world.stores().sensitive.names("tables")}


_ALL = get_args(Purpose)


class _Key:
    """A key, tried as if it were a master secret."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def derive(self, purpose: str) -> bytes:
        return HKDFExpand(SHA256(), 32, b"cleave/2/" + purpose.encode()).derive(self._key)


def _secrets(world: Place) -> list[bytes]:
    """What else a reader has: keys that follow from its own, as an owner's would."""
    key, table_id = world.reader("dan"), world.open().manifest.table_id
    return [key.derive(f"store/{each}/{table_id}") for each in _ALL]


def _places(manifest: Manifest, name: str) -> list[tuple[ColumnPlace, Sealed]]:
    return [
        (place_in(manifest, segment, number), stored)
        for segment in manifest.segments
        for number, stored in enumerate(segment.columns)
        if stored.object.name == name
    ]


def opens(work: Callable[[], object]) -> bool:
    try:
        work()
    except (CleaveError, ValueError, InvalidTag):
        return False
    return True


def test_a_reader_can_sign_nothing(world: Place) -> None:
    tables = reader_tables(world, "dan", SeenVersions(world.root / "dan.json.seen"))
    opened = tables.open("trial")
    head = opened.head.model_dump(exclude_none=True)
    tag = tables.tag("trial")
    tables.close()
    with pytest.raises(TypeError, match="only its owner"):
        tables._heads(tag).dump(tag, head)
    forged = Heads.of_owner(world.reader("dan"), "").dump(tag, head | {"version": 9})
    (world.root / "s" / "tables" / tag / "head").write_bytes(forged)
    with pytest.raises(CheckFailed, match="head is damaged"):
        world.open()
    with pytest.raises(CheckFailed, match=f"^{world.stores().sensitive.location}: a table's head is damaged"):
        world.ask_as("dan", "SELECT COUNT(*) FROM trial")
    for purpose in _ALL:
        with pytest.raises(CheckFailed, match="keys of columns alone"):
            opened.vault.key_of(purpose, "x")
    with pytest.raises(CheckFailed, match="no key of this column"):
        opened.vault.column_key("0" * 32)
    with pytest.raises(CheckFailed, match="keys of columns alone"):
        opened.vault.pseudorandom("lane/0", 4)


def test_a_reader_finds_only_its_tables(world: Place) -> None:
    tables = reader_tables(world, "dan", SeenVersions(world.root / "dan.json.seen"))
    opened = tables.open("trial")
    assert tables.find("trial", opened) is opened, "what it holds is still the newest"
    assert opened.head_etag == world.open().head_etag
    assert tables.find("other") is None
    with pytest.raises(InputError, match="there is no table 'other' for this reader"):
        tables.tag("other")
    assert opened.manifest.cells == ()
    assert {each.index for each in opened.manifest.segments} == {""}
    with pytest.raises(CheckFailed, match="keys of columns alone"):
        tables.unseal(opened.vault, "cells", opened.head.manifest)
    tables.close()


def test_a_large_bundle_is_not_read(world: Place) -> None:
    path = world.root / "s" / f"{place_of(Bundle, world.reader_public('dan'), 'trial')}/head"
    path.write_bytes(bytes(MOST_HEAD + 1))
    with pytest.raises(CheckFailed, match="has more than the 16,384 bytes"):
        world.ask_as("dan", "SELECT COUNT(*) FROM trial")


def test_large_views_are_not_read(world: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits are as large as what is read here, then smaller by a byte."""
    views = world.open().head.views
    assert views is not None
    (view,) = views_in(world.stores().sensitive.read(views.name)).values()
    for limit, size, error, message in (
        ("cleave.ask.reader.MOST_PLACES", views.bytes, InputError, "no longer open to this reader"),
        ("cleave_shared.limits.MAX_MANIFEST_BYTES", view.bytes, CheckFailed, "a view is larger than"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(limit, size)
            tables = reader_tables(world, "dan", SeenVersions(world.root / "dan.json.seen"))
            tables.open("trial")
            patched.setattr(limit, size - 1)
            with pytest.raises(error, match=message):
                tables.open("trial")
            tables.close()


def forged(world: Place) -> None:
    """A reader who may write the store seals other values under the key of its column `bill`."""
    seen = view(world, "dan", world.open())
    manifest = seen.manifest
    segment, number = manifest.segments[0], [each.name for each in manifest.sealed].index("bill")
    column, stored, place = manifest.sealed[number], segment.columns[number], place_in(manifest, segment, number)
    key, path = seen.vault.key_in_column(column, stored.object.name), world.root / "s" / stored.object.name
    values = values_of(column, open_blocks(key, place, 0, cut(path.read_bytes(), place.sizes(stored.lengths))))
    other = replace(values, data=values.data[::-1])
    path.write_bytes(b"".join(seal_column(key, place, other)))


def test_what_a_reader_sealed_is_refused(world: Place) -> None:
    world.add_reader("eve", "bill")
    forged(world)
    version = world.open().manifest.version
    for work in (
        lambda: world.ask_as("eve", "SELECT bill FROM trial"),
        lambda: world.ask_as("eve", "SELECT 1 FROM trial, (SELECT 1) AS one WHERE bill > 1 LIMIT 1"),
        lambda: CHANGES["update"](world),
        lambda: CHANGES["delete"](world),
        lambda: CHANGES["rotate"](world),
        lambda: world.require_reads("eve"),  # as the owner reads
    ):
        with pytest.raises(CheckFailed, match="a sealed column of the table is damaged"):
            work()
    assert world.open().manifest.version == version


def test_an_older_state_is_refused(world: Place) -> None:
    floor = world.open().head.log.count
    shutil.copytree(world.root / "s", world.root / "old")
    CHANGES["append"](world)
    assert world.ask_as("dan", "SELECT COUNT(*) FROM trial").result.rows == [[5]]
    shutil.rmtree(world.root / "s")
    shutil.copytree(world.root / "old", world.root / "s")
    with pytest.raises(CheckFailed, match="shows an older state"):
        world.ask_as("dan", "SELECT COUNT(*) FROM trial")
    fresh = {"memory": "-fresh", "fingerprint": f"{world.print_of_owner}@{floor + 1}"}
    with pytest.raises(CheckFailed, match=f"owner states at least {floor + 1}"):
        world.ask_as("dan", "SELECT COUNT(*) FROM trial", **fresh)
    fresh["fingerprint"] = f"{world.print_of_owner}@{floor}"
    assert world.ask_as("dan", "SELECT COUNT(*) FROM trial", **fresh).result.rows == [[4]]


def test_a_bundle_states_the_oldest_log_that_its_reader_accepts(world: Place, tmp_path: Path) -> None:
    shutil.copytree(world.root / "s" / "tables", tmp_path / "tables")
    CHANGES["append"](world)
    world.add_reader("dan")  # again: the bundle is written anew
    shutil.rmtree(world.root / "s" / "tables")
    shutil.copytree(tmp_path / "tables", world.root / "s" / "tables")
    with pytest.raises(CheckFailed, match="owner states at least"):
        world.ask_as("dan", "SELECT COUNT(*) FROM trial", memory="-fresh")


def test_readers_of_a_restored_table_are_added_again(world: Place, tmp_path: Path) -> None:
    shutil.copytree(world.root / "s" / "tables", tmp_path / "tables")
    for change in ("append", "record", "record"):
        CHANGES[change](world)
    world.add_reader("dan")  # again: its bundle states more records than the copy has
    world.add_reader("eve", "bill")
    shutil.rmtree(world.root / "s" / "tables")
    shutil.copytree(tmp_path / "tables", world.root / "s" / "tables")
    accept(world.tables()[0], "trial", world.tables()[0].shown("trial").manifest.version)
    for name, columns in (("dan", COLUMNS), ("eve", "bill")):
        with pytest.raises(CheckFailed, match="owner states at least"):
            world.ask_as(name, "SELECT COUNT(*) FROM trial")
        world.add_reader(name, columns)
        assert world.ask_as(name, "SELECT COUNT(*) FROM trial").result.rows == [[4]]


def test_a_bundle_of_an_earlier_state_does_not_replace_a_newer_one(world: Place) -> None:
    before = world.open()
    CHANGES["append"](world)
    world.add_reader("dan")
    newer, _, _ = bundle(world, "dan")
    publish_bundle(world.tables()[0], before, before.manifest.readers[0])
    assert bundle(world, "dan")[0] == newer


def test_a_reader_goes_on_with_a_table_that_was_stored_again(world: Place) -> None:
    assert world.ask_as("dan", "SELECT COUNT(*) FROM trial").result.rows == [[4]]
    drop(world.tables()[0], "trial")
    world.put(MORE)
    world.add_reader("dan")
    with pytest.raises(CheckFailed, match="not the one seen here before") as caught:
        world.ask_as("dan", "SELECT COUNT(*) FROM trial")
    assert "`cleave reader accept trial --version 2 --reader FILE`" in str(caught.value.hint)
    tables = reader_tables(world, "dan", SeenVersions(world.root / "dan-reads.json"))
    with pytest.raises(InputError, match="has version 2, not 1"):
        tables.accept("trial", 1)
    tables.accept("trial", 2)
    assert world.ask_as("dan", "SELECT COUNT(*) FROM trial").result.rows == [[1]]
    CHANGES["rotate"](world)
    with pytest.raises(InputError, match="the table is under another key now"):
        tables.accept("trial", 3)


def test_an_accepted_copy_names_the_readers_in_it(world: Place) -> None:
    world.open()
    shutil.copytree(world.root / "s", world.root / "old")
    world.revoke_reader("dan")
    shutil.rmtree(world.root / "s")
    shutil.copytree(world.root / "old", world.root / "s")
    tables = world.tables()[0]
    assert accept(tables, "trial", world.tables()[0].shown("trial").manifest.version).readers == ("dan",)


def test_a_snapshot_holds_for_readers(world: Place) -> None:
    with world.read_as("dan") as session, session.source.snapshot():
        CHANGES["append"](world)
        assert session.ask(session.plan("SELECT COUNT(bill) FROM trial")).result.rows == [[3]]


@pytest.mark.parametrize("what", ["the list of readers' views", "the view of reader 'dan'"])
def test_verify_names_damaged_views(world: Place, what: str) -> None:
    listed, *views = sorted(viewed(world, world.open()), key=lambda name: name != world.open().head.views.name)  # type: ignore[union-attr]
    path = world.root / "s" / (listed if "list" in what else views[0])
    path.write_bytes(bytes(len(path.read_bytes())))
    with closing(world.stored()) as stored:
        assert what in [each.what for each in verify(stored, Silent())]


def test_a_revoked_reader_reads_nothing_new_and_others_read_on(world: Place) -> None:
    world.add_reader("eve", "bill,sex")
    with world.read_as("dan") as session:
        session.ask(session.plan("SELECT COUNT(*) FROM trial"))
        before = world.open().manifest
        after = world.revoke_reader("dan").manifest
        with pytest.raises(InputError, match="no longer open to this reader"):
            session.ask(session.plan("SELECT COUNT(*) FROM trial"))
    with pytest.raises(CheckFailed, match="no longer open to this reader"):
        world.ask_as("dan", "SELECT COUNT(*) FROM trial")
    with pytest.raises(InputError, match="there is no table 'trial' for this reader"):
        world.ask_as("dan", "SELECT COUNT(*) FROM trial", memory="-fresh")
    with pytest.raises(InputError, match="there is no reader 'dan'"):
        world.revoke_reader("dan")
    pairs = zip(before.sealed, after.sealed, strict=True)
    assert {new.name for old, new in pairs if old.id != new.id} == {"bill", "name", ROW}
    plain = [each.plain for each in before.segments]
    assert [each.plain for each in after.segments] == plain
    assert [each.totals for each in after.segments] == [each.totals for each in before.segments]
    rows = world.ask_as("eve", "SELECT SUM(bill), COUNT(sex) FROM trial").result.rows
    assert [tuple(row) for row in rows] == truth(ROWS, "SELECT SUM(bill), COUNT(sex) FROM trial")
    world.add_reader("dan", "ward")
    assert [each.name for each in world.ask_as("dan", "SELECT * FROM trial").result.columns] == ["ward"]


def test_the_only_reader_is_revoked_in_an_open_session(world: Place) -> None:
    with world.read_as("dan") as session:
        session.ask(session.plan("SELECT COUNT(*) FROM trial"))
        assert world.revoke_reader("dan").head.views is None
        with pytest.raises(InputError, match="no longer open to this reader"):
            session.ask(session.plan("SELECT COUNT(*) FROM trial"))


def test_an_open_session_finds_other_columns(world: Place) -> None:
    with world.read_as("dan") as session:
        session.ask(session.plan("SELECT bill FROM trial"))
        world.revoke_reader("dan")
        world.add_reader("dan", "ward,sex")
        with pytest.raises(InputError, match="no longer open to this reader"):
            session.ask(session.plan("SELECT bill FROM trial"))
        names = [each.name for each in session.ask(session.plan("SELECT * FROM trial")).result.columns]
        assert names == ["ward", "sex"]


def test_a_session_that_is_open_while_the_key_changes_is_opened_again(world: Place) -> None:
    with world.read_as("dan") as session:
        session.ask(session.plan("SELECT COUNT(*) FROM trial"))
        CHANGES["rotate"](world)
        with pytest.raises(InputError, match="under another key now") as caught:
            session.ask(session.plan("SELECT COUNT(*) FROM trial"))
    assert "open the session again in Python, with the --fingerprint (fingerprint=)" in str(caught.value.hint)
    assert world.ask_as("dan", "SELECT COUNT(*) FROM trial").result.rows == [[4]]


def test_another_bundle_or_view_is_refused(world: Place) -> None:
    world.add_reader("eve", "sex")
    store = world.stores().sensitive
    mine, hers = (f"{place_of(Bundle, world.reader_public(each), 'trial')}/head" for each in ("dan", "eve"))
    with pytest.raises(CheckFailed, match="head of a reader is damaged, or another holder's"):
        open_bundle(world.reader("dan"), world.reader_public("dan"), "trial", store.read(hers))
    content = json.loads(store.read(mine))
    for member, value in (("number", 0), ("reader", "0" * 32), ("key", json.loads(store.read(hers))["key"])):
        with pytest.raises(CheckFailed, match="head of a reader is damaged"):
            open_bundle(
                world.reader("dan"), world.reader_public("dan"), "trial", json.dumps(content | {member: value}).encode()
            )
    opened = world.open()
    assert opened.head.views is not None
    listed = json.loads(store.read(opened.head.views.name))
    ids = {each.name: each.id for each in opened.manifest.readers}
    _, _, key = bundle(world, "dan")
    which = view_in(json.dumps(listed).encode(), ids["eve"])
    assert which is not None
    with pytest.raises(CheckFailed):
        open_view(key, opened.head, which, store.read(which.name))
    which = view_in(json.dumps(listed).encode(), ids["dan"])
    assert which is not None
    one = key_of_object(key, which.name)
    record = open_record(one, which.name, store.read(which.name))
    shown = json.loads(record)
    shown["keys"] = dict.fromkeys(shown["keys"], "A" * 42 + "B=")  # bits that belong to no byte
    sealed = seal_record(one, which.name, json.dumps(shown).encode(), 0)
    with pytest.raises(CheckFailed, match="view of a table is damaged"):
        assert open_view(key, opened.head, which, sealed).vault
    with pytest.raises(CheckFailed, match="of another version"):
        open_view(key, opened.head.model_copy(update={"version": 9}), which, store.read(which.name))
    with pytest.raises(CheckFailed, match="list of a table's views is damaged"):
        view_in(b"[]", ids["dan"])


def test_a_bundle_of_another_owner_is_refused(world: Place) -> None:
    """What anybody could sign under a key of theirs: no secret in it, or the folder of another's table."""
    path = world.root / "s" / f"{place_of(Bundle, world.reader_public('dan'), 'trial')}/head"
    for key in ("abc", "\N{LATIN SMALL LETTER E WITH ACUTE}", "", "AAAA"):
        path.write_text(signed(world, "trial", key).model_dump_json())
        with pytest.raises(CheckFailed, match="damaged, or"):
            world.ask_as("dan", "SELECT COUNT(*) FROM trial", fingerprint=None)


def test_a_bundle_cannot_lead_to_another_table(world: Place) -> None:
    tables = reader_tables(world, "dan", SeenVersions(world.root / "dan.json.seen"))
    tables.open("trial")
    tag = tables.tag("trial")
    public = world.reader_public("dan")
    other = signed(world, "other", "")
    secret = base64.b64encode(public.seal(other.bound(public.fingerprint), bytes.fromhex(tag) + bytes(32))).decode()
    store, place = world.stores().sensitive, place_of(Bundle, public, "other")
    replaced(store, f"{place}/head", signed(world, "other", secret).model_dump_json().encode(), None)
    with pytest.raises(CheckFailed, match="bundle of table 'other' leads to another table"):
        tables.find("other")
    tables.close()


@pytest.mark.parametrize(("suite", "size"), [(SUITE, 47), ("other", 48)])
def test_a_bundle_has_two_secrets_of_one_suite(world: Place, suite: str, size: int) -> None:
    public = world.reader_public("dan")
    secret = signed(world, "trial", "", suite).sealing(bytes(size), public)
    content = signed(world, "trial", secret, suite).model_dump_json().encode()
    with pytest.raises(CheckFailed, match="bundle of a reader is damaged"):
        open_bundle(world.reader("dan"), public, "trial", content)


def test_secrets_of_a_bundle_are_bound_to_their_place(world: Place) -> None:
    """Stored bundles are bound by this text: one that changes opens none of them."""
    one = signed(world, "trial", "")
    place = [SUITE, world.reader_public("mallory").fingerprint, "0" * 32, "0" * 32, 1]
    assert json.loads(one.bound("x")) == ["cleave reader 3", *place, "x"]


def signed(world: Place, table: str, key: str, suite: str = SUITE) -> Bundle:
    """A bundle for dan under another owner's key."""
    owner, side = world.reader("mallory"), world.reader_public("mallory")
    given = {"box": encoded(side.box), "signing": encoded(side.signing), "key": key}
    head = Bundle(suite=suite, table_id="0" * 32, reader="0" * 32, number=1, **given)
    signature = owner.signing_key().sign(head.signed(world.reader_public("dan"), table)).hex()
    return head.model_copy(update={"signature": signature})


def test_rights_are_fixed_and_names_are_the_files(world: Place) -> None:
    for name, columns, why in (
        ("dan", "ward", "reader 'dan' has other rights: ward, bill, name"),
        ("eve", "ward,nothing", "no column 'nothing'"),
        ("eve", "", "no column ''"),
    ):
        with pytest.raises(InputError, match=why):
            world.add_reader(name, columns)
    version = world.add_reader("dan", "name,bill,WARD").manifest.version
    assert version == world.open().manifest.version, "it has these rights: nothing changes"


@pytest.mark.parametrize("privacy", ['entity = ["name"]', "min_group = 10"])
def test_thresholds_need_the_owners_word(tmp_path: Path, key_file: Path, privacy: str) -> None:
    class Protected(Place):
        schema_text = f"[privacy]\n{privacy}\n{Place.schema_text}"

    world = Protected(tmp_path / "world", key_file)
    world.put(ROWS)
    with pytest.raises(InputError, match="a reader reads single rows"):
        world.add_reader("dan")
    world.add_reader("dan", yes=True)
    assert len(world.ask_as("dan", "SELECT name FROM trial").result.rows) == 4
    if "entity" in privacy:  # of which it has the column
        assert "privacy" in view(world, "dan", world.open()).manifest.schema_toml
        world.add_reader("eve", "bill", yes=True)
        assert "privacy" not in view(world, "eve", world.open()).manifest.schema_toml


def test_a_view_names_all_that_it_shows(world: Place) -> None:
    """The owner's manifest has something in every field here; a field added later is not in a view by itself."""
    world.add_reader("eve", "bill")
    opened = world.open()
    schema = load_stored_schema(opened.manifest)
    derived = tuple(
        Derived(f"more_{name}", f"{name} * 2", "", "", (name,), reason="an age is near") for name in ("bill", "age")
    )
    columns = tuple(replace(each, reason="an age is near") for each in schema.columns)
    explained = replace(schema, columns=columns, derived=derived)
    first = opened.manifest.segments[0].columns[0]
    scan = ScanObjects(order=first.object, lanes=())
    more: dict[str, object] = {"contributor": "x", "scan": scan, "marks": first, "unpublished": 3}
    manifest = opened.manifest.model_copy(
        update={
            "schema_toml": dump_schema(explained),
            "key": ("name", "ward"),
            "scanned": 1,
            "contributors": ("x",),
            "batches": Batches.of([Batch(id="x", digest="")]),
            "local": ("x",),
            "release": "x",
            "had_exact": 1,
            "segments": Segments.of(each.model_copy(update=more) for each in opened.manifest.segments),
        }
    )
    for reader, names, key in zip(
        manifest.readers, (["ward", "bill", "name"], ["bill"]), (manifest.key, ()), strict=True
    ):
        shown = view_of(manifest, reader, opened.vault).manifest
        read = load_stored_schema(shown)
        assert [each.name for each in read.columns] == names
        assert [each.name for each in read.derived] == ["more_bill"]
        assert "an age is near" in manifest.schema_toml
        assert {each.reason for each in read.columns} == {each.reason for each in read.derived} == {""}
        assert shown.sealed == tuple(each for each in manifest.sealed if each.name in {*names, ROW})
        own = ("table", "table_id", "version", "changed", "profile", "secret")
        assert dict(shown) == {
            **{each: getattr(manifest, each) for each in own},
            **dict.fromkeys(("by", "measures", "contributors", "batches", "local", "readers", "cells"), ()),
            **{"doomed": (), "doomed_plain": (), "copied": (), "revoking": (), "sweeps": 0, "swept": ""},
            **{"format": 3, "key": key, "scanned": 0, "release": None, "had_exact": 0},
            **{each: getattr(shown, each) for each in ("schema_toml", "sealed", "segments")},
        }
        places = [manifest.sealed.index(each) for each in shown.sealed]
        assert [dict(each) for each in shown.segments] == [
            {
                **{each: getattr(segment, each) for each in ("id", "added", "rows")},
                **{"cells": 1, "index": "", "totals": (), "columns": tuple(segment.columns[place] for place in places)},
                **dict.fromkeys(more),
                "plain": segment.plain if "ward" in names else None,
            }
            for segment in manifest.segments
        ]


def test_a_view_of_nothing_but_the_key_and_entity_has_both(world: Place) -> None:
    opened = world.open()
    schema = load_stored_schema(opened.manifest).about(["name"])
    manifest = opened.manifest.model_copy(update={"schema_toml": dump_schema(schema), "key": ("name",)})
    shown = view_of(manifest, manifest.readers[0].model_copy(update={"columns": ("name",)}), opened.vault).manifest
    assert shown.key == ("name",)
    assert load_stored_schema(shown).privacy == schema.privacy


def test_sizes_of_views_do_not_tell_numbers_apart(world: Place) -> None:
    opened, tables = world.open(), world.tables()[0]
    sizes = []
    for number in (1, 10**30):
        every = opened.manifest.segments[:] * 100
        segments = Segments.of(each.model_copy(update={"rows": number}) for each in every)
        manifest = opened.manifest.model_copy(update={"version": number, "segments": segments})
        written = write_views(tables, tables.folder("trial"), manifest, opened.vault).written
        sizes.append([each.bytes for each in written])
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("privacy", ['entity = ["name"]', "min_group = 3"])
def test_thresholds_that_come_later_need_the_owners_word(world: Place, privacy: str) -> None:
    def replace_table() -> None:
        putting.put(world.tables()[0], world.loaded(MORE), "trial", ("ward",), Silent(), replace=True)

    replace_table()
    world.schema_text = f"[privacy]\n{privacy}\n{world.schema_text}"
    message = r"readers of this table \(dan\) would read rows of people"
    with pytest.raises(InputError, match=message):
        replace_table()
    with pytest.raises(InputError, match=message):
        alter(world.tables()[0], "trial", Alteration(entity=["name"]), Silent())
    world.revoke_reader("dan")
    replace_table()
    world.add_reader("dan", yes=True)
    replace_table()


def test_rows_of_contributors_need_the_owners_word(world: Place) -> None:
    with pytest.raises(InputError, match=r"readers of this table \(dan\) would read rows of contributors"):
        world.register("north")
    world.revoke_reader("dan")
    world.register("north")
    world.add_reader("dan", yes=True)
    world.register("south")  # it is confirmed for contributors
    with pytest.raises(InputError, match="rows of contributors"):
        world.add_reader("eve", "bill")


def test_a_first_fingerprint_is_shown_and_remembered(world: Place) -> None:
    owner, number = world.print_of_owner, bundle(world, "dan")[0].number
    text = (
        rf"^columns of table 'trial' are signed by {re.escape(owner)}@{number}, which is seen here for the first time"
    )
    with pytest.warns(CleaveWarning, match=text):
        world.ask_as("dan", "SELECT COUNT(*) FROM trial", fingerprint=None)
    place = place_of(Bundle, world.reader_public("dan"), "trial")
    tag = tag_of("owner of columns", place, world.stores().where)
    assert SeenVersions(world.root / "dan-reads.json").newest(tag) == (owner, 1)
    world.ask_as("dan", "SELECT COUNT(*) FROM trial", fingerprint=None)  # warnings are errors
    with pytest.raises(KeyFileError, match="was expected"):
        world.ask_as("dan", "SELECT COUNT(*) FROM trial", fingerprint="SHA256:other")
    with pytest.raises(InputError, match="'x' after @ is not a number"):
        world.ask_as("dan", "SELECT COUNT(*) FROM trial", fingerprint="SHA256:other@x")


def test_a_drop_deletes_bundles(world: Place) -> None:
    drop(world.tables()[0], "trial")
    assert state(world) == {}


def test_sizes_of_views_follow_from_counts(world: Place) -> None:
    """Of two readers whose columns have names as long, and of two versions with as many objects."""
    sizes = set()
    for _ in range(4):
        tables = world.tables()[0]
        opened = tables.open("trial")
        assert opened.head.views is not None
        listed = json.loads(world.stores().sensitive.read(opened.head.views.name))
        sizes.add(tuple(each["bytes"] for each in listed.values()))
        tables.commit(opened.manifest, opened, "nothing")
    assert len(sizes) == 1
