"""Scans of tables with more segments than the plain service reads for one request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cleave.ask.session import Session
from cleave.ckks.owner_key import OwnerKey
from cleave.objects.locate import Folder
from cleave.sums import scan as scanning
from cleave_shared import limits
from cleave_shared.errors import CheckFailed, QueryRefused
from tests.store.scan_asking import Harm, Services, ask_by_scan, scan_plan
from tests.store.trial import World, check

ROWS = 210
SCHEMA = """
[columns.ward]
kind = "plain"
type = "VARCHAR"
nullable = true
[columns.part]
kind = "plain"
type = "DOUBLE"
[columns.day]
kind = "plain"
type = "INTEGER"
[columns.bill]
kind = "encrypted"
type = "DECIMAL(9,2)"
lower = 0
upper = 1000
nullable = true
"""
# the first rows have no ward C, and a zero of the other sign than the last
VALUES = f"""
SELECT CASE i // 90 WHEN 0 THEN ['A', 'B', NULL][i % 3 + 1] ELSE ['C', 'B', 'A', NULL][i % 4 + 1] END AS ward,
       CASE WHEN i % 5 = 0 THEN (CASE WHEN i < 100 THEN -0.0 ELSE 0.0 END) ELSE i % 5 END::DOUBLE AS part,
       i % 11 AS day, CASE WHEN i % 7 > 0 THEN (i * 104729) % 100000 / 100 END::DECIMAL(9,2) AS bill
FROM range({ROWS}) r(i)
"""
QUESTIONS = [
    "SELECT ward, COUNT(*), SUM(bill), COUNT(bill), AVG(day), MAX(day) FROM trial GROUP BY ward ORDER BY ward",
    "SELECT SUM(bill), SUM(bill) FILTER (WHERE ward = 'C'), COUNT(*), VAR_SAMP(bill) FROM trial WHERE day < 9",
    "SELECT part, ward = 'C' AS late, SUM(bill) FROM trial GROUP BY part, late ORDER BY ALL",
    "SELECT ward, day % 2 AS odd, SUM(bill), MIN(day) FROM trial GROUP BY ROLLUP (ward, odd) ORDER BY ALL",
    "SELECT ward, SUM(bill) FROM trial WHERE day > 20 GROUP BY ward",
    "SELECT SUM(bill), COUNT(*) FROM trial WHERE ward = 'nowhere'",
]


class Many(World):
    """A table in `segments`, the first `run` of which the plain service reads for one request."""

    def __init__(self, folder: Path, key: OwnerKey, key_file: Path, segments: int, run: int) -> None:
        super().__init__(Folder(folder / "s"), key, folder, Folder(folder / "p"))
        self.key_file, self.segments, self.run = key_file, segments, run
        self.write(self.make(VALUES, SCHEMA), "day", scan=True, segment_rows=ROWS // segments)

    def asked(self, limit: int = 0) -> Session:
        return self.session(self.key_file, fetch_limit=limit)

    def expected(self, sql: str) -> list[tuple[Any, ...]]:
        return self.oracle.execute(sql).fetchall()


@pytest.fixture(
    scope="module",
    params=[(5, 3), pytest.param((70, limits.MAX_PLAIN_OBJECTS), marks=pytest.mark.slow)],
    ids=["5", "70"],
)
def many(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, key: OwnerKey, key_file: Path
) -> Iterator[Many]:
    """Each segment is a request in a process of its own: 70 of them take long, so 5 are quick, under a limit of 3."""
    with ExitStack() as stack:
        stack.enter_context(pytest.MonkeyPatch.context()).setattr(limits, "MAX_PLAIN_OBJECTS", request.param[1])
        made = Many(tmp_path_factory.mktemp("many"), key, key_file, *request.param)
        stack.callback(made.oracle.close)
        yield made


@pytest.mark.sampled(4)
@pytest.mark.parametrize("sql", QUESTIONS)
def test_scans_answer_as_duckdb_does(many: Many, sql: str) -> None:
    services = Services(many.stores)
    answer = ask_by_scan(many.stored(), services, sql).result
    check(answer.rows, answer.bounds, many.expected(sql))
    assert services.asked.count("select") == 2
    assert services.asked.count("scan") <= many.segments * (1 + sql.count("FILTER"))


def test_a_session_scans_it_and_plans_its_requests(many: Many) -> None:
    sql = QUESTIONS[0]
    with many.asked() as session:
        plan = session.plan(sql)
        assert plan.name == "scan"
        (way,) = [each for each in session.describe(plan).ways if each.taken]
        assert "up to" in way.reason
        answer = session.ask(plan).result
        check(answer.rows, answer.bounds, many.expected(sql))
        whole = session.plan("SELECT SUM(bill) FROM trial WHERE ward = 'A'")
        (way,) = [each for each in session.describe(whole).ways if each.taken]
        assert way.reason.endswith(f"in 2 requests and {many.segments} calls")
        assert way.cost is not None
        assert way.cost.requests == 2 * many.segments + 2, "the orders of all segments, and the services"


def test_requests_have_no_more_objects_and_bytes_than_a_service_reads(many: Many, monkeypatch: Any) -> None:
    stored = many.stored()
    assert [len(run) for run in stored.runs] == [many.run, many.segments - many.run]
    largest = max(each.plain.bytes for each in stored.manifest.segments if each.plain)
    monkeypatch.setattr(limits, "MAX_LINKED_BYTES", 3 * largest)
    runs = many.stored().runs
    assert [each.id for run in runs for each in run] == [each.id for each in stored.manifest.segments]
    assert all(sum(each.plain.bytes for each in run if each.plain) <= 3 * largest for run in runs)
    monkeypatch.setattr(limits, "MAX_LINKED_BYTES", largest - 1)
    with pytest.raises(QueryRefused, match="which a service reads"):
        scan_plan(stored, "SELECT SUM(bill) FROM trial WHERE ward = 'A'")


def test_what_no_parts_give_is_not_scanned(many: Many) -> None:
    """A median of plain values over all segments cannot be put together from two requests."""
    with many.asked() as session, pytest.raises(QueryRefused, match="would fetch"):
        session.plan("SELECT MEDIAN(day), SUM(bill) FROM trial WHERE ward = 'A'")


@pytest.mark.parametrize("most", ["MOST_OF_ONE", "MOST_RESULTS", "MOST_ROW_SETS"])
def test_what_is_too_large_is_refused(many: Many, most: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, most, many.segments - 1)
    services = Services(many.stores)
    one, two = (f"SELECT {keys} SUM(bill) FROM trial WHERE day < 5 GROUP BY ALL" for keys in ("", "ward,"))
    asked = two if most == "MOST_RESULTS" else one
    with pytest.raises(scanning.ManyGroupsError, match="too many for a scan"):
        ask_by_scan(many.stored(), services, asked)
    assert "scan" not in services.asked
    assert services.asked == [] or most != "MOST_OF_ONE"


def _second(many: Many, change: Any) -> Harm:
    def harm(name: str, request: Any, reply: Any) -> Any:
        return change(reply) if name == "select" and len(request.objects) == many.segments - many.run else reply

    return harm


@pytest.mark.parametrize(
    "change",
    [
        lambda reply: replace(reply, rows=reply.rows + 1),
        lambda reply: replace(reply, numbers=reply.numbers[:-1]),
        lambda reply: replace(reply, counts=[reply.counts[0] + 1, *reply.counts[1:]]),
    ],
)
def test_each_answer_is_checked(many: Many, change: Any) -> None:
    with pytest.raises(CheckFailed):
        ask_by_scan(many.stored(), Services(many.stores, _second(many, change)), QUESTIONS[0])
