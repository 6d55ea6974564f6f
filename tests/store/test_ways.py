"""The ways of a question over a stored table: what they would take, which is taken, and that `plan` says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cleave.cli.report import plan_json, plan_text
from cleave.estimate import TABLE_VALUE
from cleave.local.embedded import embedded_services
from cleave.model import cost
from cleave.model.cost import Prices, Work
from cleave.model.operations import Operation
from cleave.model.timings import SHIPPED, Timings
from cleave.pipeline import Options
from cleave.session import Access, Silent
from cleave.sql.plan import LocalPlan
from cleave.store import choice, works
from cleave.store import put as putting
from cleave.store.cellwise import StoredPlan
from cleave.store.memory import Memory
from cleave.store.session import StoredSession
from cleave.store.works import rows_work, work_of
from cleave.table.lazy import of_files
from cleave.table.schema import Column, CsvDialect, Kind, Schema
from tests.conftest import no_passphrase
from tests.store.scan_asking import scan_plan
from tests.store.timed import take
from tests.store.trial import World

ITEMS = "SELECT ward, AVG(bill), MEDIAN(bill) FROM trial GROUP BY ward"


@pytest.fixture
def session(world: World, key_file: Path, tmp_path: Path) -> StoredSession:
    world.put("ward", "admitted")
    return StoredSession(
        "trial", world.stores, Access(key_file, no_passphrase), memory=Memory(tmp_path / "tables.json")
    )


def test_each_question_has_its_ways(session: StoredSession) -> None:
    with session:
        for sql, possible in (
            ("SELECT ward, AVG(bill) FROM trial GROUP BY ward", {"totals": True, "rows": True}),
            (ITEMS, {"totals and rows": True, "rows": True}),
            ("SELECT AVG(bill) FROM trial WHERE age > 3", {"totals": False, "rows": True}),
            ("SELECT MEDIAN(bill) FROM trial", {"totals": False, "rows": True}),
            ("SELECT bill FROM trial", {"totals": False, "rows": True}),
        ):
            described = session.describe(session.plan(sql))
            assert {way.name: way.cost is not None for way in described.ways} == possible
            assert [way.taken for way in described.ways] == [True, False]
            assert all(way.reason for way in described.ways)
            taken = described.ways[0]
            shown = plan_text(described)
            assert "Ways to answer it" in shown
            assert f"taken: {taken.reason}" in shown
            assert json.loads(plan_json(described))["ways"][0]["name"] == taken.name


@pytest.mark.parametrize("quicker", [False, True])
def test_what_is_foreseen_is_what_is_read(
    session: StoredSession, monkeypatch: pytest.MonkeyPatch, quicker: bool
) -> None:
    """Bytes, beside the list of cells and the indexes, which are here by then."""
    take(monkeypatch, {Operation.TOTALS: 100.0 if quicker else 0.0, Operation.VALUE: 0.0 if quicker else 1.0})
    with session:
        plan = session.plan("SELECT ward, AVG(bill), MEDIAN(age) FROM trial WHERE ward < 'N' GROUP BY ward")
        described = session.describe(plan)
        session.ask(session.plan("SELECT COUNT(*) FROM trial"))  # what every question reads is counted with the first
        usage = session.ask(plan).usage
        stored = session._stored
        foreseen = described.ways[0].cost
        assert foreseen is not None
        assert described.ways[0].name == ("rows" if quicker else "totals and rows")
        assert foreseen.bytes == described.sensitive.bytes_down
        indexes = sum(segment.index.bytes for segment in stored.manifest.segments)
        assert usage.bytes_read == foreseen.bytes - indexes


def test_a_scan_is_a_way(world: World, key_file: Path, tmp_path: Path) -> None:
    """Beside fetching the rows it reads less."""
    world.put("ward", scan=True)
    memory = Memory(tmp_path / "tables.json")
    access = Access(key_file, no_passphrase)
    with StoredSession("trial", world.stores, access, memory=memory, embedded=embedded_services) as session:
        sql = "SELECT SUM(bill), AVG(weight) FROM trial WHERE admitted > DATE '2025-02-01'"
        plan = session.plan(sql, cloud_only=True)
        assert isinstance(plan, StoredPlan)
        assert plan.scans
        described = session.describe(plan)
        assert [(way.name, way.taken) for way in described.ways] == [
            ("scan", True),
            ("rows", False),
            ("totals", False),
        ]
        assert all(way.cost and way.cost.requests and way.cost.seconds for way in described.ways[:2])
        assert "taken: no row is to be fetched" in plan_text(described)


def test_padded_questions_are_foreseen_to_read_all(session: StoredSession) -> None:
    with session:
        plan = session.plan("SELECT MEDIAN(bill) FROM trial WHERE ward = 'Surgery'")
        some, everything = (session.describe(plan, options) for options in (Options(), Options(pad=True)))
        assert any("--pad reads all" in lesson for lesson in some.leakage.sensitive)
        assert not any("--pad" in lesson for lesson in everything.leakage.sensitive)


def many_cells(world: World, tmp_path: Path, cells: int) -> None:
    """A table each row of which is a cell of its own, as when somebody stores it by an id."""
    (tmp_path / "wide.csv").write_text("id,x\n" + "".join(f"{number},{number % 7}\n" for number in range(cells)))
    columns = (
        Column("id", Kind.PLAIN, "BIGINT", 0, nullable=False),
        Column("x", Kind.ENCRYPTED, "BIGINT", 0, nullable=False),
    )
    with of_files([tmp_path / "wide.csv"], Schema(columns, CsvDialect()), "trial").read(None) as table:
        putting.put(world.tables, world.stores, world.key, table, "trial", ["id"], Silent())


def test_rows_are_fetched_where_that_is_quicker(
    world: World, key_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many_cells(world, tmp_path, 9_000)
    take(monkeypatch, {Operation.TOTAL: 1e-3})
    sql = "SELECT SUM(x), VAR_POP(x), COUNT(*) FROM trial WHERE id < 9"
    access = Access(key_file, no_passphrase)
    with StoredSession("trial", world.stores, access, memory=Memory(tmp_path / "tables.json")) as session:
        plan = session.plan(sql)
        assert isinstance(plan, StoredPlan)
        assert plan.fetches
        assert [(each.source, each.reason) for each in plan.outputs] == [
            *[("local", choice.QUICKER)] * 2,
            ("encrypted", ""),
        ]
        ways = session.describe(plan).ways
        assert [(way.name, way.taken) for way in ways] == [("rows", True), ("totals", False)]
        assert ways[0].cost is not None
        assert ways[1].cost is not None
        assert ways[0].cost.seconds < ways[1].cost.seconds
        assert session.ask(plan).result.rows == [[22, pytest.approx(92 / 9 - (22 / 9) ** 2), 9]]
        only_services = session.plan(sql, cloud_only=True)
        assert [each.source for each in only_services.outputs] == ["encrypted"] * 3
        assert session.ask(only_services).result.rows[0][0] == 22
        whole = session.plan("SELECT SUM(x) FROM trial")
        assert isinstance(whole, StoredPlan)
        assert whole.fetches
        assert isinstance(session.plan("SELECT id FROM trial"), LocalPlan)
        take(monkeypatch, {Operation.TOTAL: 0.0})
        assert [each.source for each in session.plan("SELECT SUM(x) FROM trial").outputs] == ["encrypted"]


@pytest.mark.parametrize(
    ("sql", "cells", "values"),
    [
        ("SELECT SUM(bill) FROM trial", 0, 0),
        ("SELECT SUM(bill) FROM trial WHERE ward < 'N'", 1, 0),
        ("SELECT ward, SUM(bill) FROM trial WHERE ward < 'N' GROUP BY ward", 1, 0),
        ("SELECT admitted, SUM(bill) FROM trial WHERE ward < 'N' GROUP BY admitted", 1, 1),
        ("SELECT ward, SUM(bill) FROM trial GROUP BY ward", 1, 1),
        ("SELECT ward, admitted, SUM(bill) FROM trial GROUP BY ALL", 1, 2),
        ("SELECT SUM(bill) FILTER (WHERE ward < 'N') FROM trial", 1, 1),
    ],
)
def test_what_is_read_of_the_cells_is_counted(session: StoredSession, sql: str, cells: int, values: int) -> None:
    with session:
        plan = session.plan(sql, cloud_only=True)
        chooser = session.chooser()
        counts = chooser.candidate(plan, pad=False).work.counts
        assert counts.get(Operation.CELL, 0) == cells * len(chooser.stored.cells)
        assert counts.get(Operation.LISTED, 0) == values * len(chooser.stored.cells)
        assert counts.get(Operation.LIST, 0) == (cells > 0 and " trial WHERE" not in sql)


def test_of_a_scan_by_keys_a_few_groups_are_taken_to_be(world: World) -> None:
    world.put(scan=True, segment_rows=300)
    stored = world.stored()
    keyed, alone = (
        scan_plan(stored, f"SELECT SUM(bill) FROM trial WHERE ward < 'N' {keys}") for keys in ("GROUP BY ward", "")
    )

    def masks(plan: StoredPlan, groups: int | None) -> float:
        work = work_of(stored, plan, pad=False, services=True, groups=groups)
        assert work.at_once == 2, "each of the segments is scanned by one process"
        return work.counts[Operation.MASK]

    assert masks(keyed, None) == masks(keyed, works._GROUPS) > masks(keyed, 3) > masks(keyed, 1)
    assert masks(alone, None) == masks(alone, 1) == masks(keyed, 1)


def test_what_a_service_does_in_few_processes_is_not_shared_by_more_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Timings, "cores", staticmethod(lambda: 4))
    folder = Prices(False, False, SHIPPED)
    seconds = [folder.of(Work(there={Operation.MASK: 1e3}, calls=1, at_once=n)).seconds for n in (1, 2, 9, 0)]
    assert seconds == pytest.approx([4 * seconds[3], 2 * seconds[3], seconds[3], seconds[3]])


def test_every_cell_of_a_segments_index_is_counted_where_rows_are_fetched(world: World) -> None:
    world.put("ward", "admitted", segment_rows=300)
    stored = world.stored()
    cells = [each.cells for each in stored.manifest.segments]
    assert len(cells) == 2
    assert rows_work(stored, ["age"], None, ordered=False).counts[Operation.INDEXED] == sum(cells)


def test_the_memory_of_what_is_on_its_way_is_that_of_two_segments(world: World) -> None:
    world.put("ward", segment_rows=100)
    stored = world.stored()
    sizes = [segment.rows for segment in stored.manifest.segments]
    assert sizes == [100] * 6

    for names, ordered, under_way in (
        (["age"], False, works._FETCHED_VALUE),
        (["age"], True, works._FETCHED_VALUE + works._FETCHED_PLACE),
        (["admitted"], False, works._FETCHED_PLACE),
    ):
        assert rows_work(stored, names, None, ordered=ordered).memory == int(600 * TABLE_VALUE) + 200 * under_way


def test_prices() -> None:
    """A bucket's requests and bytes cost money and round trips, a folder's nothing; nor do services in this process."""
    bucket, folder = (Prices(of_bucket, False, SHIPPED) for of_bucket in (True, False))
    reading = Work(reads=[1_000_000] * 9)
    from_bucket, from_folder = bucket.of(reading), folder.of(reading)
    assert from_bucket.bytes == from_folder.bytes == 9_000_000
    assert from_bucket.requests == 9
    assert from_folder.dollars == 0
    assert from_bucket.dollars == pytest.approx(9 * 0.4e-6 + 9e6 * 0.09e-9)
    assert from_bucket.seconds == pytest.approx(2 * cost.ROUND_TRIP + 9e6 / cost.NETWORK_BYTES)
    assert from_folder.seconds < from_bucket.seconds
    adding = Work(there={Operation.ADD: 6_000.0}, calls=1, linked=900_000_000, objects=100, answered=131_688)
    served, here = Prices(True, True, SHIPPED).of(adding), folder.of(adding)
    assert (served.bytes, here.bytes) == (131_688, 0)
    assert served.dollars > 100 * cost.GET_DOLLARS
    assert here.dollars == 0
    assert bucket.of(adding).seconds > 900_000_000 / cost.NETWORK_BYTES  # it is this process that reads
    decrypting = Work({Operation.DECRYPT: 1000.0})
    assert bucket.of(decrypting).seconds == pytest.approx(folder.of(decrypting).seconds)
    both = decrypting + reading
    assert bucket.of(both).seconds == pytest.approx(max(bucket.of(decrypting).seconds, from_bucket.seconds))
