"""A session: everything opened when it is needed, once, and given up at the end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cleave.ask.files import FileSource
from cleave.ask.options import Access
from cleave.ask.session import Session
from cleave.local.embedded import embedded_services
from cleave.sql.catalog import Catalog
from cleave.sql.nodes import Constant, Node
from cleave.sql.planner import Planner
from cleave.table.lazy import LazyTable, of_files
from cleave.table.table import Table
from cleave_shared.errors import InputError, QueryRefused

PATIENTS = Path(__file__).parents[1] / "samples" / "patients.csv"
SQL = "SELECT ward, COUNT(*), AVG(age) FROM patients GROUP BY ward ORDER BY ward"


def counting(opened: list[str]) -> LazyTable:
    table = of_files([PATIENTS])

    def read() -> Table:
        opened.append(table.name)
        return table.read(None)

    return replace(table, prefetched=read)


def test_a_table_a_key_and_services_are_opened_once(key_file: Path) -> None:
    opened: list[str] = []

    def embedded() -> object:
        opened.append("services")
        return embedded_services()

    with Session(FileSource(counting(opened), Access(key_file), embedded)) as session:  # type: ignore[arg-type]
        plan = session.plan(SQL)
        assert opened == []
        first, second = session.ask(plan), session.ask(plan)
        assert opened == ["patients", "services"]
        assert first.result.rows == second.result.rows
        assert first.usage.requests == second.usage.requests == 2  # counted for each question
        assert session.describe(plan).rows == first.usage.rows
    session.close()


def test_a_question_is_planned_once_and_refusals_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[tuple[str, bool]] = []

    plans = Planner.plan

    def plan(self: Planner, *, cloud_only: bool = False) -> object:
        planned.append((self._statement.text, cloud_only))
        return plans(self, cloud_only=cloud_only)

    monkeypatch.setattr(Planner, "plan", plan)
    source = FileSource(of_files([PATIENTS]))
    with Session(source) as session:
        assert session.plan(SQL) is session.plan(SQL)
        assert planned == [(SQL, False)]
        for _ in range(2):
            with pytest.raises(QueryRefused):
                session.plan("SELECT MEDIAN(age) FROM patients", cloud_only=True)
            session.plan("SELECT MEDIAN(age) FROM patients")
        assert len(planned) == 1 + 2 + 1
        for number in range(40):
            session.plan(f"SELECT COUNT(*) + {number} FROM patients")
        session.plan(SQL)
        assert planned[-1] == (SQL, False)  # too long ago
        assert len(source._plans) < 40


@pytest.mark.parametrize("clock", ["current_date", "Today()", '"current_localtimestamp"()'])
def test_what_reads_the_clock_is_planned_anew(clock: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = f"SELECT SUM(age) FROM patients WHERE admitted < {clock}"
    with Session(FileSource(of_files([PATIENTS]))) as session:
        first = session.plan(sql)
        settled = Catalog.settle
        monkeypatch.setattr(Catalog, "settle", lambda *_: settled(*_).replaced(_days_later))
        assert session.plan(sql) != first


def _days_later(node: Node) -> Node | None:
    return Constant("STRING", "2100" + node.text[4:]) if isinstance(node, Constant) else None


def test_describing_needs_no_services() -> None:
    with Session(FileSource(of_files([PATIENTS]))) as session:
        assert session.describe(session.plan(SQL)).groups == 6


def test_what_is_wrong_here_is_told_before_the_table_is_read(tmp_path: Path) -> None:
    opened: list[str] = []
    with Session(FileSource(counting(opened), Access(tmp_path / "missing.json"), embedded_services)) as session:
        with pytest.raises(QueryRefused):
            session.plan("SELECT nothing FROM patients")
        with pytest.raises(InputError, match="seconds above 0"):
            session.ask(session.plan(SQL), seconds=0)
    assert opened == []


def test_a_session_makes_one_key_and_needs_no_file(tmp_path: Path) -> None:
    source = FileSource(of_files([PATIENTS]), Access(tmp_path / "missing.json"), embedded_services)
    with Session(source) as session:
        first = session.ask(session.plan(SQL))
        key = source._key
        assert session.ask(session.plan(SQL)).result.rows == first.result.rows
        assert key is not None
        assert source._key is key
    assert source._key is None
    another = FileSource(of_files([PATIENTS]), None, embedded_services)
    with Session(another) as other:
        other.ask(other.plan(SQL))
        assert another._key is not None
        assert another._key.key_id != key.key_id


def test_without_services_there_is_nobody_to_ask(key_file: Path) -> None:
    with (
        Session(FileSource(of_files([PATIENTS]), Access(key_file))) as session,
        pytest.raises(InputError, match="no services in this process"),
    ):
        session.ask(session.plan(SQL))
