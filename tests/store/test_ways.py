"""The ways of a question over a stored table: what each reads, which the rule takes, and that `plan` says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import cleave
from cleave.ask.choice import FETCH_LIMIT
from cleave.ask.question import Options
from cleave.ask.session import Session
from cleave.ask.way import CALL_DOLLARS, GET_DOLLARS, OUT_DOLLARS, Work
from cleave.ask.ways import totals
from cleave.ask.ways.choosing import FEWER_BYTES
from cleave.ask.ways.rows import Fetch
from cleave.ask.ways.scan import groups_of
from cleave.ask.ways.totals import TotalsWay
from cleave.shown.plan import plan_json, plan_lines, plan_text
from cleave.sql import planner
from cleave.sql.parse import Select, parse
from cleave.sql.read import Statement
from cleave.store import put as putting
from cleave.store.manifest import Object
from cleave.store.rows import Read
from cleave.sums import scan
from cleave.table.lazy import of_files
from cleave.table.progress import Silent
from cleave.table.schema import Column, CsvDialect, Kind, Schema
from cleave_shared import limits
from cleave_shared.errors import QueryRefused
from tests.lessons import too_long
from tests.store.asking import reads_of, stored_site
from tests.store.scan_asking import scan_sums
from tests.store.trial import World

ITEMS = "SELECT ward, AVG(bill), MEDIAN(bill) FROM trial GROUP BY ward"


@pytest.fixture
def session(world: World, key_file: Path, tmp_path: Path) -> Session:
    world.put("ward", "admitted")
    return world.session(key_file, services=False)


def test_each_question_has_its_ways(session: Session) -> None:
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
            headed = [line for line in plan_lines(described).splitlines() if line[0] != " "]
            assert len(headed) == 6
            assert taken.reason in headed[4]
            assert not too_long(described.leakage)
            assert f"taken: {taken.reason}" in shown
            assert json.loads(plan_json(described))["ways"][0]["name"] == taken.name


def test_a_question_is_parsed_once_whatever_ways_it_has(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def counted(statement: Statement, table: str) -> Select:
        parsed.append(statement.text)
        return parse(statement, table)

    monkeypatch.setattr(planner, "parse", counted)
    with session:
        for sql in (ITEMS, "SELECT SUM(bill) FROM trial"):
            assert len(session.ways(sql)) == 2
        assert parsed == [ITEMS, "SELECT SUM(bill) FROM trial"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("fewer", [False, True])
def test_what_is_foreseen_is_what_is_read(session: Session, monkeypatch: pytest.MonkeyPatch, fewer: bool) -> None:
    """Bytes, beside the list of cells, which is here by then."""
    monkeypatch.setattr(totals, "CELL_BYTES", 10**9 if fewer else 0)
    monkeypatch.setattr(TotalsWay, "worth", 4 if fewer else 10**9)
    with session:
        plan = session.plan("SELECT ward, AVG(bill), MEDIAN(age) FROM trial WHERE ward < 'N' GROUP BY ward")
        described = session.describe(plan)
        session.ask(session.plan("SELECT MEDIAN(weight) FROM trial"))  # whose count has what opening the table read
        usage = session.ask(plan).usage
        foreseen = described.ways[0].cost
        assert foreseen is not None
        assert described.ways[0].name == ("rows" if fewer else "totals and rows")
        assert foreseen.bytes == described.sensitive.bytes_down + described.plain.bytes_down
        assert usage.bytes_read == foreseen.bytes


def test_a_scan_is_a_way(world: World, key_file: Path, tmp_path: Path) -> None:
    """Beside fetching the rows it reads less."""
    world.put("ward", scan=True)
    with world.session(key_file) as session:
        sql = "SELECT SUM(bill), AVG(weight) FROM trial WHERE admitted > DATE '2025-02-01'"
        plan = session.plan(sql, cloud_only=True)
        assert plan.name == "scan"
        described = session.describe(plan)
        assert [(way.name, way.taken) for way in described.ways] == [
            ("scan", True),
            ("rows", False),
            ("totals", False),
        ]
        assert all(way.cost and way.cost.requests and way.cost.bytes for way in described.ways[:2])
        assert "taken: no rows may be fetched; its answer is at most " in plan_text(described)


def test_padded_questions_are_foreseen_to_read_all(session: Session) -> None:
    with session:
        sql = "SELECT MEDIAN(bill) FROM trial WHERE ward = 'Surgery'"
        some, everything = (session.describe(session.plan(sql, Options(pad))) for pad in (False, True))
        assert any("--pad reads all" in lesson for lesson in some.leakage.sensitive)
        assert not too_long(some.leakage)
        assert not any("--pad" in lesson for lesson in everything.leakage.sensitive)
        assert any("which of its objects" in lesson for lesson in some.leakage.plain)
        assert not any("which of its objects" in lesson for lesson in everything.leakage.plain)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("pad", [False, True])
def test_plain_objects_are_read_of_the_segments_that_where_leaves(
    tmp_path: Path, key_file: Path, monkeypatch: pytest.MonkeyPatch, pad: bool
) -> None:
    """As SECURITY.md says, the plain place sees which these are, unless all are read."""
    place: dict[str, Any] = {"store": f"{tmp_path}/s,{tmp_path}/p", "key": key_file}
    kinds = {"ward": "plain", "note": "sealed"}
    cleave.put(pd.DataFrame({"ward": ["A", "B"], "note": ["v", "w"]}), "t", by=["ward"], schema=kinds, **place)
    cleave.append(pd.DataFrame({"ward": ["A", "A"], "note": ["x", "y"]}), "t", schema=kinds, **place)
    read = reads_of(f"{tmp_path}/p", monkeypatch)
    assert cleave.query("t", "SELECT note FROM t WHERE ward = 'B'", pad=pad, **place).rows == [("w",)]
    assert len(read) == (2 if pad else 1)


def many_cells(world: World, tmp_path: Path, cells: int) -> None:
    """A table each row of which is a cell of its own, as when somebody stores it by an id."""
    (tmp_path / "wide.csv").write_text("id,x\n" + "".join(f"{number},{number % 7}\n" for number in range(cells)))
    columns = (
        Column("id", Kind.PLAIN, "BIGINT", nullable=False),
        Column("x", Kind.ENCRYPTED, "BIGINT", nullable=False),
    )
    with of_files([tmp_path / "wide.csv"], Schema(columns, CsvDialect()), "trial").read(None) as table:
        putting.put(world.tables, table, "trial", ["id"], Silent())


def test_totals_that_take_over_four_times_the_bytes_of_the_rows_are_not_read(
    world: World, key_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many_cells(world, tmp_path, 2_000)
    sql = "SELECT SUM(x), VAR_POP(x), COUNT(*) FROM trial WHERE id < 9"
    with world.session(key_file, services=False) as session:
        site = stored_site(session)
        by_totals, rows = session.ways(sql)
        counted = by_totals.work(site).bytes + 160 * 2_000
        assert sum(each.effort(site) for each in by_totals.ways) == 160 * 2_000
        monkeypatch.setattr(TotalsWay, "worth", counted / rows.work(site).bytes + 0.01)
        assert [each.source for each in session.plan(sql).outputs] == ["encrypted"] * 3
        monkeypatch.setattr(TotalsWay, "worth", counted / rows.work(site).bytes - 0.01)
        plan = session.plan(sql)
        assert plan.fetches
        assert [(each.source, each.reason) for each in plan.outputs] == [("local", FEWER_BYTES)] * 3
        assert [each.name for each in plan.ways] == ["rows"]
        ways = session.describe(plan).ways
        assert [(way.name, way.taken) for way in ways] == [("rows", True), ("totals", False)]
        assert session.ask(plan).result.rows == [[22, pytest.approx(92 / 9 - (22 / 9) ** 2), 9]]
        only_services = session.plan(sql, cloud_only=True)
        assert [each.source for each in only_services.outputs] == ["encrypted"] * 3
        assert session.ask(only_services).result.rows[0][0] == 22


@pytest.mark.slow  # quick: test_warm.py, of the list of cells
def test_rows_are_counted_by_the_list_of_cells_unless_it_is_longer(
    world: World, key_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many_cells(world, tmp_path, 2_000)
    with world.session(key_file, services=False) as session:
        for sql, name, rows in (
            ("SELECT COUNT(*) FROM trial", "totals", [[2_000]]),  # of no cell
            ("SELECT id % 2 AS k, COUNT(*) FROM trial GROUP BY k ORDER BY k", "rows", [[0, 1_000], [1, 1_000]]),
        ):
            plan = session.plan(sql)
            assert plan.name == name
            assert session.ask(plan).result.rows == rows
        monkeypatch.setattr(totals, "CELL_BYTES", 1)
        assert session.plan(sql).name == "totals"


LATE = "SELECT SUM(bill) FROM trial WHERE admitted > DATE '2025-02-01'"


@pytest.mark.parametrize("scans", [False, True])
def test_rows_over_the_limit_are_scanned_or_refused(world: World, key_file: Path, tmp_path: Path, scans: bool) -> None:
    world.put("ward", scan=scans)
    with world.session(key_file) as session:
        plan = session.plan(LATE)
        fetched = plan.fetched(stored_site(session))
        assert plan.name == "rows"
    with world.session(key_file, fetch_limit=fetched) as session:
        assert session.plan(LATE).name == "rows"
        by_rows = session.ask(session.plan(LATE)).result.rows
    with world.session(key_file, fetch_limit=fetched - 1) as session:
        if scans:
            plan = session.plan(LATE)
            assert plan.name == "scan"
            assert "--fetch-limit" in session.describe(plan).ways[0].reason
            assert session.ask(plan).result.rows == by_rows
        else:
            with pytest.raises(QueryRefused, match="it would fetch") as refused:
                session.plan(LATE)
            assert "--fetch-limit" in str(refused.value.hint)
            assert "--scan" in str(refused.value.hint)
    with world.session(key_file, fetch_limit=0) as session:
        assert session.plan("SELECT SUM(bill) FROM trial").name == "totals"
        with pytest.raises(QueryRefused, match="it would fetch"):
            session.plan("SELECT MEDIAN(bill) FROM trial")


def test_padding_is_held_to_the_limit(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """--pad reads all rows, which may be more than those that the plan was chosen by."""

    def reads(fetch: Fetch) -> list[Read]:
        return [Read(fetch.stored.manifest.secret, FETCH_LIMIT + 1 if fetch.cells is None else 1)]

    monkeypatch.setattr(Fetch, "reads", reads)
    with session:
        sql = "SELECT MEDIAN(bill) FROM trial WHERE ward = 'Surgery'"
        assert len(session.ask(session.plan(sql)).result.rows) == 1
        with pytest.raises(QueryRefused, match="it would fetch 1 GB of rows"):
            session.ask(session.plan(sql, Options(pad=True)))


def test_the_answer_of_a_scan_is_bounded(world: World) -> None:
    world.put("ward", scan=True, segment_rows=250)
    stored = world.stored()
    (bound, known, unknown) = (
        scan_sums(stored, f"SELECT SUM(bill) FROM trial WHERE admitted > DATE '2025-02-01' {keys}")
        for keys in ("", "GROUP BY ward", "GROUP BY admitted")
    )
    assert groups_of(stored, bound) == 1
    assert groups_of(stored, known) == len(stored.cells)
    assert groups_of(stored, unknown) is None
    one, many = (scan.answer_of_scan(stored, known, groups) for groups in (1, 100))
    assert many.results - one.results == 99 * len(scan.lanes_of_totals(stored, known)) * len(stored.manifest.segments)
    assert many.bytes >= many.results * limits.MASKED_RESULT_BYTES + many.largest
    most = scan.most_groups(stored, unknown)
    assert scan.answer_of_scan(stored, unknown, most).excess == ""
    assert "sums, a query may have at most" in scan.answer_of_scan(stored, unknown, most + 1).excess
    with pytest.raises(scan.ManyGroupsError, match="groups are too many for a scan") as refused:
        scan.require_few(stored, unknown, most + 1)
    assert f"up to {most:,} groups" in str(refused.value.hint)


def test_requests_and_bytes_of_a_bucket_are_priced() -> None:
    """A bucket's requests and bytes cost money, a folder's nothing; nor do services in this process."""
    objects = [Object(name=f"tables/{0:032x}/{number:032x}", bytes=9_000_000, sha256="0" * 64) for number in range(100)]
    reading = Work([Read(each, 1_000_000) for each in objects[:9]])
    from_bucket, from_folder = (reading.cost(bucket=each, remote=False) for each in (True, False))
    assert from_bucket.bytes == from_folder.bytes == 9_000_000
    assert from_bucket.requests == 9
    assert from_folder.dollars == 0
    assert from_bucket.dollars == pytest.approx(9 * GET_DOLLARS + 9e6 * OUT_DOLLARS)
    adding = Work(calls=1, linked=objects, answered=131_688)
    served, here = adding.cost(bucket=True, remote=True), adding.cost(bucket=False, remote=False)
    assert (served.bytes, here.bytes) == (131_688, 900_000_000)
    assert served.dollars == pytest.approx(100 * GET_DOLLARS + CALL_DOLLARS + 131_688 * OUT_DOLLARS)
    assert here.dollars == 0
