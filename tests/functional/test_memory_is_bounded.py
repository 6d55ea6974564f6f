"""What a body of a few megabytes may make of memory, and one of a few kilobytes of work: counted, not timed."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence
from typing import NoReturn

import pytest

from cleave_services.plain import engine, expressions
from cleave_services.plain.app import app as plain
from cleave_services.plain.database import Database
from cleave_services.sensitive.app import app as sensitive
from cleave_shared import limits, wire
from cleave_shared.errors import WireError
from cleave_shared.requests import PlainRequest
from tests.functional.gateway import call

SET = "0" * 32


def many(item: str) -> Callable[[int], str]:
    return lambda items: "[" + ",".join([item] * items) + "]"


def names(items: int) -> str:
    return "{" + ",".join(f'"{number:x}":0' for number in range(items)) + "}"


# path, and the body with $ for what there is too much of
BODIES = {
    "unknown names": ("/v1/plain", "$", names),
    "columns that are none": ("/v1/plain", '{"operation":"sum","data":$}', names),
    "groups that are no names": ("/v1/plain", '{"operation":"sum","data":{"x":[1]},"group_by":$}', many("0")),
    "rows that are no numbers": (f"/v1/plain/tables/{SET}/aggregate", '{"rows":$}', many('""')),
    "blobs that are none": (
        "/v1/sensitive",
        '{"operation":"sum","profile":"x","rows":1,"data":{"x":$}}',
        many("0"),
    ),
    "group numbers that are none": (
        "/v1/sensitive",
        '{"operation":"sum","profile":"x","rows":1,"data":{"x":["AAAA"]},"group_by":$}',
        many('""'),
    ),
    "weights that are none": (f"/v1/sensitive/tables/{SET}/scan", '{"weights":$}', many('""')),
    "cuts that are none": (f"/v1/sensitive/tables/{SET}/scan", '{"cuts":[$]}', many('""')),
    "lists of no chunks": (f"/v1/sensitive/tables/{SET}/scan", '{"cuts":$}', many("[]")),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("items", [20_000, pytest.param(200_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", BODIES)
def test_a_strange_body_takes_forty_times_its_size_at_most(kind: str, items: int) -> None:
    path, text, made = BODIES[kind]
    body = text.replace("$", made(items)).encode()
    app = plain if "plain" in path else sensitive
    headers = {"content-type": wire.JSON_TYPE}
    call(app, "POST", path, content=b"{}", headers=headers)  # what the first request imports and builds
    tracemalloc.start()
    try:
        answer = call(app, "POST", path, content=body, headers=headers)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert answer.status_code in (413, 422)
    assert len(answer.content) < 2_000
    assert peak < 40 * len(body)


def test_errors_are_as_few_as_the_fields() -> None:
    with pytest.raises(WireError, match=r"rows\.0: [^;]*"):
        wire.validate(PlainRequest, {"objects": [], "rows": [""] * 50, "columns": []})


def test_frames_are_counted_before_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    body = wire.dump_frames(PlainRequest(rows=[1], objects=[b"x"]))
    assert wire.load(PlainRequest, body, wire.FRAMES_TYPE).objects == [b"x"]
    monkeypatch.setattr(limits, "MAX_FRAMES", 0)
    with pytest.raises(WireError, match="not a Cleave frame"):
        wire.load(PlainRequest, body, wire.FRAMES_TYPE)


def test_names_of_a_whole_request_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    body = b'{"label": "%b", "rows": [1]}' % SET.encode()
    monkeypatch.setattr(limits, "MAX_NAMES", 3)  # an object and two names
    wire.load(PlainRequest, body, wire.JSON_TYPE)
    monkeypatch.setattr(limits, "MAX_NAMES", 2)
    with pytest.raises(WireError, match="more than 2 names") as caught:
        wire.load(PlainRequest, body, wire.JSON_TYPE)
    assert caught.value.code == "too_large"


class Unread(Database):
    """Fails where anything reaches DuckDB."""

    def run(self, *_: object) -> NoReturn:
        raise AssertionError


@pytest.mark.parametrize(
    "sql",
    [
        "(" * 201,
        "[" * 201,
        "{'a':" * 201,
        "(')' || " * 201,
        '(")" || ' * 201,
        "($$)$$ || " * 201,
        "(1 -- )\n + " * 201,
        "(1 /* ) */ + " * 201,
        "(E'\\' || ')' || " * 201,
        "(" * 100 + "[" * 101,
    ],
)
def test_deep_brackets_never_reach_the_parser(sql: str) -> None:
    with pytest.raises(WireError, match=r"keys\[0\]: nested too deeply"):
        expressions.require(Unread(), {"keys[0]": sql}, {})


def test_many_brackets_beside_each_other_are_not_deep() -> None:
    with pytest.raises(AssertionError):
        expressions.require(Unread(), {"keys[0]": " + ".join(["('((')"] * 1000)}, {})


@pytest.mark.parametrize(
    "sql", ["list_transform([1], lambda x: " * 9 + "1" + ")" * 9, "a" + ".a" * 201], ids=["lambdas", "a long name"]
)
def test_what_the_binder_takes_long_for_never_reaches_it(sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Database.run

    def no_explain(self: Database, statement: str, place: str, parameters: Sequence[object] = ()) -> object:
        assert "EXPLAIN" not in statement
        return run(self, statement, place, parameters)

    with Database() as database:
        database.load_nothing(1)
        monkeypatch.setattr(Database, "run", no_explain)
        with pytest.raises(WireError, match=r"nested too deeply"):
            expressions.require(database, {"keys[0]": sql}, {})


def test_texts_of_many_columns_are_compared_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB compares each expression of a statement with every other."""
    most, fetch = 0, Database.fetch

    def counted(self: Database, sql: str, place: str, parameters: Sequence[object] = ()) -> list[tuple[object, ...]]:
        nonlocal most
        most = max(most, sql.count("bool_and"))
        return fetch(self, sql, place, parameters)

    monkeypatch.setattr(Database, "fetch", counted)
    with Database() as database:
        database.load_nothing(3)
        _, _, aggregates = engine.group(database, None, [], [f"count(*) + {number}" for number in range(120)])
    assert [column.values for column in aggregates] == [[str(3 + number)] for number in range(120)]
    assert 0 < most <= 50
