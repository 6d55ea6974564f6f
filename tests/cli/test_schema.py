"""`cleave schema`: a proposal to read, a file to review, nothing overwritten."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from cleave.table.schema import load_schema
from tests.cli.runner import Cli

ROOT = Path(__file__).parents[2]


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    path.write_text("email,ward,age\nann@example.org,north,41\nbob@example.org,south,52\n")
    return path


def test_the_proposal_is_shown_with_its_reasons_and_written(cli: Cli, csv: Path) -> None:
    result = cli.run("schema", csv)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0].split() == ["column", "kind", "type", "reason"]
    assert "e-mail" in result.stdout
    target = csv.with_suffix(".schema.toml")
    assert result.stderr == f"wrote {target}: review it before the first question\n"
    assert [column.name for column in load_schema(target).columns] == ["email", "ward", "age"]


def test_another_file_may_be_named(cli: Cli, csv: Path, tmp_path: Path) -> None:
    assert cli.run("schema", csv, "-o", tmp_path / "other.toml", "--quiet").stderr == ""
    assert load_schema(tmp_path / "other.toml").columns
    assert not csv.with_suffix(".schema.toml").exists()


def test_a_reviewed_schema_is_never_overwritten(cli: Cli, csv: Path) -> None:
    target = csv.with_suffix(".schema.toml")
    target.write_text("reviewed")
    assert "is there already" in cli.fails(3, "schema", csv, "--yes")
    assert target.read_text() == "reviewed"


def test_no_such_table(cli: Cli, tmp_path: Path) -> None:
    assert "absent.csv" in cli.fails(3, "schema", tmp_path / "absent.csv")


def test_a_directory_is_no_table(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (".", "..", "/", tmp_path):
        assert "is a directory" in cli.fails(3, "schema", name)
        assert "is a directory" in cli.fails(3, "plan", name, "--op", "sum")


def test_nothing_is_printed_where_nothing_can_be_written(cli: Cli, csv: Path) -> None:
    assert "cannot be written" in cli.fails(3, "schema", csv, "-o", csv / "below" / "a.toml")


def test_names_cannot_write_to_the_terminal(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "nasty.csv"
    path.write_text('"a\x1b]0;owned\x07","[red]b[/red]"\n1,2\n')
    result = cli.run("schema", path)
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.output
    assert "a\\x1b]0;owned\\x07" in result.stdout
    assert "[red]b[/red]" in result.stdout


@pytest.mark.parametrize(("answer", "options", "written"), [("y", [], True), ("", [], False), (None, ["--yes"], True)])
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
        out, _ = process.communicate(timeout=20)
    os.close(main)
    assert process.returncode == 0
    assert b"reason" in out
    assert csv.with_suffix(".schema.toml").exists() is written
