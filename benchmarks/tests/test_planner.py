"""Over generated questions every way gives DuckDB's answer, and the planner's rule takes one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from benchmarks.lab.generated import TABLES, World, chooser_of, questions
from cleave.ask.choice import TOTALS_BYTES, name_of

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
            chooser = chooser_of(session)
            found = {name_of(plan): plan for plan in session.ways(sql)}
            chosen = name_of(session.plan(sql))
            first = next(iter(found))
            rows = chooser.work(found["rows"]).bytes if "rows" in found else None
            too_much = rows is not None and chooser.work(found[first]).bytes > TOTALS_BYTES * rows
            assert chosen == ("rows" if first.startswith("totals") and too_much else first), sql
            for name, plan in found.items():
                answer = session.ask(plan).result
                assert not world.wrong(sql, answer.rows, answer.bounds), f"{name}: {sql}"
            counted.update([*found])
    assert min(counted[name] for name in ("totals", "rows", "scan")) >= QUESTIONS // 4


def test_a_wrong_answer_is_seen(world: World) -> None:
    """By the comparison above."""
    with world.session(TABLES[0]) as session:
        answer = session.ask(session.plan(BY_DAY)).result
    assert not world.wrong(BY_DAY, answer.rows, answer.bounds)
    answer.rows[1][1] += 1  # type: ignore[operator]
    assert world.wrong(BY_DAY, answer.rows, answer.bounds)
    assert world.wrong(BY_DAY, answer.rows[:1], answer.bounds[:1])
