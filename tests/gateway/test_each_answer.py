"""No combination of the figures of one answer is about fewer than N people, for an outsider or for a party.

`tests.gateway.small_tables` says what each figure that a user without rows gets is a sum of; `tests.solver` looks for
combinations. Neither knows a rule of thresholds.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cleave.gateway import work
from cleave.store import contributors
from tests.campaign import FACTOR
from tests.gateway.small_tables import LEAST, Figure, Question, SmallTable, Stay, Sum, User, question

QUESTIONS = 12  # of each table

pytestmark = pytest.mark.filterwarnings("ignore::cleave.CleaveWarning")


@contextmanager
def user_of(table: SmallTable) -> Iterator[User]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(work, "_sessions", {})
        patch.setattr(contributors, "MIN_GROUP", LEAST)  # tables of several parties have larger groups
        yield User(table)
        for session in work._sessions.values():
            session.close()


@pytest.mark.parametrize("seed", [pytest.param(n, marks=() if n < 4 else pytest.mark.slow) for n in range(30 * FACTOR)])
def test_no_combination_of_one_answer_is_about_few_people(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    table = SmallTable(tmp_path, rng)
    with user_of(table) as user:
        for _ in range(QUESTIONS):
            asked = question(rng, people=table.people == "patients" and not table.parties)
            rows, error = user.ask(asked.sql)
            assert not error, (asked.sql, error)
            few = table.few(asked.numbers(table.stays, rows))
            assert few is None, f"seed {seed}: {asked.sql}: {few}"


def stays(*cells: tuple[str, str, str, range]) -> list[Stay]:
    """A stay of each patient of each (party, ward, sex, patients)."""
    every = [(party, ward, sex, patient) for party, ward, sex, patients in cells for patient in patients]
    return [
        Stay(number, patient, party, ward, sex, 0, 100 + number, 200 + number, 300 + number)
        for number, (party, ward, sex, patient) in enumerate(every)
    ]


def test_a_party_takes_its_own_rows_out_of_sums_of_sums(tmp_path: Path) -> None:
    """f - B is the woman of A less the men of B, who are all ann's: ann would have the woman's age."""
    owners = [("", "A", "f", range(1)), ("", "A", "m", range(1, 4)), ("", "B", "f", range(4, 7))]
    table = SmallTable(tmp_path, random.Random(0), stays(*owners, ("ann", "B", "m", range(7, 10))), "patients")
    sets = [["ward"], ["sex"]]
    asked = Question(
        ["ward", "sex"], [Figure("SUM", Sum({"age": 1}))], None, " GROUP BY GROUPING SETS ((ward), (sex))", sets
    )
    with user_of(table) as user:
        rows, error = user.ask(asked.sql)
    assert not error
    assert table.few(asked.numbers(table.stays, rows)) is None, rows


@pytest.mark.xfail(
    strict=True,
    reason="rule G1 allows COUNT(DISTINCT entity), and rule P3 is about rows: a party that knows which people are its "
    "own learns how many of the others' people are not, however few",
)
def test_a_party_takes_its_own_people_out_of_a_number_of_people(tmp_path: Path) -> None:
    """Each party has three people, of whom two are the same: of four in all, ann lacks one."""
    table = SmallTable(
        tmp_path, random.Random(0), stays(("", "A", "f", range(3)), ("ann", "A", "f", range(1, 4))), "patients"
    )
    asked = Question(["ward"], [Figure("people")], None, " GROUP BY ward", [["ward"]])
    with user_of(table) as user:
        rows, _ = user.ask(asked.sql)
    assert rows
    assert table.few(asked.numbers(table.stays, rows)) is None
