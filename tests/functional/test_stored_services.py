"""Both services over stored objects: sums of ciphertexts and plain aggregates, from a folder and through S3's links."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import duckdb
import httpx
import numpy as np
import pytest

from cleave.ckks.cipher import Cipher
from cleave.ckks.secret_key import SecretKey
from cleave_services import links
from cleave_services.plain.app import app as plain
from cleave_services.sensitive.app import app as sensitive
from cleave_shared import limits, wire
from cleave_shared.chunks import joined
from cleave_shared.requests import Lane, Linked, PlainRequest, PlainResponse, SumsRequest, SumsResponse
from tests.functional.gateway import call

SET = "5" * 32
SUMS, AGGREGATE = f"/v1/sensitive/tables/{SET}/sums", f"/v1/plain/tables/{SET}/aggregate"


class Store:
    """A folder that the services of this process may read."""

    def __init__(self, folder: Path) -> None:
        self.base = folder.as_uri() + "/"
        self.folder = folder

    def put(self, content: bytes) -> Linked:
        name = f"tables/{SET}/{secrets.token_hex(16)}"
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return Linked(link=self.base + name, bytes=len(content), sha256=hashlib.sha256(content).hexdigest())

    def result(self) -> str:
        return f"{self.base}results/{SET}/{secrets.token_hex(16)}"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    made = Store(tmp_path / "store")
    monkeypatch.setattr(links, "_own", links.Links([made.base]))
    return made


def sums(key: SecretKey, lanes: list[Lane], **more: Any) -> tuple[SumsRequest, httpx.Response]:
    asked = SumsRequest(profile=key.profile.name, key_id=key.key_id, lanes=lanes, **more)
    return asked, post(sensitive, SUMS, asked)


def post(app: Any, path: str, asked: wire.Envelope) -> httpx.Response:
    return call(app, "POST", path, content=wire.dump_frames(asked), headers={"content-type": wire.FRAMES_TYPE})


def polynomials(key: SecretKey, count: int, seed: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.random.default_rng(seed).integers(0, 1 << 40, (count, key.profile.degree)) << 10


def encrypted(key: SecretKey, counts: list[int]) -> tuple[list[bytes], list[np.ndarray[Any, np.dtype[np.int64]]]]:
    """Objects of so many ciphertexts each, and what is in them."""
    values = [polynomials(key, count, seed) for seed, count in enumerate(counts)]
    return [joined(Cipher(key).encrypt(each)) for each in values], values


def test_sums_of_objects_of_several_sizes(key: SecretKey, store: Store) -> None:
    objects, values = encrypted(key, [3, 1, 2, 2])
    linked = [store.put(each) for each in objects]
    lanes = [Lane(objects=linked[:3], stop=3), Lane(objects=linked[2:], start=1, stop=2)]
    asked, answer = sums(key, lanes)
    assert answer.status_code == 200, answer.text
    found = wire.load(SumsResponse, answer.content, wire.FRAMES_TYPE)
    assert [len(each) for each in found.totals] == [3, 1]
    assert wire.answers(answer.content, wire.FRAMES_TYPE) == wire.mark(wire.dump_frames(asked), wire.FRAMES_TYPE)
    wanted = np.zeros((3, key.profile.degree), np.int64)
    for each in values[:3]:
        wanted[: len(each)] += each
    opened = Cipher(key).decrypt(found.totals[0])
    assert (np.abs(opened - wanted) < 1 << 9).all()
    (last,) = Cipher(key).decrypt(found.totals[1])
    assert (np.abs(last - values[2][1] - values[3][1]) < 1 << 9).all()


def test_what_is_too_large_goes_through_the_store(key: SecretKey, store: Store) -> None:
    objects, values = encrypted(key, [40])
    lanes = [Lane(objects=[store.put(objects[0])], stop=40)]
    wide = [*lanes, *lanes]  # 80 seeded files of 66 KB: sums of one term stay as they are
    _, refused = sums(key, wide)
    assert refused.status_code == 413, refused.text
    result = store.result()
    asked, answer = sums(key, wide, result=result)
    found = wire.load(SumsResponse, answer.content, wire.FRAMES_TYPE)
    assert found.totals == []
    assert found.stored is not None
    content = (store.folder / result.removeprefix(store.base)).read_bytes()
    assert (found.stored.bytes, found.stored.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    whole = wire.load(SumsResponse, content, wire.FRAMES_TYPE)
    assert wire.answers(content, wire.FRAMES_TYPE) == wire.mark(wire.dump_frames(asked), wire.FRAMES_TYPE)
    assert [len(each) for each in whole.totals] == [40, 40]
    assert (np.abs(Cipher(key).decrypt(whole.totals[1]) - values[0]) < 1 << 9).all()
    _, small = sums(key, [Lane(objects=lanes[0].objects, stop=2)], result=store.result())
    assert wire.load(SumsResponse, small.content, wire.FRAMES_TYPE).stored is None


@pytest.mark.parametrize("content", [b"x" * 100, joined([b"no ciphertext"] * 3), joined([b""] * 3), joined([])])
def test_what_is_no_ciphertext_is_refused(key: SecretKey, store: Store, content: bytes) -> None:
    _, answer = sums(key, [Lane(objects=[store.put(content)], stop=3)])
    assert answer.status_code == 422, answer.text
    assert answer.json().keys() == {"error", "hint", "code"}


def test_a_number_that_no_object_has_is_refused(key: SecretKey, store: Store) -> None:
    objects, _ = encrypted(key, [2])
    _, answer = sums(key, [Lane(objects=[store.put(objects[0])], start=1, stop=3)])
    assert answer.status_code == 422
    assert "number 2" in answer.json()["error"]


@pytest.mark.parametrize("path", ["/v1/sensitive/tables/../sums", "/v1/sensitive/tables/x/sums"])
def test_the_set_of_the_path_counts(key: SecretKey, store: Store, path: str) -> None:
    objects, _ = encrypted(key, [1])
    asked = SumsRequest(
        profile=key.profile.name, key_id=key.key_id, lanes=[Lane(objects=[store.put(objects[0])], stop=1)]
    )
    assert post(sensitive, path, asked).status_code in (404, 422)
    other = post(sensitive, SUMS.replace("5" * 32, "6" * 32), asked)
    assert other.status_code == 422
    assert "of the set in the path" in other.json()["error"]


@pytest.mark.parametrize(
    "change",
    [
        {"lanes": []},
        {"lanes": [{"objects": [], "stop": 1}]},
        {"lanes": [{"objects": ["LINKED"], "stop": 0}]},
        {"lanes": [{"objects": ["LINKED"], "start": 2, "stop": 1}]},
        {"lanes": [{"objects": ["LINKED"], "stop": limits.MAX_STORED_SUMS + 1}]},
        {"lanes": [{"objects": ["LINKED"] * 65, "stop": 1}]},
        {"lanes": [{"objects": ["LARGE"] * 2, "stop": 1}]},
        {"lanes": [{"objects": ["LINKED"] * 64, "stop": 1}] * 33},
        {"profile": "other"},
        {"secret_key": "x"},
    ],
    ids=str,
)
def test_requests_out_of_bounds_are_422(key: SecretKey, store: Store, change: dict[str, Any]) -> None:
    linked = {"link": f"{store.base}tables/{SET}/{'c' * 32}", "bytes": 100, "sha256": "0" * 64}
    large = linked | {"bytes": limits.MAX_LINKED_BYTES // 2 + 1}
    named = {"LINKED": linked, "LARGE": large}
    body: dict[str, Any] = {
        "profile": key.profile.name,
        "key_id": key.key_id,
        "lanes": [{"objects": ["LINKED"], "stop": 1}],
    }
    body |= change
    body["lanes"] = [lane | {"objects": [named[each] for each in lane["objects"]]} for lane in body["lanes"]]
    answer = call(sensitive, "POST", SUMS, json=body)
    assert answer.status_code == 422, answer.text
    assert answer.json().keys() == {"error", "hint", "code"}
    assert store.base not in answer.text


def test_a_link_is_in_no_log(key: SecretKey, store: Store, caplog: pytest.LogCaptureFixture) -> None:
    linked = store.put(b"x")
    with caplog.at_level("DEBUG"):
        _, answer = sums(key, [Lane(objects=[linked], stop=1)])
    assert answer.status_code == 422
    assert "cleave.service" in {record.name for record in caplog.records}
    logged = [record.getMessage() for record in caplog.records if record.name == "cleave.service"]
    assert f"tables/{SET}" not in "".join(logged), "the set alone is named"
    assert linked.link.rpartition("/")[2] not in caplog.text
    assert store.base not in caplog.text


# --- plain


def parquet(sql: str, tmp_path: Path) -> bytes:
    path = tmp_path / "made.parquet"
    duckdb.sql(f"COPY ({sql}) TO '{path}' (FORMAT parquet)")
    return path.read_bytes()


@pytest.fixture
def segments(store: Store, tmp_path: Path) -> list[Linked]:
    return [
        store.put(
            parquet(f'SELECT i AS a, i % 3 AS "b""c", \'text\' || i AS t FROM range({start}, {stop}) r(i)', tmp_path)
        )
        for start, stop in ((0, 100), (100, 150))
    ]


def plain_request(segments: list[Linked], **more: Any) -> PlainRequest:
    asked: dict[str, Any] = {"objects": segments, "rows": [100, 50], "columns": ["a", 'b"c']}
    return PlainRequest(**(asked | more))


def test_segments_are_one_table(segments: list[Linked]) -> None:
    asked = plain_request(
        segments, where="a >= 10", keys=['"b""c"'], aggregates=["sum(a)", "median(a)", "count(DISTINCT a)"]
    )
    answer = post(plain, AGGREGATE, asked)
    assert answer.status_code == 200, answer.text
    found = wire.load(PlainResponse, answer.content, wire.FRAMES_TYPE)
    wanted = duckdb.sql(
        "SELECT i % 3, count(*), sum(i), median(i), count(DISTINCT i) FROM range(10, 150) r(i) "
        "GROUP BY 1 ORDER BY min(i)"
    ).fetchall()
    columns = [[int(value or 0) for value in found.keys[0].values], found.counts]
    columns += [[float(value or 0) for value in each.values] for each in found.aggregates]
    assert list(zip(*columns, strict=True)) == [tuple(row) for row in wanted]
    assert found.rows == 150


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": [99, 51]}, "object 0: 100 rows"),
        ({"rows": [150]}, "rows: 1 numbers for 2 objects"),
        ({"columns": ["a", "A"]}, "named twice"),
        ({"columns": ["a", "zz"]}, "a name, a type or"),
        ({"columns": ['a", t, "a']}, "a name, a type or"),
        ({"columns": ["a"], "keys": ["t"]}, "a name, a type or"),
        ({"aggregates": ["(SELECT 1)"]}, "not allowed"),
        ({"where": "a > 1) OR (true"}, "where"),
        ({"keys": ["read_text('/etc/passwd')"]}, "not allowed"),
    ],
    ids=str,
)
def test_plain_requests_are_refused(segments: list[Linked], change: dict[str, Any], message: str) -> None:
    body = asdict(plain_request(segments)) | change
    answer = call(plain, "POST", AGGREGATE, json=body)
    assert answer.status_code == 422, answer.text
    assert message in answer.json()["error"]


@pytest.mark.parametrize("content", [b"", b"not parquet at all", b"PAR1" + bytes(200) + b"PAR1"])
def test_what_is_no_parquet_is_refused(store: Store, content: bytes) -> None:
    if content:
        answer = post(plain, AGGREGATE, plain_request([store.put(content)], rows=[100]))
        assert answer.status_code == 422, answer.text


def test_a_large_plain_answer_goes_through_the_store(store: Store, tmp_path: Path) -> None:
    wide = "repeat('x', 60) || i"
    objects = [store.put(parquet(f"SELECT {wide} AS t FROM range(90000) r(i)", tmp_path))]
    asked = {"rows": [90_000], "columns": ["t"], "keys": ["t"]}
    assert post(plain, AGGREGATE, plain_request(objects, **asked)).status_code == 413
    result = store.result()
    answer = post(plain, AGGREGATE, plain_request(objects, result=result, **asked))
    assert answer.status_code == 200, answer.text
    found = wire.load(PlainResponse, answer.content, wire.FRAMES_TYPE)
    assert found.stored is not None
    assert found.counts == []
    content = (store.folder / result.removeprefix(store.base)).read_bytes()
    assert len(content) == found.stored.bytes > limits.MAX_BODY_BYTES
    whole = wire.load(PlainResponse, content, wire.FRAMES_TYPE)
    assert len(whole.counts) == 90_000


def test_no_columns_are_no_reading(store: Store) -> None:
    for columns in (None, []):
        answer = post(plain, AGGREGATE, plain_request([], rows=[7, 2], columns=columns, aggregates=["count(*)"]))
        assert answer.status_code == 200
        assert wire.load(PlainResponse, answer.content, wire.FRAMES_TYPE).counts == [9]
    gone = Linked(link=f"{store.base}tables/{SET}/{'c' * 32}", bytes=1, sha256="0" * 64)
    for objects, columns in (([gone], []), ([], ["ward"])):
        with pytest.raises(ValueError, match="no objects without columns"):
            plain_request(objects, rows=[7], columns=columns)
