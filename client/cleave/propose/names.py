"""A column's name cut into words, in any script.

`date_of_birth`, `DateOfBirth` and `Date de naissance` are cut alike. Accents of Latin, Greek and Cyrillic letters go;
the vowel signs of other scripts are letters and stay. Where a script writes no blanks a run of it is one word.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from importlib.resources import files

LISTS = tomllib.loads(files("cleave.propose").joinpath("words.toml").read_text("utf-8"))
_PART = re.compile(r"U+(?!L)|U?L+|9+")
_BETWEEN = frozenset(" \t_-./()")
_ACCENTS = re.compile("[\u0300-\u036f]")


def fold(word: str) -> str:
    """A word as lists hold it: lower case, without accents."""
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", word.casefold())))


def parts(name: str) -> list[str]:
    """`"GrößeInCm"` -> `["grosse", "in", "cm"]`."""
    text = unicodedata.normalize("NFKC", name)
    return [fold(text[match.start() : match.end()]) for match in _PART.finditer("".join(map(_class, text)))]


def is_legible(name: str) -> bool:
    """Return whether `parts` are all there is to a name: no sign, symbol or hidden character stands in it."""
    text = unicodedata.normalize("NFKC", name)
    return all(char in _BETWEEN or _class(char) != " " for char in text)


def runs(name: str) -> frozenset[str]:
    """Every run of up to four neighbouring parts, in one piece; between words, little ones (`date_of_birth`) stay."""
    found = parts(name)
    return frozenset(
        "".join(found[start:stop])
        for start in range(len(found))
        for stop in range(start + 1, min(start + 4, len(found)) + 1)
    )


def words(text: str) -> frozenset[str]:
    """A list of words as `runs` finds them; `_` joins those of one entry."""
    return frozenset(fold(word.replace("_", "")) for word in text.split())


def _class(char: str) -> str:
    """U: upper case, L: any other letter or mark, 9: digit, blank: neither."""
    if char.isupper():
        return "U"
    category = unicodedata.category(char)
    return "9" if category == "Nd" else "L" if category[0] in "LM" else " "
