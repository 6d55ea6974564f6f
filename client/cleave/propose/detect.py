"""Which columns are sensitive: a proposal with its reason for a person to review, never a decision.

When unsure, the safe kind: numbers are encrypted, text is sealed. Names of people are sealed, so that `cleave pull` can
give them back. Free text stays local: it may hold anything, is of no use to a sum, and its length survives encryption.
No reason quotes a value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from cleave.propose import detect_words as words
from cleave.propose.detect_values import identifying, identifying_number, names_of_people
from cleave.table.schema import Kind
from cleave.table.types import is_number

_LONG = 40  # characters on average, above which text is not a category
_MANY = 100  # different values, above which text or a code is not a category
_GROUP = 5  # rows a category has on average, below which it may single people out
_LIFETIME = 40  # years that only birth dates span


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a column: `filled` rows that are not NULL, `distinct` values, lengths in characters.

    `sample`: fields as written, without NULLs. `note`: what reading it brought up, for the reviewer.
    """

    name: str
    type: str
    filled: int
    distinct: int
    average_length: float
    longest: int
    sample: tuple[str, ...]
    note: str = ""

    @property
    def is_category(self) -> bool:
        return self.distinct <= _MANY and self.filled >= _GROUP * self.distinct and self.average_length <= _LONG

    @property
    def is_unique(self) -> bool:
        return self.filled > 1 and self.distinct >= 0.99 * self.filled


Proposal = tuple[Kind, str]


def propose_kind(facts: Facts) -> Proposal:
    """The kind proposed for a column, and why."""
    if not facts.sample:
        return Kind.SEALED, "holds no value to judge by"
    said = words.runs(facts.name)
    if said & words.SECRET.words:
        return Kind.LOCAL, f"name says: {words.SECRET.label}"
    if proposal := _by_values(facts):
        return proposal
    if words.names_a_person(facts.name):
        return Kind.SEALED, "name says: a name of a person"
    is_free_text = facts.type == "VARCHAR" and facts.average_length > _LONG and not facts.is_category
    for topic in words.TOPICS:
        if said & topic.words:
            if is_free_text and topic is not words.ADDRESS:
                break
            kind = topic.number if is_number(facts.type) or facts.type == "BOOLEAN" else topic.text
            return kind, f"name says: {topic.label}"
    if is_free_text:
        return Kind.LOCAL, "long text that differs from row to row: it may say anything"
    if facts.type == "VARCHAR" and (finding := names_of_people(facts.sample)):
        return Kind.SEALED, finding.reason
    if facts.type == "VARCHAR" and said & words.FREE_TEXT and not facts.is_category:
        return Kind.LOCAL, "name says: free text"
    if is_number(facts.type):
        return _number(facts, said)
    return _other(facts, said)


def _by_values(facts: Facts) -> Proposal | None:
    if facts.type == "VARCHAR":
        finding = identifying(facts.sample)
    elif facts.type == "BIGINT":
        finding = identifying_number(facts.sample)
    else:
        finding = None
    return (Kind.SEALED, finding.reason) if finding else None


def _number(facts: Facts, said: frozenset[str]) -> Proposal:
    if facts.type == "BIGINT":
        if said & words.IDENTIFIER and not (facts.is_category and not said & words.PERSON):
            return Kind.SEALED, "name says: an identifier"
        if facts.is_unique and _counts_up(facts.sample):
            return Kind.SEALED, "counts up from row to row: an identifier"
        if facts.is_category and said & (words.IDENTIFIER | words.CALENDAR):
            return Kind.PLAIN, f"a code or part of a date with {facts.distinct} different values, for grouping"
    return Kind.ENCRYPTED, "a number the name says too little of: unsure, so encrypted"


def _counts_up(sample: tuple[str, ...]) -> bool:
    try:
        values = [int(value) for value in sample]
    except ValueError:
        return False
    return len(values) > 2 and len({after - before for before, after in pairwise(values)}) == 1


def _other(facts: Facts, said: frozenset[str]) -> Proposal:
    if facts.type == "BOOLEAN":
        return Kind.ENCRYPTED, "true or false about each row: unsure, so encrypted"
    if said & words.IDENTIFIER and said & words.PERSON:
        return Kind.SEALED, "name says: an identifier of a person"
    if facts.is_category:
        return Kind.PLAIN, f"{facts.distinct} different values in {facts.filled} rows and nothing sensitive found"
    if facts.type in ("DATE", "TIMESTAMP"):
        years = {int(digits) for value in facts.sample if len(digits := _year(value)) == 4}
        if years and max(years) - min(years) >= _LIFETIME:
            return Kind.SEALED, "dates that span a lifetime, as birth dates do"
        return Kind.SEALED, "dates that may single out a row: unsure, so sealed"
    if facts.is_unique:
        return Kind.SEALED, "differs in every row: an identifier"
    return Kind.SEALED, "text with many different values: unsure, so sealed"


def _year(value: str) -> str:
    """The part of a date that is longest: the year, where it has four digits."""
    return max(re.split("[-/. T]", value.strip()), key=len)
