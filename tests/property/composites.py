"""Random arithmetic and decisions over aggregates: as SQL, and as its exact value on exact inputs.

The oracle shares no code with what it judges: fractions, and decimals of 80 digits where a root or a logarithm makes
them necessary. What it leaves open itself (poles, domains left, NaN) is UNSURE and judged by DuckDB alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from random import Random
from typing import Any

CONTEXT = Context(prec=80, Emax=10**9, Emin=-(10**9))
FINEST = Fraction(1, 10**60)  # relative: what 80 digits lose over a few operations
_LARGEST = Fraction(2) ** 1000


class Unsure(Exception):  # noqa: N818 - no error: the oracle leaves it to DuckDB
    """A pole, a NaN, an overflow, or a decision too close to call even in 80 digits."""


@dataclass(frozen=True)
class Expression:
    """`truth` of a row of exact inputs: Fraction, bool or None. `kind`: "double", "integer" or "boolean"."""

    sql: str
    kind: str
    truth: Callable[[Sequence[Any]], Any]
    depth: int = 0


def strictly(function: Callable[..., Any], *parts: Expression) -> Callable[[Sequence[Any]], Any]:
    def truth(row: Sequence[Any]) -> Any:
        values = [part.truth(row) for part in parts]
        return None if any(value is None for value in values) else function(*values)

    return truth


def decimal_of(value: Fraction) -> Decimal:
    return CONTEXT.divide(Decimal(value.numerator), Decimal(value.denominator))


def irrational(function: Callable[[Decimal], Decimal]) -> Callable[[Fraction], Fraction]:
    def exact(value: Fraction) -> Fraction:
        if abs(value) > 300:
            raise Unsure
        with localcontext(CONTEXT):
            return Fraction(function(decimal_of(value)))

    return exact


def divide(a: Fraction, b: Fraction) -> Fraction:
    if b == 0:
        raise Unsure
    return a / b


def remainder(a: Fraction, b: Fraction) -> Fraction:
    if b == 0:
        raise Unsure
    return a - b * math.trunc(a / b)


def root(value: Fraction) -> Fraction:
    if value < 0:
        raise Unsure
    with localcontext(CONTEXT):
        return Fraction(decimal_of(value).sqrt())


def logarithm(value: Fraction) -> Fraction:
    if value <= 0:
        raise Unsure
    with localcontext(CONTEXT):
        return Fraction(decimal_of(value).ln())


def power(a: Fraction, b: Fraction) -> Fraction:
    if b.denominator != 1 or abs(b) > 6 or (a == 0 and b < 0):
        raise Unsure
    return a**b


def half_away(value: Fraction, digits: int = 0) -> Fraction:
    rounded = math.floor(abs(value) * Fraction(10) ** digits + Fraction(1, 2)) / Fraction(10) ** digits
    return rounded if value >= 0 else -rounded


def half_even(value: Fraction) -> Fraction:
    return Fraction(round(value))


def close(a: Fraction, b: Fraction) -> bool:
    return a != b and abs(a - b) <= FINEST * max(abs(a), abs(b))


def compared(operator: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def decided(a: Any, b: Any) -> bool:
        if isinstance(a, Fraction) and close(a, b):
            raise Unsure
        return operator(a, b)

    return decided


def both(a: Any, b: Any) -> Any:
    return False if a is False or b is False else None if a is None or b is None else True


def any_of(a: Any, b: Any) -> Any:
    return True if a is True or b is True else None if a is None or b is None else False


_BINARY: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": divide,
    "%": remainder,
}
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_CALLS: dict[str, Callable[[Fraction], Fraction]] = {
    "abs": abs,
    "sqrt": root,
    "ln": logarithm,
    "log10": lambda value: Fraction(CONTEXT.log10(decimal_of(value))) if value > 0 else logarithm(value),
    "exp": irrational(Decimal.exp),
    "floor": lambda value: Fraction(math.floor(value)),
    "ceil": lambda value: Fraction(math.ceil(value)),
    "trunc": lambda value: Fraction(math.trunc(value)),
    "round": half_away,
}


def binary(operator: str, a: Expression, b: Expression) -> Expression:
    return _made(f"({a.sql} {operator} {b.sql})", "double", strictly(_BINARY[operator], a, b), a, b)


def call(name: str, a: Expression) -> Expression:
    return _made(f"{name}({a.sql})", "double", strictly(_CALLS[name], a), a)


def _made(sql: str, kind: str, truth: Callable[[Sequence[Any]], Any], *parts: Expression) -> Expression:
    return Expression(sql, kind, _bounded(truth), 1 + max(part.depth for part in parts))


def _bounded(truth: Callable[[Sequence[Any]], Any]) -> Callable[[Sequence[Any]], Any]:
    def checked(row: Sequence[Any]) -> Any:
        value = truth(row)
        if isinstance(value, Fraction) and value and not 1 / _LARGEST < abs(value) < _LARGEST:
            raise Unsure
        return value

    return checked


def comparison(operator: str, a: Expression, b: Expression) -> Expression:
    return _made(f"({a.sql} {operator} {b.sql})", "boolean", strictly(compared(_COMPARISONS[operator]), a, b), a, b)


def case(condition: Expression, a: Expression, b: Expression) -> Expression:
    def truth(row: Sequence[Any]) -> Any:
        return (a if condition.truth(row) is True else b).truth(row)

    return _made(f"CASE WHEN {condition.sql} THEN {a.sql} ELSE {b.sql} END", a.kind, truth, condition, a, b)


def coalesce(a: Expression, b: Expression) -> Expression:
    def truth(row: Sequence[Any]) -> Any:
        first = a.truth(row)
        return b.truth(row) if first is None else first

    return _made(f"COALESCE({a.sql}, {b.sql})", a.kind, truth, a, b)


def nullif(a: Expression, b: Expression) -> Expression:
    def truth(row: Sequence[Any]) -> Any:
        first, second = a.truth(row), b.truth(row)
        if first is not None and second is not None and close(first, second):
            raise Unsure
        return None if first is not None and first == second else first

    return _made(f"NULLIF({a.sql}, {b.sql})", a.kind, truth, a, b)


def extreme(name: str, a: Expression, b: Expression) -> Expression:
    def truth(row: Sequence[Any]) -> Any:
        present = [value for value in (a.truth(row), b.truth(row)) if value is not None]
        return (max if name == "GREATEST" else min)(present) if present else None

    return _made(f"{name}({a.sql}, {b.sql})", "double", truth, a, b)


def logic(operator: str, a: Expression, b: Expression) -> Expression:
    function = both if operator == "AND" else any_of
    return _made(f"({a.sql} {operator} {b.sql})", "boolean", lambda row: function(a.truth(row), b.truth(row)), a, b)


def between(a: Expression, low: Expression, high: Expression) -> Expression:
    def truth(row: Sequence[Any]) -> Any:
        least, most = comparison(">=", a, low).truth(row), comparison("<=", a, high).truth(row)
        return both(least, most)

    return _made(f"({a.sql} BETWEEN {low.sql} AND {high.sql})", "boolean", truth, a, low, high)


_LITERALS = ("0e0", "1e0", "2e0", "7e0", "(-3e0)", "0.5e0", "100e0", "1e-9")


def _constant(text: str) -> Expression:
    value = Fraction(text.strip("()"))
    return Expression(text, "double", lambda _: value)


class Grammar:
    """Draws numbers and truth values over `leaves`, a few levels deep."""

    def __init__(self, leaves: Sequence[Expression], random: Random) -> None:
        self._leaves = leaves
        self._random = random

    def expression(self, depth: int) -> Expression:
        return self.condition(depth) if self._random.random() < 0.3 else self.number(depth)

    def simple(self) -> Expression:
        if self._random.random() < 0.7:
            return self._random.choice(self._leaves)
        return _constant(self._random.choice(_LITERALS))

    def number(self, depth: int) -> Expression:
        if depth == 0:
            return self.simple()
        make = self._random.choice(
            [self._binary] * 3
            + [self._call] * 3
            + [self._rounded, self._negated, self._power, self._cast]
            + [self._case, self._chosen, self._chosen]
        )
        return make(depth - 1)

    def condition(self, depth: int) -> Expression:
        if depth == 0 or self._random.random() < 0.6:
            a, b = self.number(max(0, depth - 1)), self.simple()
            return comparison(self._random.choice(sorted(_COMPARISONS)), a, b)
        kind = self._random.randrange(4)
        if kind == 0:
            return between(self.number(depth - 1), self.simple(), self.simple())
        if kind == 1:
            a = self.condition(depth - 1)
            return _made(f"(NOT {a.sql})", "boolean", strictly(lambda x: not x, a), a)
        if kind == 2:
            a = self.number(depth - 1)
            return _made(f"({a.sql} IS NULL)", "boolean", lambda row: a.truth(row) is None, a)
        return logic(self._random.choice(["AND", "OR"]), self.condition(depth - 1), self.condition(depth - 1))

    def _binary(self, depth: int) -> Expression:
        return binary(self._random.choice(sorted(_BINARY)), self.number(depth), self.number(depth))

    def _call(self, depth: int) -> Expression:
        return call(self._random.choice(sorted(_CALLS)), self.number(depth))

    def _rounded(self, depth: int) -> Expression:
        a, digits = self.number(depth), self._random.randint(-2, 4)
        return _made(f"round({a.sql}, {digits})", "double", strictly(lambda x: half_away(x, digits), a), a)

    def _negated(self, depth: int) -> Expression:
        a = self.number(depth)
        return _made(f"(-{a.sql})", "double", strictly(lambda x: -x, a), a)

    def _power(self, depth: int) -> Expression:
        a, b = self.number(depth), self._random.randint(-3, 4)
        return _made(f"pow({a.sql}, {b})", "double", strictly(lambda x: power(x, Fraction(b)), a), a)

    def _cast(self, depth: int) -> Expression:  # noqa: ARG002 - of a leaf only: a large number would be an error
        a = self._random.choice([leaf for leaf in self._leaves if leaf.kind == "double"])
        return _made(f"CAST(CAST({a.sql} AS HUGEINT) AS DOUBLE)", "double", strictly(half_even, a), a)

    def _case(self, depth: int) -> Expression:
        return case(self.condition(depth), self.number(depth), self.number(depth))

    def _chosen(self, depth: int) -> Expression:
        a, b = self.number(depth), self.number(depth)
        kind = self._random.randrange(4)
        if kind < 2:
            return extreme(("GREATEST", "LEAST")[kind], a, b)
        return coalesce(a, b) if kind == 2 else nullif(a, b)
