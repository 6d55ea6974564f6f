"""Columns that may be proposed plain: an allow-list, because no list of what is sensitive is ever complete.

A name is harmless if *all* of its words are listed and one at least names something harmless: "ward_name" is, while
"ward_reason" and `birth month` are not, since their other words may say anything. Every value of a text must be
harmless, too (`values`). A name that says less is harmless if its values are of a closed list (currencies, units,
shifts).

English words are those of the TPC-H and TPC-DS dimension tables, the calendar, hospitals' and firms' places, and of
systems that load tables. Words of other languages come from published translations. Unicode's CLDR (dateFields, keys)
has the calendar and currency. Snipe-IT and Open Source POS have department, supplier, manufacturer, city, state,
country, category and quantity. The rest is from tests/samples/columns/known.tsv, and units are by hand. No word comes
from the sets that are held out.

Left out on purpose: colours (of skin), languages, classes, nations, titles, pages (visited), methods and sites (of
treatment), locations, companies (that employ), carriers (of a gene), releases (from prison), latencies (of nerves),
nodes, protocols, jobs, depots (that are injected), inventories (of symptoms), articles (of a penal code); and words
that are short for, or mean in another language, what is not: "dia" (diastolic), "ar", "genre" (sex, in French),
"النوع" (sex, in Arabic).

A column's name cut into words, in any script.

"date_of_birth", "DateOfBirth" and `Date de naissance` are cut alike. Accents of Latin, Greek and Cyrillic letters go;
the vowel signs of other scripts are letters and stay. Where a script writes no blanks a run of it is one word.
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
    """Every run of up to four neighbouring parts, in one piece; between words, little ones ("date_of_birth") stay."""
    pieces = parts(name)
    return frozenset(
        "".join(pieces[start:stop])
        for start in range(len(pieces))
        for stop in range(start + 1, min(start + 4, len(pieces)) + 1)
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
    """A closed list; `any_of`: one of them at least must occur, since the others are short for other things, too.

    `names`: words of which a name must have one, since a size is written "m", too.
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
    """Return the subject of a name, where all of its words are harmless; its column has `different` values."""
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
    """Return whether a harmless name may be one of a truth value, a moment or any number: "is_deleted", "loaded_at",
    `stock`.

    One word does not make a system: "api" and "cpu" are short for other things, too.
    """
    said = words_of(name)
    return not STOCK.isdisjoint(said) or (len(parts(name)) > 1 and not SYSTEM.isdisjoint(said))


def is_bare_date(name: str) -> bool:
    """Check whether a harmless name is a part of a date and does not say of what date, as `fiscal year` does."""
    said = set(words_of(name))
    return not said.isdisjoint(CALENDAR) and said.isdisjoint(PLACE | TRADE | STOCK | SYSTEM)


def name_a_condition(values: Sequence[str]) -> bool:
    """Check whether a value of a place, unit, department or product names what someone is treated for, or with."""
    return any(_CONDITION.search(fold(value)) for value in values)


def of_people_too(name: str) -> bool:
    """Return whether many different values under a harmless name may single out rows: the few in a small town."""
    return not PLACE.isdisjoint(words_of(name))


def harmless_values(name: str, values: Sequence[str]) -> str | None:
    """Classify the values, where every one is of a closed list that says nothing about a person."""
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
    """Return whether an amount's column holds but the currencies of amounts."""
    folded = {fold(value.strip()) for value in values}
    return bool(folded) and _CURRENCIES.cover(folded)


def contradicts(sample: Sequence[str]) -> bool:
    """Return whether most values are such as no harmless column has: figures or answers about someone."""
    values = [value.strip() for value in sample]
    contrary = sum(bool(_FIGURE.fullmatch(value)) or fold(value) in _LISTS["answers"] for value in values)
    return 2 * contrary >= len(values)


def _is_numbered_itself(name: str) -> bool:
    """`item 9` is a question of a survey; `country iso2` is a code of ISO 3166."""
    return any(part.isdecimal() and before != "iso" for before, part in pairwise(["", *parts(name)]))


def words_of(name: str) -> list[str]:
    """Words of a name without its digits; a word made of listed words is cut, and parts of a listed word are joined."""
    pieces = [part for part in parts(name) if not part.isdecimal()]
    whole = "".join(pieces)
    if whole in _HARMLESS:
        return [whole]
    return [piece for part in pieces for piece in _pieces(part)]


@cache
def _pieces(word: str) -> tuple[str, ...]:
    """Parts of a compound word, for languages that join words (German, Dutch, Swedish, Chinese, Japanese):
    "produktkategorie" gives "produkt" and "kategorie".

    A word stays whole unless listed words make up all of it: "geburtsland" is not a land.
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
