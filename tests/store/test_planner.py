"""Over generated questions every way gives DuckDB's answer, and the one that the model says is quickest is taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from cleave.model.operations import Operation
from cleave.store.cellwise import StoredPlan
from cleave.store.choice import SECONDS, TIMES, name_of
from tests.store.campaign import FACTOR, sampled
from tests.store.generated import TABLES, World, questions, ways
from tests.store.timed import take

ROWS, MOST_GROUPS = 9_000, 12
BY_DAY = "SELECT day % 2 AS k, SUM(bill) FROM visits GROUP BY k ORDER BY k"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, key_file: Path) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(tmp_path_factory.mktemp("planned"), key_file, ROWS, stack)


@pytest.mark.parametrize("count", sampled(12, 40, 40 * FACTOR))  # CLEAVE_CAMPAIGN has more
def test_every_way_answers_alike_and_the_quickest_is_taken(world: World, count: int) -> None:
    counted: Counter[str] = Counter()
    with ExitStack() as stack:
        sessions = {table: stack.enter_context(world.session(table)) for table in TABLES}
        for table, sql in questions(count):
            session = sessions[table]
            chooser = session.chooser()
            chosen = chooser.chosen(sql, cloud_only=False)
            found = [chooser.candidate(plan, pad=False) for plan in ways(session, sql, MOST_GROUPS)]
            foreseen = {each.name: each.cost.seconds for each in found}
            assert len(foreseen) == len(found)
            least = min(foreseen.values())
            assert foreseen[name_of(chosen)] <= max(TIMES * least, least + SECONDS), sql
            for each in found:
                answer = session.ask(each.plan).result
                assert not world.wrong(sql, answer.rows, answer.bounds), f"{each.name}: {sql}"
            counted.update([*foreseen])
    assert min(counted[name] for name in ("totals", "rows", "scan")) >= count // 4


def test_a_wrong_answer_is_seen(world: World) -> None:
    """By the comparison above."""
    with world.session(TABLES[0]) as session:
        answer = session.ask(session.plan(BY_DAY)).result
    assert not world.wrong(BY_DAY, answer.rows, answer.bounds)
    answer.rows[1][1] += 1  # type: ignore[operator]
    assert world.wrong(BY_DAY, answer.rows, answer.bounds)
    assert world.wrong(BY_DAY, answer.rows[:1], answer.bounds[:1])


@pytest.mark.parametrize(("dear", "taken"), [(Operation.FETCH, "scan"), (Operation.MULTIPLY, "rows")])
def test_the_choice_follows_the_timings(
    world: World, monkeypatch: pytest.MonkeyPatch, dear: Operation, taken: str
) -> None:
    take(monkeypatch, {dear: 100.0})
    with world.session(TABLES[0]) as session:
        assert name_of(session.plan(BY_DAY)) == taken


def test_a_scan_of_more_groups_than_it_is_quicker_for_is_given_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plain service tells how many there are."""
    take(monkeypatch, {Operation.FETCH: 1.0, Operation.MULTIPLY: 0.05})
    sql = "SELECT day // 60 AS k, SUM(bill) FROM visits GROUP BY k ORDER BY k"
    with world.session(TABLES[0]) as session:
        plan = session.plan(sql)
        assert isinstance(plan, StoredPlan)
        assert plan.scans
        assert plan.most_groups is not None
        for most, source in ((7, "encrypted"), (6, "local")):
            answer = session.ask(replace(plan, most_groups=most)).result
            assert [column.source for column in answer.columns] == ["key", source]
            assert not world.wrong(sql, answer.rows, answer.bounds)
        (way, *_) = session.describe(plan).ways
        assert way.reason == f"it is the quickest, for up to {plan.most_groups:,} groups"
        assert 1 <= plan.most_groups < 60
