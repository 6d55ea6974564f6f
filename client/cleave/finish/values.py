"""Possible values of an expression for one group: the alternatives within the bounds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from flint import arb, fmpq

from cleave.aggregates.balls import Number, rational
from cleave.finish.numbers import Special, ball, hull, tidy

_MOST = 8  # alternatives that are listed one by one


@dataclass(frozen=True, slots=True)
class Text:
    """DuckDB's text of a value that is neither a number nor a boolean."""

    text: str


Atom = fmpq | arb | bool | Text | Special


def atom_of(value: Any) -> Atom:
    """The atom of a Python value as DuckDB returns it."""
    if value is None:
        return Special.NULL
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return Text(value)
    if math.isnan(value):
        return Special.NAN
    if math.isinf(value):
        return Special.UP if value > 0 else Special.DOWN
    return rational(value)


@dataclass(frozen=True, slots=True)
class Value:
    """One or more alternatives; with several, the bounds do not decide.

    `torn`: a single ball encloses alternatives of an open decision. `guessed`: the value is DuckDB's and not certified.
    """

    atoms: tuple[Atom, ...]
    torn: bool = False
    guessed: bool = False

    @property
    def single(self) -> Atom | None:
        return self.atoms[0] if len(self.atoms) == 1 else None

    @property
    def is_decided(self) -> bool:
        return len(self.atoms) == 1 and not self.torn

    @property
    def numbers(self) -> list[Number]:
        return [atom for atom in self.atoms if isinstance(atom, fmpq | arb)]


NULL = Value((Special.NULL,))
UNKNOWN = Value((Special.UNKNOWN,))
Computed = Atom | tuple[Atom, ...] | Value


def value_of(atom: Atom) -> Value:
    return Value((atom,))


def gather(atoms: Iterable[Atom], *, torn: bool = False, guessed: bool = False) -> Value:
    """Combine alternatives into one value. Equal ones are merged; too many numbers become one ball."""
    distinct: list[Atom] = []
    for atom in atoms:
        tidied = tidy(atom) if isinstance(atom, fmpq | arb) else atom
        if not any(_same(tidied, other) for other in distinct):
            distinct.append(tidied)
    if len(distinct) > _MOST:
        numbers = [atom for atom in distinct if isinstance(atom, fmpq | arb)]
        others = [atom for atom in distinct if not isinstance(atom, fmpq | arb)]
        distinct, torn = [*others, *([ball(hull(*numbers))] if numbers else [])], True
        distinct = distinct if len(distinct) <= _MOST else [Special.UNKNOWN]
    torn = torn and any(isinstance(atom, arb) for atom in distinct)
    return Value(tuple(distinct), torn, guessed)


def _same(one: Atom, other: Atom) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, arb) and isinstance(other, arb):
        return bool(one.mid() == other.mid() and one.rad() == other.rad())
    return one == other


def either(*values: Value) -> Value:
    """A value that may be any of these."""
    return gather(
        itertools.chain.from_iterable(value.atoms for value in values),
        torn=any(value.torn for value in values),
        guessed=any(value.guessed for value in values),
    )


def combine(function: Callable[..., Computed], *values: Value) -> Value:
    """Apply `function` to every combination of alternatives. It takes atoms and returns one atom or several."""
    results: list[Atom] = []
    torn = False
    for atoms in itertools.product(*(value.atoms for value in values)):
        result = function(*atoms)
        if isinstance(result, Value):
            results.extend(result.atoms)
            torn = torn or result.torn
        else:
            results.extend(result if isinstance(result, tuple) else (result,))
    return gather(
        results, torn=torn or any(value.torn for value in values), guessed=any(value.guessed for value in values)
    )


def strict(function: Callable[..., Computed]) -> Callable[..., Computed]:
    """Make `function` return an error, NULL or unknown (in this order of precedence) if an argument is one."""

    def lifted(*atoms: Atom) -> Computed:
        for special in (Special.FAILED, Special.NULL, Special.UNKNOWN):
            if special in atoms:
                return special
        return function(*atoms)

    return lifted
