"""Recognise values that say nothing about anyone, by lists for each subject or by the form of codes.

A text column with a harmless name is plain only if every value is harmless. No list of conditions and drugs is ever
complete. This list of harmless values need not be: a value missing here only makes its column unsure.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from cleave.propose import harmless
from cleave.propose.harmless import CALENDAR, LISTS, PLACE, STOCK, SYSTEM, TRADE, fold

_LONGEST = 4  # words of a listed value
_MOST_WORDS = 20  # of a harmless one
_BETWEEN = re.compile(r"(?<!\d)[-_./#()\s]+|[-_./#()\s]+(?!\d)|[_#()\s]+")  # 75622-1 stays one word
_JOINED = re.compile(r"\s*[&+,]\s*|\s+(?:and|und|et|y|e)\s+")
_NUMBER = re.compile(r"\d{1,6}(?:st|nd|rd|th)?|\d{1,3}[^\W\d_]|[^\W\d_]")
_SHORT_CODE = re.compile(r"[^\W\d_]\d|\d{1,3}[^\W\d_]?")  # B2, 3A; two digits after a letter may be a diagnosis: F20
_DIAGNOSIS = re.compile(r"(?:^| )[^\W\d_] ?\d\d")
_PERIOD = re.compile(
    r"(?:(?:19|20)\d\d[-/ ]?)?(?:[qth][1-4]|(?:kw|cw|w)[- ]?\d\d?)(?:[-/ ]?(?:19|20)?\d\d)?"
    r"|(?:19|20)\d\d[-/]\d\d(?:[-/]\d\d)?|(?:fy|gj)[- ]?(?:19|20)?\d\d"
)
_VERSION = re.compile(r"v?\d{1,4}(?:\.\d{1,5}){1,3}(?:-?(?:rc|beta|alpha|a|b)\.?\d{0,3})?")
_CLOUD = re.compile(r"[a-z]{2}-(?:gov-)?(?:north|south|east|west|central|northeast|southeast|northwest|southwest)-?\d?")
_SERIAL = re.compile(r"(?:[^\W\d_]{3,8}|[^\W\d_]{1,8}[-_/ #])(?:\d{1,4}[-_/])*\d{3,8}")
_PLACED = re.compile(r"[^\W\d_]{2,4}\d{1,4}")  # of a place: WH1, DC02
_OWN = re.compile(r"(?P<prefix>[^\W\d_]{2,8}[-_/ #.]?)\d{1,8}|(?P<letter>[^\W\d_])(?:\d|[-_/ #]\d{3,8})")
_THING = re.compile(r"(?:[^\W\d_]{2,8}[-_/ #]?|[^\W\d_][-_/ #])\d{3,8}")  # of a batch or a model
_PRACTICE = re.compile(r"[a-hj-npvwy]\d{5}")  # of the NHS's Organisation Data Service


def _normal(value: str) -> str:
    return re.sub(r"\s+", " ", _BETWEEN.sub(" ", fold(value))).strip()


def _listed(text: str) -> frozenset[str]:
    return frozenset(_normal(word.replace("_", " ")) for word in text.split())


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(files("cleave.propose").joinpath(name).read_text("utf-8"))


_FILE = _read("values.toml")
_COLOURS = {_normal(word): colour for colour, listed in _FILE.pop("colours").items() for word in listed.split()}
_OF = {name: _listed(text) for name, text in _FILE.items()} | {"colour": frozenset(_COLOURS)}
_OF |= {name: _OF[name] | _listed(text) for name, text in _read("cldr.toml").items()}  # in fifteen languages
# colours of triage, of skin, of eyes, and of hair and what a laboratory looks at
_OF_BODIES = tuple(
    frozenset(colours.split())
    for colours in (
        "red orange yellow green blue black",
        "pink blue white grey yellow red brown black purple",
        "blue green brown grey black gold purple",
        "yellow brown red black white grey orange pink green gold silver",
    )
)
_LOINC = frozenset(_FILE["loinc"].split())
_ADJECTIVES = _OF["colour"] | _OF["material"] | _OF["size"]
_STATES = _OF["state"] | frozenset(map(_normal, LISTS["values"]["states"]["known"].split()))
_UNITS = frozenset(map(_normal, LISTS["values"]["units"]["known"].split()))
_NAMES = {name: harmless.words(LISTS["harmless"][name]) for name in ("geographic", "country", "state", "unit")}
_QUALIFIED = PLACE | TRADE | STOCK | SYSTEM
_SAID = {name: harmless.words(LISTS["harmless"][name]) for name in ("shift", "batch", "colour", "model", "source")}


def strange(name: str, values: Sequence[str]) -> int:
    """Count the values that are not known to be harmless, in a column whose name is."""
    said = frozenset(harmless.words_of(name))
    if _are_serial(values) or (not said.isdisjoint(PLACE) and _are_serial(values, _PLACED)) or _are_own(values, said):
        return 0
    return sum(not _is_harmless(value, said) for value in map(_spaced, values))


def of_named_list(name: str, values: Sequence[str]) -> str | None:
    """Describe the values of a column whose name alone says too little, such as "shift" or "model"."""
    said, folded = set(harmless.words_of(name)), [_spaced(value) for value in values]
    if not folded or not harmless.is_legible(name):
        return None
    for label, names, fits in _NAMED:
        if not said.isdisjoint(names) and said <= names | _QUALIFIED | harmless.COMPANIONS | _MORE:
            return label if fits(folded) else None
    return None


def _is_harmless(value: str, said: frozenset[str]) -> bool:
    plain = _normal(value)
    if not plain or _DIAGNOSIS.search(plain):
        return False
    if not said.isdisjoint(CALENDAR) and (_PERIOD.fullmatch(value) or plain in _OF["calendar"]):
        return True
    if not said.isdisjoint(_NAMES["state"]) and plain in _STATES:
        return True
    if not said.isdisjoint(_NAMES["unit"]) and plain in _UNITS:
        return True
    if not said.isdisjoint(SYSTEM) and _of_a_system(value, plain):
        return True
    if _whole(plain, said):
        return True
    return all(_is_part(part, said) for part in _JOINED.split(value))


def _spaced(value: str) -> str:
    return re.sub(r"\s+", " ", fold(value)).strip()


def _of_a_system(value: str, plain: str) -> bool:
    words = plain.split()
    return bool(_VERSION.fullmatch(value) or _CLOUD.fullmatch(value)) or all(
        word in _OF["system"] or _NUMBER.fullmatch(word) for word in words
    )


@cache
def _wholes(said: frozenset[str]) -> frozenset[str]:
    """Return the values that are harmless as a whole under these words."""
    matches = _OF["position"]
    if not said.isdisjoint(PLACE):
        matches |= _OF["place"] | _OF["city"] | _OF["region"] | _OF["department"] | _OF["colour"]
        if not said.isdisjoint(_NAMES["geographic"]):
            matches |= _OF["region_code"]
        if not said.isdisjoint(_NAMES["country"]) and said & (_QUALIFIED - _NAMES["geographic"]):
            matches |= _OF["country"]
    if not said.isdisjoint(TRADE | STOCK):
        matches |= _OF["goods"] | _OF["colour"] | _OF["size"]
    return matches


def _whole(plain: str, said: frozenset[str]) -> bool:
    return plain in _wholes(said) or (plain.endswith("s") and plain[:-1] in _wholes(said) and len(plain) > 3)


def _is_part(part: str, said: frozenset[str]) -> bool:
    """Check whether a value is one thing with words that reveal nothing: "blue shirts", "Berlin North", "Ward 3",
    "Brand#12".
    """
    words = _normal(part).split()
    if not words or len(words) > _MOST_WORDS:
        return False
    of_place, of_trade = not said.isdisjoint(PLACE), not said.isdisjoint(TRADE | STOCK)
    own = (PLACE if of_place else frozenset()) | (TRADE if of_trade else frozenset()) | said
    beside_own = own | _OF["position"] | (_OF["place"] | _OF["colour"] if of_place else frozenset())
    if all(
        word in beside_own or _NUMBER.fullmatch(word) or (of_place and _SHORT_CODE.fullmatch(word)) for word in words
    ):
        digits, letters = (any(test(word) for word in words) for test in (str.isdecimal, _is_letter))
        return of_place or len(words) == 1 or not (digits and letters)  # B 12 is a vitamin
    for start in range(len(words)):
        for stop in range(start + 1, min(start + _LONGEST, len(words)) + 1):
            beside = words[:start] + words[stop:]
            head = " ".join(words[start:stop])
            if of_place and head in _wholes(said) and all(word in beside_own or word.isdecimal() for word in beside):
                return True
            # beside goods no position: a back belt is for a body
            if of_trade and _is_goods(head) and all(word in _ADJECTIVES or word.isdecimal() for word in beside):
                return True
    return False


def _is_letter(word: str) -> bool:
    return len(word) == 1 and word.isalpha()


def _is_goods(head: str) -> bool:
    return head in _OF["goods"] or (head.endswith("s") and head[:-1] in _OF["goods"])


def _are_serial(values: Sequence[str], form: re.Pattern[str] = _SERIAL) -> bool:
    """Check whether values form one series, with the same letters and number of digits: SKU-1001, SKU-1002."""
    matches = [form.fullmatch(_spaced(value)) for value in values]
    shapes = {re.sub(r"\d", "9", each[0]) for each in matches if each}  # the letters too
    return len(values) > 1 and all(matches) and len(shapes) == 1


def _are_own(values: Sequence[str], said: frozenset[str]) -> bool:
    """Check whether values form a series whose letters begin a word of the column's name: P1 and P2 of a product."""
    if not _are_serial(values, _OWN):
        return False
    match = _OWN.fullmatch(_spaced(values[0]))
    return match is not None and any(
        word.startswith((match["prefix"] or match["letter"]).rstrip("-_/ #.")) for word in said
    )


def _all(test: Callable[[str], object]) -> Callable[[Sequence[str]], bool]:
    return lambda values: all(test(value) for value in values)


def _are_colours(values: Sequence[str]) -> bool:
    """Check whether these are colours of things: no such set occurs for triage, skin, eyes or hair."""
    colours = {_COLOURS.get(_normal(value), "") for value in values}
    return "" not in colours and not any(colours <= bodies for bodies in _OF_BODIES)


def _is_model(value: str) -> bool:
    return bool(re.fullmatch(r"(?:model|modell|modele|modelo) (?:\d{1,4}|[a-z])", _normal(value)))


def _is_lot(value: str) -> bool:
    words = _normal(value).split()
    return bool(_PERIOD.fullmatch(value)) or all(
        word in _SAID["batch"] or re.fullmatch(r"\d{1,8}|[a-z]", word) for word in words
    )


def _is_shift(value: str) -> bool:
    words = _normal(value).split()
    return all(
        word in _OF["shift"] | _SAID["shift"] or re.fullmatch(r"\d(?:st|nd|rd|th)?|[a-z]", word) for word in words
    )


_MORE = frozenset(("system", "of", "code", "codes", "name", "number", "id", "site"))
_NAMED: tuple[tuple[str, frozenset[str], Callable[[Sequence[str]], bool]], ...] = (
    ("LOINC codes of what is measured of nearly everyone", frozenset(["loinc"]), _all(lambda one: one in _LOINC)),
    ("codes of GP practices", harmless.words(LISTS["harmless"]["practice"]), _all(_PRACTICE.fullmatch)),
    ("shifts of a day", _SAID["shift"], _all(_is_shift)),
    ("colours of goods", _SAID["colour"], _are_colours),
    ("numbers of batches", _SAID["batch"], lambda values: _are_serial(values, _THING) or all(map(_is_lot, values))),
    ("models by number", _SAID["model"], lambda values: _are_serial(values, _THING) or all(map(_is_model, values))),
    ("names of systems", _SAID["source"], _all(lambda one: _normal(one) in _OF["source"])),
)
