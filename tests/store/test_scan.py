"""Questions over plain columns answered by scans: as DuckDB answers them, over folder and S3; and what is refused."""

from __future__ import annotations

import random
import threading
from dataclasses import replace
from typing import Any

import pytest

from cleave.ask.question import Options
from cleave_shared import rowsets
from cleave_shared.errors import CheckFailed, QueryRefused, ServiceError
from tests.campaign import FACTOR, sampled
from tests.functional.processes import HANGS
from tests.store.scan_asking import Harm, Replayed, Services, ask_by_scan, scan_plan
from tests.store.trial import World, check, truth

QUESTIONS = {
    "SELECT ward, COUNT(*), SUM(bill), AVG(age) FROM trial GROUP BY 1 ORDER BY 1": "key plain encrypted encrypted",
    "SELECT SUM(bill), COUNT(weight), AVG(weight) FROM trial WHERE admitted < DATE '2025-01-20'": "encrypted " * 3,
    "SELECT ward, AVG(weight) FROM trial WHERE admitted <> DATE '2025-01-20' GROUP BY ward ORDER BY 1": "key encrypted",
    "SELECT admitted, SUM(bill) FROM trial GROUP BY admitted ORDER BY 1": "key encrypted",
    "SELECT SUM(bill) FILTER (WHERE ward < 'N') AS n, SUM(bill) AS a, COUNT(*) FROM trial": "encrypted encrypted plain",
    "SELECT COUNT(weight) FILTER (WHERE ward = 'x'), SUM(age) FILTER (WHERE ward > 'P') FROM trial": "encrypted " * 2,
    "SELECT ward, MAX(admitted), SUM(age) FROM trial GROUP BY 1 HAVING COUNT(*) > 9 ORDER BY 3": "key plain encrypted",
    "SELECT SUM(age), COUNT(*) FROM trial WHERE ward = 'nowhere'": "encrypted plain",
    "SELECT ward, SUM(age) FROM trial WHERE ward = 'nowhere' GROUP BY ward": "key encrypted",
    "SELECT ward, length(ward) % 2 AS o, SUM(bill) / COUNT(*) AS r FROM trial GROUP BY CUBE (ward, o) ORDER BY ALL": (
        "key key encrypted"
    ),
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("sql", list(QUESTIONS))
def test_scans_answer_as_duckdb_does(world: World, sql: str) -> None:
    world.put("insured", scan=True)
    services = Services(world.stores)
    answer = ask_by_scan(world.stored(), services, sql).result
    assert [column.source for column in answer.columns] == QUESTIONS[sql].split()
    check(answer.rows, answer.bounds, truth(sql))
    assert services.asked[0] == "select"


def test_a_scan_goes_over_all_segments(world: World) -> None:
    world.put("insured", scan=True, appended=1)
    services = Services(world.stores)
    answer = ask_by_scan(
        world.stored(), services, "SELECT ward, SUM(bill), COUNT(*) FROM trial GROUP BY ward ORDER BY 1"
    )
    expected = truth("SELECT ward, 2 * SUM(bill), 2 * COUNT(*) FROM trial GROUP BY ward ORDER BY 1")
    check(answer.result.rows, answer.result.bounds, expected)
    assert services.asked == ["select", "scan", "scan"]


def test_what_a_scan_does_not_give_is_fetched_beside_it(world: World) -> None:
    world.put("insured", scan=True)
    sql = "SELECT ward, SUM(bill), MEDIAN(bill), STDDEV(age) FROM trial GROUP BY ward ORDER BY 1"
    answer = ask_by_scan(world.stored(), Services(world.stores), sql, cloud_only=False).result
    assert [column.source for column in answer.columns] == ["key", "encrypted", "local", "encrypted"]
    check(answer.rows, answer.bounds, truth(sql))


def test_small_groups_are_left_out(world: World) -> None:
    world.put("insured", scan=True)
    counts = dict(truth("SELECT ward, COUNT(*) FROM trial GROUP BY ward"))
    most = max(counts.values())  # type: ignore[type-var]
    sql = "SELECT ward, SUM(bill) FROM trial GROUP BY ward"
    answer = ask_by_scan(world.stored(), Services(world.stores), sql, Options(min_group=int(str(most))))
    assert {row[0] for row in answer.result.rows} <= {ward for ward, count in counts.items() if count == most}


REFUSED = {
    "SELECT SUM(age * bill) FROM trial": "do not hold",
    "SELECT CORR(age, bill) FROM trial": "products of two columns",
    "SELECT SUM(bill) FROM trial WHERE age > 3": "'age' is not plain",
    "SELECT insured, SUM(bill) FROM trial GROUP BY insured": "'insured' is not plain",
    "SELECT SUM(bill) FILTER (WHERE age > 50) FROM trial": "do not hold",
    "SELECT MEDIAN(bill) FROM trial": "MEDIAN",
}


@pytest.mark.parametrize("sql", list(REFUSED))
def test_what_no_scan_gives_is_told(world: World, sql: str) -> None:
    world.put("ward", scan=True)
    with pytest.raises(QueryRefused, match=REFUSED[sql]):
        scan_plan(world.stored(), sql)


def test_a_table_put_without_the_option_is_not_scanned(world: World) -> None:
    world.put("ward")
    assert world.stored().manifest.scanned == 0
    with pytest.raises(QueryRefused, match="without --scan"):
        scan_plan(world.stored(), "SELECT SUM(bill) FROM trial WHERE admitted < DATE '2025-01-20'")


SUM = "SELECT ward, SUM(bill) FROM trial GROUP BY ward"
TIMES = sampled(4, 15, 15 * FACTOR)  # CLEAVE_CAMPAIGN has more


def _keeping(kept: list[Any]) -> Harm:
    def keep(name: str, request: Any, reply: Any) -> Any:
        kept.append((name, request, reply))
        return reply

    return keep


def _harmed(name: str, rng: random.Random, reply: Any) -> Any:
    if name == "a count":
        counts = [*reply.counts]
        counts[rng.randrange(len(counts))] += 1
        return replace(reply, counts=counts)
    if name == "a row's group":
        numbers = [bytearray(each) for each in reply.numbers]
        piece = rng.choice(numbers)
        piece[rng.randrange(len(piece))] ^= 1 << rng.randrange(8)
        return replace(reply, numbers=[bytes(each) for each in numbers])
    if name == "a row set lost":
        return replace(reply, numbers=reply.numbers[:-1])
    if name == "a row set cut off":
        return replace(reply, numbers=[*reply.numbers[:-1], reply.numbers[-1][:-1]])
    assert name == "a filter nobody asked for"
    return replace(reply, filters=[[each[:1] for each in reply.numbers]])


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "fault", ["a count", "a row's group", "a row set lost", "a row set cut off", "a filter nobody asked for"]
)
def test_row_sets_that_are_not_of_their_groups_are_found(world: World, fault: str, times: int) -> None:
    world.put("insured", scan=True)
    stored, rng = world.stored(), random.Random(fault)
    kept: list[Any] = []
    ask_by_scan(stored, Services(world.stores, _keeping(kept)), SUM)

    def harm(name: str, _request: Any, reply: Any) -> Any:
        assert name == "select", "nothing is summed of row sets that are wrong"
        return _harmed(fault, rng, reply)

    for _ in range(times):
        with pytest.raises(CheckFailed):
            ask_by_scan(stored, Replayed(world.stores, kept[0][2], harm), SUM)


@pytest.mark.parametrize("times", TIMES)
def test_answers_to_other_scans_are_found(world: World, times: int) -> None:
    """The results of another segment, or of an earlier question, in this one's place."""
    world.put("insured", scan=True, appended=1)
    stored = world.stored()
    kept: list[Any] = []
    ask_by_scan(stored, Services(world.stores, _keeping(kept)), SUM)
    totals = [reply.totals for name, _, reply in kept if name == "scan"]
    rng = random.Random(1)

    def harm(name: str, _request: Any, reply: Any) -> Any:
        return replace(reply, totals=rng.choice(totals)) if name == "scan" else reply

    for _ in range(times):
        with pytest.raises(CheckFailed):
            ask_by_scan(stored, Replayed(world.stores, kept[0][2], harm), SUM)


def test_a_call_that_fails_waits_for_no_other(world: World) -> None:
    world.put("insured", scan=True, appended=1)
    asked, let_go = threading.Semaphore(0), threading.Event()
    late: list[str] = []  # calls that were waited for

    def harm(name: str, _request: Any, reply: Any) -> Any:
        if name == "scan":
            first = not asked.acquire(blocking=False)
            asked.release()
            if first:
                raise ServiceError("a service that is gone")
            if not let_go.wait(HANGS):
                late.append(name)
        return reply

    with pytest.raises(ServiceError, match="is gone"):
        ask_by_scan(world.stored(), Services(world.stores, harm), SUM)
    assert late == []
    let_go.set()


def test_nothing_that_is_sent_tells_a_value(world: World) -> None:
    """Masks are positions in a secret order: no two puts of a table send the same."""
    sent = []

    def keep(name: str, request: Any, reply: Any) -> Any:
        if name == "scan":
            sent.append((request.numbers, request.chunks, request.cuts))
        return reply

    for _ in range(2):
        world.put("insured", scan=True, replace=bool(sent))
        ask_by_scan(world.stored(), Services(world.stores, keep), SUM)
    (one, *rest), (other, *same) = sent
    assert one != other
    assert rest == same
    groups = len(rest[1])
    first, second = (rowsets.unpack(each, 8 * len(each) // groups.bit_length(), groups) for each in (one, other))
    assert sorted(first.tolist()) == sorted(second.tolist())
