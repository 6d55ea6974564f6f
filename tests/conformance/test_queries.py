"""Every query is answered as DuckDB answers it over the unsplit table, each output from where it should come."""

from __future__ import annotations

import re

import pytest

from cleave_shared.errors import QueryRefused
from tests.conformance.asked import bare_calls, expect, is_ordered
from tests.conformance.compare import differences
from tests.conformance.conftest import Tables, Tally
from tests.conformance.queries import QUERIES, Query
from tests.conformance.shapes import one_of_each
from tests.conformance.tables import columns_of


@pytest.mark.parametrize("query", one_of_each(QUERIES, by_source=True))
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


def test_there_are_enough_questions_and_every_sum_is_encrypted() -> None:
    assert len(QUERIES) >= 300
    for query in QUERIES:
        if set(query.sources) == {"local"}:  # a question that cannot be cut
            continue
        kinds = {name: kind for name, kind, *_ in columns_of(query.table)}
        for call, source in zip(bare_calls(query.sql), query.sources, strict=True):
            if call is None or "DISTINCT" in str(call):
                continue
            read = {kinds.get(word.lower()) for word in re.findall(r"\w+", str(call))}
            if "encrypted" in read and not read & {"sealed", "local"}:
                assert source == "encrypted", query
