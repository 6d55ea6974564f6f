"""The envelopes byte by byte: frames as the module's docstring draws them, and everything else refused."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from dataclasses import dataclass, field
from typing import Any

import pytest

from cleave_shared import limits, wire
from cleave_shared.errors import WireError
from cleave_shared.messages import Blob, Item, Message
from cleave_shared.requests import Lane, Linked, PlainRequest, SumsRequest, SumsResponse
from cleave_shared.version import VERSION as RELEASE
from cleave_shared.wire import FRAMES_TYPE, JSON_TYPE, NO_MARK


@dataclass(frozen=True, kw_only=True)
class Letter(Item):
    text: str = ""
    enclosed: list[Blob] = field(default_factory=list)
    stamp: Blob | None = None


LETTER = Letter(text="é", enclosed=[b"", b"\0\xff", b"abc"], stamp=b"12")
MARK = bytes(range(32))


def framed(
    head: bytes, blobs: list[bytes], answering: bytes = NO_MARK, *, count: int | None = None, magic: bytes = b"CLV1"
) -> bytes:
    """A frame with a right digest, whatever else is wrong with it."""
    sizes = b"".join(struct.pack("<I", len(blob)) for blob in blobs)
    number = struct.pack("<I", len(blobs) if count is None else count)
    rest = answering + struct.pack("<I", len(head)) + head + number + sizes + b"".join(blobs)
    return magic + hashlib.sha256(rest).digest() + rest


def refused(body: bytes, kind: str = FRAMES_TYPE, model: type[Message] = Letter) -> WireError:
    with pytest.raises(WireError) as caught:
        wire.load(model, body, kind)
    assert caught.value.code in ("wire", "damaged")
    assert caught.value.message
    return caught.value


def test_frames_are_as_documented() -> None:
    head = '{"text":"é","enclosed":[0,1,2],"stamp":3}'.encode()
    assert wire.dump_frames(LETTER) == framed(head, [b"", b"\0\xff", b"abc", b"12"])
    assert wire.dump_frames(LETTER, MARK) == framed(head, [b"", b"\0\xff", b"abc", b"12"], MARK)
    assert wire.dump_frames(Letter()) == framed(b'{"text":"","enclosed":[],"stamp":null}', [])


def test_json_is_as_documented() -> None:
    assert json.loads(wire.dump_json(LETTER)) == {"text": "é", "enclosed": ["", "AP8=", "YWJj"], "stamp": "MTI="}


@pytest.mark.parametrize("model", [LETTER, Letter()])
def test_both_forms_come_back(model: Letter) -> None:
    assert wire.load(Letter, wire.dump_json(model), JSON_TYPE) == model
    for kind in (FRAMES_TYPE, " Application/Octet-Stream ;charset=x; y=z"):
        assert wire.load(Letter, wire.dump_frames(model, MARK), kind) == model


@pytest.mark.parametrize("kind", ["", "text/plain", "application/json2", "json", "charset=x; application/json"])
def test_other_types_are_refused(kind: str) -> None:
    with pytest.raises(WireError) as caught:
        wire.load(Letter, b"{}", kind)
    assert caught.value.code == "media_type"


def test_a_loose_request_is_as_long_as_its_frames_and_comes_back() -> None:
    for letter in (LETTER, Letter(), Letter(enclosed=[bytes(1000), b"1"])):
        loose = wire.InProcessRequest(letter)
        assert len(loose) == len(wire.dump_frames(letter))
        assert wire.load(Letter, loose, FRAMES_TYPE) == letter


def test_each_loose_request_has_a_mark_of_its_own() -> None:
    one, other = wire.InProcessRequest(LETTER), wire.InProcessRequest(LETTER)
    marks = {wire.mark(each, FRAMES_TYPE) for each in (one, other)}
    assert len(marks) == 2
    assert {len(each) for each in marks} == {len(NO_MARK)}
    assert wire.mark(one, FRAMES_TYPE) == wire.mark(one, FRAMES_TYPE)


def test_a_request_is_marked_by_its_digest() -> None:
    body = wire.dump_frames(LETTER)
    assert wire.mark(body, FRAMES_TYPE) == hashlib.sha256(body[36:]).digest() == body[4:36]
    assert wire.mark(b"{}", JSON_TYPE) == hashlib.sha256(b"{}").digest()
    assert wire.answers(wire.dump_frames(LETTER, MARK), FRAMES_TYPE) == MARK
    assert wire.answers(body, FRAMES_TYPE) == NO_MARK == bytes(32)
    assert wire.answers(MARK * 4, JSON_TYPE) == NO_MARK


def test_every_bit_counts() -> None:
    body = wire.dump_frames(LETTER, MARK)
    for place in range(len(body)):
        for bit in (1, 128):
            spoilt = bytearray(body)
            spoilt[place] ^= bit
            error = refused(bytes(spoilt))
            assert (error.code == "damaged") == (place >= 4)
    for cut in range(len(body)):
        refused(body[:cut])
    assert refused(body + b"\0").code == "damaged"


@pytest.mark.parametrize(
    "body",
    [
        framed(b"{}", [], magic=b"CLV2"),
        framed(b"{}", [], count=1),
        framed(b"{}", [], count=1 << 31),
        framed(b"{}", [b"x"], count=0),
        framed(b"{}", []) + b"",  # sound: see below
        wire.dump_frames(Letter())[:68] + struct.pack("<I", 1 << 30),
    ],
)
def test_frames_that_do_not_add_up_are_refused(body: bytes) -> None:
    if body == framed(b"{}", []):
        assert wire.load(Letter, body, FRAMES_TYPE) == Letter()
        return
    refused(body)


def test_names_are_counted_while_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """An object counts as one more than its names, wherever it is."""
    body = json.dumps({"text": {"a": {}, "b": [{"c": 1}]}}).encode()  # 4 objects, 4 names
    monkeypatch.setattr(limits, "MAX_NAMES", 7)
    with pytest.raises(WireError, match="more than 7 names") as caught:
        wire.load(Letter, body, JSON_TYPE)
    assert caught.value.code == "too_large"
    monkeypatch.setattr(limits, "MAX_NAMES", 8)
    with pytest.raises(WireError, match="text"):
        wire.load(Letter, body, JSON_TYPE)
    monkeypatch.setattr(limits, "MAX_NAMES", 2)
    assert wire.load(Letter, b'{"text": "x"}', JSON_TYPE) == Letter(text="x")


def test_as_many_frames_as_there_may_be_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    body = wire.dump_frames(LETTER)
    monkeypatch.setattr(limits, "MAX_FRAMES", 4)
    assert wire.load(Letter, body, FRAMES_TYPE) == LETTER
    monkeypatch.setattr(limits, "MAX_FRAMES", 3)
    refused(body)


def longer(body: bytes, head_size: int, *, more: bytes = b"") -> bytes:
    """`body` with another length of its head, and something behind, under a right digest."""
    rest = body[36:68] + struct.pack("<I", head_size) + body[72:] + more
    return b"CLV1" + hashlib.sha256(rest).digest() + rest


def test_lengths_must_add_up() -> None:
    body = framed(b"{}   ", [b"abc"])
    assert longer(body, 5) == body
    not_named = "frame that nothing names"
    assert not_named in refused(body).message
    for size in (0, 4, 6, 1 << 31):
        assert refused(longer(body, size)).message == "the body is not a Cleave frame"
    assert refused(longer(body, 5, more=b"\0")).message == "the body is not a Cleave frame"


@pytest.mark.parametrize(
    "head",
    [
        b'{"enclosed":[0]}',  # frame 1 is not named
        b'{"enclosed":[0,0,1]}',  # named twice
        b'{"enclosed":[0,1],"stamp":1}',
        b'{"enclosed":[0,2]}',
        b'{"enclosed":[0,1,-1]}',
        b'{"enclosed":[0,1,2]}',
        b'{"enclosed":[0,1.0]}',
        b'{"enclosed":[false,true]}',
        b'{"enclosed":[0,1,null]}',
        b'{"enclosed":[0,1,"a"]}',
        b'{"enclosed":[0,1,"?AAA"]}',
        b'{"enclosed":[0,1,{}]}',
        b"[]",
        b"0",
        b'{"other":0,"enclosed":[0,1]}',
    ],
)
def test_every_frame_is_named_once(head: bytes) -> None:
    assert wire.load(Letter, framed(b'{"enclosed":[1,0]}', [b"x", b"y"]), FRAMES_TYPE).enclosed == [b"y", b"x"]
    refused(framed(head, [b"x", b"y"]))


def test_a_blob_may_be_text_beside_frames() -> None:
    letter = wire.load(Letter, framed(b'{"enclosed":["AP8=",0]}', [b"x"]), FRAMES_TYPE)
    assert letter.enclosed == [b"\0\xff", b"x"]


@pytest.mark.parametrize("value", [0, 1, True, None, 1.5, "a", "?AAA", "AA\nAA", "é", [], {}])
def test_json_has_no_frames(value: object) -> None:
    told = "is not base64" if isinstance(value, str) else "must be base64 text"
    assert refused(json.dumps({"enclosed": [value]}).encode(), JSON_TYPE).message == f"enclosed.0: {told}"


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"nothing", b"[" * 100_000, b'{"text":"a"}{'])
def test_what_is_no_json_is_refused(body: bytes) -> None:
    error = refused(body, JSON_TYPE)
    assert error.message == "the body is not JSON"
    assert refused(framed(body, [])).message == "the body is not JSON"


@pytest.mark.parametrize("text", [r"\ud800", r"\uDFFF", r"\uD83D", r"\ude00\ud83d", r"\udc00 \ud83d\ude00"])
def test_half_a_surrogate_pair_is_no_text(text: str) -> None:
    body = f'{{"text":"{text}"}}'.encode()
    assert "surrogate" in refused(body, JSON_TYPE).message
    assert "surrogate" in refused(framed(body, [])).message


def test_whole_pairs_and_what_looks_like_one_are_text() -> None:
    assert wire.load(Letter, rb'{"text":"\ud83d\ude00"}', JSON_TYPE).text == "\N{GRINNING FACE}"
    assert wire.load(Letter, rb'{"text":"\\ud83d"}', JSON_TYPE).text == r"\ud83d"


def test_depth_that_json_takes_and_unicode_checks_do_not() -> None:
    """The standard library reads deeper than it writes: neither ends in a traceback."""
    for depth in (900, 5_000, 100_000):
        refused(b"[" * depth + rb'"\ud83d"' + b"]" * depth, JSON_TYPE)


CHUNK = "AA=="
REQUEST: dict[str, Any] = {
    "version": 3,
    "release": "1.0.0",
    "profile": "p",
    "key_id": "0" * 32,
    "label": "f" * 32,
    "lanes": [{"objects": [CHUNK], "stop": 1}, {"objects": [CHUNK, CHUNK], "start": 3, "stop": 5}],
}
LINKED: dict[str, Any] = {"link": "https://a/b", "bytes": 1, "sha256": "0" * 64}


def load_request(**changed: object) -> SumsRequest:
    return wire.load(SumsRequest, json.dumps(REQUEST | changed).encode(), JSON_TYPE)


def lanes(*counts: int, stop: object = 1) -> list[dict[str, Any]]:
    return [{"objects": [CHUNK] * count, "stop": stop} for count in counts]


def test_a_request_is_read() -> None:
    one, two = Lane(objects=[b"\0"], stop=1), Lane(objects=[b"\0", b"\0"], start=3, stop=5)
    made = SumsRequest(release="1.0.0", profile="p", key_id="0" * 32, label="f" * 32, lanes=[one, two])
    assert load_request() == made
    load_request(profile="p" * 32)
    load_request(lanes=lanes(64))
    load_request(lanes=lanes(*[1] * 32))
    load_request(lanes=lanes(1, stop=32))
    for kind in (JSON_TYPE, FRAMES_TYPE):
        mixed = SumsRequest(profile="p", key_id="0" * 32, lanes=[Lane(objects=[b"x", Linked(**LINKED)], stop=1)])
        assert wire.load(SumsRequest, (wire.dump_json if kind == JSON_TYPE else wire.dump_frames)(mixed), kind) == mixed
    assert load_request(lanes=[{"objects": [LINKED] * 64, "stop": 512}]).objects == [Linked(**LINKED)] * 64


@pytest.mark.parametrize(
    "changed",
    [
        {"profile": "p" * 33},
        {"key_id": "0" * 31},
        {"key_id": "0" * 33},
        {"key_id": "F" * 32},
        {"key_id": "0" * 32 + "\n"},
        {"label": "g" * 32},
        {"label": None},
        {"release": "x"},
        {"release": "1" * 33},
        {"lanes": []},
        {"lanes": [{"objects": [], "stop": 1}]},
        {"lanes": lanes(1, stop=0)},
        {"lanes": lanes(1, stop=-1)},
        {"lanes": lanes(1, stop=True)},
        {"lanes": lanes(1, stop="1")},
        {"lanes": [{"objects": [CHUNK], "start": 2, "stop": 2}]},
        {"lanes": [{"objects": [CHUNK], "start": -1, "stop": 2}]},
        {"lanes": [{"objects": [None], "stop": 1}]},
        {"lanes": [{"objects": [{}], "stop": 1}]},
        {"lanes": [{"objects": [LINKED | {"bytes": 0}], "stop": 1}]},
        {"lanes": [{"objects": [LINKED | {"x": 1}], "stop": 1}]},
        {"lanes": lanes(65)},
        {"lanes": lanes(64, 1)},
        {"lanes": lanes(*[1] * 33)},
        {"lanes": lanes(1, stop=33)},
        {"lanes": [{"objects": [LINKED], "stop": 513}]},
        {"lanes": [{"objects": [LINKED | {"bytes": 1 << 27}] * 2, "stop": 1}]},
        {"extra": 1},
        {"version": 1},
        {"version": 2},
        {"version": 4},
        {"version": "3"},
        {"version": None},
    ],
)
def test_a_request_that_does_not_fit_together_is_refused(changed: dict[str, object]) -> None:
    with pytest.raises(WireError) as caught:
        load_request(**changed)
    assert caught.value.code == "wire"
    assert ("wire version" in caught.value.message) == ("version" in changed)


def test_what_does_not_fit_is_counted() -> None:
    with pytest.raises(WireError, match=r"^body: asks for 33 sums, at most 32 in one request$"):
        load_request(lanes=lanes(1, stop=33))
    with pytest.raises(WireError, match=r"^body: 65 inline objects, at most 64 in one request$"):
        load_request(lanes=lanes(64, 1))


@pytest.mark.parametrize(
    ("head", "releases", "hint"),
    [
        ({"version": 1}, f"release before {RELEASE} (wire version 1)", "upgrade the service"),
        ({"version": 2, "release": "canary"}, f"release before {RELEASE} (wire version 2)", "upgrade the service"),
        ({"version": 2, "release": "2.9.9"}, "release 2.9.9 (wire version 2)", "upgrade the service"),
        ({"version": 4, "release": "3.1.0"}, "release 3.1.0 (wire version 4)", "upgrade the client"),
        ({"version": 4, "release": "canary secret"}, f"release after {RELEASE} (wire version 4)", "upgrade the client"),
        ({"version": 4, "release": ["canary"]}, f"release after {RELEASE} (wire version 4)", "upgrade the client"),
        ({"version": 4}, f"release after {RELEASE} (wire version 4)", "upgrade the client"),
    ],
)
def test_another_version_is_refused_by_both_releases(head: dict[str, object], releases: str, hint: str) -> None:
    with pytest.raises(WireError) as caught:
        wire.load(SumsResponse, json.dumps(head).encode(), JSON_TYPE)
    this = f"this client has release {RELEASE} (wire version 3)"
    assert caught.value.message == f"wire version is not 3: the service has {releases}, {this}"
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("version", "told"),
    [
        (1, "has release 2.1.0"),
        ((1 << 16) - 1, "has release 2.1.0"),
        *((v, None) for v in (-1, 0, 1 << 16, "4")),
    ],
)
def test_a_service_names_the_release_of_a_version_that_there_may_be(version: object, told: str | None) -> None:
    error = wire.skewed("client", {"version": version, "release": "2.1.0"}, version)
    whole = f"the client {told} (wire version {version}), this service has release {RELEASE} (wire version 3)"
    assert error.message == f"wire version is not 3{f': {whole}' if told else ''}"
    older = "client" if version == 1 else "service" if told else "client or the service"
    assert error.hint == f"upgrade the {older}"


def test_what_is_no_object_has_no_version() -> None:
    for body in (b"[]", b"3", b"null"):
        assert refused(body, JSON_TYPE, SumsRequest).message.startswith("body: Input should be a valid dictionary")


def test_a_version_that_is_not_there_is_this_one() -> None:
    without = {name: value for name, value in REQUEST.items() if name not in ("version", "release", "label")}
    loaded = wire.load(SumsRequest, json.dumps(without).encode(), JSON_TYPE)
    assert (loaded.version, loaded.release) == (wire.VERSION, RELEASE) == (3, RELEASE)
    assert loaded.label != wire.load(SumsRequest, json.dumps(without).encode(), JSON_TYPE).label
    assert wire.load(Letter, b"{}", JSON_TYPE) == Letter()  # what has no version is asked for none
    for body in (b'{"version":1}', b'{"version":3}'):
        assert "version: Extra inputs" in refused(body, JSON_TYPE).message


def refusal(model: type[Message], value: object) -> str:
    with pytest.raises(WireError) as caught:
        wire.validate(model, value)
    return caught.value.message


def test_problems_are_told_by_place_and_rule_without_values() -> None:
    secret = "4111 1111 1111 1111"
    told = refusal(PlainRequest, {"rows": secret, "keys": ["a", ""], "aggregates": secret})
    assert told.split("; ") == [
        "rows: Input should be a valid list",
        "keys.1: String should have at least 1 character",
        "aggregates: Input should be a valid list",
    ]
    many = refusal(PlainRequest, {str(n): 1 for n in range(9)})
    assert many.split("; ")[:2] == ["rows: Field required", "0: Extra inputs are not permitted"]
    assert many.count("; ") == 4  # five at most
    assert refusal(Letter, []) == "body: Input should be a valid dictionary or instance of Letter"
    spoilt = refusal(SumsRequest, REQUEST | {"lanes": lanes(64, 1)})
    assert spoilt == "body: 65 inline objects, at most 64 in one request"


def test_validation_without_a_body() -> None:
    assert wire.validate(Letter, {"text": "a"}).text == "a"
    assert wire.validate(Letter, {"enclosed": [0]}, [b"x"]).enclosed == [b"x"]
    for value, blobs in (({"enclosed": [0]}, None), ({"enclosed": [0]}, []), ({}, [b"x"])):
        with pytest.raises(WireError) as caught:
            wire.validate(Letter, value, blobs)
        assert caught.value.code == "wire"


def test_answers_are_read() -> None:
    answer = SumsResponse(profile="p", key_id="0" * 32, label="f" * 32, totals=[[b"x"]])
    assert wire.load(SumsResponse, wire.dump_frames(answer, MARK), FRAMES_TYPE) == answer
    assert base64.b64encode(b"x") in wire.dump_json(answer)


@pytest.mark.parametrize(
    ("written", "read"),
    [("a/b", "a/b"), (" A/B ;c", "a/b"), ("a/b;c;d", "a/b"), (";", ""), ("", "")],
)
def test_media_types(written: str, read: str) -> None:
    assert wire.media_type(written) == read
