"""Proposal of the column that names whom a row is about, so that thresholds count people; for a person to settle.

A wrong one does no harm: people are never more than rows. Only the name of a column counts: a word for a person, alone
or with a word for an id. "patient_id", "PatientNo" and `subject` do; "patient_age", "customer_type" and `name` do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from cleave.table.privacy import NO_PRIVACY, Privacy
from cleave.table.schema import Column, Kind
from cleave.table.types import FLOATS

# those at the front come first: a patient of a member is the patient
PEOPLE: Final = (
    *("patient", "person", "participant", "respondent", "subject", "proband", "employee", "student", "pupil"),
    *("member", "insured", "beneficiary", "customer", "client", "subscriber", "citizen", "resident", "donor"),
    *("versicherter", "kunde", "mitarbeiter", "mitglied", "cliente", "paciente", "personne", "persona", "user"),
)
_IDS: Final = frozenset(
    {"id", "ids", "no", "nr", "num", "number", "nummer", "numero", "key", "code", "pseudonym", "uuid"}
)
_PARTS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+")


def propose_entity(columns: Iterable[Column]) -> Privacy:
    """Propose the first of the best columns, or none. One that stays on this machine cannot be counted in a store."""
    best: tuple[int, str] | None = None
    for column in columns:
        words = [each.lower() for each in _PARTS.findall(column.name)]
        if words[1:] and words[-1] in _IDS:
            words.pop()
        if (
            len(words) != 1
            or words[0] not in PEOPLE
            or column.kind is Kind.LOCAL
            or column.type in (*FLOATS, "BOOLEAN")
        ):
            continue
        rank = PEOPLE.index(words[0])
        if best is None or rank < best[0]:
            best = rank, column.name
    return NO_PRIVACY if best is None else Privacy((best[1],), unsure=True)
