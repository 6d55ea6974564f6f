"""Reader for messages from processes of this machine, without pydantic, whose import takes 50 ms.

It follows the annotations that pydantic reads, and accepts no more than pydantic: every value has exactly its field's
type, text and numbers are never converted, floats are finite. The message may come from a child that runs users'
expressions, so anything unexpected is refused. tests/unit/test_reader.py compares both readers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from cleave_shared.messages import Binary, Frames, Message, Rules, Tagged, Unlike

_Model = TypeVar("_Model", bound=Message)
_Read = Callable[[Any, Frames | None], Any]
_EXACT = {bool: "true or false", float: "a finite number", int: "an integer", str: "text", NoneType: "null"}
_LARGEST = 1 << 53  # the largest integer that is read as a float


class RefusedError(ValueError):
    """A value that a message cannot have. `place`: names and indices that lead to it."""

    def __init__(self, rule: str, *place: object) -> None:
        super().__init__(f"{'.'.join(map(str, place)) or 'body'}: {rule}")
        self.rule = rule
        self.place = place


def read(model: type[_Model], value: Any, frames: Frames | None) -> _Model:
    """Build a message from JSON. Raises RefusedError with place and rule, without the value."""
    kind: Any = model
    try:
        message: _Model = _reader(kind)(value, frames)
    except ValueError as error:
        raise _refused(error) from None
    return message


def _refused(error: ValueError, *place: object) -> RefusedError:
    if isinstance(error, RefusedError):
        return RefusedError(error.rule, *place, *error.place)
    return RefusedError(str(error), *place)


@cache
def _reader(kind: Any) -> _Read:
    """Raises TypeError for an unsupported annotation, so that no field goes unchecked."""
    origin, arguments = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and is_dataclass(kind):
        return _of_message(kind)
    if origin is Annotated:
        return _ruled(arguments[0], kind.__metadata__)
    if origin is Literal:
        return _one_of(arguments)
    if origin in (Union, UnionType):
        return _of_union(arguments)
    if origin is list:
        return _of_list(arguments[0])
    if origin is tuple and Ellipsis not in arguments:
        return _of_tuple(arguments)
    if origin is dict and arguments[0] is str:
        return _of_dict(arguments[1])
    if kind is float:
        return _real
    if kind in _EXACT:
        return _of_type(kind)
    raise TypeError(f"no reader for {kind}")


def _of_type(kind: type) -> _Read:
    def whole(value: Any, _: Frames | None) -> Any:
        if type(value) is not kind:
            raise ValueError(f"must be {_EXACT[kind]}")
        return value

    return whole


def _real(value: Any, _: Frames | None) -> float:
    if (type(value) is float and math.isfinite(value)) or (type(value) is int and abs(value) <= _LARGEST):
        return float(value)
    raise ValueError("must be a finite number")


def _ruled(kind: Any, metadata: tuple[object, ...]) -> _Read:
    first, *others = metadata
    if isinstance(first, Binary) and all(isinstance(each, Tagged) for each in others):
        return first.load
    if not all(isinstance(each, Rules | Tagged | Unlike) for each in metadata):
        raise TypeError(f"no reader for {metadata}")
    inner = _reader(kind)
    rules = [each for each in metadata if isinstance(each, Rules) and each.limits]
    if not rules:
        return inner

    def ruled(value: Any, frames: Frames | None) -> Any:
        result = inner(value, frames)
        for each in rules:
            each.check(result)
        return result

    return ruled


def _one_of(values: tuple[Any, ...]) -> _Read:
    def one_of(value: Any, _: Frames | None) -> Any:
        if not any(type(value) is type(each) and value == each for each in values):
            raise ValueError(f"must be {' or '.join(map(repr, values))}")
        return value

    return one_of


def _of_union(kinds: Iterable[Any]) -> _Read:
    """Chooses the member by the JSON type of the value."""
    by_type: dict[type, _Read] = {}
    for kind in kinds:
        for each in _json_types(kind):
            if each in by_type:
                raise TypeError(f"no reader for two members of a union that are both {each}")
            by_type[each] = _reader(kind)
    if float in by_type:
        by_type.setdefault(int, by_type[float])

    def one(value: Any, frames: Frames | None) -> Any:
        if (inner := by_type.get(type(value))) is None:
            raise ValueError(f"must not be {type(value).__name__}")
        return inner(value, frames)

    return one


def _json_types(kind: Any) -> set[type]:
    if get_origin(kind) is Annotated:
        binary = any(isinstance(each, Binary) for each in kind.__metadata__)
        return {str, int} if binary else _json_types(kind.__origin__)
    if is_dataclass(kind):
        return {dict}
    if kind in _EXACT:
        return {kind}
    return {{dict: dict, list: list, tuple: list}[get_origin(kind)]}


def _of_list(kind: Any) -> _Read:
    item = _reader(kind)
    # for lists of many simple values, checking the types is enough
    plain = frozenset(get_args(kind) if get_origin(kind) in (Union, UnionType) else [kind]) & {bool, int, str, NoneType}

    def items(value: Any, frames: Frames | None) -> list[Any]:
        if type(value) is not list:
            raise ValueError("must be a list")
        if plain.issuperset(map(type, value)):
            return value
        result: list[Any] = []
        try:
            for each in value:
                result.append(item(each, frames))
        except ValueError as error:
            raise _refused(error, len(result)) from None
        return result

    return items


def _of_tuple(kinds: tuple[Any, ...]) -> _Read:
    readers = [_reader(each) for each in kinds]

    def items(value: Any, frames: Frames | None) -> tuple[Any, ...]:
        if type(value) is not list or len(value) != len(readers):
            raise ValueError(f"must be a list of {len(readers)}")
        return tuple(reader(each, frames) for reader, each in zip(readers, value, strict=True))

    return items


def _of_dict(kind: Any) -> _Read:
    item = _reader(kind)

    def items(value: Any, frames: Frames | None) -> dict[str, Any]:
        if type(value) is not dict:
            raise ValueError("must be an object")
        return {name: item(each, frames) for name, each in value.items()}

    return items


def _of_message(model: type[Any]) -> _Read:
    hints = get_type_hints(model, include_extras=True)
    readers = {each.name: _reader(hints[each.name]) for each in fields(model)}
    needed = {each.name for each in fields(model) if each.default is MISSING and each.default_factory is MISSING}

    def message(value: Any, frames: Frames | None) -> Any:
        if type(value) is not dict:
            raise ValueError("must be an object")
        if not readers.keys() >= value.keys():
            raise ValueError("has an unknown field")
        if missing := needed - value.keys():
            raise ValueError(f"has no {min(missing)}")
        contents = {}
        for name, given in value.items():
            try:
                contents[name] = readers[name](given, frames)
            except ValueError as error:
                raise _refused(error, name) from None
        return model(**contents)

    return message
