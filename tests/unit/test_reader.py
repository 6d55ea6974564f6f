"""The own reader of messages takes nothing that pydantic refuses, and every message as it is written."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from random import Random
from typing import Annotated, Any, Literal

import pytest
from pydantic import TypeAdapter

from cleave_services.plain import simple
from cleave_services.sensitive.simple import SimpleSensitiveResponse
from cleave_shared import jobs, reader, requests, wire
from cleave_shared.errors import WireError
from cleave_shared.messages import (
    Binary,
    Blob,
    Each,
    Frames,
    Item,
    Message,
    Metadata,
    Rules,
    Tagged,
    Unlike,
)
from cleave_shared.requests import Lane, Linked, PlainRequest, PlainResponse, StoredAnswer, SumsRequest, TypedColumn
from tests.fuzz import mutate

ID = "0123456789abcdef" * 2
LINKED = Linked(link="https://a/b", bytes=7, sha256="0" * 64)
SCANNED = requests.ScanObject(link="https://a/b", bytes=7, sha256="0" * 64, first=3)
SAMPLES: list[Message] = [
    PlainRequest(rows=[3, 4], objects=[b"PAR1", LINKED], columns=["a"], where="a > 1", keys=["a"], members=True),
    PlainRequest(rows=[0], aggregates=["count(*)"], filters=["true"], members=True, result="https://a/c"),
    PlainResponse(
        label=ID,
        rows=7,
        counts=[3, 4],
        keys=[TypedColumn(type="VARCHAR", values=['é\0"\\', None])],
        aggregates=[TypedColumn(type="BIGINT", values=[])],
        numbers=[b"", b"\xff"],
        filters=[[b"1"], []],
        timings={"load": 0.5, "group": 1e-07},
    ),
    PlainResponse(
        label=ID, rows=0, counts=[], keys=[], aggregates=[], stored=StoredAnswer(bytes=1, sha256="f" * 64), timings={}
    ),
    SumsRequest(
        profile="p", key_id=ID, lanes=[Lane(objects=[b"x", b"y"], stop=1), Lane(objects=[LINKED], start=2, stop=5)]
    ),
    requests.SumsResponse(profile="p", key_id=ID, label=ID, totals=[[b"x"], []], timings={"read": 0.25}),
    requests.ScanRequest(
        profile="p", key_id=ID, label=ID, lanes=[[SCANNED]], chunks=[3, 4], numbers=b"n", cuts=[[0, 1]], weights=[5]
    ),
    requests.ScanResponse(profile="p", key_id=ID, label=ID, totals=[[b"x", b"y"]]),
    jobs.Answered(number=1, attempt=0, bytes=2, sha256="a" * 64),
    jobs.CallStep(step="call", set=ID, number=0, question=LINKED, results=["https://a/b"]),
    jobs.ReduceStep(
        step="reduce",
        set=ID,
        number=0,
        question=LINKED,
        results=["https://a/b"],
        parts=[None, jobs.Answered(number=1, attempt=0, bytes=2, sha256="a" * 64)],
    ),
    jobs.ReduceRequest(profile="p", key_id=ID, answers=[["https://a/b"]], kind="scan", sums=[[(0, 1), (0, 2)]]),
    jobs.Reduced(profile="p", key_id=ID, totals=[[b"x"]]),
    wire.Problem(error="no", hint="try"),
    wire.Problem(error="no", code="damaged"),
    SimpleSensitiveResponse(operation="sum", profile="p", rows=3, result={"a": b"x"}),
    simple.SimplePlainResponse(
        operation="sum", rows=3, groups={"a": ["x", None, True, 1, 2.5]}, result={"b": [1, 2.5, "inf", None, False]}
    ),
    simple.SimplePlainResponse(operation="sum", rows=3, groups=None, result={"b": 1, "c": None}),
]
MUTATIONS = (mutate.odd_value, mutate.missing, mutate.added, mutate.repeated, mutate.swapped, mutate.nudged)


def leaves(value: Any) -> set[str]:
    return {str(container[key]) for container, key in mutate.places({"": value})}


def by_pydantic(model: type[Message], value: Any) -> Message | None:
    try:
        return wire.validate(model, copy.deepcopy(value))
    except WireError:
        return None


def by_own(model: type[Message], value: Any) -> Message | None:
    try:
        return wire.validate(model, copy.deepcopy(value), own=True)
    except WireError:
        return None


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda each: type(each).__name__)
def test_every_message_comes_back(sample: Message) -> None:
    for own in (True, False):
        assert wire.load(type(sample), wire.dump_json(sample), wire.JSON_TYPE, own=own) == sample
        assert wire.load(type(sample), wire.dump_frames(sample), wire.FRAMES_TYPE, own=own) == sample
    assert wire.load(type(sample), wire.InProcessRequest(sample), wire.FRAMES_TYPE, own=True) == sample


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda each: type(each).__name__)
def test_both_readers_refuse_the_same(sample: Message) -> None:
    """But for what pydantic converts, as text to a number: that is written otherwise, and then read by both."""
    model = type(sample)
    draw = Random(model.__qualname__)
    outcomes = set()
    for _ in range(400):
        value = json.loads(wire.dump_json(sample))
        for _ in range(draw.choice([1, 1, 2])):
            value = draw.choice(MUTATIONS)(draw, value)
        if isinstance(value, dict) and "label" in vars(sample):
            value.setdefault("label", ID)  # a random one is the default
        theirs, ours = by_pydantic(model, value), by_own(model, value)
        outcomes.add((theirs is None, ours is None))
        if ours is not None:
            assert ours == theirs, value
        elif theirs is not None:
            try:
                written = json.loads(wire.dump_json(theirs))
            except ValueError:
                assert {"inf", "nan"} & leaves(value)  # of floats none but finite ones are written
                continue
            assert json.dumps(written) != json.dumps(value)
            assert by_own(model, written) == theirs, value
    assert (True, True) in outcomes
    assert (True, False) not in outcomes


@dataclass(frozen=True, kw_only=True)
class Parcel(Item):
    kind: Literal["small", "large"]
    weight: Annotated[int, Rules(ge=1, lt=10, strict=True)]
    height: Annotated[int, Rules(le=5, strict=True)] = 1
    name: Annotated[str, Rules(min_length=1, max_length=3, pattern=r"^[a-z]+$")] = "a"
    stamps: Annotated[Each[int], Rules(min_length=1, max_length=2)] = field(default_factory=lambda: [1])
    place: tuple[int, str] = (0, "")
    content: Blob | None = None
    fragile: bool = False
    price: float | None = None

    def __post_init__(self) -> None:
        if self.height > self.weight:
            raise ValueError("is too light")


PARCEL = {"kind": "small", "weight": 9}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "huge"}, "kind: must be 'small' or 'large'"),
        ({"weight": 0}, "weight: must be at least 1"),
        ({"weight": 10}, "weight: must be below 10"),
        ({"weight": True}, "weight: must be an integer"),
        ({"weight": 1.0}, "weight: must be an integer"),
        ({"weight": "1"}, "weight: must be an integer"),
        ({"weight": None}, "weight: must be an integer"),
        ({"height": 6}, "height: must be at most 5"),
        ({"weight": 1, "height": 2}, "body: is too light"),
        ({"name": ""}, "name: must have at least 1 items or characters"),
        ({"name": "abcd"}, "name: must have at most 3 items or characters"),
        ({"name": "a\n"}, "name: must match ^[a-z]+$"),
        ({"name": 1}, "name: must be text"),
        ({"stamps": []}, "stamps: must have at least 1 items or characters"),
        ({"stamps": [1, 2, 3]}, "stamps: must have at most 2 items or characters"),
        ({"stamps": [1, "2"]}, "stamps.1: must be an integer"),
        ({"stamps": [1, False]}, "stamps.1: must be an integer"),
        ({"stamps": {"0": 1}}, "stamps: must be a list"),
        ({"place": [1]}, "place: must be a list of 2"),
        ({"place": [1, 2]}, "place: must be text"),
        ({"content": "?"}, "content: is not base64"),
        ({"content": 0}, "content: must be base64 text"),
        ({"content": []}, "content: must not be list"),
        ({"fragile": 0}, "fragile: must be true or false"),
        ({"price": float("nan")}, "price: must be a finite number"),
        ({"price": float("inf")}, "price: must be a finite number"),
        ({"price": 10**400}, "price: must be a finite number"),
        ({"price": (1 << 53) + 1}, "price: must be a finite number"),
        ({"price": -(1 << 53) - 1}, "price: must be a finite number"),
        ({"price": True}, "price: must not be bool"),
        ({"other": 1}, "body: has an unknown field"),
    ],
)
def test_what_breaks_a_rule_is_refused(change: dict[str, Any], message: str) -> None:
    assert reader.read(Parcel, PARCEL, None) == Parcel(kind="small", weight=9)
    with pytest.raises(reader.RefusedError) as caught:
        reader.read(Parcel, PARCEL | change, None)
    assert str(caught.value) == message
    with pytest.raises(reader.RefusedError, match="body: has no weight"):
        reader.read(Parcel, {"kind": "small"}, None)
    for value in ([], None, "small", 1):
        with pytest.raises(reader.RefusedError, match="body: must be an object"):
            reader.read(Parcel, value, None)


@pytest.mark.parametrize(
    ("field_", "value"),
    [
        ("weight", 1),
        ("height", 5),
        ("name", "abc"),
        ("stamps", [1, 2]),
        ("price", 3),
        ("price", 1 << 53),
        ("price", -(1 << 53)),
        ("price", 0.5),
    ],
)
def test_what_a_rule_just_allows_is_read(field_: str, value: object) -> None:
    read = reader.read(Parcel, PARCEL | {field_: value}, None)
    assert getattr(read, field_) == value
    assert read == by_pydantic(Parcel, PARCEL | {field_: value})
    assert type(read.price) is (float if field_ == "price" else type(None))


def test_the_own_reader_reads_what_is_the_machines_own() -> None:
    body = wire.dump_json(Parcel(kind="small", weight=9)).replace(b"9", b'"9"')
    for own, told in ((True, "weight: must be an integer"), (False, "weight: Input should be a valid integer")):
        for ask in (wire.load, lambda model, body, _, own: wire.validate(model, json.loads(body), own=own)):
            with pytest.raises(WireError) as caught:
                ask(Parcel, body, wire.JSON_TYPE, own=own)
            assert caught.value.message == told


def test_a_list_of_values_that_are_as_they_should_be_is_not_copied() -> None:
    """A column may have millions: each is looked at for its type alone."""
    for kind, values in ((list[int], [1, 2]), (list[str | None], ["a", None]), (list[int | str], [])):
        assert reader._reader(kind)(values, None) is values


def test_rules_that_this_reader_keeps_anyway_are_no_checks() -> None:
    assert Rules(ge=0, strict=True, fail_fast=True).limits == {"ge"}


def test_bytes_are_a_view_of_the_body_or_a_copy() -> None:
    body = memoryview(b"x")
    for copied, kind in ((True, bytes), (False, memoryview)):
        binary = Binary(copied=copied)
        for read in (
            binary.load(0, Frames([body])),
            TypeAdapter(Annotated[bytes, binary]).validate_python(0, context=Frames([body])),
        ):
            assert (type(read), bytes(read)) == (kind, b"x")
    assert reader._reader(tuple[int, Blob])([3, 0], Frames([body])) == (3, b"x")
    assert TypeAdapter(Blob).json_schema() == {"type": "string", "format": "base64"}


def test_pydantic_chooses_among_unlike_members_by_name() -> None:
    number, text = Annotated[int, Tagged("number")], Annotated[str, Tagged("text")]
    choose = Unlike(lambda value: "text" if isinstance(value, str) else "number")
    adapter = TypeAdapter[Any](Annotated[number | text, choose])
    assert adapter.validate_python("7") == "7"
    assert adapter.validate_python(7.0) == 7


def test_a_frame_is_named_once() -> None:
    assert reader.read(Parcel, PARCEL | {"content": 0}, Frames([memoryview(b"x")])).content == b"x"
    with pytest.raises(reader.RefusedError, match="a frame that is not there"):
        reader.read(Parcel, PARCEL | {"content": 1}, Frames([b"x"]))
    with pytest.raises(WireError, match="a frame that nothing names"):
        wire.validate(Parcel, PARCEL, [b"x"], own=True)


def test_what_has_no_reader_is_an_error() -> None:
    class Unknown(Metadata):
        pass

    for kind in (
        Any,
        bytes,
        object,
        set[int],
        dict[int, str],
        tuple[int, ...],
        list[Any],
        int | Annotated[int, Rules(ge=0)],
        list[int] | tuple[int, int],
        Annotated[str, Unknown()],
        Annotated[int, "ge=1"],
        Annotated[Blob, Rules(max_length=3)],
    ):
        with pytest.raises(TypeError, match="no reader"):
            reader._reader(kind)
    with pytest.raises(TypeError, match="unknown rules"):
        Rules(gt=1)


def test_every_rule_is_read_by_pydantic() -> None:
    """It knows them by the protocol of annotated-types: without it they would be silently left out."""
    for change in ({"weight": 0}, {"weight": 10}, {"weight": "1"}, {"height": 6}, {"name": ""}, {"name": "abcd"}):
        assert by_pydantic(Parcel, PARCEL | change) is None
    for change in ({"name": "a\n"}, {"stamps": []}, {"stamps": [1, 2, 3]}, {"other": 1}, {"content": "?"}):
        assert by_pydantic(Parcel, PARCEL | change) is None
