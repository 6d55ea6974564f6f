"""These services asked by the client of release 1.0.0: tests/vectors/wire-2 has what it sent and was answered."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from cleave.transport.base import Service
from cleave.transport.http import connect_http
from cleave_services import links
from cleave_services.plain.app import app as plain
from cleave_services.plain.service import service as plain_service
from cleave_services.sensitive.app import app as sensitive
from cleave_services.sensitive.job import handler
from cleave_services.sensitive.service import service as sensitive_service
from cleave_shared import limits, wire
from cleave_shared.errors import ServiceError
from cleave_shared.version import VERSION as RELEASE
from tests.functional.envelopes import ROWS
from tests.functional.gateway import call
from tests.functional.scripted import Reply, scripted

FOLDER = Path(__file__).parents[1] / "vectors" / "wire-2"
EXCHANGES: list[dict[str, Any]] = json.loads((FOLDER / "exchanges.json").read_text())
ROWS_INLINE, STORED, _, _, MOMENTS, SCAN, SUMS = EXCHANGES


def framed(head: Any, blobs: Sequence[bytes]) -> bytes:
    """As release 1.0.0 writes frames."""
    text = json.dumps(head).encode()
    sizes = struct.pack(f"<{len(blobs) + 1}I", len(blobs), *map(len, blobs))
    body = b"".join([bytes(32), struct.pack("<I", len(text)), text, sizes, *blobs])
    return b"CLV1" + hashlib.sha256(body).digest() + body


def read(request: bytes, answer: bytes) -> tuple[Any, list[str]]:
    """As release 1.0.0 reads an answer: the head without timings, and the digests of the blobs."""
    assert answer[:4] == b"CLV1"
    assert answer[4:36] == hashlib.sha256(answer[36:]).digest()
    assert answer[36:68] == request[4:36]
    (size,) = struct.unpack_from("<I", answer, 68)
    head, place = json.loads(answer[72 : 72 + size]), 72 + size
    (count,) = struct.unpack_from("<I", answer, place)
    sizes, place = struct.unpack_from(f"<{count}I", answer, place + 4), place + 4 + 4 * count
    digests = []
    for each in sizes:
        digests.append(hashlib.sha256(answer[place : place + each]).hexdigest())
        place += each
    assert place == len(answer)
    assert all(isinstance(seconds, float) for seconds in head.pop("timings").values())
    return head, digests


class Client:
    def __init__(self, store: Path) -> None:
        self.base = store.as_uri() + "/"
        self.store = store

    def head(self, exchange: dict[str, Any]) -> Any:
        return json.loads(json.dumps(exchange["head"]).replace("file:///STORE/", self.base))

    def ask(self, exchange: dict[str, Any]) -> tuple[bytes, httpx.Response]:
        blobs = [(FOLDER / name).read_bytes() for name in exchange["blobs"]]
        body = framed(self.head(exchange), blobs)
        return body, post(exchange["path"], body)


def post(path: str, body: bytes, kind: str = wire.FRAMES_TYPE) -> httpx.Response:
    return call(plain if "plain" in path else sensitive, "POST", path, content=body, headers={"content-type": kind})


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Client:
    shutil.copytree(FOLDER / "store", tmp_path / "a store")
    made = Client(tmp_path / "a store")
    monkeypatch.setattr(links, "_own", links.Links([made.base]))
    return made


def test_every_operation_of_both_services_was_recorded() -> None:
    named = {re.sub("[0-9a-f]{32}", "{set}", each["path"]) for each in EXCHANGES}
    operations = {each.path for service in (plain_service, sensitive_service) for each in service.operations}
    assert named == operations - {"/v1/plain", "/v1/sensitive"}, "which have no version"


@pytest.mark.parametrize("number", range(len(EXCHANGES)))
def test_the_last_releases_client_is_answered_as_by_its_own_service(client: Client, number: int) -> None:
    exchange = EXCHANGES[number]
    body, answer = client.ask(exchange)
    assert answer.status_code == 200, answer.text
    head, digests = read(body, answer.content)
    assert (head, digests) == (exchange["answer"]["head"], exchange["answer"]["blobs"])


@pytest.mark.parametrize("exchange", [MOMENTS, ROWS_INLINE])
def test_json_of_the_last_release_is_answered_in_json(exchange: dict[str, Any]) -> None:
    blobs = [base64.b64encode((FOLDER / name).read_bytes()).decode() for name in exchange["blobs"]]
    of = {"chunks": blobs} if exchange is MOMENTS else {"table": blobs[0]}
    answer = post(exchange["path"], json.dumps(exchange["head"] | of).encode(), wire.JSON_TYPE)
    assert answer.status_code == 200, answer.text
    told, expected = answer.json(), exchange["answer"]["head"]
    assert told.keys() == {*expected, "timings"}
    assert {name: told[name] for name in expected if name != "totals"} == {
        name: value for name, value in expected.items() if name != "totals"
    }


def test_an_answer_through_the_store_is_of_the_last_release_too(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = f"results/{SUMS['path'].split('/')[4]}/{'e' * 32}"
    exchange = SUMS | {"head": SUMS["head"] | {"result": client.base + result}}
    monkeypatch.setattr(limits, "MAX_BODY_BYTES", 100_000)
    body, answer = client.ask(exchange)
    head, digests = read(body, answer.content)
    content = (client.store / result).read_bytes()
    claim = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    assert (head, digests) == (SUMS["answer"]["head"] | {"totals": [], "stored": claim}, [])
    assert read(body, content) == (SUMS["answer"]["head"], SUMS["answer"]["blobs"])


@pytest.mark.parametrize(
    ("exchange", "change", "error"),
    [
        (MOMENTS, {"label": "0" * 32}, "label: Extra inputs"),
        (MOMENTS, {"release": "1.0.0"}, "release: Extra inputs"),
        (MOMENTS, {"chunk_range": [0, 2]}, "body: chunk_range covers 2 chunks, 1 were sent"),
        (MOMENTS, {"blocks": [2]}, "body: blocks cover 2 chunks, 1 were sent"),
        (MOMENTS, {"blocks": []}, "blocks: "),
        (MOMENTS, {"chunks": [0, 0]}, "chunks.1: names a frame a second time"),
        (ROWS_INLINE, {"table": None}, "the body holds a frame that nothing names"),
        (ROWS_INLINE, {"members": True}, "members: Extra inputs"),
        (SUMS, {"label": "0" * 32}, "label: Extra inputs"),
        (SUMS, {"lanes": []}, "lanes: "),
        (SUMS, {"version": 2.5}, "wire version is not 3"),
        (STORED, {"release": "1.0.0"}, "release: Extra inputs"),
        (STORED, {"rows": [30]}, "body: rows: 1 numbers for 2 objects"),
        (SCAN, {"release": "1.0.0"}, "release: Extra inputs"),
    ],
)
def test_its_requests_are_checked_as_before(
    client: Client, exchange: dict[str, Any], change: dict[str, Any], error: str
) -> None:
    _, answer = client.ask(exchange | {"head": exchange["head"] | change})
    assert answer.status_code == 422
    assert answer.json()["error"].startswith(error)


def test_objects_are_inline_without_a_set_and_linked_with_one(client: Client) -> None:
    for exchange, path in ((SUMS, MOMENTS["path"]), (MOMENTS, SUMS["path"])):
        _, answer = client.ask(exchange | {"path": path})
        assert (answer.status_code, answer.json()["error"][:9]) == (422, "objects: ")


@pytest.mark.parametrize(
    ("head", "sender", "hint"),
    [
        ({"version": 1}, "release before 1.0.0 (wire version 1)", "upgrade the client"),
        ({"version": 4, "release": "2.0.0"}, "release 2.0.0 (wire version 4)", "upgrade the service"),
        ({"version": 4}, f"release after {RELEASE} (wire version 4)", "upgrade the service"),
    ],
)
@pytest.mark.parametrize("path", [each["path"] for each in EXCHANGES])
def test_a_service_names_both_releases(path: str, head: dict[str, Any], sender: str, hint: str) -> None:
    answer = post(path, framed(head, []))
    this = f"this service has release {RELEASE} (wire version 3)"
    expected = {"error": f"wire version is not 3: the client has {sender}, {this}", "hint": hint}
    assert (answer.status_code, answer.json()) == (422, expected)


def test_a_client_names_both_releases() -> None:
    """Release 1.0.0 refuses with these words, whatever it is asked."""
    said = {"error": "wire version is not 2", "hint": "client and service must be of the same release"}
    with scripted(Reply(422, json.dumps(said).encode(), {"content-type": wire.JSON_TYPE})) as server:
        transport = connect_http(dict.fromkeys(Service, server.url))
        with pytest.raises(ServiceError) as caught:
            transport.plain(ROWS)
        transport.close()
    assert caught.value.message == (
        "the plain service answered 422: wire version is not 3: the service has release 1.0.0 (wire version 2), "
        f"this client has release {RELEASE} (wire version 3)"
    )
    assert caught.value.hint == "upgrade the service"


def test_a_job_that_the_last_release_started_goes_on(client: Client) -> None:
    """A call, and the sum of its answer, which a function of either release may have written."""
    table_set = SCAN["path"].split("/")[4]
    numbers = iter(range(100))

    def name() -> str:
        return f"results/{table_set}/{next(numbers):032x}"

    def put(content: bytes) -> dict[str, Any]:
        (to := client.store / (at := name())).parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(content)
        return {"link": client.base + at, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}

    question = framed(client.head(SCAN), [(FOLDER / each).read_bytes() for each in SCAN["blobs"]])
    call_, reduce_ = name(), name()
    step: dict[str, Any] = {"set": table_set, "number": 0}
    called = handler(step | {"step": "call", "question": put(question), "results": [client.base + call_]}, None)
    assert read(question, (client.store / call_).read_bytes()) == (SCAN["answer"]["head"], SCAN["answer"]["blobs"])
    asked = {"version": 2, "profile": "sum60-pack", "key_id": SCAN["head"]["key_id"], "kind": "scan"}
    adding = framed(asked | {"answers": [[client.base + call_]], "sums": [[[0, 1]], [[0, 0]]]}, [])
    step |= {"step": "reduce", "question": put(adding), "results": [client.base + reduce_], "parts": [called]}
    handler(step, None)
    content = (client.store / reduce_).read_bytes()
    (size,) = struct.unpack_from("<I", content, 68)
    assert json.loads(content[72 : 72 + size]) == {
        "version": 2,
        "profile": "sum60-pack",
        "key_id": SCAN["head"]["key_id"],
        "totals": [[0, 1]],
    }
    assert content[36:68] == adding[4:36]
