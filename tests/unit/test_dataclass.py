"""The quick declaration makes what the library's does: every class of the project and a few hard ones, both ways."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import FrozenInstanceError, asdict, astuple, field, fields, replace
from typing import Any, Generic, TypeVar

import pytest

from cleave_shared.dataclass import dataclass

T = TypeVar("T")
NAN = float("nan")


class Plain:
    name: str
    least: float = 0.0
    parts: list[int] = field(default_factory=list)
    note: str = field(default="", compare=False, repr=False)

    def twice(self) -> float:
        return 2 * self.least


class One:
    value: Any


class Noted:
    left: int
    right: str
    note: str = field(default="", compare=False)


class Nothing:
    pass


class Checked:
    number: int

    def __post_init__(self) -> None:
        if self.number < 0:
            raise ValueError("negative")


class Own:  # noqa: PLW1641 - of which the library makes one
    number: int

    def __eq__(self, other: object) -> bool:
        return True

    def __repr__(self) -> str:
        return "own"


class Hashed(Own):
    number: int

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 7


class Named:
    """Fields called like what the initialiser is made of."""

    cls: int
    value: int = 1
    _set: int = 2
    _make_value: list[int] = field(default_factory=list)


class Of(Generic[T]):
    item: T


quick, library = dataclass(frozen=True, slots=True), dataclasses.dataclass(frozen=True, slots=True)


def both(cls: type) -> tuple[Any, Any]:
    """The same class declared by either, under one name."""
    return tuple(
        declare(type(cls.__name__, cls.__bases__, {k: v for k, v in vars(cls).items() if k not in _NATIVE}))
        for declare in (quick, library)
    )


_NATIVE = {"__dict__", "__weakref__"}
MADE: list[tuple[type, tuple[Any, ...], dict[str, Any]]] = [
    (Plain, ("a",), {}),
    (Plain, ("a", 2.5), {"parts": [1], "note": "unseen"}),
    (Noted, (1, "a"), {"note": "b"}),
    (One, (NAN,), {}),
    (One, ([],), {}),
    (Nothing, (), {}),
    (Checked, (3,), {}),
    (Own, (1,), {}),
    (Hashed, (1,), {}),
    (Named, (0,), {}),
    (Of, ("x",), {}),
]


def outcome(work: Any) -> object:
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - compared
        return type(error), str(error)


@pytest.mark.parametrize(("cls", "given", "named"), MADE)
def test_objects_are_as_the_librarys(cls: type, given: tuple[Any, ...], named: dict[str, Any]) -> None:
    ours, theirs = (made(*given, **named) for made in both(cls))
    for same in (
        repr,
        hash,
        astuple,
        lambda each: [(one.name, one.default is dataclasses.MISSING, one.repr, one.compare) for one in fields(each)],
        lambda each: type(each).__match_args__,
        lambda each: type(each).__slots__,
        lambda each: hasattr(each, "__dict__"),
        lambda each: each == each,  # noqa: PLR0124 - NaN is no equal of itself, what holds it is
        lambda each: each == type(each)(*given, **named),
        lambda each: each == given,
        lambda each: each != given,
        lambda each: copy.copy(each) == each,
        lambda each: copy.deepcopy(each) == each,
        lambda each: replace(each) == each,
    ):
        found = [outcome(lambda made=made, same=same: same(made)) for made in (ours, theirs)]
        assert found[0] == found[1], same
    for name in (*(each.name for each in fields(ours)), "another"):  # over which the library stumbles: a TypeError
        with pytest.raises(FrozenInstanceError, match=name):
            setattr(ours, name, 1)
        with pytest.raises(FrozenInstanceError, match=name):
            delattr(ours, name)


def test_what_is_not_compared_makes_no_difference() -> None:
    for made in both(Noted):
        one, other = made(1, "a"), made(1, "a", "seen")
        assert (one == other, hash(one) == hash(other), one == made(1, "b"), len({one, other})) == (
            True,
            True,
            False,
            1,
        )


@pytest.mark.parametrize(
    ("cls", "given", "named"),
    [(Plain, (), {}), (Plain, (1, 2, 3, 4, 5), {}), (One, (), {"other": 1}), (Checked, (-1,), {}), (Nothing, (1,), {})],
)
def test_wrong_calls_fail_as_the_librarys(cls: type, given: tuple[Any, ...], named: dict[str, Any]) -> None:
    ours, theirs = both(cls)
    for _ in range(2):  # the first compiles
        assert outcome(lambda: ours(*given, **named)) == outcome(lambda: theirs(*given, **named))


@dataclass(frozen=True, slots=True)
class Base:
    name: str
    tags: dict[str, int] = field(default_factory=dict)

    def upper(self) -> str:
        return self.name.upper()


@dataclass(frozen=True, slots=True)
class Longer(Base):
    size: int = 0


class Bare(Base):
    """No dataclass itself."""


def test_what_is_declared_is_inherited_pickled_and_replaced() -> None:
    made = Longer("a", {"x": 1}, 3)
    assert (made.upper(), made.size, Base("a") == made) == ("A", 3, False)
    assert pickle.loads(pickle.dumps(made)) == made  # noqa: S301 - just made
    assert replace(made, size=4) == Longer("a", {"x": 1}, 4)
    assert asdict(made) == {"name": "a", "tags": {"x": 1}, "size": 3}
    assert Base("a").tags is not Base("a").tags
    assert {made.name: 1, Base: 2}[Base] == 2
    assert Bare("b") == Bare("b") != Base("b")
    with pytest.raises(FrozenInstanceError):
        made.size = 5  # type: ignore[misc]  # the very thing
    match made:
        case Longer(name, _, size):
            assert (name, size) == ("a", 3)


def test_a_representation_that_holds_itself_ends() -> None:
    made = Base("a")
    made.tags["self"] = made  # type: ignore[assignment]  # the very thing
    assert repr(made) == "Base(name='a', tags={'self': ...})"


def test_what_is_not_known_here_is_refused_and_other_options_are_the_librarys() -> None:
    for unknown in (field(kw_only=True), field(init=False), field(hash=False)):
        with pytest.raises(TypeError, match="Unknown"):
            quick(type("Unknown", (), {"__annotations__": {"a": int}, "a": unknown}))
    changeable = dataclass(slots=True)(type("Changeable", (), {"__annotations__": {"a": int}}))(1)
    changeable.a = 2
    assert (changeable.a, dataclass(Nothing)() == dataclass(Nothing)()) == (2, True)
