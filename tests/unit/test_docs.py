"""The reference pages in docs/ say what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cleave.aggregates.columns import Exact
from cleave.ckks.packing import plan_packing
from cleave.cli import group
from cleave.cli.answer import ENDINGS, Format
from cleave.cli.shell.shell import COMMANDS
from cleave.sql.planner import plan_query
from cleave.table.schema import _COLUMN_KEYS, Column, CsvDialect, Kind, Schema
from cleave_shared import limits
from cleave_shared.errors import EXIT_CODES, QueryRefused
from cleave_shared.limits import REQUESTS_UNDER_WAY
from cleave_shared.params import SUM60_PACK

DOCS = Path(__file__).parents[2] / "docs"
PATIENTS = Schema(
    (
        Column("ward", Kind.PLAIN, "VARCHAR"),
        Column("sex", Kind.PLAIN, "VARCHAR"),
        Column("admitted", Kind.PLAIN, "DATE"),
        Column("age", Kind.ENCRYPTED, "BIGINT"),
        Column("bill", Kind.ENCRYPTED, "DECIMAL(18,2)"),
        Column("name", Kind.SEALED, "VARCHAR"),
    ),
    CsvDialect(),
)


def rows(page: str) -> list[list[str]]:
    """The cells of every table of a page, without heads and rules."""
    lines = [line for line in (DOCS / page).read_text("utf-8").splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if not line.startswith("| ---")]


# What is refused, and what to query instead.
ALWAYS = {
    "SELECT SUM(age * random()) FROM patients": "SELECT SUM(age * 0.5) FROM patients",
    "SELECT DISTINCT * FROM read_csv('wards.csv')": "SELECT COUNT(*) FROM patients",
    "SELECT COUNT(*) FROM '/etc/passwd'": "SELECT COUNT(*) FROM patients",
    "SELECT * FROM duckdb_settings()": "SELECT COUNT(*) FROM patients",
    "SELECT COUNT(*) FROM visits": "SELECT COUNT(*) FROM patients",
    "SELECT DISTINCT ward FROM patients WHERE sex = ?": "SELECT ward FROM patients WHERE sex = 'F' GROUP BY ward",
    "SELECT SUM(height) FROM patients": "SELECT SUM(age) FROM patients",
    "SELECT rowid, COUNT(*) FROM patients GROUP BY rowid": "SELECT ward, COUNT(*) FROM patients GROUP BY ward",
    "PIVOT patients ON ward USING sum(age)": "SELECT ward, SUM(age) FROM patients GROUP BY ward",
    "DELETE FROM patients": "SELECT COUNT(*) FROM patients",
}
CLOUD_ONLY = {
    "SELECT MIN(age) FROM patients": "SELECT COUNT(*) FILTER (WHERE age < 18) FROM patients",
    "SELECT COUNT(DISTINCT age) FROM patients": "SELECT COUNT(age) FROM patients",
    "SELECT STRING_AGG(age, ',') FROM patients": "SELECT SUM(age) FROM patients",
    "SELECT MAX(admitted) FROM patients WHERE age > 60": "SELECT MAX(admitted) FROM patients WHERE sex = 'F'",
    "SELECT age FROM patients": "SELECT AVG(age) FROM patients",
    "SELECT ward FROM patients": "SELECT ward, COUNT(*) FROM patients GROUP BY ward",
    "SELECT name, COUNT(*) FROM patients GROUP BY name": "SELECT sex, COUNT(*) FROM patients GROUP BY sex",
    "SELECT LIST(ward) FROM patients": "SELECT LIST(ward ORDER BY ward) FROM patients",
    "SELECT DISTINCT ward FROM patients": "SELECT ward FROM patients GROUP BY ALL",
    "SELECT SUM(age) FROM (SELECT * FROM patients WHERE ward = 'A')": "SELECT SUM(age) FROM patients WHERE ward = 'A'",
    "SELECT SUM(age) OVER (PARTITION BY ward) FROM patients": "SELECT ward, SUM(age) FROM patients GROUP BY ward",
    "SELECT SUM(age ORDER BY admitted) FROM patients": "SELECT SUM(age) FROM patients",
    "SELECT SUM(age) FROM patients USING SAMPLE 10": "SELECT SUM(age) FROM patients WHERE sex = 'F'",
}
REFUSED = ALWAYS | CLOUD_ONLY


@pytest.mark.parametrize("sql", REFUSED)
def test_what_is_refused_and_what_is_answered_instead(sql: str) -> None:
    with pytest.raises(QueryRefused) as caught:
        plan_query(sql, PATIENTS, "patients", cloud_only=True)
    assert caught.value.hint
    assert plan_query(REFUSED[sql], PATIENTS, "patients", cloud_only=True).outputs


@pytest.mark.parametrize("sql", REFUSED)
def test_what_no_service_answers_is_answered_here(sql: str) -> None:
    if sql in ALWAYS:
        with pytest.raises(QueryRefused):
            plan_query(sql, PATIENTS, "patients")
    else:
        assert "local" in {output.source for output in plan_query(sql, PATIENTS, "patients").outputs}


def test_the_page_names_what_is_refused() -> None:
    page = (DOCS / "refused.md").read_text("utf-8")
    always = page.partition("## Always")[2].partition("##")[0]
    named = {each for each in re.findall(r"`([^`]+)`", always) if not each.startswith(("--", "ON "))}
    assert len(named) >= 9
    assert [each for each in named if not any(each in sql for sql in ALWAYS)] == []
    table = [row for row in rows("refused.md") if row[0].startswith("`")]
    assert len(table) == 9
    for refused, _, instead in table:
        for each in re.findall(r"`([^`]+)`", refused):
            assert any(each in sql for sql in CLOUD_ONLY), each
        for each in re.findall(r"`([^`]+)`", instead):
            assert any(each in sql for sql in CLOUD_ONLY.values()), each


def test_documented_limits_are_those_of_the_code() -> None:
    stated = {name.strip("`"): value for name, value, *_ in rows("limits.md") if name.startswith("`")}
    assert len(stated) >= 8
    for name, value in stated.items():
        assert float(value.replace(",", "")) == getattr(limits, name), name


def test_documented_exit_codes_are_those_of_the_code() -> None:
    stated = {int(code) for code, *_ in rows("output.md") if code.isdigit()}
    assert stated == {*EXIT_CODES.values()} | {0, 2, group.INTERRUPTED, group.READER_LEFT}


def test_documented_formats_are_those_of_the_code() -> None:
    named = [row for row in rows("output.md") if re.fullmatch(r"`\w+`", row[0])]
    formats = [row for row in named if row[0].strip("`") not in EXIT_CODES]
    stated = {row[0].strip("`"): re.findall(r"`(\.\w+)`", row[1]) for row in formats}
    assert stated.keys() == {str(one) for one in Format}
    assert {(ending, name) for name, endings in stated.items() for ending in endings} == set(ENDINGS.items())


def test_documented_keys_of_a_schema_are_those_of_the_code() -> None:
    named = set(re.findall(r"`(\w+)`", " ".join(row[0] for row in rows("schema.md"))))
    assert named >= {*_COLUMN_KEYS, *CsvDialect.__slots__}


def test_documented_commands_of_the_shell_are_those_of_the_code() -> None:
    stated = {command.strip("`").replace("\\", ""): does for command, does in _pairs("shell.md")}
    known = {f"{name} {argument}".strip(): about for name, (about, argument) in COMMANDS.items()}
    assert {command: re.sub(r" \(\[.*", "", does) for command, does in stated.items()} == known


def _pairs(page: str) -> list[list[str]]:
    lines = [line for line in (DOCS / page).read_text("utf-8").splitlines() if line.startswith("| `.")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))] for line in lines]


def test_a_million_values_are_sent_as_deploy_says() -> None:
    packing = plan_packing([Exact(127)], [10**6], SUM60_PACK)
    parts = packing.ranges(REQUESTS_UNDER_WAY)
    assert (packing.chunks, len(parts), max(part.stop - part.start for part in parts)) == (123, 4, 31)
    page = " ".join((DOCS / "deploy.md").read_text().split())
    assert "ceil(1,000,000 / 8,176) = 123 chunks, 31 in each of 4 requests" in page
