"""Dataclasses of cleave_shared.records, and the standard library's of the same fields."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, field, fields, replace
from typing import Any, ClassVar

import pytest

from cleave_shared import records


def defined(dataclass: Callable[..., Any], **options: bool) -> tuple[Any, Any]:
    """A class and one that inherits from it."""

    @dataclass(frozen=True, **options)
    class Base:
        """Words on it."""

        MOST: ClassVar[int] = 9
        name: str
        values: list[int] = field(default_factory=list)
        hidden: bytes = field(default=b"", repr=False)
        ball: object = field(default=None, compare=False)

        def __post_init__(self) -> None:
            if not self.name:
                raise ValueError("there is no name")

    @dataclass(frozen=True, **options)
    class Derived(Base):
        last: int = 1

    return Base, Derived


KINDS = [{"slots": True}, {"slots": False}, {"slots": True, "repr": False}]


@pytest.mark.parametrize("options", KINDS)
@pytest.mark.parametrize("which", [0, 1])
def test_a_class_is_as_the_standard_library_makes_it(options: dict[str, bool], which: int) -> None:
    ours, theirs = (defined(each, **options)[which] for each in (records.dataclass, dataclasses.dataclass))
    assert [each.name for each in fields(ours)] == [each.name for each in fields(theirs)]
    assert ours.__match_args__ == theirs.__match_args__
    assert list(inspect.signature(ours).parameters) == list(inspect.signature(theirs).parameters)
    assert hasattr(ours("a"), "__dict__") == hasattr(theirs("a"), "__dict__")
    assert ours.__init__.__qualname__ == theirs.__init__.__qualname__.replace("theirs", "ours")
    same, other = ours("a", [1], b"b", ball=2), ours("b", [1], b"b", ball=2)
    assert same == ours("a", [1], b"b", ball=3)
    assert same != other
    assert same != theirs("a", [1], b"b", ball=2)
    assert asdict(same) == asdict(theirs("a", [1], b"b", ball=2))
    assert replace(same, name="b") == other
    assert ours("a").values is not ours("a").values
    if options.get("repr", True):
        assert repr(same) == repr(theirs("a", [1], b"b", ball=2))
    else:
        assert repr(same).startswith("<")
    with pytest.raises(ValueError, match="there is no name"):
        ours("")
    with pytest.raises(TypeError, match="missing 1 required"):
        ours()


@pytest.mark.parametrize("options", KINDS)
def test_a_record_cannot_be_changed(options: dict[str, bool]) -> None:
    record = defined(records.dataclass, **options)[1]("a")
    for change in ("record.name = 'b'", "record.new = 1", "del record.name"):
        with pytest.raises(FrozenInstanceError):
            exec(change, {"record": record})  # noqa: S102 - the statements above
    assert record.name == "a"


@records.dataclass(frozen=True, slots=True)
class Place:
    row: int
    column: str = "a"


@records.dataclass(frozen=True, slots=True)
class Nothing:
    pass


def test_records_are_keys_and_travel_between_processes() -> None:
    assert {Place(1): 1, Place(1, "a"): 2, Place(2): 3} == {Place(1): 2, Place(2): 3}
    assert hash(Place(1)) == hash(Place(1, "a"))
    for each in (Place(1, "b"), Nothing()):
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            assert pickle.loads(pickle.dumps(each, protocol)) == each  # noqa: S301 - of this test
        assert copy.deepcopy(each) == copy.copy(each) == each
    with pytest.raises(FrozenInstanceError):
        pickle.loads(pickle.dumps(Place(1))).row = 2  # noqa: S301 - as above


def test_methods_of_the_class_stay() -> None:
    @records.dataclass(frozen=True, slots=True)
    class Own:  # noqa: PLW1641 - records add __hash__
        value: int

        def __repr__(self) -> str:
            return "shown"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own)

    assert repr(Own(1)) == "shown"
    assert Own(1) == Own(2)
    assert hash(Own(1)) == hash(Own(1))


def test_what_is_not_supported_is_refused() -> None:
    with pytest.raises(TypeError, match="only for frozen"):
        records.dataclass(frozen=False)
    for unsupported in (field(init=False, default=1), field(kw_only=True)):
        with pytest.raises(TypeError, match=r"Odd\.value: only for fields"):
            records.dataclass(frozen=True)(type("Odd", (), {"__annotations__": {"value": "int"}, "value": unsupported}))
