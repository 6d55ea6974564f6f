"""Counts and sizes as people read them."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def sized(number: int) -> str:
    """A number of bytes, to three digits."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return counted(number, "byte")
