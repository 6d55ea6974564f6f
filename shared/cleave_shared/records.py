"""Frozen dataclasses that are quick to define.

A query imports about a hundred. The standard library compiles six methods for each class, which takes 0.4 ms. This
module compiles `__init__` alone. Fields, `replace`, `asdict` and pattern matching are the standard library's.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

T = TypeVar("T")
_set = object.__setattr__

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - exported: type checkers see the standard library's
else:

    def dataclass(*, frozen: bool, slots: bool = False, repr: bool = True):  # noqa: A002 - the standard library's names
        """`dataclasses.dataclass(frozen=True)`, for fields that are all arguments of `__init__` by position."""
        if not frozen:
            raise TypeError("only for frozen dataclasses; dataclasses.dataclass makes others")
        return lambda cls: _defined(cls, slots=slots, shown=repr)


def _defined(cls: type[T], *, slots: bool, shown: bool) -> type[T]:
    own = {name for name, value in cls.__dict__.items() if value is not None}  # __hash__ may be None, by an own __eq__
    cls.__doc__ = cls.__doc__ or cls.__name__  # else the standard library composes one from the signature
    record = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
    fields = dataclasses.fields(record)  # type: ignore[arg-type]  # it is a dataclass
    methods = {"__init__": _init(record, fields), **_comparing([each.name for each in fields if each.compare])}
    if shown:
        methods["__repr__"] = _showing([each.name for each in fields if each.repr])
    methods |= {"__setattr__": _refuse_change, "__delattr__": _refuse_removal}
    if slots:
        methods |= {"__getstate__": _state, "__setstate__": _restore}
    for name, method in methods.items():
        if name not in own:
            setattr(record, name, method)
    return record


def _init(cls: type, fields: tuple[dataclasses.Field[Any], ...]) -> Any:
    names: dict[str, Any] = {"__set": _set, "__missing": dataclasses.MISSING}
    arguments, lines = ["self"], []
    for each in fields:
        if not each.init or each.kw_only:
            raise TypeError(f"{cls.__name__}.{each.name}: only for fields that are arguments by position")
        argument, value = each.name, each.name
        if each.default_factory is not dataclasses.MISSING:
            names[f"__make_{each.name}"] = each.default_factory
            argument += "=__missing"
            value = f"__make_{each.name}() if {each.name} is __missing else {each.name}"
        elif each.default is not dataclasses.MISSING:
            names[f"__default_{each.name}"] = each.default
            argument += f"=__default_{each.name}"
        arguments.append(argument)
        lines.append(f"__set(self, {each.name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    exec(f"def __init__({', '.join(arguments)}):\n  {'; '.join(lines) or 'pass'}", names)  # noqa: S102 - of names in code
    function = names["__init__"]
    function.__qualname__ = f"{cls.__qualname__}.__init__"
    return function


def _comparing(names: list[str]) -> dict[str, Any]:
    values = attrgetter(*names) if names else lambda _: ()

    def equal(self: object, other: object) -> bool:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return {"__eq__": equal, "__hash__": lambda self: hash(values(self))}


def _showing(names: list[str]) -> Any:
    def shown(self: object) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{self.__class__.__qualname__}({values})"

    return shown


def _refuse_change(self: object, name: str, value: object) -> NoReturn:  # noqa: ARG001 - Python's signature
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_removal(self: object, name: str) -> NoReturn:  # noqa: ARG001 - Python's signature
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[object]:
    return [getattr(self, each.name) for each in dataclasses.fields(self)]


def _restore(self: Any, state: list[object]) -> None:
    for each, value in zip(dataclasses.fields(self), state, strict=True):
        _set(self, each.name, value)
