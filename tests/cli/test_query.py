"""`cleave plan` and `cleave query` end to end on the sample table, in this process and over HTTP."""

from __future__ import annotations

import csv
import json
import math
import os
import re
import subprocess
import sys
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from cleave.transport.base import Transport
from cleave_shared.requests import PlainRequest, PlainResponse, SumsRequest, SumsResponse
from tests.cli.runner import Cli
from tests.samples import SAMPLES, write_schema, write_table

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-c", "from cleave.local.main import main; main()"]
QUESTION = (
    "SELECT ward, COUNT(*) AS n, SUM(bill) AS total, AVG(age) AS age, STDDEV(weight) AS spread "
    "FROM patients GROUP BY ward ORDER BY ward"
)


def oracle(sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        types = "{'bill': 'DECIMAL(18,2)', 'age': 'BIGINT', 'weight': 'DOUBLE'}"
        connection.execute(f"CREATE TABLE patients AS FROM read_csv('{SAMPLES / 'patients.csv'}', types = {types})")
        return connection.execute(sql).fetchall()


def test_json_holds_the_whole_answer(ready: Cli, table: Path) -> None:
    result = ready.run("query", table, QUESTION, "--json")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    answer = json.loads(result.stdout, parse_float=Decimal)
    assert list(answer) == [
        *("columns", "rows", "bounds", "exact", "undecided", "warnings", "checks", "plan", "timings")
    ]
    assert answer["columns"] == [
        {"name": "ward", "source": "key"},
        {"name": "n", "source": "plain"},
        {"name": "total", "source": "encrypted"},
        {"name": "age", "source": "encrypted"},
        {"name": "spread", "source": "encrypted"},
    ]
    expected = oracle(QUESTION)
    assert len(answer["rows"]) == len(expected)
    for row, bounds, exact, truth in zip(answer["rows"], answer["bounds"], answer["exact"], expected, strict=True):
        assert row[:3] == list(truth[:3])
        assert (bounds[0], exact[0]) == (None, None)
        assert (bounds[2], exact[2]) == (0, True)
        for place in (3, 4):
            lost = 1e-12 * abs(truth[place])  # by DuckDB's own float64, at most
            assert abs(Decimal(float(row[place])) - Decimal(truth[place])) <= Decimal(bounds[place]) + Decimal(lost)
    assert set(answer["checks"].values()) == {"passed"}
    assert answer["timings"]


@pytest.mark.parametrize(
    ("sql", "bounds"),
    [
        ("SELECT approx_count_distinct(ward), count(DISTINCT ward) FROM patients", [None, 0]),  # plain
        ("SELECT approx_quantile(length(ward), 0.5), max(ward) FROM patients", [None, 0]),
        ("SELECT approx_count_distinct(age), count(DISTINCT age) FROM patients", [None, 0]),  # local
        ("SELECT mode(age), approx_quantile(age, 0.5), sum(age) FROM patients", [None, None, 0]),
        ("SELECT n FROM (SELECT approx_count_distinct(age) AS n FROM patients)", [None]),  # by DuckDB as a whole
        ("SELECT n FROM (SELECT mode(age) AS n FROM patients)", [None]),
        ("SELECT n FROM (SELECT count(DISTINCT age) AS n FROM patients)", [0]),
    ],
)
def test_what_is_approximate_or_arbitrary_has_no_bound(
    ready: Cli, table: Path, sql: str, bounds: list[int | None]
) -> None:
    result = ready.run("query", table, sql, "--json")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert answer["bounds"] == [bounds]
    assert answer["exact"] == [[None if each is None else True for each in bounds]]


def test_the_answer_is_a_table_for_people(ready: Cli, table: Path) -> None:
    result = ready.run("query", table, QUESTION)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["ward", "n", "total", "age", "spread"]
    assert lines[1].split() == ["key", "plain", "encrypted", "encrypted", "encrypted"]
    for line, truth in zip(lines[3:], oracle(QUESTION), strict=True):
        cells = [cell.strip() for cell in line.split("  ") if cell.strip()]
        assert cells[:3] == [truth[0], str(truth[1]), f"{truth[2]} exact"]
        figure, spread = cells[4].split(" ± ")
        assert abs(float(figure) - truth[4]) <= float(spread)
    assert "checks passed" in result.stderr
    assert "2 requests" in result.stderr


SMALL = "k,v\na,1\na,2\na,3\nb,10\nb,20\nc,7\nd,9\n"  # groups of 3, 2, 1 and 1 rows


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return write_table(tmp_path / "t.csv", SMALL, k="plain VARCHAR", v="encrypted BIGINT")


@pytest.mark.parametrize(
    ("sql", "rows", "suppressed"),
    [
        ("SELECT k, COUNT(*), SUM(v) FROM t GROUP BY k ORDER BY k", [["a", 3, 6], ["b", 2, 30]], 2),
        ("SELECT k, SUM(v) FROM t GROUP BY k ORDER BY 2 LIMIT 1", [["a", 6]], 2),  # c's 7 takes no place
        ("SELECT k, SUM(v) FROM t GROUP BY k HAVING SUM(v) BETWEEN 7 AND 9", [], 2),
        ("SELECT COUNT(*), SUM(v) FROM t WHERE k = 'c'", [], 1),
        ("SELECT COUNT(*), SUM(v) FROM t WHERE k = 'nobody'", [], 1),
        ("SELECT SUM(v) FROM t", [[52]], 0),
        # c and d together are two rows, c alone is one
        ("SELECT k, SUM(v) FROM t GROUP BY ROLLUP (k) ORDER BY k", [["a", 6], ["b", 30], [None, 52]], 2),
        ("SELECT k, SUM(v) FROM t WHERE k < 'd' GROUP BY ROLLUP (k) ORDER BY k", [["a", 6], ["b", 30]], 1),
    ],
)
@pytest.mark.sampled(4)
def test_small_groups_are_left_out(ready: Cli, small: Path, sql: str, rows: list[list[Any]], suppressed: int) -> None:
    answer = json.loads(ready.run("query", small, sql, "--json", "--min-group", "2").stdout)
    assert answer["rows"] == rows
    assert (answer["plan"]["min_group"], answer["plan"]["suppressed_groups"]) == (2, suppressed)
    # with counts shown, these would give the size of a lone suppressed group away
    assert not {"rows", "selected_rows", "groups"} & answer["plan"].keys()
    noun = "groups" if suppressed != 1 else "group"
    shown = ready.run("query", small, sql, "--min-group", "2")
    withheld = " and 1 group from which one of them would follow" if answer["plan"]["withheld_groups"] else ""
    told = f"{suppressed} {noun} of fewer than 2 rows{withheld} not shown (rule P2).\n" if suppressed else ""
    assert shown.stderr.startswith(told)
    assert ("not shown" in shown.stderr) == bool(suppressed)
    assert bool(withheld) == ("k < 'd'" in sql)
    assert len(shown.stdout.splitlines()) == 3 + len(rows)


def test_verbose_shows_each_request_in_numbers(ready: Cli, table: Path) -> None:
    shown = ready.run("query", table, QUESTION, "--verbose").stderr
    line = r"/v1/{}: 200, [0-9]+ bytes up, [0-9]+ down, [0-9.]+ s after a wait of [0-9.]+ s"
    for path in ("sensitive/moments", "plain/aggregate"):
        assert re.search(line.format(path), shown)
    assert "/v1/" not in ready.run("query", table, QUESTION).stderr


def test_groups_of_at_least_one_row_are_all(ready: Cli, small: Path) -> None:
    nobody = ready.run("query", small, "SELECT COUNT(*), SUM(v) FROM t WHERE k = 'x'", "--json", "--min-group", "1")
    assert json.loads(nobody.stdout)["rows"] == [[0, None]]
    assert "not shown" not in nobody.stderr


def test_no_group_is_left_out_unasked(ready: Cli, small: Path) -> None:
    answer = json.loads(ready.run("query", small, "SELECT k, SUM(v) FROM t GROUP BY k", "--json").stdout)
    assert len(answer["rows"]) == answer["plan"]["groups"] == 4
    assert "suppressed_groups" not in answer["plan"]
    assert "not shown" not in ready.run("query", small, "SELECT k, SUM(v) FROM t GROUP BY k").stderr


def test_sql_from_a_file_stands_in_no_list_of_processes(ready: Cli, small: Path, tmp_path: Path) -> None:
    (file := tmp_path / "q.sql").write_text("\ufeffSELECT SUM(v) FROM t\n", encoding="utf-8")
    answer = json.loads(ready.run("query", small, "--sql-file", file, "--json").stdout)
    assert answer["rows"] == [[52]]
    assert "SUM" in ready.run("plan", small, "--sql-file", file, "--verbose").stdout.upper()


def test_sql_is_read_from_stdin(ready: Cli, small: Path) -> None:
    answer = json.loads(ready.run("query", small, "--sql-file", "-", "--json", typed="SELECT SUM(v) FROM t").stdout)
    assert answer["rows"] == [[52]]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b" \n", "holds no SQL"),
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"x" * 1_000_001, "holds more than 1 MB"),
        (None, "cannot be read"),
    ],
)
def test_files_that_hold_no_sql(ready: Cli, small: Path, tmp_path: Path, content: bytes | None, problem: str) -> None:
    file = tmp_path / "q.sql"
    if content is not None:
        file.write_bytes(content)
    assert problem in ready.fails(3, "query", small, "--sql-file", file)


def test_one_question_over_http(ready: Cli, table: Path, service: str) -> None:
    result = ready.run("query", table, QUESTION, "--json", "--endpoint", service)
    assert result.exit_code == 0, result.output
    assert [row[:3] for row in json.loads(result.stdout, parse_float=Decimal)["rows"]] == [
        list(row[:3]) for row in oracle(QUESTION)
    ]


def test_the_plan_sends_nothing_and_needs_no_key(cli: Cli, table: Path) -> None:
    def no_services() -> Transport:
        raise AssertionError("a plan asked for a service")

    cli.embedded = no_services
    cli.environment["CLEAVE_KEY"] = str(table.with_name("none.json"))
    plan = json.loads(cli.run("plan", table, QUESTION, "--json").stdout)
    fates = {column["name"]: column["destination"] for column in plan["columns"]}
    assert fates["ward"] == "plain"
    assert fates["age"] == fates["bill"] == fates["weight"] == "sensitive"
    assert fates["patient_name"] == fates["notes"] == "none"
    shown = cli.run("plan", table, QUESTION).stdout.splitlines()
    assert [line[:10].strip() for line in shown if line[0] != " "] == [
        *("leaves", "to", "how much", "learned", "way", "in short")
    ]
    learned = [line[10:] for line in shown[3:-2]]
    assert [line[:19].strip() for line in learned if line[0] != " "] == ["plain service", "sensitive service"]
    assert all(len(line[19:].split()) <= 12 for line in learned)
    text = cli.run("plan", table, QUESTION, "--verbose").stdout
    for section in ("Columns", "Profile sum60-pack", "Requests", "What the plain service will see"):
        assert section in text
    assert "600 rows, 600 selected, 6 groups. Nothing has been sent." in text
    lines = {line.split()[0]: line for line in text.splitlines() if line.startswith("  ")}
    assert re.search(r"sent in the clear +plain service", lines["ward"])
    assert re.search(r"encrypted +sensitive service", lines["bill"])
    assert re.search(r"not read, stays here +no one", lines["notes"])


def test_the_plan_of_a_count_that_needs_no_ciphertext(cli: Cli, table: Path) -> None:
    plan = json.loads(cli.run("plan", table, "SELECT COUNT(age) FROM patients", "--json").stdout)
    (age,) = (column for column in plan["columns"] if column["name"] == "age")
    assert (age["bytes"], age["destination"]) == (0, "none")
    assert plan["requests"]["sensitive"]["count"] == 0


def test_what_is_answered_here_needs_no_key_and_says_why_it_is(ready: Cli, table: Path) -> None:
    ready.environment["CLEAVE_KEY"] = str(table.with_name("none.json"))
    sql = "SELECT DISTINCT ward FROM patients ORDER BY ward"
    answer = ready.run("query", table, sql)
    assert answer.stdout.splitlines()[:2] == ["ward", "local"]
    assert "local, nothing of it sent: no service answers SELECT DISTINCT" in answer.stderr
    assert "Nothing was sent. 0 requests" in answer.stderr
    as_json = json.loads(ready.run("query", table, sql, "--json").stdout)
    reason = "no service answers SELECT DISTINCT"
    assert as_json["columns"] == [{"name": "ward", "source": "local", "reason": reason}]
    assert {"key_id", "profile"}.isdisjoint(as_json["plan"])
    shown = ready.run("plan", table, sql, "--verbose").stdout
    assert shown.split("\n\n")[1].startswith("Answered on this machine (local), nothing of it sent\n  - no service")
    assert "Neither a key nor a service is needed" in shown
    planned = json.loads(ready.run("plan", table, sql, "--json").stdout)
    assert planned["local"] == [{"name": "ward", "source": "local", "reason": reason}]
    assert planned["requests"]["plain"]["count"] == planned["requests"]["sensitive"]["count"] == 0


def test_further_tables_are_joined_here(ready: Cli, table: Path) -> None:
    wards = table.with_name("wards.csv")
    wards.write_text("ward,floor\nOncology,3\nSurgery,1\n")
    sql = "SELECT floor, COUNT(*) AS n FROM patients JOIN wards USING (ward) GROUP BY floor ORDER BY floor"
    answer = json.loads(ready.run("query", table, sql, "--with", wards, "--json").stdout)
    assert [row[0] for row in answer["rows"]] == [1, 3]
    assert {column["source"] for column in answer["columns"]} == {"local"}
    write_schema(wards, {"ward": "local VARCHAR", "floor": "local VARCHAR"})
    other = table.with_name("other=1.toml")
    wards.with_suffix(".schema.toml").rename(other)
    answer = json.loads(ready.run("query", table, sql, "--with", f"{wards}={other}", "--json").stdout)
    assert [row[0] for row in answer["rows"]] == ["1", "3"]
    assert "two tables have the name 'patients'" in ready.fails(3, "query", table, sql, "--with", table)
    assert "no such file" in ready.fails(3, "query", table, sql, "--with", table.with_name("none.csv"))
    assert "no service answers a join" in ready.fails(4, "query", table, sql, "--with", wards, "--cloud-only")


def test_what_is_missing_is_told_with_the_command_that_makes_it(cli: Cli, table: Path) -> None:
    table.with_suffix(".schema.toml").unlink()
    assert "cleave schema" in cli.fails(3, "query", table, QUESTION)
    assert "cleave schema" in cli.fails(3, "plan", table, QUESTION)
    table.unlink()
    assert "no such file" in cli.fails(3, "query", table, QUESTION)


class Faulty:
    """The embedded services, with one bit of an answer flipped."""

    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        self.requests, self.sent, self.received = 0, 0, 0
        self.closed = False

    def begin(self, _deadline: object) -> Transport:
        return self

    def stop(self, _reason: object = None) -> None:
        """Nothing waits."""

    def sensitive(self, request: SumsRequest) -> SumsResponse:
        answer = self.inner.sensitive(request)
        return replace(answer, totals=answer.totals[1:])

    def plain(self, request: PlainRequest) -> PlainResponse:
        return self.inner.plain(request)

    def close(self) -> None:
        self.closed = True


def test_an_answer_that_fails_a_check_is_not_shown(ready: Cli, table: Path) -> None:
    faulty = Faulty(ready.embedded())
    ready.embedded = lambda: faulty
    ready.fails(7, "query", table, QUESTION)
    assert faulty.closed


def test_canary_values_stay_out_of_every_error(ready: Cli, tmp_path: Path) -> None:
    rows = "ward,age\nnorth,41\nsouth,secret4711\n"
    path = write_table(tmp_path / "t.csv", rows, ward="plain VARCHAR", age="encrypted BIGINT")
    error = ready.fails(3, "query", path, "SELECT SUM(age) FROM t")
    assert "age" in error
    assert "4711" not in error


@pytest.mark.parametrize("name", ["ward\x1b[31m", "a\u202eb"])
def test_values_cannot_write_to_the_terminal(ready: Cli, tmp_path: Path, name: str) -> None:
    path = tmp_path / "t.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["ward", "age"], [name, 41], ["[red]north[/red]", 52]])
    write_schema(path, {"ward": "plain VARCHAR", "age": "encrypted BIGINT"})
    shown = ready.run("query", path, "SELECT ward, SUM(age) FROM t GROUP BY ward").stdout
    assert not set(shown) & {"\x1b", "\u202e"}
    assert "[red]north[/red]" in shown
    rows = json.loads(ready.run("query", path, "SELECT ward, SUM(age) FROM t GROUP BY ward", "--json").stdout)["rows"]
    assert sorted(rows) == sorted([[name, 41], ["[red]north[/red]", 52]])


def test_a_process_answers_and_exits_with_0(key_file: Path, table: Path) -> None:
    environment = {**os.environ, "CLEAVE_KEY": str(key_file), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*COMMAND, "query", table.name, "SELECT SUM(age) AS s FROM patients", "--json"],
        cwd=table.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["rows"] == [[int(oracle("SELECT sum(age) FROM patients")[0][0])]]
    assert sorted(path.name for path in table.parent.iterdir()) == ["patients.csv", "patients.schema.toml"]


def test_what_the_bounds_leave_open_is_marked_warned_of_and_fatal_under_strict(ready: Cli, table: Path) -> None:
    """The sum less itself, over floats: no bound tells it from 0."""
    sql = (
        "SELECT ward, CASE WHEN SUM(weight) = SUM(weight + 0) THEN 'same' ELSE 'other' END AS v FROM patients "
        "GROUP BY ward HAVING SUM(weight) - SUM(weight + 0) <= 0"
    )
    shown = ready.run("query", table, sql)
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.count("undecided: HAVING") == 6
    assert re.search(r"(same|other) undecided", shown.stdout)
    assert "warning: HAVING: the error bounds do not decide" in shown.stderr
    assert "warning: SELECT item 2 (v)" in shown.stderr
    written = json.loads(ready.run("query", table, sql, "--json").stdout)
    assert written["undecided"]["rows"] == [["HAVING"]] * 6
    assert written["undecided"]["cells"] == [[False, True]] * 6
    assert len(written["warnings"]) == 2
    failed = ready.run("query", table, sql, "--strict")
    assert failed.exit_code == 8
    assert failed.stdout == ""
    assert "HAVING" in failed.stderr
    settled = ready.run("query", table, QUESTION, "--strict")
    assert settled.exit_code == 0


def test_published_figures_of_floats_hardly_depend_on_the_noise(ready: Cli, tmp_path: Path) -> None:
    """Asked twice, under fresh keys' noise each time."""
    rows = "".join(f"{row % 60},{math.sin(row):.17g}\n" for row in range(600))
    path = write_table(tmp_path / "noisy.csv", f"g,x\n{rows}", g="plain INTEGER", x="encrypted DOUBLE")
    sql = "SELECT g, SUM(x) FROM noisy GROUP BY g ORDER BY g"
    one, other = (json.loads(ready.run("query", path, sql, "--json").stdout)["rows"] for _ in range(2))
    same = sum(mine == theirs for mine, theirs in zip(one, other, strict=True))
    assert len(one) == 60
    assert same > 30


@pytest.mark.parametrize(
    ("sql", "line", "caret"),
    [
        ("SELECT AVG(aeg), 'aeg'\nFROM patients", "  SELECT AVG(aeg), 'aeg'", 13),
        ("SELECT 'wrad',\n  wrad FROM patients", "    wrad FROM patients", 4),
        ("SELECT AVG(age) FROM patiens", "  SELECT AVG(age) FROM patiens", 23),
        ("SELECT AVG(age) FORM patients", "  SELECT AVG(age) FORM patients", 23),
        ("SELECT AVGG(age) FROM patients", "  SELECT AVGG(age) FROM patients", 9),
        ("SELECT p.aeg FROM patients p JOIN patients q ON p.age = q.age", None, 11),
    ],
)
def test_a_refusal_shows_the_line_with_a_caret(ready: Cli, table: Path, sql: str, line: str | None, caret: int) -> None:
    _, shown, under, hint = ready.fails(4, "plan", table, sql).splitlines()
    assert shown == (line or f"  {sql}")
    assert under == f"{' ' * caret}^"
    assert hint.startswith("hint: ")


def test_what_is_no_refusal_of_a_name_has_no_excerpt(ready: Cli, table: Path) -> None:
    refused = ready.fails(4, "plan", table, "SELECT MEDIAN(age) FROM patients", "--cloud-only")
    assert "^" not in refused
