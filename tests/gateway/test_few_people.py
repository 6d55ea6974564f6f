"""No answer to one question of a user without rows depends on fewer people than N, whatever the user asks.

Differences between two questions are not covered.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from cleave.ckks.key_file import create_key
from cleave.logins.users import write_user
from tests.campaign import FULL, sampled
from tests.functional.processes import HANGS
from tests.gateway.conftest import started, stop
from tests.gateway.curious import FORMS, LEAST, REFUSED, REFUSED_WHERE, Question, Tables, question
from tests.solver import revealed


@dataclass(frozen=True)
class Curious:
    """A user without rows of a gateway over a table and its neighbours."""

    tables: Tables
    client: httpx.Client
    url: str

    def ask(self, sql: str, table: str = "t00") -> tuple[str, Any]:
        """("rows", names, rows and warnings) or ("error", status and text), the base table's name in each."""
        answer = self.client.post(self.url, json={"sql": sql.replace("t00", table)})
        said = json.loads(answer.text.replace(table, "t00"))
        if answer.status_code == 200:
            names = [each["name"] for each in said["columns"]]
            return "rows", (names, [tuple(row) for row in said["rows"]], said["warnings"])
        return "error", (answer.status_code, {name: each for name, each in said.items() if name != "instance"})


@pytest.fixture(scope="module")
def curious(tmp_path_factory: pytest.TempPathFactory, free_port: Callable[[], int]) -> Iterator[Curious]:
    folder = tmp_path_factory.mktemp("curious")
    create_key(folder / "key.json", None)
    tables = Tables(folder, 1)
    token = write_user(folder / "users.toml", "carl", None, tables=None, min_group=LEAST, rows=False, token=True)
    process, (_, http) = started(folder, "--http-port", str(free_port()), "--workers", "2")
    try:
        with httpx.Client(timeout=HANGS, headers={"authorization": f"Bearer {token}"}) as client:
            yield Curious(tables, client, f"{http}/v1/query")
    finally:
        stop(process)
        tables.duckdb.close()


def wrong(curious: Curious, asked: Question) -> str | None:
    """What an answer to `asked` says about few people, or None."""
    kind, said = base = curious.ask(asked.raw)
    others = [*curious.tables.neighbours]
    if kind == "error" and not FULL:  # which is decided before rows are read
        others = others[sum(map(ord, asked.raw)) % 7 :: 7]
    answers = {"t00": base} | {name: curious.ask(asked.raw, name) for name in others}
    if any(each[0] != kind for each in answers.values()):
        return "whether it fails depends on rows"
    if kind == "error":
        return None if all(each == answers["t00"] for each in answers.values()) else "the error depends on rows"
    if any(each[1][2] != said[2] for each in answers.values()):
        return "a warning depends on rows"
    found = _dependent(curious.tables, asked, {name: each[1][1] for name, each in answers.items()})
    if found is None and asked.figures is not None:
        found = _combined(curious.tables, asked, said[1])
    if found is None and asked.processed is not None:
        found = _processed(curious, asked, answers)
    return found


def _dependent(tables: Tables, asked: Question, rows: dict[str, list[tuple[Any, ...]]]) -> str | None:
    """Find a figure, or a row, that changes with one or two people and no others."""
    width = len(asked.keys)
    by_key = {name: {each[:width] or place: each for place, each in enumerate(found)} for name, found in rows.items()}
    for key, row in by_key["t00"].items():
        for kind in ("age", "lab", "null", "twice", "away"):
            others = {p: by_key[name].get(key) for name, (k, p) in tables.neighbours.items() if k == kind}
            for place in range(width, len(row)):
                people = {person for person, other in others.items() if other is None or other[place] != row[place]}
                hidden = row[place] is None and kind in ("null", "away")  # whoever alone has a NULL hides a figure
                if 0 < len(people) < LEAST and not hidden:
                    return f"figure {place} of {key} is {row[place]!r}, and changes with {people} alone ({kind})"
    for kind in ("age", "lab", "null", "twice"):  # who is away may have made a group large enough
        for name, (k, person) in tables.neighbours.items():
            if k == kind and by_key[name].keys() != by_key["t00"].keys():
                return f"which groups are shown changes with values of {person} ({kind})"
    return None


def _combined(tables: Tables, asked: Question, rows: list[tuple[Any, ...]]) -> str | None:
    """Find a combination of figures of one answer that is about few people, by DuckDB's rows of each group."""
    assert asked.figures is not None
    first = "".join(f"{each}, " for each in asked.keys)
    lists = ", ".join(f"LIST(row) FILTER (WHERE ({argument or 'TRUE'}) IS NOT NULL)" for argument, _ in asked.figures)
    grouping = f", GROUPING({', '.join(asked.keys)})" if "(" in asked.rest.partition("GROUP BY")[2] else ""
    truth = tables.duckdb.execute(f"SELECT {first}{lists}{grouping} FROM t00{asked.rest}").fetchall()
    numbers: list[dict[Any, int]] = []
    width = len(asked.keys)
    for row in rows:
        groups = [each for each in truth if [None if v is None else str(v) for v in each[:width]] == list(row[:width])]
        assert len(groups) == 1, "no `by` value is NULL"
        for place, (argument, kind) in enumerate(asked.figures):
            members = groups[0][width + place]
            if row[width + place] is None or kind == "people" or not members:
                continue
            numbers.append({("row", each): 1 for each in members})
            if kind != "count":
                factors = {"age": 1, "lab": 1, "-lab": -1}.get(argument, 0)
                values = {("age" if argument == "age" else "lab", each): factors for each in members}
                if not factors:
                    values = {("age", each): 2 for each in members} | {("lab", each): -1 for each in members}
                numbers.append(values)
            if kind == "square":
                numbers.append({(f"{argument} squared", each): 1 for each in members})
    unknowns = {unknown: tables.rows[unknown[1]].patient for number in numbers for unknown in number}
    few = revealed(numbers, unknowns, LEAST)
    return None if few is None else f"figures together are about {sorted(few, key=str)} alone"


def _processed(curious: Curious, asked: Question, raw: dict[str, tuple[str, Any]]) -> str | None:
    """Find a processed answer that is no function of the raw one: tables that show the same differ in it."""
    assert asked.processed is not None
    shown = curious.ask(asked.processed)
    for name, answer in raw.items():
        if answer == raw["t00"] and curious.ask(asked.processed, name) != shown:
            return f"{asked.processed}: differs where what is shown is the same ({name})"
    return None


@pytest.mark.parametrize("questions", sampled(3, 20, 600))
def test_one_question_tells_of_no_few_people(curious: Curious, questions: int) -> None:
    answered = 0
    for seed in range(questions):
        asked = question(random.Random(seed))
        found = wrong(curious, asked)
        assert found is None, f"{asked.raw}: {found}"
        answered += curious.ask(asked.raw)[0] == "rows"
    assert answered * 4 > questions, "enough is answered"


@pytest.mark.slow
def test_what_a_curious_user_would_try(curious: Curious) -> None:
    """Each thing that is not answered, alone: in the place of a figure, of a condition, and as a whole statement."""
    statements = [
        *FORMS,
        *(f"SELECT ward, {each} FROM t00 GROUP BY ward" for each in REFUSED),
        *(f"SELECT ward, SUM(age) FROM t00 WHERE {each} GROUP BY ward" for each in REFUSED_WHERE),
    ]
    failed = {}
    for sql in statements:
        keys = ["ward"] if sql.startswith("SELECT ward,") else []
        if found := wrong(curious, Question(sql, None, None, keys, "")):
            failed[sql] = found
    assert failed == {}
