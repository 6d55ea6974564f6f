"""Sums of a scan say beside the figure, in every format, that a service that lies could have set them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyarrow import parquet

from cleave.api.result import Result
from cleave.ask.choice import describe_stored
from cleave.ask.question import Answer
from cleave.ckks.owner_key import OwnerKey
from cleave.cli.answer import Format, answer_bytes
from cleave.finish.result import FAULTS_ONLY
from cleave.objects.locate import Folder
from cleave.report.page import PageFacts, page
from cleave.shown.answer import footer
from cleave.shown.plan import plan_json, plan_text
from tests.store.asking import ask, planned, site_of
from tests.store.scan_asking import Services, ask_by_scan, scan_plan
from tests.store.trial import World

SQL = "SELECT ward, SUM(bill) AS bill, COUNT(*) AS rows FROM trial GROUP BY ward ORDER BY ward"
TRUST = f"bill: {FAULTS_ONLY}"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, key: OwnerKey) -> World:
    root = tmp_path_factory.mktemp("scanned")
    made = World(Folder(root / "store"), key, root)
    made.put("ward", scan=True)
    return made


@pytest.fixture(scope="module")
def scanned(world: World) -> Answer:
    return ask_by_scan(world.stored(), Services(world.stores), SQL)


def test_every_format_has_a_mark(scanned: Answer, tmp_path: Path) -> None:
    written = {each: answer_bytes(scanned, each) for each in Format}
    texts = {each: content.decode() for each, content in written.items() if each not in (Format.PARQUET, Format.XLSX)}
    assert "encrypted, scanned" in texts[Format.TABLE].splitlines()[1]
    assert texts[Format.MARKDOWN].splitlines()[-1] == TRUST
    header, first, *_ = texts[Format.CSV].splitlines()
    assert (header, first.split(",")[-1]) == ("ward,bill,bill_bound,rows,scanned", "bill")
    assert json.loads(texts[Format.NDJSON].splitlines()[0])["scanned"] == "bill"
    document = json.loads(texts[Format.JSON])
    assert document["trust"] == TRUST
    assert [each.get("scanned", False) for each in document["columns"]] == [False, True, False]
    (tmp_path / "answer.parquet").write_bytes(written[Format.PARQUET])
    assert parquet.read_table(tmp_path / "answer.parquet").column("scanned").to_pylist() == ["bill"] * 6


def test_so_have_the_footer_the_report_and_python(world: World, scanned: Answer) -> None:
    assert TRUST in footer(scanned, 1.0).splitlines()
    html = page(scanned, PageFacts(SQL, "trial", datetime.now(UTC), 1.0), None)
    assert f"<p>{TRUST}</p>" in html
    assert html.count("</span> scanned <span") == 1
    shown = Result(scan_plan(world.stored(), SQL), 1.0, scanned)
    assert shown.scanned == (False, True, False)
    assert shown.arrow(bounds=True).column_names[-1] == "scanned"
    assert shown.arrow().column_names == ["ward", "bill", "rows"]


def test_rows_that_a_scan_chose_are_marked_too(world: World) -> None:
    sql = "SELECT ward FROM trial GROUP BY ward HAVING SUM(bill) > 1 ORDER BY ward"
    answer = ask_by_scan(world.stored(), Services(world.stores), sql)
    assert answer.result.trust == f"rows: {FAULTS_ONLY}"
    assert answer_bytes(answer, Format.CSV).decode().splitlines()[:2] == ["ward,scanned", "Cardiology,rows"]


def test_totals_have_none(world: World) -> None:
    answer = ask(world.stored(), "SELECT ward, SUM(bill) AS bill FROM trial GROUP BY ward")
    assert answer.result.trust == ""
    assert b"scanned" not in b"".join(answer_bytes(answer, each) for each in Format)


def test_the_plan_says_so(world: World) -> None:
    stored = world.stored()
    for plan, trust in ((scan_plan(stored, SQL), f"sums are {FAULTS_ONLY}"), (planned(stored, SQL), "")):
        description = describe_stored(site_of(stored), plan)
        assert json.loads(plan_json(description))["trust"] == trust
        assert ("How far it can be trusted" in plan_text(description)) == bool(trust)
