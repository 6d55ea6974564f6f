"""Which rows are in which group, and sums of rows by group, of stored objects: both services of a scan."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import httpx
import numpy as np
import pytest

from cleave.ckks.secret_key import SecretKey
from cleave.store.lanes import SCAN_ROWS
from cleave.sums.scanned import SumCall, sum_call
from cleave_services.plain.app import app as plain
from cleave_services.plain.database import Database
from cleave_services.sensitive.app import app as sensitive
from cleave_shared import rowsets, wire
from cleave_shared.chunks import joined
from cleave_shared.errors import CheckFailed, WireError
from cleave_shared.requests import Linked, PlainRequest, PlainResponse, ScanObject, ScanRequest, ScanResponse
from tests.functional.test_stored_services import SET, Store, post, store
from tests.store.scanning import Rows
from tests.unchecked import unchecked

__all__ = ["store"]  # a fixture

SELECT, SCAN = f"/v1/plain/tables/{SET}/aggregate", f"/v1/sensitive/tables/{SET}/scan"
SIZES = (150, 1, 90)
TABLE = "SELECT i, CASE WHEN i % 7 > 0 THEN 'w' || i % 3 END AS ward, i % 5 - 2 AS n, 'a row' AS \"where\""


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """The plain half of a table in three objects, NULLs among its keys."""
    parts, first = [], 0
    with duckdb.connect() as connection:
        for rows in SIZES:
            connection.execute(f"CREATE OR REPLACE TABLE part AS {TABLE} FROM range({first}, {first + rows}) r(i)")
            path = tmp_path_factory.mktemp("objects") / "part.parquet"
            connection.execute(f"COPY part TO '{path}' (FORMAT PARQUET)")
            parts.append(path.read_bytes())
            first += rows
    return parts


def select(store: Store, objects: list[bytes], **asked: Any) -> tuple[PlainRequest, httpx.Response]:
    given = {"rows": list(SIZES), "columns": ["i", "ward", "n", "where"], **asked}
    linked = [store.put(each) for each in objects] if given["columns"] else []
    request = PlainRequest(members=True, objects=linked, **given)
    return request, post(plain, SELECT, request)


QUESTIONS: list[dict[str, Any]] = [
    {"where": "i % 4 < 3", "keys": ["ward", "n > 0"], "filters": ["n = 1", "ward IS NULL"]},
    {"where": "i > 150", "keys": [], "filters": []},
    {"where": None, "keys": ["i // 40"], "filters": ["i % 2 = 0"]},
    {"where": "ward = 'none'", "keys": ["n"], "filters": ["true"]},
    {"where": "n <> 0", "keys": ["10 // n"], "filters": ["10 // n > 4"]},
    {"where": '"where" IS NOT NULL', "keys": ["CAST(n AS DOUBLE) * 0"], "filters": []},
]


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_row_is_told_its_group(store: Store, objects: list[bytes], question: dict[str, Any]) -> None:
    _, answer = select(store, objects, aggregates=["count(*)"], **question)
    assert answer.status_code == 200, answer.text
    found = wire.load(PlainResponse, answer.content, wire.FRAMES_TYPE)
    assert found.rows == sum(SIZES)
    groups = len(found.counts)
    numbers = np.concatenate([rowsets.unpack(each, n, groups) for each, n in zip(found.numbers, SIZES, strict=True)])
    where = question["where"] or "true"
    keys = f"dense_rank() OVER (ORDER BY {', '.join(question['keys'] or ['1'])})"
    told = ", ".join(f"(({each}) IS TRUE)::INT" for each in question["filters"]) or "0"
    rows = duckdb.sql(
        f"WITH rows AS ({TABLE} FROM range({sum(SIZES)}) r(i)) "
        f"SELECT i, {keys}, [{told}] FROM rows WHERE {where} ORDER BY i"
    ).fetchall()
    selected = np.flatnonzero(numbers)
    assert selected.tolist() == [row[0] for row in rows]
    by_number: dict[int, set[int]] = {}
    for place, key, _ in rows:
        by_number.setdefault(int(numbers[place]), set()).add(key)
    assert all(len(each) == 1 for each in by_number.values())
    assert len({key for each in by_number.values() for key in each}) == len(by_number)
    if question["keys"]:
        assert sorted(by_number) == list(range(1, groups + 1))
    assert [int((numbers == at + 1).sum()) for at in range(groups)] == found.counts
    for at, filter_ in enumerate(found.filters):
        bits = np.concatenate([rowsets.unpack(each, n, 1) for each, n in zip(filter_, SIZES, strict=True)])
        assert np.flatnonzero(bits).tolist() == [row[0] for row in rows if row[2][at]]


@pytest.mark.parametrize("where", [None, "n > 0", "i % 4 < 3 AND current_date > DATE '2000-01-01'", "n = 100"])
@pytest.mark.parametrize("keys", [[], ['"ward"'], ['"ward"', '"n"']])
def test_rows_that_stay_in_their_objects_are_told_the_same(
    store: Store, objects: list[bytes], where: str | None, keys: list[str]
) -> None:
    """Beside an aggregate they are read into a table."""
    found = []
    for aggregates in ([], ["count(*)"]):
        _, answer = select(store, objects, where=where, keys=keys, aggregates=aggregates)
        assert answer.status_code == 200, answer.text
        found.append(wire.load(PlainResponse, answer.content, wire.FRAMES_TYPE))
    left, read = found
    assert (left.numbers, left.counts, left.keys) == (read.numbers, read.counts, read.keys)


def test_nothing_but_the_objects_is_read(store: Store, objects: list[bytes], tmp_path: Path) -> None:
    other = tmp_path / "other.parquet"
    other.write_bytes(objects[0])
    with Database() as database:
        assert database.view_objects(objects[1:], SIZES[1:], ["i", "ward"])
        assert database.fetch("SELECT count(*) FROM rows", "")[0][0] == sum(SIZES[1:])
        for sql in (f"FROM read_parquet('{other}')", "FROM read_text('/proc/self/environ')", f"COPY rows TO '{other}'"):
            with pytest.raises(WireError):
                database.fetch(sql, "sql")
    with Database() as database, pytest.raises(WireError, match="the envelope says"):
        database.view_objects(objects, (1, 1, 1), ["i"])


def test_a_column_may_be_called_what_duckdb_calls_a_rows_place(store: Store, tmp_path: Path) -> None:
    with duckdb.connect() as connection:
        path = tmp_path / "named.parquet"
        connection.execute(
            f"COPY (SELECT i % 2 AS file_row_number, i % 3 AS rowid FROM range(10) r(i)) TO '{path}' (FORMAT PARQUET)"
        )
    for name, counts in (("file_row_number", [5, 5]), ("rowid", [4, 3, 3])):
        _, answer = select(store, [path.read_bytes()], rows=[10], columns=[name], keys=[f'"{name}"'])
        assert answer.status_code == 200, answer.text
        assert wire.load(PlainResponse, answer.content, wire.FRAMES_TYPE).counts == counts


def test_a_select_that_reads_no_column_counts_rows(store: Store, objects: list[bytes]) -> None:
    _, answer = select(store, objects, columns=[])
    found = wire.load(PlainResponse, answer.content, wire.FRAMES_TYPE)
    assert found.counts == [sum(SIZES)]
    assert rowsets.unpack(found.numbers[0], SIZES[0], 1).all()


@pytest.mark.parametrize(
    "harm",
    [{"filters": ["sum(n)"]}, {"filters": ["1) OR (true"]}, {"filters": ["rowid"]}, {"filters": ["read_text('/etc')"]}],
)
def test_a_filter_is_one_expression(store: Store, objects: list[bytes], harm: dict[str, Any]) -> None:
    _, answer = select(store, objects, **harm)
    assert answer.status_code == 422
    assert "filters[0]" in answer.text


@pytest.mark.parametrize("filters", [100, pytest.param(300, marks=pytest.mark.slow)])
def test_row_sets_that_are_too_large_go_through_the_store(
    store: Store, objects: list[bytes], monkeypatch: pytest.MonkeyPatch, filters: int
) -> None:
    monkeypatch.setattr("cleave_shared.limits.MAX_BODY_BYTES", 30 * filters)
    assert select(store, objects, filters=["n = 1"] * filters)[1].status_code == 413
    result = store.result()
    _, answer = select(store, objects, filters=["n = 1"] * filters, result=result)
    found = wire.load(PlainResponse, answer.content, wire.FRAMES_TYPE)
    assert (found.numbers, found.filters, found.counts) == ([], [], [])
    content = (store.folder / result.removeprefix(store.base)).read_bytes()
    assert wire.load(PlainResponse, content, wire.FRAMES_TYPE).counts == [sum(SIZES)]


@pytest.fixture(scope="module")
def rows(key: SecretKey) -> Rows:
    rng = np.random.default_rng(3)
    return Rows(key, [(limit, rng.integers(0, limit + 1, 20_000, np.uint64)) for limit in (5_000, 1 << 40)], SCAN_ROWS)


def scan(store: Store, rows: Rows, asked: SumCall, **harm: Any) -> httpx.Response:
    """Objects of two chunks each."""
    lanes = []
    for lane in asked.cut.lanes:
        starts = range(0, len(rows.files[lane]), 2)
        linked = [store.put(joined(rows.files[lane][start : start + 2])) for start in starts]
        lanes.append([ScanObject(**vars(each), first=start) for start, each in zip(starts, linked, strict=True)])
    request = {
        "profile": rows.key.profile.name,
        "key_id": rows.key.key_id,
        "label": asked.label,
        "lanes": lanes,
        "chunks": list(asked.cut.chunks),
        "numbers": asked.cut.numbers,
        "cuts": [list(each) for each in asked.cut.cuts],
        "weights": list(asked.weights),
    }
    return post(sensitive, SCAN, unchecked(ScanRequest, **{**request, **harm}))


def numbers(groups: int) -> rowsets.Numbers:
    return np.random.default_rng(groups).integers(0, groups + 1, 20_000).astype(np.int32)


def test_rows_are_added_up_by_group(store: Store, rows: Rows) -> None:
    told = numbers(3)
    (addends,) = rows.addends(told, 3)
    asked = sum_call(addends)
    answer = scan(store, rows, asked)
    assert answer.status_code == 200, answer.text
    found = wire.load(ScanResponse, answer.content, wire.FRAMES_TYPE)
    assert found.label == asked.label
    assert rows.read(asked, found.totals) == rows.truth(told)
    with pytest.raises(CheckFailed):
        rows.read(sum_call(addends), found.totals)  # the answer to another call


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        ({"chunks": [0, 2, 1]}, "rising order"),
        ({"chunks": [0, 1, 3]}, "no object has chunk 3"),
        ({"chunks": [0, 1]}, "numbers"),
        ({"numbers": b""}, "numbers"),
        ({"cuts": [[0], [0]]}, "weights"),
        ({"cuts": [[0], [0], [3]]}, "cuts"),
        ({"cuts": [[0], [0], [1, 1]]}, "cuts"),
        ({"cuts": [[0], [0], [1]]}, "before its first"),
        ({"cuts": [[0], [0], []]}, "cuts"),
        ({"weights": [1, 2, 0]}, "weights"),
        ({"weights": [1, 2, 1 << 15]}, "weights"),
        ({"label": "x"}, "label"),
        ({"lanes": []}, "lanes"),
        ({"profile": "wide"}, "profile"),
        ({"cuts": [[0, 1, 2]] * 3, "weights": [1, 2, 3], "chunks": [0, 1, 2]}, ""),
    ],
)
def test_what_is_no_scan_is_refused(store: Store, rows: Rows, harm: dict[str, Any], said: str) -> None:
    (addends,) = rows.addends(numbers(3), 3)
    answer = scan(store, rows, sum_call(addends), **harm)
    assert answer.status_code == (422 if said else 200), answer.text
    assert said in answer.text or not said


def test_a_row_of_a_group_that_is_not_there_is_refused(store: Store, rows: Rows) -> None:
    (addends,) = rows.addends(numbers(2), 2)
    answer = scan(store, rows, sum_call(addends), numbers=b"\xff" * len(addends.numbers))
    assert answer.status_code == 422
    assert "group that is not there" in answer.text


def test_partial_sums_without_rows_are_refused(store: Store, rows: Rows) -> None:
    told = numbers(1)
    told[8_176 : 2 * 8_176] = 0
    (addends,) = rows.addends(told, 1)
    assert addends.chunks == (0, 2)
    numbered = rowsets.pack(np.zeros(8_176, np.int32), 1)
    harm = {
        "chunks": [0, 1, 2],
        "numbers": addends.numbers[:1_022] + numbered + addends.numbers[1_022:],
        "cuts": [[0, 1, 2]],
    }
    answer = scan(store, rows, sum_call(addends), **harm)
    assert answer.status_code == 422
    assert "no row" in answer.text


@pytest.mark.parametrize("flips", [4, pytest.param(10, marks=pytest.mark.slow)])
def test_a_scan_of_damaged_objects_is_refused(store: Store, rows: Rows, flips: int) -> None:
    """Whatever is in an object: not of its digest, not ciphertexts, other ciphertexts than they say."""
    (addends,) = rows.addends(numbers(2), 2)
    asked = sum_call(addends)
    rng = random.Random(1)
    for _ in range(flips):
        content = bytearray(joined(rows.files[0][:2]))
        content[rng.randrange(4_000)] ^= 1 << rng.randrange(8)
        linked = store.put(bytes(content))
        lanes = [[ScanObject(**vars(linked), first=0), *_rest(store, rows)] for _ in addends.lanes]
        answer = scan(store, rows, asked, lanes=lanes)
        if answer.status_code == 200:  # a flipped bit that leaves a ciphertext
            with pytest.raises(CheckFailed):
                rows.read(asked, wire.load(ScanResponse, answer.content, wire.FRAMES_TYPE).totals)
        else:
            assert answer.status_code == 422
    wrong = Linked(**{**vars(store.put(b"x" * 50)), "sha256": "0" * 64})
    answer = scan(store, rows, asked, lanes=[[ScanObject(**vars(wrong), first=0)] for _ in addends.lanes])
    assert answer.status_code == 422
    assert "digest" in answer.text


def _rest(store: Store, rows: Rows) -> list[ScanObject]:
    return [ScanObject(**vars(store.put(joined(rows.files[0][2:]))), first=2)]
