"""Lists in pages: a change writes and deletes those whose items change, and a question reads those that it may need."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pydantic import BaseModel

from cleave.ask.question import Options
from cleave.ckks.owner_key import OwnerKey
from cleave.maintain.changes import delete_rows as delete
from cleave.maintain.pull import find_damage as verify
from cleave.maintain.rotate import move_table as rotate
from cleave.objects.locate import Folder
from cleave.store import cells as of_cells
from cleave.store import put as putting
from cleave.store.dropping import drop
from cleave.store.manifest import Batch, Manifest, Segment, Segments, new_id
from cleave.store.paged import Content, Form, Page, Paged
from cleave.store.pages import objects_of_pages, pages_of
from cleave.store.reader import LostError, Opened
from cleave.store.tables import Tables
from cleave.sums.stored import Stored
from cleave.table.lazy import of_files
from cleave.table.progress import Silent
from cleave_shared import limits
from cleave_shared.errors import CheckFailed
from tests.store.made import filled
from tests.store.trial import World, copied

SCHEMA = """
[columns.day]
kind = "plain"
type = "DATE"
[columns.ward]
kind = "{ward}"
type = "VARCHAR"
[columns.bill]
kind = "encrypted"
type = "INTEGER"
lower = 0
upper = 1000
"""
_ROWS = 12  # of a segment
_DAY = "SELECT MEDIAN(bill) FROM t WHERE day = DATE '2024-01-0{}'"


class Days(World):
    """A table of one segment a day. `wards` of its rows: plain or sealed by columns."""

    def __init__(self, root: Path, key: OwnerKey, ward: str = "plain") -> None:
        root.mkdir(exist_ok=True)
        super().__init__(Reads(root / "s"), key, root, Reads(root / "p"), name="t")
        self._ward = ward

    @property
    def reads(self) -> list[str]:
        return [name for store in self.stores.distinct() if isinstance(store, Reads) for name in store.names_read]

    def rows(self, day: int, wards: Sequence[str] = ("A", "B", "C")) -> None:
        every = ", ".join(f"'{wards[i % len(wards)]}'" for i in range(_ROWS))
        columns = f"DATE '2024-01-0{day}' AS day, [{every}][i + 1] AS ward, (i * 7)::INTEGER AS bill"
        rows = self.make(f"SELECT {columns} FROM range({_ROWS}) r(i)", SCHEMA.format(ward=self._ward))
        self.write(rows, "day", "ward", append=self.tables.find("t") is not None)

    def days(self, days: int) -> Opened:
        """So many days of all wards: a copy of what was made once, each of a day less."""

        def fill(folder: Path) -> None:
            place = Days(folder, self.key, self._ward)
            if days > 1:
                place.days(days - 1)
            place.rows(days)

        made = filled(("days", self.key.key_id, self._ward, days, of_cells.MOST_CHOOSING), fill)
        copied(made / "s", self.stores.sensitive)
        copied(made / "p", self.stores.plain)
        return self.tables.open("t")

    def fresh(self) -> Tables:
        return Tables(self.stores, self.key, self.memory)


class Reads(Folder):
    """A folder that notes what is read."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.names_read: list[str] = []

    def read(self, name: str, start: int = 0, stop: int | None = None, most: int = limits.MAX_OBJECT_BYTES) -> bytes:
        self.names_read.append(name)
        return super().read(name, start, stop, most)


@pytest.fixture(autouse=True)
def many_small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cleave.store.compacting.MOST_SMALL", 1000)


def pages(manifest: Manifest) -> list[str]:
    return [page.stored.name for page in manifest.segments.pages if page.stored is not None]


class _Ref(BaseModel):
    name: str
    count: int


class Numbers(Paged[int, _Ref]):
    FORM = Form[int, _Ref]
    CONTENT = Content[int]
    MOST = 4
    MOST_BYTES = 12

    @staticmethod
    def size(item: int) -> int:
        return 1 + item % 5


def _whole(numbers: Numbers) -> bool:
    return all(
        page.count <= Numbers.MOST and sum(map(Numbers.size, page.items[:-1])) < Numbers.MOST_BYTES
        for page in (*numbers.pages, *([Page[int, _Ref].of(numbers.last)] if numbers.last else []))
    )


def test_a_paged_list_is_a_list() -> None:
    """Random additions, removals and replacements; what does not change stays in the same pages."""
    rng = random.Random(1)
    for _ in range(300):
        plain, paged = list[int](), Numbers()
        for number in range(12):
            before = plain
            if rng.random() < 0.5:
                more = [1000 * number + i for i in range(rng.randrange(9))]
                plain, paged = [*plain, *more], paged.extended(more)
            else:
                plain = [each + rng.choice((0, 0, 0, 100_000)) for each in plain if rng.random() < 0.9]
                changed = paged.rearranged(plain)
                kept = {id(each) for each in changed.pages}
                runs = [page for page in paged.pages if _is_run(page.items, plain) and page.count == Numbers.MOST]
                assert all(id(page) in kept for page in runs)
                paged = changed
            paged = paged.written(lambda items, _: _Ref(name=new_id(), count=len(items)))
            assert list(paged) == plain
            assert list(reversed(paged)) == plain[::-1]
            assert [paged[at] for at in range(-len(plain), len(plain))] == plain * 2
            assert paged[1:3] == tuple(plain[1:3])
            assert len(paged) == len(plain)
            assert _whole(paged)
            assert sum(2 * page.count < Numbers.MOST for page in paged.pages) <= 1 + len(plain) // 2, before
            with pytest.raises(IndexError):
                paged[len(plain)]


def _is_run(items: Sequence[int], of: Sequence[int]) -> bool:
    return any(tuple(of[at : at + len(items)]) == tuple(items) for at in range(len(of)))


def test_an_append_names_pages_again(tmp_path: Path, key: OwnerKey) -> None:
    place = Days(tmp_path, key)
    before = place.days(5).manifest
    assert (len(before.segments.pages), len(before.segments.last)) == (2, 1)
    place.rows(6)
    after = place.tables.open("t").manifest
    assert pages(after)[:2] == pages(before)
    assert (len(after.segments.pages), len(after.segments.last)) == (3, 0)
    assert tuple(place.fresh().open("t").manifest.segments)[:5] == tuple(before.segments)


@pytest.mark.parametrize("new", [False, True])
def test_an_append_reads_no_page(tmp_path: Path, key: OwnerKey, new: bool) -> None:
    """Also in another process, and beside others who change the table meanwhile."""
    place = Days(tmp_path, key)
    named = pages(place.days(5).manifest)
    place.tables = place.fresh() if new else place.tables
    del place.stores.sensitive.names_read[:]  # type: ignore[attr-defined]
    place.rows(6)
    assert not {*place.reads} & {*named}
    assert named[0] in (tmp_path / "s").joinpath(named[0]).as_posix()


def test_a_deletion_writes_the_pages_of_its_segments_and_deletes_the_old_ones(tmp_path: Path, key: OwnerKey) -> None:
    place = Days(tmp_path, key)
    before = place.days(7).manifest
    delete(place.tables, "t", "day = DATE '2024-01-03' AND ward = 'A'", Silent(), yes=True)
    after = place.fresh().open("t").manifest
    old, new = pages(before), pages(after)
    assert (new[0], new[2]) == (old[0], old[2])
    assert new[1] != old[1]
    there = {*place.stores.sensitive.names("tables"), *place.stores.plain.names("tables")}
    assert old[1] not in there
    assert after.objects() <= there
    assert after.rows == 7 * _ROWS - 4
    assert {*after.cells}.isdisjoint(before.cells), "which cells changed depends on the condition"
    assert not verify(place.stored(), Silent())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("pad", [False, True])
def test_rows_of_a_day_read_its_page_alone(tmp_path: Path, key: OwnerKey, key_file: Path, pad: bool) -> None:
    place = Days(tmp_path, key)
    named = pages(place.days(7).manifest)
    for day, wanted in ((1, named[:1]), (4, named[1:2]), (6, named[2:]), (7, []), (9, [])):
        with place.session(key_file) as session:
            del place.stores.sensitive.names_read[:]  # type: ignore[attr-defined]
            session.ask(session.plan(_DAY.format(day), Options(pad=pad)))
        read = [each for each in place.reads if each in named]
        assert sorted(read) == sorted(named if pad else wanted), day


@pytest.mark.slow  # quick: test_sealed_tables.py, of permuted values
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "wards", [("ABC",) * 7, "ABCDEFG", ("AB", "BA", "C", "AC", "A", "B", "AB"), "A" * 7], ids=" ".join
)
def test_sealed_by_columns_do_not_choose_pages(
    tmp_path: Path, key: OwnerKey, key_file: Path, wards: Sequence[str]
) -> None:
    """Equal days, other wards: the same pages are read, and their number of cells is the same."""
    place = Days(tmp_path, key, "sealed")
    for day, of_day in zip((1, 1, 2, 3, 4, 4, 5), wards, strict=True):
        place.rows(day, of_day)
    manifest = place.tables.open("t").manifest
    named, read = pages(manifest), []
    for ward in ("A", "C", "none"):
        with place.session(key_file) as session:
            del place.stores.sensitive.names_read[:]  # type: ignore[attr-defined]
            session.ask(session.plan(f"{_DAY.format(3)} AND ward = '{ward}'"))
        read.append([named.index(each) for each in place.reads if each in named])
    sizes = [len(base64.b64decode(page.stored.cells or "")) for page in manifest.segments.pages if page.stored]
    assert (read, sizes) == ([[1]] * 3, [4, 8, 4])


def test_more_combinations_than_the_limit_choose_nothing(
    tmp_path: Path, key: OwnerKey, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_cells, "MOST_CHOOSING", 5)
    place = Days(tmp_path, key)
    manifest = place.days(4).manifest
    assert [page.stored.cells for page in manifest.segments.pages if page.stored] == [None, None]
    with place.session(key_file) as session:
        del place.stores.sensitive.names_read[:]  # type: ignore[attr-defined]
        session.ask(session.plan(_DAY.format(4)))
    assert {*pages(manifest)} <= {*place.reads}


@pytest.mark.parametrize("ward", ["plain", "sealed"])
def test_a_change_writes_the_pages_of_cells_that_it_changes(tmp_path: Path, key: OwnerKey, ward: str) -> None:
    """All, if a by column is sealed, since which of them change depends on its values. Then all have one size."""
    place = Days(tmp_path, key, ward)
    before = place.days(4).manifest
    assert len(before.cells) == 6
    place.rows(5)
    after = place.tables.open("t").manifest
    assert (after.cells[:6] == before.cells) == (ward == "plain")
    assert {*after.cells}.isdisjoint(before.cells) == (ward == "sealed")
    place.rows(6, ["x" * 1000])
    longest = place.tables.open("t").manifest.cells
    if ward == "sealed":
        assert len({each.bytes for each in longest}) == 1
        assert longest[0].bytes > after.cells[0].bytes


def test_a_cell_without_rows_keeps_no_key_in_any_page(tmp_path: Path, key: OwnerKey) -> None:
    place = Days(tmp_path, key)
    before = place.days(4).manifest
    delete(place.tables, "t", "day = DATE '2024-01-02'", Silent(), yes=True)
    opened = place.fresh().open("t")
    found = [place.tables.unseal(opened.vault, "cells", each) for each in opened.manifest.cells]
    assert not any(b"2024-01-02" in each for each in found)
    assert any(b"2024-01-03" in each for each in found)
    there = {*place.stores.sensitive.names("tables")}
    gone = {each.name for each in before.cells} - {each.name for each in opened.manifest.cells}
    assert gone
    assert not gone & there


def test_a_lost_page_is_damage(tmp_path: Path, key: OwnerKey) -> None:
    place = Days(tmp_path, key)
    (tmp_path / "s" / pages(place.days(4).manifest)[0]).unlink()
    opened = place.fresh().open("t")
    with pytest.raises(LostError, match="an object of the table is lost") as lost:
        list(opened.manifest.segments)
    assert lost.value.is_named()
    assert place.fresh().open("t").manifest.segments[-1].rows == _ROWS, "other pages are still read"


@pytest.mark.parametrize("lost", [True, False])
def test_a_harmed_page_is_reported_and_the_table_dropped(tmp_path: Path, key: OwnerKey, lost: bool) -> None:
    place = Days(tmp_path, key)
    path = tmp_path / "s" / pages(place.days(5).manifest)[0]
    content = path.read_bytes()
    path.unlink()
    if not lost:
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    place.tables = place.fresh()
    damages = verify(place.stored(), Silent())
    reason = "an object of the table is lost" if lost else "an object of the table is damaged"
    assert [(each.what, reason in each.reason) for each in damages] == [("a page of the manifest", True)]
    drop(place.fresh(), "t")
    assert not [*place.stores.sensitive.names("tables"), *place.stores.plain.names("tables")]


def test_a_page_of_a_version_that_is_replaced_is_no_damage(tmp_path: Path, key: OwnerKey) -> None:
    place = Days(tmp_path, key)
    place.days(4)
    tables = place.fresh()
    older = tables.open("t").manifest
    delete(place.tables, "t", "day = DATE '2024-01-01' AND ward = 'B'", Silent(), yes=True)
    with pytest.raises(LostError) as lost:
        list(older.segments)
    assert not lost.value.is_named()


def test_a_page_that_is_replaced_while_its_name_is_looked_for_is_no_damage(
    tmp_path: Path, key: OwnerKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Days(tmp_path, key)
    place.days(4)
    tables = place.fresh()
    older = tables.open("t")
    delete(place.tables, "t", "day = DATE '2024-01-01' AND ward = 'B'", Silent(), yes=True)
    real, stale = tables.latest, [older]
    monkeypatch.setattr(tables, "latest", lambda *given: stale.pop() if stale else real(*given))
    assert not tables.is_named(pages(older.manifest)[0])
    assert not stale


@pytest.mark.parametrize("rows", [(_ROWS,), (2 * _ROWS,), (_ROWS, _ROWS + 1)])
def test_a_page_has_what_the_manifest_says(tmp_path: Path, key: OwnerKey, rows: Sequence[int]) -> None:
    """Its owner has sealed it, with other segments."""
    place = Days(tmp_path, key)
    opened = place.days(4)
    pages_there, folder = opened.manifest.segments.pages, place.tables.folder("t")
    items = tuple(each.model_copy(update={"rows": n}) for each, n in zip(pages_there[0].items, rows, strict=False))
    content = Segments.CONTENT(items=items).model_dump_json().encode()
    assert pages_there[0].stored is not None
    named = {"object": place.tables.seal(folder, opened.vault, "manifest", content)}
    forged = Page.of(pages_there[0].items, pages_there[0].stored.model_copy(update=named))
    segments = Segments([forged, *pages_there[1:]], opened.manifest.segments.last)
    place.tables.commit(opened.manifest.model_copy(update={"segments": segments}), opened, "nothing")
    with pytest.raises(CheckFailed, match="a page of a table is not what its manifest says"):
        list(place.fresh().open("t").manifest.segments)


def test_no_page_over_the_limit_is_read(tmp_path: Path, key: OwnerKey, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Days(tmp_path, key)
    manifest = place.days(5).manifest
    largest = max(each.bytes for each in objects_of_pages(manifest))
    tables = place.fresh()
    opened = tables.open("t")
    monkeypatch.setattr(limits, "MAX_MANIFEST_BYTES", largest - 1)
    del place.stores.sensitive.names_read[:]  # type: ignore[attr-defined]
    with pytest.raises(CheckFailed, match="a page of a table has more than"):
        list(opened.manifest.segments)
    assert not {*place.reads} & {*pages(manifest)}


def test_named_appends_are_found_in_pages(tmp_path: Path, key: OwnerKey) -> None:
    place = Days(tmp_path, key)
    place.rows(1)
    for number in range(5):
        sql = f"SELECT DATE '2024-02-01' AS day, 'A' AS ward, {number} AS bill"
        rows = place.make(sql, SCHEMA.format(ward="plain"))
        place.write(rows, append=True, batch=Batch(id=f"b{number}", digest=""))
    manifest = place.fresh().open("t").manifest
    assert (len(manifest.batches.pages), len(manifest.batches.last)) == (2, 1)
    said: list[str] = []
    with of_files([place.root / "t.parquet"], name="t").read(None) as table:
        putting.append(place.fresh(), table, "t", Silent(), batch=Batch(id="b1", digest=""), say=said.append)
    assert said == ["batch 'b1' already exists: nothing is added"]
    assert {*pages_of(manifest)} <= {*place.stores.sensitive.names("tables")}


def test_a_rotation_writes_all_lists_in_pages_of_its_own(tmp_path: Path, key: OwnerKey, other_key: OwnerKey) -> None:
    place = Days(tmp_path, key)
    place.days(5)
    for number in range(3):
        sql = f"SELECT DATE '2024-02-01' AS day, 'A' AS ward, {number} AS bill"
        rows = place.make(sql, SCHEMA.format(ward="plain"))
        place.write(rows, append=True, batch=Batch(id=f"b{number}", digest=""))
    before = place.tables.open("t").manifest
    old = {*pages_of(before)}
    new = Tables(place.stores, other_key, place.memory)
    after = rotate(place.tables, new, "t", Silent()).manifest
    assert [each.id for each in after.batches] == [each.id for each in before.batches]
    assert after.rows == before.rows
    assert len(pages_of(after)) == len(old) == 5
    assert not old & {*pages_of(after)}
    assert not old & {*place.stores.sensitive.names("tables")}
    assert not verify(Stored(new, new.open("t")), Silent())


def test_a_page_is_one_segment_of_many_objects(tmp_path: Path, key: OwnerKey, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wide tables have fewer segments in a page: its size follows objects, not their sizes."""
    place = Days(tmp_path, key)
    segment = place.days(1).manifest.segments[0]
    monkeypatch.setattr(Segments, "MOST", 64)
    monkeypatch.setattr(Segments, "MOST_BYTES", 2 * Segments.size(segment))
    found = Segments.of(_copies(segment, 7))
    assert [page.count for page in found.pages] == [2, 2, 2]
    assert len(found.last) == 1


def _copies(segment: Segment, count: int) -> Iterator[Segment]:
    for number in range(count):
        yield segment.model_copy(update={"id": f"{number:032x}", "rows": 10**number})
