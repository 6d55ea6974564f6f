"""Rounds a decrypted total before anything is computed from it, so that no answer can hold a raw phase.

A decrypted total of a real column is the data's plus noise, and its last digits are the noise's: printed in full, some
thousands of such figures give the secret key by elimination (docs/ckks.md section 8). Every aggregate, every composite,
every decision and every digit shown is made from the rounded total instead, whatever is asked and in how many ways.
"""

from __future__ import annotations

from fractions import Fraction


def snapped(value: Fraction, bound: Fraction) -> tuple[Fraction, Fraction]:
    """`value`, off by at most `bound` > 0, at the nearest multiple of a unit, and the bound of that.

    The unit is the power of two in (bound / 2, bound], which is 3.77 to 7.54 standard deviations of the noise: totals
    of the same data under different noise mostly come out the same. The bound grows by half a unit.
    """
    unit = grid(bound)
    return round(value / unit) * unit, bound + unit / 2


def grid(bound: Fraction) -> Fraction:
    """The largest power of two that is not above `bound` > 0."""
    power = bound.numerator.bit_length() - bound.denominator.bit_length()
    unit = Fraction(2) ** power
    return unit if unit <= bound else unit / 2
