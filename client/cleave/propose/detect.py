"""Propose which columns are sensitive, with reasons. A person decides.

The proposal errs on the safe side. A column is plain only if every word of its name is harmless (see `harmless`) and,
for text, every value is too (see `values`). Otherwise numbers are encrypted and text is sealed. A column is unsure if a
person may know it to be harmless: text, dates and whole numbers with few values, which are useful to group and filter
by. Columns with many values, and measurements, are never unsure. Names of people are sealed, so that `cleave pull` can
return them. Free text stays local: it may say anything, cannot be summed, and encryption does not hide its length. No
reason quotes a value.

Sensitive words in column names are known in English, German, French and Spanish, and some in other languages. They only
give a reason and the most useful kind; a missing word never makes a column plain (see `harmless`). Every run of
neighbouring parts of a name is looked up, so "date_of_birth", "DateOfBirth", "dateofbirth" and "Date de naissance" are
all found. Words inside a part are not: "page" does not contain "age".
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import pairwise

import stdnum.iban
import stdnum.luhn

from cleave.propose import harmless, values
from cleave.propose.harmless import LISTS, parts, runs, words
from cleave.table.schema import Kind
from cleave.table.types import TIMES, ZONED, is_number

_LONG = 40  # characters on average, above which text is not a category
MANY = 100  # different values, above which text or a code is not a category
CHECKED = 10_000  # different values of a column with a harmless name, up to which each is checked
_FEW = 20  # different whole numbers, up to which they may be codes of a category
_LEAST = 20  # rows, below which values do not show how a column repeats
_GROUP = 5  # rows a category has on average, below which it may single people out
_YEAR_DIGITS = 4
_FIRST_YEAR, _LAST_YEAR = 1850, 2100  # other numbers of four digits are codes
_LIFETIME = 40  # years that only birth dates span


FieldShape = tuple[int, int, bool]  # how many fields, the first row, any with leading zeros


@dataclass(slots=True)
class ColumnFacts:
    """What is known of a column: `filled` rows that are not NULL, `distinct` values, lengths in characters.

    `sample` holds some fields as written, without NULLs, and `values` every different value if there are few. `note`
    tells the reviewer what came up while reading. `unit` and `format` say how its numbers or dates are written, and
    `tokens` which of its fields mean NULL. `shapes` holds its fields without their unit, with each digit replaced by 9.
    `changed` is a field, and the different text that it becomes when written back; only a terminal shows it.
    """

    name: str
    type: str
    filled: int
    distinct: int
    average_length: float
    longest: int
    sample: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    note: str = ""
    unit: str = ""
    format: str | None = None
    tokens: tuple[str, ...] = ()
    shapes: dict[str, FieldShape] = field(default_factory=dict)
    changed: tuple[str, str] | None = None

    @property
    def repeats(self) -> bool:
        """Return whether an average value occurs in several rows, so that it singles out none."""
        return self.filled >= _GROUP * self.distinct and self.average_length <= _LONG

    @property
    def is_category(self) -> bool:
        return self.distinct <= MANY and self.repeats

    @property
    def is_unique(self) -> bool:
        return self.filled > 1 and self.distinct >= 0.99 * self.filled


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposed kind. `unsure` means that the kind is the safe one, and that a person may know a more useful one."""

    kind: Kind
    reason: str
    unsure: bool = False


def propose_kind(facts: ColumnFacts) -> Proposal:
    """Return the kind proposed for a column, and why."""
    if not facts.sample:
        return Proposal(Kind.SEALED, "holds no value to judge by", unsure=True)
    said = runs(facts.name)
    if said & TOPICS["secret"].words:
        return Proposal(Kind.LOCAL, f"name says: {TOPICS['secret'].label}")
    return _by_values(facts, said) or _by_name(facts, said) or _harmless(facts) or _safe(facts, said)


def _by_values(facts: ColumnFacts, said: frozenset[str]) -> Proposal | None:
    if facts.type == "VARCHAR":
        # record numbers with leading zeros are written like phone numbers, but for signs
        bare = bool(said & IDENTIFIER) and all(value.strip().isdecimal() for value in facts.sample)
        reason = identifying(facts.sample, phones=not bare)
    elif facts.type == "BIGINT":
        reason = identifying_number(facts.sample)
    else:
        reason = ""
    return Proposal(Kind.SEALED, reason) if reason else None


def _by_name(facts: ColumnFacts, said: frozenset[str]) -> Proposal | None:
    """Return the proposal for a sensitive name, or for free text."""
    if names_a_person(facts.name):
        return Proposal(Kind.SEALED, "name says: a name of a person")
    is_text = facts.type == "VARCHAR"
    is_free_text = is_text and facts.average_length > _LONG and not facts.is_category
    for name, topic in TOPICS.items():
        if said & topic.words:
            if name == "money" and is_text and harmless.are_currencies(facts.values):
                continue
            if name == "care" and facts.type not in TIMES and said & IDENTIFIER:
                continue
            if is_free_text and name != "address":
                break
            kind = topic.kind(facts.type)
            label = "care or death" if name == "care" and facts.type not in TIMES else topic.label
            return Proposal(kind, f"name says: {label}")
    if is_free_text:
        return Proposal(Kind.LOCAL, "long text that differs from row to row: it may say anything")
    if is_text and (reason := names_of_people(facts.sample)) and not _is_known(facts):
        return Proposal(Kind.SEALED, reason)
    if is_text and said & FREE_TEXT:
        return Proposal(Kind.LOCAL, "name says: free text")
    if said & IDENTIFIER and said & PERSON:
        return Proposal(Kind.SEALED, "name says: an identifier of a person")
    return None


def _harmless(facts: ColumnFacts) -> Proposal | None:
    """Return a proposal of plain, if all is harmless. No other function makes a column plain."""
    if not facts.repeats:
        return None
    figures = f"{facts.distinct} different value{'' if facts.distinct == 1 else 's'} in {facts.filled} rows"
    if label := harmless.harmless_name(facts.name, facts.distinct):
        if not _may_be_plain(facts):
            return None
        if doubt := _doubt(facts):
            kind = Kind.ENCRYPTED if is_number(facts.type) or facts.type == "BOOLEAN" else Kind.SEALED
            return Proposal(kind, f"name says: {label}, but {doubt}: unsure", unsure=True)
        return Proposal(Kind.PLAIN, f"name says: {label}; {figures}")
    if facts.type == "VARCHAR" and (label := _listed(facts)):
        return Proposal(Kind.PLAIN, f"values are {label}; {figures}")
    return None


def _listed(facts: ColumnFacts) -> str | None:
    """Describe the values if each is in a list, or has a form, that says nothing about a person."""
    return harmless.harmless_values(facts.name, facts.values) or values.of_named_list(facts.name, facts.values)


def _doubt(facts: ColumnFacts) -> str:
    """Return a reason against trusting a harmless name; "" for none."""
    if facts.type != "BOOLEAN" and harmless.contradicts(facts.sample):
        return "half of its values or more are figures or answers about someone"
    if _spans_a_lifetime(facts):
        return f"its years are {_LIFETIME} or more apart, as years of birth are"
    if harmless.is_bare_date(facts.name):
        return "not of what: it may be of a birth or a diagnosis"
    if facts.type == "VARCHAR" and harmless.name_a_condition(facts.values or facts.sample):
        return "some of its values name a medical unit, a condition or a drug"
    if facts.type == "VARCHAR" and not _listed(facts):
        return _strange(facts)
    return ""


def _is_known(facts: ColumnFacts) -> bool:
    """Check whether all words of the name and all values are harmless; "Brand A" looks like a person's name
    and is not.
    """
    if _listed(facts):
        return True
    named = harmless.harmless_name(facts.name, facts.distinct)
    return bool(named and facts.values and not values.strange(facts.name, facts.values))


def _strange(facts: ColumnFacts) -> str:
    if not facts.values:
        return f"its {facts.distinct} different values are too many to check"
    count = values.strange(facts.name, facts.values)
    return (
        f"{count} of its {len(facts.values)} values {'is' if count == 1 else 'are'} on no list of harmless ones"
        if count
        else ""
    )


def _may_be_plain(facts: ColumnFacts) -> bool:
    """Return whether a column with a harmless name has a type that fits it, and no more values than such
    columns have.
    """
    if facts.distinct > MANY and harmless.of_people_too(facts.name):
        return False
    if facts.type in ("BOOLEAN", "TIMESTAMP", ZONED):
        return harmless.of_system(facts.name)
    if is_number(facts.type):
        return harmless.numbered(facts.name) and (facts.type == "BIGINT" or harmless.of_system(facts.name))
    return facts.type in ("VARCHAR", "DATE")


def _safe(facts: ColumnFacts, said: frozenset[str]) -> Proposal:
    """Propose the safe kind: numbers are encrypted and the rest is sealed."""
    few = f"{facts.distinct} different value{'' if facts.distinct == 1 else 's'}"
    if is_number(facts.type):
        if facts.type == "BIGINT" and said & IDENTIFIER and not facts.is_category:
            return Proposal(Kind.SEALED, "name says: an identifier")
        if facts.type == "BIGINT" and facts.is_unique and _counts_up(facts.sample):
            return Proposal(Kind.SEALED, "counts up from row to row: an identifier")
        if facts.type == "BIGINT" and 2 < facts.distinct <= _FEW and facts.repeats:  # two are yes and no
            doubt = f"whole numbers with {few}, a measure or codes: unsure"
            return Proposal(Kind.ENCRYPTED, doubt, unsure=True)
        return Proposal(Kind.ENCRYPTED, "numbers, not known to be harmless")
    if facts.type == "BOOLEAN":
        return Proposal(Kind.ENCRYPTED, "true or false about each row")
    if facts.type in TIMES:
        if _spans_a_lifetime(facts):
            return Proposal(Kind.SEALED, f"dates with years {_LIFETIME} or more apart, as birth dates have")
        if facts.is_category:
            return Proposal(Kind.SEALED, f"dates or times with {few}: unsure", unsure=True)
        return Proposal(Kind.SEALED, "dates or times that may single out a row")
    if facts.is_unique:
        every = "differs in every row" if facts.distinct == facts.filled else "differs in 99 % of rows or more"
        return Proposal(Kind.SEALED, f"{every}: an identifier")
    few = f"text with {few} in {facts.filled} row{'' if facts.filled == 1 else 's'}"
    # a note: it may be numbers or dates, which a person can say how to read
    if facts.is_category or facts.note or facts.filled < _LEAST:
        return Proposal(Kind.SEALED, f"{few}, not known to be harmless: unsure", unsure=True)
    if said & IDENTIFIER:
        return Proposal(Kind.SEALED, "name says: an identifier")
    return Proposal(Kind.SEALED, f"{few}: it may single out a row")


def _counts_up(sample: tuple[str, ...]) -> bool:
    try:
        values = [int(value) for value in sample]
    except ValueError:
        return False
    return len(values) > 2 and len({after - before for before, after in pairwise(values)}) == 1


def _spans_a_lifetime(facts: ColumnFacts) -> bool:
    """Return whether dates, or numbers that may be years, are as far apart as people's years of birth."""
    if facts.type not in ("DATE", "TIMESTAMP", ZONED, "BIGINT"):
        return False
    candidates = [_year(value) for value in facts.sample]
    years = {int(digits) for digits in candidates if len(digits) == _YEAR_DIGITS and digits.isdecimal()}
    if not years or (facts.type == "BIGINT" and not (min(years) >= _FIRST_YEAR and max(years) <= _LAST_YEAR)):
        return False
    return max(years) - min(years) >= _LIFETIME


def _year(value: str) -> str:
    """Return the longest part of a date, which is the year if the year has four digits."""
    return max(re.split("[-/. T]", value.strip()), key=len)


@dataclass(frozen=True, slots=True)
class Topic:
    """A sensitive subject. `number` and `text` are the kinds that a column of numbers or of text should have."""

    label: str
    number: Kind
    text: Kind
    words: frozenset[str]

    def kind(self, type_: str) -> Kind:
        """The kind that a column of this type should have."""
        return self.number if is_number(type_) or type_ == "BOOLEAN" else self.text


TOPICS = {
    name: Topic(
        each["label"], Kind(each.get("number", "sealed")), Kind(each.get("text", "sealed")), words(each["listed"])
    )
    for name, each in LISTS["topics"].items()
}
FREE_TEXT, IDENTIFIER, PERSON, NAME = (
    words(LISTS["parts"][each]) for each in ("free_text", "identifier", "person", "name")
)


def names_a_person(name: str) -> bool:
    """Check whether a column holds names of people: "last_name" and "patient name" do, "ward_name" and "product name"
    do not.
    """
    words_of_name = set(parts(name))
    return bool(words_of_name & NAME) and words_of_name <= NAME | PERSON


_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[A-Za-z]{2,}")
_PHONE = re.compile(r"(?:\+|00|\(?0)[\d\s()/.-]{6,20}|\(\d{3}\) ?\d{3}-\d{4}|\d{3}[-. ]\d{3}[-. ]\d{4}")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_US_SSN = re.compile(r"\d{3}-\d{2}-\d{4}")
_NAME = re.compile(
    r"(?:(?:Dr|Prof|Mr|Mrs|Ms|Herr|Frau|Mme|M|Sr|Sra)\.? )?[^\W\d_][\w'\u2019.-]*(?:,? [^\W\d_][\w'\u2019.-]*){1,3}"
)
_DIGITS = re.compile(r"[\d .-]{8,}")

_NATIONAL = {country: import_module(f"stdnum.{name}") for country, name in LISTS["national"].items()}


def _is_card(value: str) -> bool:
    digits = value.replace(" ", "").replace("-", "")
    return 13 <= len(digits) <= 19 and digits[:1] in "23456" and digits.isdecimal() and stdnum.luhn.is_valid(digits)


def _is_ip(value: str) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return not value.isdecimal()


def _is_name(value: str) -> bool:
    return bool(_NAME.fullmatch(value)) and all(word[0].isupper() for word in value.split())


# (what a value that passes is, test, share needed). Little is enough where nothing passes by chance.
_TESTS: tuple[tuple[str, Callable[[str], bool], float], ...] = (
    ("are e-mail addresses", lambda value: bool(_EMAIL.fullmatch(value)), 0.1),
    ("pass IBAN check digits", lambda value: bool(stdnum.iban.is_valid(value)), 0.1),
    ("are IP addresses", _is_ip, 0.3),
    ("are UUIDs", lambda value: bool(_UUID.fullmatch(value)), 0.3),
    ("pass the check digit of payment cards (Luhn)", _is_card, 0.4),
    ("are written like US social security numbers", lambda value: bool(_US_SSN.fullmatch(value)), 0.3),
    ("are written like phone numbers", lambda value: bool(_PHONE.fullmatch(value)), 0.7),
)
_NATIONAL_SHARE = 0.7
_NAMES_SHARE = 0.9


def identifying(sample: Sequence[str], *, phones: bool = True) -> str:
    """Say which identifying values the sample holds, and their share; "" for none."""
    values = [value.strip() for value in sample]
    for says, test, needed in _TESTS if phones else _TESTS[:-1]:
        share = _share(values, test)
        if share >= needed:
            return _shown(share, says)
    return _national(values)


def identifying_number(sample: Sequence[str]) -> str:
    """Describe identifying whole numbers: those with check digits and at least eight digits."""
    if not all(_DIGITS.fullmatch(value.strip()) for value in sample):
        return ""
    values = [value.strip() for value in sample]
    share = _share(values, _is_card)
    return _shown(share, "pass the check digit of payment cards (Luhn)") if share >= 0.4 else _national(values)


def names_of_people(sample: Sequence[str]) -> str:
    """Say how many values have two to four capitalised words.

    These are names of people, but also of places, so call this only if a wrong answer does no harm.
    """
    share = _share([value.strip() for value in sample], _is_name)
    return _shown(share, "look like names of people") if share >= _NAMES_SHARE else ""


def _national(values: Sequence[str]) -> str:
    for country, module in _NATIONAL.items():
        if not any(module.is_valid(value) for value in values[:10]):
            continue
        share = _share(values, module.is_valid)
        if share >= _NATIONAL_SHARE:
            return _shown(share, f"pass the check digits of national ids ({country})")
    return ""


def _shown(share: float, says: str) -> str:
    return f"{int(100 * share)} % of values {says}"


def _share(values: Sequence[str], test: Callable[[str], bool]) -> float:
    return sum(map(test, values)) / len(values) if values else 0.0
