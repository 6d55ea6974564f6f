"""The owner's choices for a noisy release, as Python and the command line give them."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from cleave.disclosure.noise import micros
from cleave.releases.kind import Choices
from cleave_shared.errors import InputError, UsageError

_CLAMP = "write --clamp COLUMN=LOW..HIGH, as in bill=0..5000"
_VALUES = "write --values COLUMN=A,B,..., as in 'ward=A,\"B, east\",C': a value with a comma is in double quotes"
_SPLIT = "write --split NUMBER=SHARE,..., as in rows=1,bill.sum=3"


@dataclass(frozen=True, slots=True)
class NoisyChoices(Choices):
    """`epsilon`: in millionths. `clamps`: measure -> both bounds as text. `values`: column -> values instead of the
    schema's. `split`: statistic -> its share of epsilon. `again`: draw even if the last change of the table was the
    same release.
    """

    KIND: ClassVar = "noisy"

    epsilon: int
    most_rows: int
    clamps: Mapping[str, tuple[str, str]]
    values: Mapping[str, Sequence[str]]
    split: Mapping[str, int]
    squares: bool = False
    again: bool = False


def noisy_choices(given: Mapping[str, Any]) -> NoisyChoices:
    """The choices that options make. Raises UsageError, InputError."""
    if given["most_rows"] is None:
        raise UsageError("--epsilon needs --most-rows: how many rows of one person may count")
    if type(given["most_rows"]) is not int:  # a bool is one
        raise InputError("--most-rows: must be a whole number of rows")
    return NoisyChoices(
        epsilon=micros(str(given["epsilon"]), "--epsilon"),
        most_rows=given["most_rows"],
        clamps={name: _ends(ends) for name, ends in _pairs(given["clamp"], _CLAMP).items()},
        values={name: _texts(texts) for name, texts in _pairs(given["values"], _VALUES).items()},
        split=_shares(given["split"]),
        squares=given["squares"],
        again=given["again"],
    )


def _pairs(given: Mapping[str, Any] | Sequence[str] | None, hint: str) -> dict[str, Any]:
    if isinstance(given, Mapping):
        return dict(given)
    pairs: dict[str, Any] = {}
    for text in [given] if isinstance(given, str) else given or ():
        name, sign, value = str(text).partition("=")
        if not (name and sign and value) or name in pairs:
            raise InputError(f"{text!r}: a column and its values are expected, each column once", hint=hint)
        pairs[name] = value
    return pairs


def _ends(ends: Any) -> tuple[str, str]:
    is_pair = isinstance(ends, list | tuple)
    pair = (
        ends.split("..")
        if isinstance(ends, str)
        else [str(each + 0) if isinstance(each, bool) else str(each) for each in ends]
        if is_pair
        else []
    )
    if len(pair) != 2 or not all(pair):
        raise InputError(f"--clamp: {ends!r} is no pair of bounds", hint=_CLAMP)
    return pair[0], pair[1]


def _texts(texts: Any) -> list[str]:
    try:
        values = next(csv.reader([texts], strict=True)) if isinstance(texts, str) else texts
    except csv.Error:
        raise InputError("--values: the values of a column cannot be read", hint=_VALUES) from None
    if not isinstance(values, list | tuple) or None in values:
        raise InputError("--values: a column needs a list of values; NULL has cells where the schema allows it")
    return [str(each).lower() if isinstance(each, bool) else str(each) for each in values]


def _shares(given: Mapping[str, int] | Sequence[str] | None) -> dict[str, int]:
    words = given if isinstance(given, Mapping) else [part for text in given or () for part in text.split(",")]
    shares: dict[str, int] = {}
    for name, share in _pairs(words, _SPLIT).items():
        if not str(share).isascii() or not str(share).isdigit() or not 0 < int(share) <= 1_000_000:
            raise InputError(f"--split {name}: must be a whole number from 1 to 1,000,000", hint=_SPLIT)
        shares[name] = int(share)
    return shares
