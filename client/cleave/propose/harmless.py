"""Columns that may be proposed plain: an allow-list, because no list of what is sensitive is ever complete.

A name is harmless if *all* of its words are listed and at least one names something harmless. "ward_name" is harmless;
"ward_reason" and "birth month" are not, because their other words may say anything. For text, every value must be
harmless too (see `values`). A name that says less is harmless if its values come from a closed list (currencies, units,
shifts).

English words are those of the TPC-H and TPC-DS dimension tables, the calendar, hospitals' and firms' places, and of
systems that load tables. Words of other languages come from published translations. Unicode's CLDR (dateFields, keys)
has the calendar and currency. Snipe-IT and Open Source POS have department, supplier, manufacturer, city, state,
country, category and quantity. The rest is from tests/samples/columns/known.tsv, and units are by hand. No word comes
from the sets that are held out.

These words are left out on purpose, because they may describe people: colours (of skin), languages, classes, nations,
titles, pages (visited), methods and sites (of treatment), locations, companies (that employ), carriers (of a gene),
releases (from prison), latencies (of nerves), nodes, protocols, jobs, depots (that are injected), inventories (of
symptoms) and articles (of a penal code). So are words that are short for something sensitive, or mean it in another
language: "dia" (diastolic), "ar", "genre" (sex, in French), "النوع" (sex, in Arabic).

Names are cut into words in any script: "date_of_birth", "DateOfBirth" and "Date de naissance" give the same words.
Accents of Latin, Greek and Cyrillic letters are dropped; the vowel signs of other scripts are letters and stay. In a
script that writes no blanks, a run of letters is one word.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise

LISTS = tomllib.loads(files("cleave.propose").joinpath("words.toml").read_text("utf-8"))
_PART = re.compile(r"U+(?!L)|U?L+|9+")
_BETWEEN = frozenset(" \t_-./()")
_ACCENTS = re.compile("[\u0300-\u036f]")


def fold(word: str) -> str:
    """Return a word as the lists hold it: in lower case, without accents."""
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", word.casefold())))


def parts(name: str) -> list[str]:
    """`"GrößeInCm"` -> `["grosse", "in", "cm"]`."""
    text = unicodedata.normalize("NFKC", name)
    return [fold(text[match.start() : match.end()]) for match in _PART.finditer("".join(map(_class, text)))]


def is_legible(name: str) -> bool:
    """Return whether `parts` cover the whole name, with no other sign, symbol or hidden character in it."""
    text = unicodedata.normalize("NFKC", name)
    return all(char in _BETWEEN or _class(char) != " " for char in text)


def runs(name: str) -> frozenset[str]:
    """Return every run of up to four neighbouring parts, joined. Little words inside a run, as in "date_of_birth",
    stay.
    """
    pieces = parts(name)
    return frozenset(
        "".join(pieces[start:stop])
        for start in range(len(pieces))
        for stop in range(start + 1, min(start + 4, len(pieces)) + 1)
    )


def words(text: str) -> frozenset[str]:
    """Return a list of words in the form that `runs` finds. A "_" joins the words of one entry."""
    return frozenset(fold(word.replace("_", "")) for word in text.split())


def _class(char: str) -> str:
    """Return "U" for an upper case letter, "L" for another letter or mark, "9" for a digit, " " for anything else."""
    if char.isupper():
        return "U"
    category = unicodedata.category(char)
    return "9" if category == "Nd" else "L" if category[0] in "LM" else " "


_LISTS = {name: words(text) for name, text in LISTS["harmless"].items()}
PLACE, TRADE, STOCK, CALENDAR = (_LISTS[name] for name in ("place", "trade", "stock", "calendar"))
SYSTEM, CODE, QUANTITY = (_LISTS[name] for name in ("system", "code", "quantity"))
COMPANIONS = CODE | _LISTS["beside"]  # beside a harmless word these are harmless
_UNDER_VALUES = frozenset().union(*(_LISTS[name] for name in ("unit", "state", "environment", "beside_values")))

_LABELS = (
    ("a part of a date", CALENDAR),
    ("a place of work or a region", PLACE),
    ("goods and trade", TRADE | STOCK),
    ("what a system notes of itself", SYSTEM),
)
_HARMLESS = PLACE | TRADE | STOCK | CALENDAR | SYSTEM
_LEAST_PIECE = 4  # letters of a word that is looked for within another; CJK words are whole with two
_LEAST_PIECE_CJK = 2
_CJK = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]+")
_NO_BLANKS = re.compile(r"[\u0600-\u06ff\u0900-\u097f\u3040-\u30ff\u4e00-\u9fff]")  # scripts that stick words together
_QUARTERS = 4


@dataclass(frozen=True, slots=True)
class _Values:
    """A closed list of values.

    At least one of `any_of` must occur, because the other values are also short for other things. If `names` is not
    empty, the column's name must have one of these words, because a size, too, is written "m".
    """

    label: str
    members: frozenset[str]
    any_of: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()

    def cover(self, values: set[str]) -> bool:
        return values <= self.members and (not self.any_of or not self.any_of.isdisjoint(values))


def _values(kind: str, names: frozenset[str] = frozenset()) -> _Values:
    listed = LISTS["values"][kind]
    return _Values(listed["label"], words(listed["known"]), words(listed.get("any_of", "")), names)


_CURRENCIES = _values("currencies")
_MEDIA_TYPE = re.compile(r"(?:application|audio|font|image|multipart|text|video)/[\w.+-]+")  # RFC 6838
# These are short, so they count only where the name says nothing else than that.
_NAMED = tuple(_values(f"{each}s", _LISTS[each]) for each in ("unit", "state", "environment"))
_CONDITION = re.compile(
    "|".join(
        stem if _NO_BLANKS.match(stem) else rf"(?<!\w){stem.replace('~', '[ _-]?')}"
        for stem in sorted(_LISTS["condition"])
    )
)

# What no harmless column holds: a figure with its sign or unit, an answer, a letter for a sex, a blood group.
_FIGURE = re.compile(r"[<>≤≥~±]\s*[\d.,]+.*|.*\d\s*[%‰°]|(?:[€$£¥₹]|[A-Z]{1,3}[$])\s*[\d.,]+|[\d.,]+\s*[€$£¥₹]")


def harmless_name(name: str, different: int) -> str | None:
    """Return the subject of a name if all of its words are harmless. Its column has `different` values."""
    own = words_of(name)
    if not own or not is_legible(name) or _is_numbered_itself(name):
        return None
    if not _LISTS["quarters_or_trimesters"].isdisjoint(own) and different != _QUARTERS:
        return None
    allowed = _HARMLESS | COMPANIONS
    if not (SYSTEM | _LISTS["ships"]).isdisjoint(own):
        allowed |= _LISTS["of_systems"]
    if not (TRADE | STOCK).isdisjoint(own):
        allowed |= QUANTITY
    if not set(own) <= allowed:
        return None
    return next((label for label, listed in _LABELS if not listed.isdisjoint(own)), None)


def numbered(name: str) -> bool:
    """Return whether a harmless name may be one of numbers: a code, a part of a date, a count of goods, a system's
    figure.

    "hospital" 0 or 1 is about someone.
    """
    return of_system(name) or not (CODE | CALENDAR | QUANTITY).isdisjoint(words_of(name))


def of_system(name: str) -> bool:
    """Return whether a harmless name may be that of a truth value, a time or any number, such as "is_deleted",
    "loaded_at" or "stock".

    It needs two words for a system, because "api" and "cpu" are short for other things too.
    """
    said = words_of(name)
    return not STOCK.isdisjoint(said) or (len(parts(name)) > 1 and not SYSTEM.isdisjoint(said))


def is_bare_date(name: str) -> bool:
    """Check whether a harmless name is a part of a date but does not say which date; "fiscal year" does say it."""
    said = set(words_of(name))
    return not said.isdisjoint(CALENDAR) and said.isdisjoint(PLACE | TRADE | STOCK | SYSTEM)


def name_a_condition(values: Sequence[str]) -> bool:
    """Check whether some value of a place, unit, department or product names a disease or a treatment."""
    return any(_CONDITION.search(fold(value)) for value in values)


def of_people_too(name: str) -> bool:
    """Return whether values of a harmless name may single out people if there are many, such as the few in a small
    town.
    """
    return not PLACE.isdisjoint(words_of(name))


def harmless_values(name: str, values: Sequence[str]) -> str | None:
    """Classify the values, if each is in a closed list that says nothing about a person."""
    folded = {fold(value.strip()) for value in values}
    if not folded:
        return None
    if _CURRENCIES.cover(folded):  # these two say nothing about a person, whatever the name is
        return _CURRENCIES.label
    if all(_MEDIA_TYPE.fullmatch(value) for value in folded):
        return "media types"
    said = set(words_of(name))
    if not is_legible(name) or not said <= _UNDER_VALUES | _HARMLESS | COMPANIONS:
        return None
    return next((each.label for each in _NAMED if not each.names.isdisjoint(said) and each.cover(folded)), None)


def are_currencies(values: Sequence[str]) -> bool:
    """Return whether the column of an amount holds only the currencies of amounts."""
    folded = {fold(value.strip()) for value in values}
    return bool(folded) and _CURRENCIES.cover(folded)


def contradicts(sample: Sequence[str]) -> bool:
    """Return whether most values are figures or answers about someone, which no harmless column holds."""
    values = [value.strip() for value in sample]
    contrary = sum(bool(_FIGURE.fullmatch(value)) or fold(value) in _LISTS["answers"] for value in values)
    return 2 * contrary >= len(values)


def _is_numbered_itself(name: str) -> bool:
    """Return whether a part of the name is a number of its own.

    "item 9" is a question of a survey, but "country iso2" is a code of ISO 3166.
    """
    return any(part.isdecimal() and before != "iso" for before, part in pairwise(["", *parts(name)]))


def words_of(name: str) -> list[str]:
    """Return the words of a name without digits. A word made of listed words is cut, and parts of a listed word are
    joined.
    """
    pieces = [part for part in parts(name) if not part.isdecimal()]
    whole = "".join(pieces)
    if whole in _HARMLESS:
        return [whole]
    return [piece for part in pieces for piece in _pieces(part)]


@cache
def _pieces(word: str) -> tuple[str, ...]:
    """Return the parts of a compound word, for languages that join words (German, Dutch, Swedish, Chinese, Japanese).

    "produktkategorie" gives "produkt" and "kategorie". A word stays whole unless listed words make up all of it, so
    "geburtsland" (country of birth) is not taken for "land" (country).
    """
    listed = _HARMLESS | COMPANIONS | QUANTITY | _UNDER_VALUES
    if word in listed:
        return (word,)
    least = _LEAST_PIECE_CJK if _CJK.fullmatch(word) else _LEAST_PIECE
    for cut in range(least, len(word) - least + 1):
        head, rest = word[:cut], word[cut:]
        if head in listed and rest in listed:
            return (head, rest)
    return (word,)
