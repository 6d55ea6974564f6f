"""Every query is answered as DuckDB answers it over the unsplit table, each output from where it should come."""

from __future__ import annotations

from pathlib import Path

import pytest

from cleave_shared.errors import QueryRefused
from tests.conformance.asked import bare_calls, expect, is_ordered
from tests.conformance.compare import differences
from tests.conformance.conftest import Tables, Tally
from tests.conformance.queries import QUERIES, Query

# What issue 10's other slices have not landed yet; empty, and this line gone, when they have.
PENDING = set((Path(__file__).parent / "pending.txt").read_text().split())


@pytest.mark.parametrize(
    "query",
    [pytest.param(each, marks=[pytest.mark.xfail] if each.name in PENDING else []) for each in QUERIES],
    ids=lambda query: query.name,
)
def test_is_answered_as_duckdb_answers(tables: Tables, tally: Tally, query: Query) -> None:
    tally.asked += 1
    session = tables.session(query.table, *([query.other] if query.other else []))
    try:
        result = session.ask(session.plan(query.sql)).result
    except QueryRefused:
        tally.refused.append(query.name)
        raise
    sources = tuple(column.source for column in result.columns)
    tally.sources.update(sources)
    calls = bare_calls(query.sql) if "encrypted" in sources else []
    of_columns = [
        call if source == "encrypted" and call else None
        for call, source in zip(calls or [None] * len(sources), sources, strict=True)
    ]
    expected = expect(tables.oracle, query.sql, [call for call in of_columns if call])
    assert differences(result, expected, of_columns, is_ordered(tables.oracle, query.sql)) == []
    assert sources == query.sources
