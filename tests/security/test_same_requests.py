"""What the services are sent follows from the schema, the question and counts: never from an encrypted value."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import cleave
from cleave.ask.question import Options
from cleave.ckks.secret_key import SecretKey
from cleave.local.embedded import embedded_services
from cleave.sql.planner import plan_query
from cleave.table.schema import load_schema
from cleave.table.stream import open_table
from cleave.transport.base import Transport
from cleave_shared.requests import PlainRequest, PlainResponse, SumsRequest, SumsResponse
from tests.answering import run_query

ROWS = 12_000
SCHEMA = """
[csv]
delimiter = ","
quote = "\\""
encoding = "utf-8"
header = true
decimal = "."
[columns.id]
kind = "plain"
type = "BIGINT"
nullable = false
reason = "test"
[columns.ward]
kind = "plain"
type = "VARCHAR"
nullable = false
reason = "test"
[columns.a]
kind = "encrypted"
type = "BIGINT"
nullable = true
lower = -1024
upper = 1024
reason = "test"
[columns.b]
kind = "encrypted"
type = "DECIMAL(18,2)"
decimals = 2
nullable = false
lower = 0
upper = 65536
reason = "test"
[columns.x]
kind = "encrypted"
type = "DOUBLE"
nullable = false
lower = 2
upper = 256
reason = "test"
"""

VALUES: dict[str, tuple[Callable[[np.random.Generator], Any], ...]] = {
    "a": (
        lambda r: r.integers(-1024, 1025, ROWS),
        lambda _: np.full(ROWS, None),
        lambda _: np.zeros(ROWS, int),
        lambda r: np.where(np.arange(ROWS) == 7, None, r.integers(-1, 2, ROWS)),  # type: ignore[call-overload]
        lambda _: np.where(np.arange(ROWS) % 2, 1024, None),  # type: ignore[call-overload]
    ),
    "b": (
        lambda r: r.integers(0, 65536, ROWS),
        lambda _: np.zeros(ROWS, int),
        lambda _: np.full(ROWS, 65536),
        lambda _: np.where(np.arange(ROWS) == 7, 65536, 0),
        lambda r: r.integers(0, 2, ROWS),
    ),
    "x": (
        lambda r: r.uniform(2, 256, ROWS),
        lambda _: np.full(ROWS, 2.0),
        lambda _: np.full(ROWS, 256.0),
        lambda _: np.where(np.arange(ROWS) == 7, 256.0, 2.0),
        lambda r: r.normal(100, 1e-9, ROWS),
    ),
}
QUESTIONS = [
    "SELECT COUNT(a) FROM t WHERE id = 7",
    "SELECT COUNT(a) FROM t WHERE id = 8",
    "SELECT COUNT(a), SUM(a OR b > 3), COUNT(CASE WHEN a > 3 THEN b END) FROM t",
    "SELECT SUM(a), SUM(b), SUM(a + b), AVG(b) FILTER (WHERE a > 0) FROM t",
    "SELECT ward, SUM(a), STDDEV(b), PRODUCT(a), COUNT(*) FROM t GROUP BY ward",
    "SELECT id % 5000 AS g, SUM(a), SUM(b) FROM t GROUP BY g",
    "SELECT SUM(x), AVG(x), SUM(x + 1), VAR_POP(x), SUM(b) FROM t WHERE id < 11000",
]


class Recording:
    """The embedded services, and what they are asked."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.asked: list[dict[str, Any]] = []

    def sensitive(self, request: SumsRequest) -> SumsResponse:
        told = {name: each for name, each in vars(request).items() if name not in {"label", "lanes"}}
        lanes = [[len(each) // 100 for each in lane.objects] for lane in request.lanes]  # it varies by some bytes
        self.asked.append({**told, "lanes": lanes})
        return self._inner.sensitive(request)

    def plain(self, request: PlainRequest) -> PlainResponse:
        self.asked.append({name: each for name, each in vars(request).items() if name not in {"label", "objects"}})
        return self._inner.plain(request)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Silent:
    def stage(self, name: str, total: int) -> Callable[[int], None]:  # noqa: ARG002 - shows nothing
        return lambda _: None


def write(folder: Path, variant: int) -> Path:
    """The table's `variant` as CSV, with its schema."""
    random = np.random.default_rng(variant)
    columns = [VALUES[name][variant](random) for name in ("a", "b", "x")]
    lines = ["id,ward,a,b,x"]
    for number, (a, b, x) in enumerate(zip(*columns, strict=True)):
        lines.append(f"{number},w{number % 3},{'' if a is None else a},{b},{float(x)!r}")
    path = folder / "t.csv"
    path.write_text("\n".join(lines) + "\n")
    path.with_suffix(".schema.toml").write_text(SCHEMA)
    return path


def requests(folder: Path, key: SecretKey, variant: int, options: Options) -> list[list[dict[str, Any]]]:
    """What each question asks of the services over the table's `variant`."""
    path = write(folder, variant)
    schema = load_schema(path.with_suffix(".schema.toml"))
    found = []
    with open_table(path, schema) as table:
        for question in QUESTIONS:
            transport = Recording(embedded_services())
            run_query(table, plan_query(question, schema, "t"), key, transport, Silent(), options)
            found.append(sorted(transport.asked, key=str))
    return found


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory, key: SecretKey) -> Callable[[Options], list[list[dict[str, Any]]]]:
    """Requests over values drawn at random, which those over every other table must equal."""
    return cache(lambda options: requests(tmp_path_factory.mktemp("drawn"), key, 0, options))


@pytest.mark.parametrize("variant", range(1, len(VALUES["a"])))
@pytest.mark.parametrize("options", [Options(), Options(pad=True)], ids=["default", "padded"])
@pytest.mark.sampled(8)  # padded requests: the test below
def test_requests_do_not_depend_on_encrypted_values(
    tmp_path: Path,
    key: SecretKey,
    drawn: Callable[[Options], list[list[dict[str, Any]]]],
    options: Options,
    variant: int,
) -> None:
    assert all(drawn(options))
    for question, ours, theirs in zip(
        QUESTIONS, drawn(options), requests(tmp_path, key, variant, options), strict=True
    ):
        assert ours == theirs, question


def test_padding_hides_how_many_rows_are_selected(tmp_path: Path, key: SecretKey) -> None:
    """Over the same range of a power of two; without it, the number of chunks tells."""
    write(tmp_path, 0)
    schema = load_schema(tmp_path / "t.schema.toml")
    with open_table(tmp_path / "t.csv", schema) as table:

        def chunks(rows: int, options: Options) -> list[int]:
            transport = Recording(embedded_services())
            question = f"SELECT SUM(x), VAR_POP(x), SUM(x + 1), SUM(x + 2), SUM(x + 3) FROM t WHERE id < {rows}"
            run_query(table, plan_query(question, schema, "t"), key, transport, Silent(), options)
            return sorted(sum(map(len, each["lanes"])) for each in transport.asked if "lanes" in each)

        assert chunks(4500, Options()) != chunks(8000, Options())
        assert chunks(4500, Options(pad=True)) == chunks(8000, Options(pad=True))
        assert chunks(0, Options()) == []
        assert chunks(0, Options(pad=True)) == chunks(1, Options(pad=True))


def test_plan_says_when_the_number_of_ciphertexts_shows_groups() -> None:
    """Also of groups that are far fewer than the places of a ciphertext, because each takes whole places."""
    kinds = {"id": "plain", "b": "encrypted"}

    def lesson(rows: int, groups: int) -> str:
        frame = pd.DataFrame({"id": np.arange(rows), "b": np.arange(rows)})
        plan = cleave.plan(frame, f"SELECT id % {groups} AS g, SUM(b) FROM frame GROUP BY g", schema=kinds)
        return plan.description.leakage.sensitive[0]

    def chunks(said: str) -> int:
        return int(said.partition(": ")[2].partition(",")[0])

    few, many = lesson(8_176, 1), lesson(8_176, 1_001)
    assert chunks(few) < chunks(many)
    assert few.endswith("the number of selected rows, and the number and sizes of the groups")
    assert "groups" not in lesson(3_000, 1)
    assert chunks(lesson(3_000, 1)) == chunks(lesson(3_000, 2_000)) == 1
