"""Arguments of a noisy release, as Python and the command line give them."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cleave.ask.config import config_folder
from cleave.ask.options import Releasing
from cleave.disclosure.noise import micros
from cleave.files import expanded, names_file
from cleave.logins.users import read_users
from cleave.releases.noisy_draft import Noise
from cleave_shared.errors import InputError, UsageError

_OWN = {
    "most_rows": "--most-rows",
    "clamp": "--clamp",
    "values": "--values",
    "split": "--split",
    "squares": "--squares",
    "again": "--again",
}
_CLAMP = "write --clamp COLUMN=LOW..HIGH, as in bill=0..5000"
_VALUES = "write --values COLUMN=A,B,..., as in 'ward=A,\"B, east\",C': a value with a comma is in double quotes"
_SPLIT = "write --split NUMBER=SHARE,..., as in rows=1,bill.sum=3"


def noise_of(options: Releasing) -> Noise | None:
    """The noisy release that options describe; None: an exact one. Raises UsageError for options of the other kind."""
    given: Mapping[str, Any] = options
    if options["epsilon"] is None:
        for name, words in _OWN.items():
            if given[name] not in (None, False):
                raise UsageError(f"{words} is of noisy releases: give --epsilon too")
        return None
    for name, words in (("min_cell", "--min-cell"), ("new_lineage", "--new-lineage")):
        if given[name]:
            raise UsageError(f"{words} is of exact releases: leave it out, or --epsilon")
    if options["most_rows"] is None:
        raise UsageError("--epsilon needs --most-rows: how many rows of one person may count")
    if type(options["most_rows"]) is not int:  # a bool is one
        raise InputError("--most-rows: must be a whole number of rows")
    return Noise(
        epsilon=micros(str(options["epsilon"]), "--epsilon"),
        most_rows=options["most_rows"],
        clamps={name: _ends(ends) for name, ends in _pairs(options["clamp"], _CLAMP).items()},
        values={name: _texts(texts) for name, texts in _pairs(options["values"], _VALUES).items()},
        split=_shares(options["split"]),
        squares=options["squares"],
        again=options["again"],
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


def users_of(table: str, path: Path | None = None) -> list[str]:
    """Users of a gateway on this machine who may query a table: they get answers without noise."""
    file = expanded(path or config_folder() / "users.toml")
    if not names_file(file):
        return []
    return [
        name
        for name, user in read_users(file).users.items()
        if user.tables is None or table.lower() in (each.lower() for each in user.tables)
    ]
