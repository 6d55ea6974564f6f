"""`cleave schema`: a proposal to read, a file to review, nothing overwritten."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from cleave.table.schema import load_schema
from tests.cli.runner import Cli

ROOT = Path(__file__).parents[2]


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    rows = "".join(
        f"p{number}@example.org,{'north' if number % 2 else 'south'},{40 + number},x\n" for number in range(10)
    )
    path.write_text(f"email,ward,age,status\n{rows}")
    return path


def kinds(path: Path) -> dict[str, str]:
    return {column.name: str(column.kind) for column in load_schema(path).columns}


def test_the_proposal_is_shown_with_its_reasons_and_written(cli: Cli, csv: Path) -> None:
    result = cli.run("schema", csv)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0].split() == ["column", "kind", "type", "reason"]
    assert "e-mail" in result.stdout
    target = csv.with_suffix(".schema.toml")
    wrote, unsure = result.stderr.splitlines()
    assert wrote == f"wrote {target}: review it before the first query"
    assert unsure.startswith("unsure of status: none of it is plain; settle it with --plain")
    assert kinds(target) == {"email": "sealed", "ward": "plain", "age": "encrypted", "status": "sealed"}
    assert [column.unsure for column in load_schema(target).columns] == [False, False, False, True]


def test_another_file_may_be_named(cli: Cli, csv: Path, tmp_path: Path) -> None:
    assert cli.run("schema", csv, "-o", tmp_path / "other.toml", "--quiet").stderr == ""
    assert load_schema(tmp_path / "other.toml").columns
    assert not csv.with_suffix(".schema.toml").exists()


def test_names_cannot_write_to_the_terminal(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "nasty.csv"
    path.write_text('"a\x1b]0;owned\x07","[red]b[/red]"\n1,2\n')
    result = cli.run("schema", path)
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.output
    assert "a\\x1b]0;owned\\x07" in result.stdout
    assert "[red]b[/red]" in result.stdout


@pytest.mark.parametrize(("answer", "options", "written"), [("y", [], True), ("", [], False), (None, ["--yes"], True)])
@pytest.mark.sampled(3)
def test_on_a_terminal_it_asks_first(csv: Path, answer: str | None, options: list[str], written: bool) -> None:
    main, side = pty.openpty()
    command = [sys.executable, "-c", "from cleave.local.main import main; main()", "schema", str(csv), *options]
    with subprocess.Popen(command, stdin=side, stdout=subprocess.PIPE, stderr=side, cwd=ROOT) as process:
        os.close(side)
        said = b""
        if answer is not None:
            while b"[y/N]" not in said:
                said += os.read(main, 1024)
            os.write(main, answer.encode() + b"\n")
        out, _ = process.communicate(timeout=120)
    os.close(main)
    assert process.returncode == 0
    assert b"reason" in out
    assert csv.with_suffix(".schema.toml").exists() is written


def test_columns_are_settled_by_flag(cli: Cli, csv: Path) -> None:
    options = ("--plain", "STATUS, ward", "--encrypted", "age", "--local", "email", "--yes")
    result = cli.run("schema", csv, *options)
    assert result.exit_code == 0, result.output
    assert "unsure" not in result.stderr
    target = csv.with_suffix(".schema.toml")
    assert kinds(target) == {"email": "local", "ward": "plain", "age": "encrypted", "status": "plain"}
    (email, *_, status) = load_schema(target).columns
    assert email.reason == "decided: local; proposed sealed: 100 % of values are e-mail addresses"
    assert not status.nullable  # stated for columns that are computed on, as the settled kind has it


def test_a_name_with_a_comma_in_it_is_settled_in_quotes(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('"a,b",c\n' + "x,y\n" * 20)
    assert cli.run("schema", path, "--sealed", '"a,b",c', "--yes").exit_code == 0
    assert kinds(tmp_path / "t.schema.toml") == {"a,b": "sealed", "c": "sealed"}


def test_accept_settles_what_is_unsure_as_it_is(cli: Cli, csv: Path) -> None:
    result = cli.run("schema", csv, "--accept")
    assert "unsure" not in result.stderr
    target = csv.with_suffix(".schema.toml")
    assert kinds(target) == {"email": "sealed", "ward": "plain", "age": "encrypted", "status": "sealed"}
    assert cli.run("schema", csv, "--check").exit_code == 0


def test_a_written_schema_is_settled_in_place(cli: Cli, csv: Path) -> None:
    target = csv.with_suffix(".schema.toml")
    cli.run("schema", csv)
    target.write_text(target.read_text().replace("[columns.ward]", "# seen by the board\n[columns.ward]"))
    result = cli.run("schema", csv, "--local", "*ai*", "--sealed", "age", "--accept")
    assert result.exit_code == 0, result.output
    assert [line.split()[0] for line in result.stdout.splitlines()[2:]] == ["email", "age", "status"]
    assert f"changed 3 columns of {target}" in result.stderr
    assert kinds(target) == {"email": "local", "ward": "plain", "age": "sealed", "status": "sealed"}
    assert "# seen by the board" in target.read_text()
    again = cli.run("schema", csv, "--encrypted", "AGE")
    assert again.exit_code == 0
    age = load_schema(target).column("age")
    assert (str(age.kind), age.lower, age.upper) == ("encrypted", 0, 128)
    assert age.reason.startswith("decided: encrypted; proposed encrypted: name says: a measure of a person")


def test_a_number_that_becomes_computed_on_gets_bounds(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("customer_id,age\n" + "".join(f"{100 + number},40\n" for number in range(30)))
    target = tmp_path / "t.schema.toml"
    cli.run("schema", path)
    assert load_schema(target).column("customer_id").upper is None
    cli.run("schema", path, "--encrypted", "customer_*")
    column = load_schema(target).column("customer_id")
    assert column.upper == 16384
    assert not column.nullable


def test_force_proposes_again(cli: Cli, csv: Path) -> None:
    target = csv.with_suffix(".schema.toml")
    target.write_text("reviewed")
    assert "--force proposes it again" in cli.fails(3, "schema", csv, "--skip", "0")
    assert cli.run("schema", csv, "--force").exit_code == 0
    assert kinds(target)["email"] == "sealed"


def test_columns_that_are_called_otherwise_are_named(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a, b ,a,,A\n1,2,3,4,5\n")
    said = " ".join(cli.run("schema", path).stderr.split())
    assert "column 3 is called 'a_1': 'a' is taken; column 4 is called 'column3': it has no name" in said
    assert "column 5 is called 'A_2': 'A' is taken" in said
    assert "'b'" not in said


def test_a_schema_may_begin_with_a_byte_order_mark(cli: Cli, csv: Path) -> None:
    cli.run("schema", csv, "--accept")
    target = csv.with_suffix(".schema.toml")
    target.write_text(target.read_text(), "utf-8-sig")
    assert cli.run("schema", csv, "--check").exit_code == 0
    assert cli.run("schema", csv, "--local", "email").exit_code == 0
    assert kinds(target)["email"] == "local"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_line_break_in_a_header_gets_no_hint_that_loses_rows(cli: Cli, tmp_path: Path, end: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(end.join(["'age\r(years)',ward", *["1,A"] * 5, ""]).encode())  # one apostrophe encloses no field
    said = cli.fails(3, "schema", path)
    assert "the lines before it in CR" in " ".join(said.split())
    assert "--skip" not in said
    path.write_bytes(path.read_bytes().replace(b"'", b'"'))
    assert cli.run("schema", path, "--accept").exit_code == 0
    assert "2 columns, 5 rows" in cli.run("schema", path, "--check").stderr


def test_lines_before_and_after_the_table_are_named(cli: Cli, csv: Path) -> None:
    rows = csv.read_text()
    csv.write_text(f"Report of the board\n\nMade in 2024\n{rows}\nTotal: 10 rows\n")
    assert "--skip 3 --skip-footer 2" in cli.fails(3, "schema", csv).replace("\n", " ")
    assert cli.run("schema", csv, "--skip", "3", "--skip-footer", "2").exit_code == 0
    assert len(kinds(csv.with_suffix(".schema.toml"))) == 4
    assert cli.run("schema", csv, "--check", "--accept").exit_code == 2
    cli.run("schema", csv, "--accept")
    assert cli.run("schema", csv, "--check").stderr.endswith(": 4 columns, 10 rows\n")


@pytest.mark.parametrize(
    ("before", "inside", "after", "hint"),
    [
        ("", "1,2\n", "", None),
        ("Report\n\n", "", "", "if lines 1 to 2 are no part of the table: --skip 2"),
        ("", "", "Total\n", "if line 14 is no part of the table: --skip-footer 1"),
        ("Report\n", "1,2\n", "Total\nEnd\n", "--skip 1 --skip-footer 2; line 8 has another number of fields"),
        ("a,b\n", "", "", None),  # may be the header
    ],
)
def test_a_hint_loses_no_row(cli: Cli, tmp_path: Path, before: str, inside: str, after: str, hint: str | None) -> None:
    """A ragged row in the middle made the hint `--skip 3`, which lost the rows before it."""
    rows = [f"{number},x,{number}\n" for number in range(12)]
    path = tmp_path / "t.csv"
    path.write_text(before + "n,t,m\n" + "".join([*rows[:5], inside, *rows[5:]]) + after)
    said = " ".join(cli.fails(3, "schema", path).split())
    if hint is None:
        assert "--skip" not in said
        assert f"line {2 if before else 7}" in said
        return
    assert hint in said
    if not inside:
        options = said.split("table: ")[1].split()
        assert cli.run("schema", path, "--accept", *options).exit_code == 0
        assert "3 columns, 12 rows" in cli.run("schema", path, "--check").stderr


@pytest.mark.sampled(3)
@pytest.mark.parametrize("end", ["\r", "\n"])
@pytest.mark.parametrize("header", ["'a{}b',c,d", "c,'a{}b',d", "c,'a{0}{0}b',d"])
def test_a_header_in_apostrophes_is_not_advised_away(cli: Cli, tmp_path: Path, header: str, end: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(end.join([header.format(end), "1,2,3", "4,5,6", "7,8,9", ""]).encode())
    said = " ".join(cli.fails(3, "schema", path).split())
    assert "--skip" not in said
    assert "if apostrophes enclose the field with a line break in the header, put double quotes" in said
    path.write_bytes(path.read_bytes().replace(b"'", b'"'))
    assert cli.run("schema", path, "--accept").exit_code == 0
    assert "3 columns, 3 rows" in cli.run("schema", path, "--check").stderr


@pytest.mark.parametrize(("censored", "total"), [("limit", "905.5"), ("null", "900.5")])
def test_what_stands_among_numbers_is_counted_and_read(cli: Cli, tmp_path: Path, censored: str, total: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text("crp\n" + "9\n" * 100 + "<5\nn.d.\nn.d.\n0.5\n")
    cli.run("schema", path)
    (column,) = load_schema(tmp_path / "t.schema.toml").columns
    assert (column.type, column.unsure) == ("VARCHAR", True)
    assert "101 of 104 fields are numbers; 'n.d.': 2; limits (< or > and a number): 1; to read them: " in column.reason
    assert "--null-token 'n.d.' --censored limit (or null)" in column.reason
    assert cli.run("schema", path, "--force", "--null-token", "n.d.", "--censored", censored).exit_code == 0
    assert load_schema(tmp_path / "t.schema.toml").column("crp").type == "DECIMAL(18,1)"
    assert total in cli.run("query", path, "SELECT SUM(crp) FROM t").stdout


def test_a_strange_value_among_numbers_is_not_quoted(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("crp\n" + "9\n" * 100 + "Okonkwo\n")
    assert "Okonkwo" not in cli.run("schema", path).output
    (column,) = load_schema(tmp_path / "t.schema.toml").columns
    assert "others: 1, the first in data row 101" in column.reason
    assert "Okonkwo" not in column.reason


def test_check_passes_once_all_is_settled(cli: Cli, csv: Path) -> None:
    assert "there is no such schema" in cli.fails(3, "schema", csv, "--check")
    target = csv.with_suffix(".schema.toml")
    cli.run("schema", csv)
    assert f"{target}: not settled: status" in cli.fails(3, "schema", csv, "--check")
    target.write_text("".join(line for line in target.read_text().splitlines(True) if "unsure = true #" not in line))
    result = cli.run("schema", csv, "--check")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.endswith(": 4 columns, 10 rows\n")
    assert json.loads(cli.run("schema", csv, "--check", "--json").stdout)["unsure"] == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("status", "status,iban", "is not named in the schema"),
        (",x", "", "in the schema and not in the file"),
        ("49", "4900", "above upper = 128"),
        (",49,", ",,", "is NULL"),
    ],
)
def test_check_fails_where_the_schema_does_not_cover_the_file(
    cli: Cli, csv: Path, old: str, new: str, problem: str
) -> None:
    cli.run("schema", csv, "--plain", "status")
    text = csv.read_text().replace(old, new)
    csv.write_text(text.replace("x\n", "x,\n") if "iban" in new else text.replace(",status", "") if not new else text)
    assert problem in cli.fails(3, "schema", csv, "--check", "--json")


def test_json_holds_the_proposal(cli: Cli, csv: Path) -> None:
    result = json.loads(cli.run("schema", csv, "--json", "--quiet").stdout)
    assert result["schema"] == str(csv.with_suffix(".schema.toml"))
    assert result["unsure"] == ["status"]
    assert result["columns"][2] == {
        "name": "age",
        "kind": "encrypted",
        "type": "BIGINT",
        "nullable": False,
        "lower": "0",
        "upper": "128",
        "reason": "name says: a measure of a person; ages: 0 to 128",
        "unsure": False,
    }


def test_without_a_terminal_nothing_unsure_is_written_as_plain(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    known = [line.split("\t") for line in (ROOT / "tests/samples/columns/known.tsv").read_text().splitlines()[1:]]
    names = [f'"{name}"' for language, name, *_ in known if language == "en"]
    path.write_text(",".join(names) + "\n" + ",".join(["a"] * len(names)) + "\n")
    assert cli.run("schema", path, "--yes").exit_code == 0
    columns = load_schema(tmp_path / "t.schema.toml").columns
    assert sum(column.unsure for column in columns) > 5
    assert not [column for column in columns if column.unsure and column.kind == "plain"]


def test_columns_of_one_reason_share_a_line(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    names = [f"gene_{number}" for number in range(30)]
    path.write_text(f"age,{','.join(names)},weight,height\n" + f"41,{','.join(['0.5'] * 30)},60.5,1.5\n" * 30)
    lines = cli.run("schema", path).stdout.splitlines()
    assert len(lines) == 2 + 4
    assert lines[3].startswith("gene_0, gene_1 and 28 more  encrypted  DECIMAL(18,1)")
    assert len(load_schema(tmp_path / "t.schema.toml").columns) == 33


def test_values_are_shown_on_a_terminal_only(tmp_path: Path) -> None:
    """Neither a file nor a pipe gets a cell."""
    path, target = tmp_path / "t.csv", tmp_path / "t.schema.toml"
    rows = "".join(f"Needle exchange,0.12345678901234567890,{'x' * 50}{number}\n" for number in range(30))
    path.write_text(f"ward,m,note\n{rows}")
    command = [sys.executable, "-c", "from cleave.local.main import main; main()", "schema", str(path), "--yes"]
    secrets = (b"Needle exchange", b"0.123456789", b"xxxx")

    piped = subprocess.run([*command, "--show-values"], check=False, capture_output=True, cwd=ROOT)
    assert piped.returncode == 2
    assert b"on a terminal only" in piped.stderr
    assert not target.exists()
    piped = subprocess.run(command, check=False, capture_output=True, cwd=ROOT)
    assert piped.returncode == 0
    assert not any(secret in piped.stdout + piped.stderr + target.read_bytes() for secret in secrets)

    def on_terminal(*more: str) -> bytes:
        main, side = pty.openpty()
        with subprocess.Popen([*command, "--force", *more], stdin=side, stdout=side, stderr=side, cwd=ROOT) as process:
            os.close(side)
            said = b""
            with suppress(OSError):  # EIO: the process has ended
                while block := os.read(main, 1 << 16):
                    said += block
            assert process.wait(timeout=120) == 0
        os.close(main)
        assert not any(secret in target.read_bytes() for secret in secrets)
        return said

    shown = on_terminal()
    assert b"m: 0.12345678901234567890 comes back as 0.12345678901234568" in shown
    assert b"Needle" not in shown
    shown = on_terminal("--show-values")
    assert all(secret in shown for secret in secrets)
    assert b"x" * 38 not in shown  # long ones are cut


@pytest.mark.parametrize(("name", "encoding"), [("Zo\u00eb", "latin-1"), ("\u20ac", "cp1252")])
def test_an_encoding_that_is_guessed_is_named(cli: Cli, tmp_path: Path, name: str, encoding: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(f"a\n{name}\n".encode("cp1252"))
    assert f"it is not UTF-8, and read as {encoding}: check its texts" in cli.run("schema", path).stderr
    path.write_text(f"a\n{name}\n", "utf-8")
    assert "UTF-8" not in cli.run("schema", path, "--force").stderr


def test_the_wards_of_the_sample_are_sealed_unless_a_person_says_otherwise(cli: Cli, tmp_path: Path) -> None:
    """As README has it."""
    path = tmp_path / "patients.csv"
    path.write_bytes((ROOT / "tests/samples/patients.csv").read_bytes())
    result = cli.run("schema", path)
    assert "unsure of ward:" in result.stderr
    assert "some of its values name a medical unit" in result.stdout
    assert kinds(path.with_suffix(".schema.toml"))["ward"] == "sealed"
    assert cli.run("schema", path, "--plain", "ward").exit_code == 0
    planned = cli.run("plan", path, "SELECT ward, AVG(age), MEDIAN(bill) FROM patients GROUP BY ward")
    assert planned.exit_code == 0, planned.output
