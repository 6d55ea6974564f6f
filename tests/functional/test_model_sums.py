"""The sums of a model, asked over files and frames: exact ones, balls, and what has no bound or is hidden."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import flint
import pandas as pd
import pytest
from flint import arb, fmpq

from cleave import deadline
from cleave.api.ask import session_over
from cleave.ask.options import Asking, complete
from cleave.ask.session import Session
from cleave.deadline import OutOfTime
from cleave.models.sums import KeyedGroup, ModelSums
from cleave_shared.errors import CleaveError

PATIENTS = Path(__file__).parents[1] / "samples" / "patients.csv"


pytestmark = pytest.mark.usefixtures("own_key")


def asked(data: Any, keys: list[str], sets: list[tuple[int, ...]], figures: list[str], **asking: Any):
    given = complete(Asking, asking)
    with session_over(data, given) as session, session.snapshot():
        sums = ModelSums(session, given)
        return sums, sums.ask(keys, sets, figures)


def rows() -> list[dict[str, Any]]:
    connection = duckdb.connect()
    try:
        found = connection.execute(f"SELECT ward, insured, age, bill::DECIMAL(18,2) AS bill, weight FROM '{PATIENTS}'")
        names = [each[0] for each in found.description]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]
    finally:
        connection.close()


def contains(total: Any, exact: Fraction) -> bool:
    if isinstance(total.value, fmpq):
        return Fraction(int(total.value.p), int(total.value.q)) == exact
    with flint.ctx.workprec(1_000):
        return bool(total.value.contains(arb(fmpq(exact.numerator, exact.denominator))))


def test_sums_of_sets_of_keys_are_exact_or_contain_the_exact_ones() -> None:
    figures = ['SUM("age")', 'SUM("age" * "bill")', 'SUM("weight")']
    sums, groups = asked(PATIENTS, ['"ward"', '"insured"'], [(0,), (1, 0), ()], figures)
    expected: dict[Any, list[Fraction]] = defaultdict(lambda: [Fraction(0)] * 4)
    for row in rows():
        values = [1, row["age"], row["age"] * row["bill"], row["weight"] or 0]
        for key in ((0, (row["ward"],)), (1, (row["insured"], row["ward"])), (2, ())):
            expected[key] = [one + Fraction(two) for one, two in zip(expected[key], values, strict=True)]
    assert {(group.set, group.keys) for group in groups} == expected.keys()
    for group in groups:
        count, *others = expected[group.set, group.keys]
        assert group.rows == count
        assert all(map(contains, group.totals, others))
        assert [type(each.value) for each in group.totals] == [fmpq, fmpq, arb]
        assert group.totals[2].value.rad() < 1e-9
    assert sums.checks["sentinel"] == "passed"
    assert [each.table for each in sums.seen] == ["patients"]
    assert (sums.min_group, sums.left_out) == (0, 0)


def test_many_figures_take_several_statements_of_the_same_groups() -> None:
    figures = [f'SUM("age" * {number})' for number in range(90)]
    sums, groups = asked(PATIENTS, ['"insured"'], [(0,)], figures)
    assert len(sums.answers) == len(sums.seen) == 3
    ages = {key: sum(row["age"] for row in rows() if row["insured"] is key) for key in (True, False)}
    assert {group.keys[0]: [int(each.value) for each in group.totals] for group in groups} == {
        key: [total * number for number in range(90)] for key, total in ages.items()
    }


def test_a_long_statement_is_split_before_its_limit() -> None:
    figures = ['SUM("age"' + " " * 2_000 + ")" for _ in range(12)]
    sums, (group,) = asked(PATIENTS, [], [()], figures)
    assert len(sums.answers) == 2
    assert len({int(each.value) for each in group.totals}) == 1


def test_all_statements_of_a_model_have_one_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now, answered = [1000.0], []
    monkeypatch.setattr(deadline, "time", SimpleNamespace(monotonic=lambda: now[0]))
    answer = Session._answer

    def slow(*arguments: Any, **given: Any) -> Any:
        answered.append(answer(*arguments, **given))
        now[0] += 5
        return answered[-1]

    monkeypatch.setattr(Session, "_answer", slow)
    given = complete(Asking, {"timeout": 9.0})
    with session_over(PATIENTS, given) as session, session.snapshot():
        sums = ModelSums(session, given)
        now[0] += 50  # what is not a question takes none of it
        sums.count("COUNT(*)")
        now[0] += 50
        sums.count("SUM(age)")
        with pytest.raises(OutOfTime, match="within the 9 seconds"):
            sums.count("MAX(age)")
    assert len(answered) == 2


def test_plain_doubles_are_loose_and_null_is_none() -> None:
    frame = pd.DataFrame({"x": [0.1, 0.2, 0.3], "n": pd.array([1, None, 3], "Int64"), "g": ["a", "a", "b"]})
    kinds = {"x": "plain", "n": "encrypted", "g": "plain"}
    _, groups = asked(frame, ['"g"'], [(0,), ()], ['SUM("x")', 'SUM(CASE WHEN "n" > 9 THEN "n" END)'], schema=kinds)
    assert all(group.totals[0].loose and isinstance(group.totals[0].value, fmpq) for group in groups)
    assert [group.totals[1].value for group in groups] == [None] * 3
    assert not any(each.hidden for group in groups for each in group.totals)


def test_a_threshold_leaves_groups_and_figures_out() -> None:
    frame = pd.DataFrame({"x": pd.array([1, None, 3, 4, 5, 6, 7], "Int64"), "g": [*"aaaaaa", "b"]})
    frame["d"] = [Decimal(1)] * 7
    kinds = {"x": "encrypted", "g": "plain", "d": "encrypted"}
    sums, groups = asked(frame, ['"g"'], [(0,)], ['SUM("x")', 'SUM("d")'], schema=kinds, min_group=3)
    assert groups == [KeyedGroup(0, ("a",), 6, (groups[0].totals[0], groups[0].totals[1]))]
    assert groups[0].totals[0].hidden
    assert groups[0].totals[0].value is None
    assert groups[0].totals[1].value == 6
    assert (sums.min_group, sums.left_out) == (3, 1)


@pytest.mark.parametrize(("kind", "code"), [("sealed", "out_of_range"), ("encrypted", "overflow")])
def test_a_sum_that_overflows_names_its_columns_and_what_to_declare(kind: str, code: str) -> None:
    table = duckdb.sql("SELECT (10**37 + i)::HUGEINT AS x FROM range(30) r(i)").to_arrow_table()
    with pytest.raises(CleaveError, match=r"^a sum of a model over columns 'x' overflows$") as caught:
        asked(table, [], [()], ['SUM("x")'], schema={"x": kind})
    assert (caught.value.code, "declare lower and upper" in (caught.value.hint or "")) == (code, True)
