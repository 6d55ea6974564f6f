"""`dataclasses.dataclass`, a tenth as long to declare where it is frozen and has slots.

The standard library writes six methods of each such class as text and compiles them: 0.5 ms, whether anybody calls them
or not, and a question's start declares a hundred classes. Here fields and slots are still the library's, so that its
`fields`, `replace` and `asdict` work; `__init__` is compiled when the first object is made, the others are shared. What
else is asked of the decorator goes to the library as it is.

    @dataclass(frozen=True, slots=True)
    class Bounds:
        seconds: float | None = None
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, fields
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

_set = object.__setattr__


def _declared(cls: type) -> type:
    if cls.__doc__ is None:  # else the library writes the signature there, which takes as long as all the rest
        cls.__doc__ = cls.__name__
    made: type = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    if any(each.kw_only or not each.init or each.hash is not None for each in fields(made)):
        raise TypeError(f"{cls.__name__}: of what `field` takes, a default, `compare` and `repr` are known here")
    for name, method in (_SHARED | _own(made)).items():
        if cls.__dict__.get(name) is None:  # __hash__ is None where there is an __eq__
            setattr(made, name, method)
    return made


def _own(cls: Any) -> dict[str, Callable[..., Any]]:
    """The methods that are made for one class."""
    names = [each.name for each in fields(cls) if each.compare]
    several: Callable[[Any], object] = (
        attrgetter(*names) if len(names) > 1 else lambda each: tuple(getattr(each, name) for name in names)
    )

    def first(self: Any, *arguments: Any, **named: Any) -> None:
        initialise = _initialiser(cls)
        cls.__init__ = initialise  # from here on
        initialise(self, *arguments, **named)

    def equal(self: Any, other: object) -> bool:
        return bool(several(self) == several(other)) if other.__class__ is self.__class__ else NotImplemented

    return {"__init__": first, "__eq__": equal, "__hash__": lambda self: hash(several(self))}


def _initialiser(cls: type) -> Callable[..., None]:
    """Compiled of the names of fields alone: defaults stand beside it."""
    known: dict[str, Any] = {"__set": _set, "__missing": MISSING}
    taken, lines = ["self"], [" pass"]
    for each in fields(cls):
        name = value = each.name
        if each.default_factory is not MISSING:
            known[f"__make_{name}"] = each.default_factory
            value = f"__make_{name}() if {name} is __missing else {name}"
            name = f"{name}=__missing"
        elif each.default is not MISSING:
            known[f"__default_{name}"] = each.default
            name = f"{name}=__default_{name}"
        taken.append(name)
        lines.append(f" __set(self, {each.name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append(" self.__post_init__()")
    exec(f"def __init__({', '.join(taken)}):\n" + "\n".join(lines), known)  # noqa: S102 - as the library does
    made: Callable[..., None] = known["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"  # which a wrong call is told by
    return made


@recursive_repr()
def _repr(self: Any) -> str:
    shown = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
    return f"{self.__class__.__qualname__}({shown})"


def _refuse_set(self: Any, name: str, value: object) -> None:  # noqa: ARG001 - Python's own method
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: Any, name: str) -> None:  # noqa: ARG001 - as above
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    for each, value in zip(fields(self), state, strict=True):
        _set(self, each.name, value)


_SHARED: dict[str, Callable[..., Any]] = {
    "__repr__": _repr,
    "__setattr__": _refuse_set,
    "__delattr__": _refuse_delete,
    "__getstate__": _state,
    "__setstate__": _restore,
}

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, **how):
        if how == {"frozen": True, "slots": True}:
            return _declared
        return dataclasses.dataclass(cls, **how)
