"""Words in column names that say something sensitive: words in English, German, French and Spanish, some in other
languages.

They give a reason, and the kind that serves a column best; nothing becomes plain for want of a word here (see
`harmless`). `date_of_birth`, `DateOfBirth`, `dateofbirth` and `Date de naissance` all meet a word: every run of
neighbouring parts of a name is looked up. Parts are never searched inside (`page` is no `age`).
"""

from __future__ import annotations

from dataclasses import dataclass

from cleave.propose.names import LISTS, parts, words
from cleave.table.schema import Kind


@dataclass(frozen=True, slots=True)
class Topic:
    """`number` and `text`: what a column of that meaning should be, by its type."""

    label: str
    number: Kind
    text: Kind
    words: frozenset[str]


def _topic(label: str, listed: str, number: str = "sealed", text: str = "sealed") -> Topic:
    return Topic(label, Kind(number), Kind(text), words(listed))


TOPICS = {name: _topic(**each) for name, each in LISTS["topics"].items()}
FREE_TEXT, IDENTIFIER, PERSON, NAME = (
    words(LISTS["parts"][each]) for each in ("free_text", "identifier", "person", "name")
)


def names_a_person(name: str) -> bool:
    """`name`, `last_name`, `patient name`, but not `ward_name` or `product name`."""
    found = set(parts(name))
    return bool(found & NAME) and found <= NAME | PERSON
