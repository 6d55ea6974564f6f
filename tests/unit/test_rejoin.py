"""Merging the plain service's answers about parts of the rows."""

from __future__ import annotations

import duckdb
import pytest

from cleave.sql.plan import QueryPlan
from cleave.sql.planner import plan_query
from cleave.sql.rejoin import merge, places_of, rejoin
from cleave.table.schema import Schema
from cleave_shared.errors import CheckFailed, QueryRefused, ServiceError
from cleave_shared.requests import PlainResponse, TypedColumn
from tests.unit.simulate import ask_plain, schema


@pytest.fixture(scope="module")
def numbers() -> Schema:
    return schema(g="plain VARCHAR", d="plain DOUBLE", x="plain DECIMAL(18,4)", n="plain BIGINT", f="plain DOUBLE")


def plan_of(numbers: Schema, selected: str, rest: str = "") -> QueryPlan:
    return plan_query(f"SELECT {selected} FROM t {rest}", numbers, "t")


def response(keys: list[TypedColumn], aggregates: list[TypedColumn], counts: list[int]) -> PlainResponse:
    return PlainResponse(label="0" * 32, rows=sum(counts), counts=counts, keys=keys, aggregates=aggregates)


def column(type_: str, *values: str | None) -> TypedColumn:
    return TypedColumn(type=type_, values=list(values))


def test_groups_are_told_apart_by_value_not_by_text(numbers: Schema) -> None:
    plan = plan_of(numbers, "d, count(*)", "GROUP BY d")
    first = response([column("DOUBLE", "0.0", "nan", None)], [], [2, 1, 1])
    second = response([column("DOUBLE", None, "-0.0", "1.0", "nan")], [], [1, 1, 1, 1])
    groups = merge(plan, [first, second])
    assert groups.keys == [("0.0",), ("nan",), (None,), ("1.0",)]
    assert groups.counts == [3, 2, 2, 1]


def test_the_services_groups_are_put_in_our_order(numbers: Schema) -> None:
    plan = plan_of(numbers, "g, sum(n)", "GROUP BY g")
    answer = response([column("VARCHAR", "b", None, "a")], [column("HUGEINT", "2", "3", "1")], [5, 6, 4])
    groups = rejoin(plan, [answer], [("a",), ("b",), (None,)], [4, 5, 6])
    assert groups.plain == [("1",), ("2",), ("3",)]
    with pytest.raises(CheckFailed, match="other row counts"):
        rejoin(plan, [answer], [("a",), ("b",), (None,)], [5, 4, 6])
    for others in ([("a",), ("b",)], [("a",), ("b",), ("c",)], [("a",), ("b",), (None,), ("c",)]):
        with pytest.raises(CheckFailed, match="other groups") as caught:
            rejoin(plan, [answer], others, [4, 5, 6, 7][: len(others)])
        assert caught.value.check == "plain groups"


def test_equal_keys_of_other_texts_are_the_same_group(numbers: Schema) -> None:
    plan = plan_of(numbers, "d, sum(n)", "GROUP BY d")
    answer = response([column("DOUBLE", "nan", "-0.0")], [column("HUGEINT", "2", "1")], [5, 4])
    assert rejoin(plan, [answer], [("0.0",), ("nan",)], [4, 5]).plain == [("1",), ("2",)]
    with pytest.raises(CheckFailed, match="other groups"):
        rejoin(plan, [answer], [("0.0",), ("-0.0",)], [4, 5])


def test_without_a_plain_service_the_groups_are_ours(numbers: Schema) -> None:
    plan = plan_of(numbers, "g", "GROUP BY g")
    assert rejoin(plan, [], [("a",)], [3]).counts == [3]


def test_wide_integers_and_decimals_stay_exact(numbers: Schema) -> None:
    plan = plan_of(numbers, "sum(n), sum(x)")
    big, small = 2**126, "12345678901234567890123456789012.3456"
    parts = [
        response([], [column("HUGEINT", str(big)), column("DECIMAL(38,4)", small)], [1]),
        response([], [column("HUGEINT", "1"), column("DECIMAL(38,4)", "0.0001")], [1]),
    ]
    assert merge(plan, parts).plain == [(str(big + 1), "12345678901234567890123456789012.3457")]


AGGREGATES = (
    "count(n), count(*) FILTER (WHERE n > 2), sum(n), sum(x), min(g), max(x), avg(n), avg(x), avg(f), var_samp(f), "
    "var_pop(x), stddev(f), stddev_pop(n), product(1 + f), bool_and(n > -9), bool_or(n > 4), bit_or(n), "
    "count_if(n > 0), avg(f) FILTER (WHERE n > 3), var_samp(f) FILTER (WHERE n > 4), kahan_sum(f)"
)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("rest", ["", "GROUP BY g", "WHERE n > 3 GROUP BY g", "WHERE n > 100"])
@pytest.mark.parametrize("offset", [0, 1e6])
def test_parts_put_together_are_the_whole(numbers: Schema, rest: str, offset: float) -> None:
    plan = plan_of(numbers, AGGREGATES, rest)
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT CASE WHEN i % 7 < 6 THEN chr(65 + (i % 4)::INTEGER) END AS g, i::DOUBLE AS d, "
            "((i * 7 % 11) / 8)::DECIMAL(18,4) AS x, CASE WHEN i % 3 < 2 THEN (i * 7 % 13 - 5)::BIGINT END AS n, "
            f"{offset} + sin(i) AS f FROM range(60) AS r(i)"
        )
        whole = merge(plan, ask_plain(plan, connection))
        for parts in (2, 5):
            merged = merge(plan, ask_plain(plan, connection, parts))
            assert merged.keys == whole.keys
            assert merged.counts == whole.counts
            assert merged.plain_types == whole.plain_types
            for ours, theirs in zip(merged.plain, whole.plain, strict=True):
                for value, truth, type_ in zip(ours, theirs, whole.plain_types, strict=True):
                    if type_ == "DOUBLE" and value is not None and truth is not None:
                        assert float(value) == pytest.approx(float(truth), rel=1e-9)
                    else:
                        assert value == truth


def test_what_cannot_be_put_together_is_refused_only_where_a_group_is_torn(numbers: Schema) -> None:
    plan = plan_of(numbers, "g, median(n)", "GROUP BY g")
    first = response([column("VARCHAR", "a")], [column("DOUBLE", "1.5")], [2])
    other = response([column("VARCHAR", "b")], [column("DOUBLE", "2.5")], [2])
    assert merge(plan, [first, other]).plain == [("1.5",), ("2.5",)]
    with pytest.raises(QueryRefused, match=r"median\(.n.\) cannot be combined"):
        merge(plan, [first, first])


def test_without_keys_there_is_a_group_even_of_nothing(numbers: Schema) -> None:
    plan = plan_of(numbers, "count(n), sum(n), avg(f)")
    groups = merge(plan, [])
    assert (groups.keys, groups.counts, groups.plain) == ([()], [0], [("0", None, None)])
    assert merge(plan_of(numbers, "g", "GROUP BY g"), []).keys == []


@pytest.mark.parametrize(
    "bad",
    [
        response([column("VARCHAR", "a")], [column("DOUBLE", "1")], [1]),
        response([], [column("HUGEINT", "1")], [1]),
        response([column("VARCHAR", "a", "b")], [column("HUGEINT", "1")], [1]),
        response([column("VARCHAR", "a")], [column("HUGEINT", "1")], [0]),
    ],
)
def test_an_answer_that_does_not_fit_the_plan_is_not_used(numbers: Schema, bad: PlainResponse) -> None:
    plan = plan_of(numbers, "g, sum(n)", "GROUP BY g")
    with pytest.raises(ServiceError):
        merge(plan, [bad])


def test_an_error_does_not_quote_values(numbers: Schema) -> None:
    plan = plan_of(numbers, "g, sum(n)", "GROUP BY g")
    bad = response([column("VARCHAR", "a")], [column("HUGEINT", "canary")], [1])
    with pytest.raises(ServiceError) as caught:
        merge(plan, [bad, bad])
    assert "canary" not in f"{caught.value.message} {caught.value.hint}"


def test_keys_of_fewer_groups_are_found_by_value_too() -> None:
    """Of one request of several: a zero may have the other sign there."""
    assert places_of(("DOUBLE",), [("-0.0",), ("2.0",)], [("1.0",), ("0.0",), ("2.0",)]) == [1, 2]


def test_a_nan_with_a_sign_keeps_its_text_where_there_is_nothing_else(numbers: Schema) -> None:
    plan = plan_of(numbers, "d, max(f)", "GROUP BY d")
    parts = [response([column("DOUBLE", "-nan")], [column("DOUBLE", "-nan")], [count]) for count in (2, 3)]
    groups = merge(plan, parts)
    assert (groups.keys, groups.plain, groups.counts) == ([("-nan",)], [("-nan",)], [5])
