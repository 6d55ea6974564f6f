"""Propose the column that names whom a row is about, so that thresholds count people. A person decides.

A wrong column does no harm, because it never counts more people than there are rows. Only the column's name matters: a
word for a person, alone or with a word for an id. "patient_id", "PatientNo" and "subject" match; "patient_age",
"customer_type" and "name" do not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from cleave.propose.harmless import LISTS
from cleave.table.privacy import NO_PRIVACY, Privacy
from cleave.table.schema import Column, Kind
from cleave.table.types import FLOATS

# those at the front come first: a patient of a member is the patient
PEOPLE: Final = tuple(LISTS["entity"]["people"].split())
_IDS: Final = frozenset(LISTS["entity"]["ids"].split())
_PARTS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+")


def propose_entity(columns: Sequence[Column]) -> Privacy:
    """Propose the best candidate, or none. Local columns are left out, because a store cannot count by them."""
    kinds = {column.name: column.kind for column in columns}
    best = next((name for name in candidates(columns) if kinds[name] is not Kind.LOCAL), None)
    return NO_PRIVACY if best is None else Privacy((best,), unsure=True)


def candidates(columns: Sequence[Column]) -> list[str]:
    """Return the columns that may name whom a row is about, the best first."""
    ranks: dict[str, int] = {}
    for column in columns:
        words = [each.lower() for each in _PARTS.findall(column.name)]
        if words[1:] and words[-1] in _IDS:
            words.pop()
        if len(words) == 1 and words[0] in PEOPLE and column.type not in (*FLOATS, "BOOLEAN"):
            ranks[column.name] = PEOPLE.index(words[0])
    return sorted(ranks, key=lambda name: ranks[name])
