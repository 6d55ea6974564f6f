"""tests/vectors/plain-bombs.toml on the plain service: a clean answer in time, nothing left, and then as before."""

from __future__ import annotations

import os
import resource
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

from cleave_services.plain.app import app
from cleave_shared import limits, wire
from cleave_shared.wire import PlainRequest
from tests.functional.envelopes import SCHEMA
from tests.functional.gateway import call

BOMBS = tomllib.loads((Path(__file__).parents[1] / "vectors" / "plain-bombs.toml").read_text("utf-8"))["bomb"]
DATA = {"id": [1, 2, 3]}


def ask(part: str, sql: str, table: bytes) -> Any:
    request = PlainRequest(schema_hash=SCHEMA, rows=3, table=table, **{part: sql if part == "where" else [sql]})
    return call(
        app, "POST", "/v1/plain/aggregate", content=wire.dump_json(request), headers={"content-type": wire.JSON_TYPE}
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    import duckdb  # noqa: PLC0415 - the service's process has none of it open

    path = tmp_path_factory.mktemp("bombs") / "ids.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT range + 1 AS id FROM range(3)) TO '{path}' (FORMAT parquet)")
    return path.read_bytes()


def test_there_are_enough() -> None:
    assert len(BOMBS) >= 44
    assert len({bomb["sql"] for bomb in BOMBS}) == len(BOMBS) == len({bomb["name"] for bomb in BOMBS})


@pytest.mark.parametrize("bomb", BOMBS, ids=lambda bomb: bomb["name"])
def test_bomb(bomb: dict[str, str], table: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PLAIN_SECONDS", 0.5)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    answer = ask(bomb["part"], bomb["sql"], table)
    assert time.perf_counter() - started < 5  # what the kernel takes to free gigabytes included
    assert answer.status_code in (200, 413, 422), answer.text
    if answer.status_code != 200:
        assert answer.json().keys() == {"error", "hint"}
        assert bomb["sql"][:20] not in answer.text
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 50_000  # KB
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
    monkeypatch.undo()
    assert ask("keys", "id", table).json()["counts"] == [1, 1, 1]


def test_a_child_that_dies_or_is_late_is_told_apart(table: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PLAIN_SECONDS", 0.3)
    late = ask("keys", "list_sum(list_transform(range(1000000000), lambda x: x % 7))", table)
    assert (late.status_code, late.json()["error"]) in [
        (422, "stopped after 0.3 s"),
        (413, "needs more memory than the service has"),
    ]
