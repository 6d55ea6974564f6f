"""Over generated questions every way gives DuckDB's answer, and the planner's rule takes one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from benchmarks.lab.generated import TABLES, World, questions, site_of
from cleave.ask.plan import AnswerPlan
from cleave.ask.way import Site

QUESTIONS, ROWS = 40, 9_000
BY_DAY = "SELECT day % 2 AS k, SUM(bill) FROM visits GROUP BY k ORDER BY k"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, key_file: Path) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(tmp_path_factory.mktemp("planned"), key_file, ROWS, stack)


def test_every_way_answers_alike_and_the_rule_is_kept(world: World) -> None:
    counted: Counter[str] = Counter()
    with ExitStack() as stack:
        sessions = {table: stack.enter_context(world.session(table)) for table in TABLES}
        for table, sql in questions(QUESTIONS):
            session = sessions[table]
            site = site_of(session)
            found = {plan.name: plan for plan in session.ways(sql)}
            chosen = session.plan(sql).name
            first = next(iter(found))
            rows = found["rows"].work(site).bytes if "rows" in found else None
            too_much = rows is not None and counted_bytes(site, found[first]) > 4 * rows
            assert chosen == ("rows" if first.startswith("totals") and too_much else first), sql
            for name, plan in found.items():
                answer = session.ask(plan).result
                assert not world.wrong(sql, answer.rows, answer.bounds), f"{name}: {sql}"
            counted.update([*found])
    assert min(counted[name] for name in ("totals", "rows", "scan")) >= QUESTIONS // 4


def counted_bytes(site: Site, plan: AnswerPlan) -> int:
    """Bytes of totals, with 160 for each cell of the table."""
    return plan.work(site).bytes + 160 * max(each.cells for each in site.stored.manifest.segments)


def test_a_wrong_answer_is_seen(world: World) -> None:
    """By the comparison above."""
    with world.session(TABLES[0]) as session:
        answer = session.ask(session.plan(BY_DAY)).result
    assert not world.wrong(BY_DAY, answer.rows, answer.bounds)
    answer.rows[1][1] += 1  # type: ignore[operator]
    assert world.wrong(BY_DAY, answer.rows, answer.bounds)
    assert world.wrong(BY_DAY, answer.rows[:1], answer.bounds[:1])
