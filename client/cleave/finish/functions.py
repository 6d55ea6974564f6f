"""DuckDB's scalar functions and casts of numbers, on one alternative each. Checked against DuckDB 2.0."""

from __future__ import annotations

import math
from collections.abc import Callable

from flint import arb, fmpq

from cleave.aggregates.balls import Number, nearest, rational
from cleave.finish import numbers
from cleave.finish.numbers import ONE, ZERO, Special, ball, ends
from cleave.finish.values import Atom, Computed, Value, strict
from cleave.table.types import FLOATS, decimals_of, is_integer, is_numeric, range_of

_INFINITE = (Special.UP, Special.DOWN)
_FLIPPED = {Special.UP: Special.DOWN, Special.DOWN: Special.UP}


def number(atom: Atom) -> Atom:
    """A boolean as a number."""
    return fmpq(int(atom)) if isinstance(atom, bool) else atom


def _real(
    function: Callable[[Number], Computed], up: Atom = Special.UNKNOWN, down: Atom = Special.UNKNOWN
) -> Callable[..., Computed]:
    """Lift a function of one number: `up` and `down` are its values at the infinities; NaN gives NaN."""

    def lifted(atom: Atom) -> Computed:
        value = number(atom)
        if isinstance(value, fmpq | arb):
            return function(value)
        return {Special.NAN: Special.NAN, Special.UP: up, Special.DOWN: down}.get(value, Special.UNKNOWN)  # type: ignore[arg-type]

    return strict(lifted)


def _sign_of(atom: Atom) -> int | None:
    """The sign of a number; None if the bounds do not decide it."""
    if atom is Special.UP:
        return 1
    if atom is Special.DOWN:
        return -1
    if not isinstance(atom, fmpq | arb):
        return None
    low, high = ends(atom)
    return 1 if low > 0 else -1 if high < 0 else 0 if low == high else None


def _infinity(sign: int) -> Special:
    return Special.UP if sign > 0 else Special.DOWN


@strict
def add(one: Atom, other: Atom) -> Computed:
    a, b = number(one), number(other)
    if isinstance(a, fmpq | arb) and isinstance(b, fmpq | arb):
        return a + b
    if Special.NAN in (a, b):
        return Special.NAN
    infinite = [each for each in (a, b) if each in _INFINITE]
    if len(infinite) == 2 and infinite[0] is not infinite[1]:
        return Special.NAN
    return infinite[0] if infinite else Special.UNKNOWN


@strict
def negate(one: Atom) -> Computed:
    a = number(one)
    if isinstance(a, fmpq | arb):
        return -a
    return _FLIPPED.get(a, a) if isinstance(a, Special) else Special.UNKNOWN


@strict
def subtract(one: Atom, other: Atom) -> Computed:
    return add(one, negate(other))


@strict
def multiply(one: Atom, other: Atom) -> Computed:
    a, b = number(one), number(other)
    if isinstance(a, fmpq | arb) and isinstance(b, fmpq | arb):
        return a * b
    if Special.NAN in (a, b):
        return Special.NAN
    signs = _sign_of(a), _sign_of(b)
    if signs[0] is None or signs[1] is None:
        return Special.UNKNOWN
    sign = signs[0] * signs[1]
    return _infinity(sign) if sign else Special.NAN


def divide(plus_zero: bool, *, whole: bool = False) -> Callable[..., Computed]:
    """Division of DOUBLEs. `plus_zero`: a zero divisor is certainly not -0.0. `whole`: the operator //, which fails for
    0.
    """

    @strict
    def divided(one: Atom, other: Atom) -> Computed:
        a, b = number(one), number(other)
        if Special.NAN in (a, b):
            return Special.NAN
        if isinstance(b, fmpq | arb):
            sign = _sign_of(b)
            if sign is None:
                return Special.UNKNOWN  # the ball contains 0
            if sign == 0:
                if whole:
                    return Special.FAILED
                above = _sign_of(a)
                if above == 0:
                    return Special.NAN
                return _infinity(above) if above and plus_zero else Special.UNKNOWN
            if isinstance(a, fmpq | arb):
                return a / b
            return _infinity(sign * (_sign_of(a) or 0)) if a in _INFINITE else Special.UNKNOWN
        if isinstance(a, fmpq | arb):
            return ZERO if b in _INFINITE else Special.UNKNOWN
        return Special.NAN

    return divided


@strict
def divide_whole(one: Atom, other: Atom) -> Computed:
    """The operator

    of integers.
    """
    a, b = number(one), number(other)
    if not isinstance(a, fmpq | arb) or not isinstance(b, fmpq | arb):
        return Special.UNKNOWN
    sign = _sign_of(b)
    if not sign:
        return Special.UNKNOWN if sign is None else Special.FAILED
    return numbers.stepped(a / b, numbers.inwards)


def modulo(floats: bool) -> Callable[..., Computed]:
    @strict
    def remainder(one: Atom, other: Atom) -> Computed:
        a, b = number(one), number(other)
        if Special.NAN in (a, b) or a in _INFINITE:
            return Special.NAN
        if b in _INFINITE:
            return a
        if not isinstance(a, fmpq | arb) or not isinstance(b, fmpq | arb):
            return Special.UNKNOWN
        sign = _sign_of(b)
        if not sign:
            return Special.UNKNOWN if sign is None else Special.NAN if floats else Special.FAILED
        if floats:
            a, b = numbers.as_double(a), numbers.as_double(b)
        atoms, torn = numbers.remainder(a, b)
        return Value(atoms, torn)

    return remainder


@strict
def power(one: Atom, other: Atom) -> Computed:
    a, b = number(one), number(other)
    if isinstance(b, fmpq) and b == 0:
        return ONE
    if isinstance(a, fmpq | arb) and isinstance(b, fmpq | arb):
        return numbers.power(a, b)
    return Special.UNKNOWN


@strict
def logarithm_to(base: Atom, one: Atom) -> Computed:
    """log(base, x), computed as ln x / ln base."""
    return combined(divide(plus_zero=True), _real(numbers.logarithm)(base), _real(numbers.logarithm)(one))


def combined(function: Callable[..., Computed], below: Computed, above: Computed) -> Computed:
    results: list[Atom] = []
    for low in below if isinstance(below, tuple) else (below,):
        for high in above if isinstance(above, tuple) else (above,):
            result = function(high, low)
            results.extend(result if isinstance(result, tuple) else (result,))  # type: ignore[arg-type]
    return tuple(results)


@strict
def angle(one: Atom, other: Atom) -> Computed:
    a, b = number(one), number(other)
    if isinstance(a, fmpq | arb) and isinstance(b, fmpq | arb) and _sign_of(b):
        return arb.atan2(ball(a), ball(b))
    return Special.UNKNOWN


def is_special(*specials: Special, negated: bool = False) -> Callable[..., Computed]:
    """A function that tests for these special values of a DOUBLE."""

    @strict
    def matches(atom: Atom) -> Computed:
        if not isinstance(atom, fmpq | arb):
            return (atom in specials) != negated
        held = {math.isinf(nearest(end)) and Special.UP in specials for end in ends(atom)}
        return tuple(each != negated for each in held)

    return matches


def _sign(value: Number) -> Computed:
    low, high = (numbers.sign(end) for end in ends(value))
    return tuple(fmpq(each) for each in range(low, high + 1))


@strict
def sign(one: Atom) -> Computed:
    value = number(one)
    if isinstance(value, fmpq | arb):
        return _sign(value)
    return {Special.UP: ONE, Special.DOWN: -ONE, Special.NAN: ZERO}.get(value, Special.UNKNOWN)  # type: ignore[arg-type]


def rounding(step: Callable[[fmpq], int], digits: int = 0, *, floats: bool) -> Callable[..., Computed]:
    """ROUND and similar functions, to `digits` decimals. `floats`: the argument is a DOUBLE."""
    unit = fmpq(10) ** -digits

    def stepped(value: Number) -> Computed:
        return numbers.stepped(numbers.as_double(value) if floats else value, step, unit)

    return _real(stepped, Special.UP, Special.DOWN)


def _inverse(function: Callable[[arb], arb], low: int, high: int) -> Callable[[Number], Computed]:
    """Lift a monotonic function defined from `low` to `high`; NaN elsewhere."""

    def limited(value: Number) -> Computed:
        least, most = ends(value)
        if most < low or least > high:
            return Special.NAN
        if least < low or most > high:
            return Special.UNKNOWN
        return function(ball(value))

    return limited


def _smooth(function: Callable[[arb], arb]) -> Callable[[Number], Computed]:
    return lambda value: function(ball(value))


def _absolute(value: Number) -> Number:
    if isinstance(value, fmpq):
        return -value if value < 0 else value
    return numbers.not_negative(abs(value))


UNARY: dict[str, Callable[..., Computed]] = {
    "abs": _real(_absolute, Special.UP, Special.UP),
    "sqrt": _real(numbers.root, Special.UP, Special.NAN),
    "cbrt": _real(numbers.cube_root, Special.UP, Special.DOWN),
    "exp": _real(lambda value: ONE if value == 0 else ball(value).exp(), Special.UP, ZERO),
    "ln": _real(numbers.logarithm, Special.UP, Special.NAN),
    "log": _real(lambda value: numbers.logarithm(value, 10), Special.UP, Special.NAN),
    "log10": _real(lambda value: numbers.logarithm(value, 10), Special.UP, Special.NAN),
    "log2": _real(lambda value: numbers.logarithm(value, 2), Special.UP, Special.NAN),
    "sin": _real(_smooth(arb.sin)),
    "cos": _real(_smooth(arb.cos)),
    "tan": _real(_smooth(arb.tan)),
    "cot": _real(_smooth(arb.cot)),
    "asin": _real(_inverse(arb.asin, -1, 1)),
    "acos": _real(_inverse(arb.acos, -1, 1)),
    "atan": _real(_smooth(arb.atan)),
    "sinh": _real(_smooth(arb.sinh), Special.UP, Special.DOWN),
    "cosh": _real(_smooth(arb.cosh), Special.UP, Special.UP),
    "tanh": _real(_smooth(arb.tanh), ONE, -ONE),
    "asinh": _real(_smooth(arb.asinh), Special.UP, Special.DOWN),
    "degrees": _real(lambda value: ball(value) * 180 / arb.pi()),
    "radians": _real(lambda value: ball(value) * arb.pi() / 180),
    "sign": sign,
}
"""By name, of one argument. Arb's functions give a ball without end at a pole, which is unknown."""

ROUNDINGS: dict[str, Callable[[fmpq], int]] = {
    "round": numbers.half_away,
    "round_even": numbers.half_even,
    "roundbankers": numbers.half_even,
    "floor": numbers.down,
    "ceil": numbers.up,
    "ceiling": numbers.up,
    "trunc": numbers.inwards,
}


def span(type_: str) -> tuple[fmpq, fmpq] | None:
    """The smallest and largest value of an exact type; None for other types."""
    decimals = decimals_of(type_)
    if decimals is None or type_ == "BOOLEAN":
        return None
    least, largest = range_of(type_)
    return fmpq(least, 10**decimals), fmpq(largest, 10**decimals)


def in_range(type_: str) -> Callable[[Atom], Computed]:
    """A function that checks the result of exact arithmetic: it fails outside the type's range."""
    limits = span(type_)

    def checked(atom: Atom) -> Computed:
        if limits is None or not isinstance(atom, fmpq | arb):
            return atom
        low, high = ends(atom)
        if low >= limits[0] and high <= limits[1]:
            return atom
        return Special.FAILED if low > limits[1] or high < limits[0] else Special.UNKNOWN

    return checked


def cast(source: str, target: str) -> Callable[..., Computed] | None:
    """A function that casts; None for unsupported types: text, dates and others."""
    if not (is_numeric(source) or source == "BOOLEAN"):
        return None
    if target == "BOOLEAN":
        return _truth
    if target == "DOUBLE":
        return strict(number)
    if target == "FLOAT":
        return _single
    limits = span(target)
    if limits is None:
        return None
    unit = fmpq(10) ** -(decimals_of(target) or 0) if not is_integer(target) else numbers.ONE
    step = numbers.half_even if source in FLOATS and is_integer(target) else numbers.half_away
    checked = in_range(target)

    @strict
    def rounded(atom: Atom) -> Computed:
        value = number(atom)
        if not isinstance(value, fmpq | arb):
            return Special.FAILED if isinstance(value, Special) else Special.UNKNOWN
        wide = numbers.as_double(value) if source in FLOATS else value
        results: list[Atom] = []
        for each in numbers.stepped(wide, step, unit):
            result = checked(each)
            results.extend(result if isinstance(result, tuple) else (result,))  # type: ignore[arg-type]
        return tuple(results)

    return rounded


@strict
def _truth(atom: Atom) -> Computed:
    if isinstance(atom, bool):
        return atom
    if not isinstance(atom, fmpq | arb):
        return True if isinstance(atom, Special) else Special.UNKNOWN
    low, high = ends(atom)
    if low == high:
        return low != 0
    return True if low > 0 or high < 0 else (True, False)


@strict
def _single(atom: Atom) -> Computed:
    value = number(atom)
    return single(value) if isinstance(value, fmpq | arb) else value


def single(value: Number) -> Number | Special:
    """Round to a FLOAT; fails outside its range."""
    doubles = [numbers.nearest_single(nearest(end)) for end in ends(value)]
    if any(abs(double) == float("inf") for double in doubles):
        return Special.UNKNOWN if doubles[0] != doubles[1] else Special.FAILED
    return numbers.between(*map(rational, doubles))
