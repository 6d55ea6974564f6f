"""`cleave shell` with a program before it, and what its commands say."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import Result

from cleave.ask.files import FileSource
from cleave.ask.options import Access, Asking, complete
from cleave.ask.session import Session
from cleave.cli import console
from cleave.cli.shell.shell import Shell, run_lines
from cleave.local.embedded import embedded_services
from cleave.table.lazy import of_files
from cleave.table.table import Table
from cleave_shared.errors import InputError, QueryRefused
from tests.cli.runner import Cli

SAMPLES = Path(__file__).parents[1] / "samples"
AGES = "SELECT ward, AVG(age) AS age FROM patients GROUP BY ward ORDER BY ward"


def asked(cli: Cli, table: Path, typed: str, *options: object) -> Result:
    return cli.run("--quiet", "shell", table, *options, typed=typed)


def test_statements_are_answered_one_after_the_other(ready: Cli, table: Path) -> None:
    second = "SELECT COUNT(*) AS n\n  FROM patients -- all; of them\n"
    typed = f".format csv\n{AGES};\n{second}; SELECT MAX(ward) m FROM patients"
    result = asked(ready, table, typed)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "ward,age,age_bound"
    assert lines[1].startswith("Cardiology,60.767")
    assert lines[7:10] == ["n", "600", "m"]


def test_the_answers_are_those_of_query(ready: Cli, table: Path) -> None:
    formats = ("table", "markdown", "ndjson", "json")
    shell = asked(ready, table, "".join(f".format {format_}\n{AGES};\n" for format_ in formats)).stdout
    *texts, document = (ready.run("--quiet", "query", table, AGES, "--format", each).stdout for each in formats)
    assert shell.startswith("".join(texts))
    assert json.loads(shell.removeprefix("".join(texts)))["rows"] == json.loads(document)["rows"]


def test_the_first_error_ends_it_with_its_own_code(ready: Cli, table: Path) -> None:
    result = asked(ready, table, f"SELECT COUNT(*) AS before FROM patients; SELECT nothing FROM patients;\n{AGES};")
    assert result.exit_code == 4
    assert "before" in result.stdout
    assert "Cardiology" not in result.stdout
    assert "there is no column 'nothing'" in result.stderr


@pytest.mark.parametrize(
    ("typed", "code", "told"),
    [
        (".nothing\n", 3, "there is no command .nothing"),
        (".plan\n", 3, ".plan needs an argument"),
        (".tables of\n", 3, ".tables takes no argument"),
        (".schema of\n", 3, "there is no table 'of'"),
        (".rows 40\n", 3, ".rows 40: it is all or few"),
        (".format parquet\n", 3, "there is no format parquet"),
        (".report page.html\n", 3, "there is no answer yet"),
        ("SELECT 'open", 4, "error"),
        (f"SELECT '{'x' * 41_000}\n", 3, "line 1: a statement does not end"),
    ],
)
def test_what_is_wrong_is_told(ready: Cli, table: Path, typed: str, code: int, told: str) -> None:
    result = asked(ready, table, typed)
    assert result.exit_code == code, result.output
    assert told in result.stderr


def test_what_is_no_text_is_told_by_its_line(session: Session) -> None:
    with pytest.raises(InputError, match="standard input, line 2: is not UTF-8"):
        run_lines(shell_over(session), [b".format csv\n", b"SELECT '\xff';\n"])


def test_a_mark_at_the_beginning_is_no_part_of_the_first_statement(session: Session) -> None:
    run_lines(shell_over(session), ["\ufeff.format csv\n".encode()])


@pytest.mark.parametrize(
    "typed", ["", "\n\n", "-- nothing\n", ";;\n", ".exit\nSELECT nothing;", ".quit\nSELECT nothing;"]
)
def test_nothing_is_asked_of_nothing(ready: Cli, table: Path, typed: str) -> None:
    result = asked(ready, table, typed)
    assert (result.exit_code, result.output) == (0, "")


def test_commands_may_follow_comments_and_stand_between_statements(ready: Cli, table: Path) -> None:
    result = asked(ready, table, "-- first\n.format\nSELECT COUNT(*) AS n FROM patients;\n\n.format csv\n.format")
    assert result.exit_code == 0, result.output
    assert [line for line in result.stdout.splitlines() if line in ("csv", "table")] == ["table", "csv"]


def test_plan_asks_nobody_and_needs_no_key(cli: Cli, table: Path, tmp_path: Path) -> None:
    result = asked(cli, table, f".plan {AGES};\n", "--key", tmp_path / "none.json")
    assert result.exit_code == 0, result.output
    assert result.stdout == cli.run("plan", table, AGES).stdout


def test_what_the_table_is_like_is_told(ready: Cli, table: Path) -> None:
    shown = asked(ready, table, ".tables\n.schema\n").stdout
    assert [line.split() for line in shown.splitlines()[:3]][2] == ["patients", "9", "600"]
    columns = [line.split() for line in shown.splitlines()]
    assert ["patient_name", "sealed", "VARCHAR", "yes"] in columns
    (bill,) = [line for line in columns if line[0] == "bill"]
    assert bill[1:3] == ["encrypted", "DECIMAL(18,2)"]


def test_further_tables_are_joined_here(ready: Cli, table: Path, tmp_path: Path) -> None:
    (tmp_path / "wards.csv").write_text("ward,beds\nCardiology,12\nSurgery,30\n")
    typed = ".tables\n.format csv\nSELECT SUM(beds) AS beds FROM patients JOIN wards USING (ward);"
    result = asked(ready, table, typed, "--with", tmp_path / "wards.csv")
    assert result.exit_code == 0, result.output
    assert "wards           2  read here only" in result.stdout
    assert result.stdout.splitlines()[-1] == str(99 * 12 + 95 * 30)


def test_help_names_every_command(ready: Cli, table: Path) -> None:
    shown = asked(ready, table, ".help").stdout
    for command in (".plan SQL", ".report FILE", ".format [FORMAT]", ".tables", ".schema", ".exit"):
        assert command in shown


def test_the_last_answer_becomes_a_page(ready: Cli, table: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    typed = f"{AGES};\nSELECT nothing_here;\n"
    assert asked(ready, table, f"{AGES};\n.report {page}\n").exit_code == 0
    assert AGES in page.read_text("utf-8")
    again = asked(ready, table, f"{AGES};\n.report {page}\n")
    assert again.exit_code == 3
    assert "already exists" in again.stderr
    assert asked(ready, table, typed).exit_code == 4


def test_options_are_those_of_query(ready: Cli, table: Path) -> None:
    told = asked(ready, table, "SELECT MEDIAN(age) FROM patients;", "--cloud-only")
    assert told.exit_code == 4
    suppressed = ready.run("shell", table, "--min-group", 100, typed=f"{AGES};")
    assert "3 groups of fewer than 100 rows not shown (rule P2)." in suppressed.stderr
    undecided = "SELECT ward FROM patients GROUP BY ward HAVING SUM(weight) - SUM(weight + 0) <= 0;"
    assert asked(ready, table, undecided, "--strict").exit_code == 8
    assert "above 0" in ready.run("shell", table, "--timeout", 0, typed="").stderr
    help_of = {name: ready.run(name, "--help").stdout for name in ("query", "shell")}
    for option in (
        "--endpoint",
        "--lambda",
        "--profile",
        "--region",
        "--sign",
        "--key",
        "--passphrase-fd",
        "--with",
        "--pad",
    ):
        assert option in help_of["query"]
        assert option in help_of["shell"]


def test_a_terminal_gets_all_rows_only_if_they_are_wanted(
    ready: Cli, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ages = "SELECT age FROM patients ORDER BY age"
    assert len(ready.run("--quiet", "query", table, ages).stdout.splitlines()) == 603
    assert len(asked(ready, table, f"{ages};").stdout.splitlines()) == 603
    monkeypatch.setattr(console, "is_terminal", lambda stream: stream is sys.stdout)
    cut = ready.run("--quiet", "query", table, ages).stdout.splitlines()
    assert (len(cut), cut[-1]) == (
        44,
        "Not shown: 560 of 600 rows. Write all to a file with -o, or append `| less -S`.",
    )
    lines = asked(ready, table, f".rows\n{ages};\n.rows all\n.rows\n{ages};\n.rows few\n{ages};\n").stdout.splitlines()
    assert lines[0] == "few"
    assert lines[44:46] == ["Not shown: 560 of 600 rows. `.rows all` shows all from the next query on.", "all"]
    assert lines[46 + 603 + 43].startswith("Not shown: 560 of 600 rows.")
    assert len(asked(ready, table, f".format csv\n{ages};").stdout.splitlines()) == 601


def test_no_history_is_kept_of_what_a_program_asks(ready: Cli, table: Path, tmp_path: Path) -> None:
    ready.environment["XDG_STATE_HOME"] = str(tmp_path / "state")
    assert asked(ready, table, f"{AGES};").exit_code == 0
    assert not (tmp_path / "state").exists()


@pytest.fixture
def reads() -> list[str]:
    return []


@pytest.fixture
def session(key_file: Path, reads: list[str]) -> Iterator[Session]:
    patients = of_files([SAMPLES / "patients.csv"])

    def read() -> Table:
        reads.append("read")
        return patients.read(None)

    def embedded() -> object:
        reads.append("services")
        return embedded_services()

    def passphrase() -> bytes:
        reads.append("passphrase")
        return b""

    lazy = replace(patients, prefetched=read)
    with Session(FileSource(lazy, Access(key_file, passphrase), embedded)) as opened:  # type: ignore[arg-type]
        yield opened


def shell_over(session: Session) -> Shell:
    return Shell(session, complete(Asking, {"timeout": 60.0}), lambda work: work())


def test_table_key_and_services_are_opened_once(session: Session, reads: list[str], capsys: object) -> None:
    shell = shell_over(session)
    shell.command(".help")
    assert reads == []
    for _ in range(3):
        shell.statement(AGES)
        shell.command(f".plan {AGES}")
    with pytest.raises(QueryRefused):
        shell.statement("SELECT nothing FROM patients")
    shell.statement(AGES)
    assert reads == ["read", "services"]


def test_what_fails_keeps_the_last_answer(session: Session, tmp_path: Path, capsys: object) -> None:
    shell = shell_over(session)
    shell.statement(AGES)
    with pytest.raises(QueryRefused):
        shell.statement("SELECT nothing FROM patients")
    shell.command(f".report {tmp_path / 'page.html'}")
    assert AGES in (tmp_path / "page.html").read_text("utf-8")


@pytest.mark.parametrize("word", ["quit", "exit", "QUIT;", "\\q", ".quit"])
def test_exit_and_quit_leave(ready: Cli, table: Path, word: str) -> None:
    result = ready.run("shell", table, typed=f"{word}\nSELECT nothing FROM patients;\n")
    assert (result.exit_code, result.output) == (0, "")


def test_words_of_other_shells(ready: Cli, table: Path) -> None:
    shown = ready.run("shell", table, typed="help\n\\d\n\\d patients\n").stdout
    assert ".format" in shown
    assert "600" in shown
    assert "encrypted" in shown
    result = ready.run("shell", table, typed="\\d patiens\n")
    assert (result.exit_code, "did you mean 'patients'?" in result.stderr) == (3, True)
    result = ready.run("shell", table, typed=".formt csv\n")
    assert (result.exit_code, "did you mean '.format'?" in result.stderr) == (3, True)
