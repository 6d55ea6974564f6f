"""`cleave schema --page` and `--from`: a page instead of a schema, and a schema that is tried before it is written."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from cleave.propose.propose import propose
from cleave.table.schema import Kind, dump_schema, load_schema
from tests.cli.runner import Cli

ROOT = Path(__file__).parents[2]


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    rows = "".join(
        f"p{row},{'north' if row % 2 else 'south'},{40 + row},{'yes' if row % 3 else 'no'}\n" for row in range(30)
    )
    path.write_text(f"patient_id,region,age,consent\n{rows}")
    return path


@pytest.fixture
def reviewed(csv: Path) -> Path:
    path = csv.with_name("review.toml")
    path.write_text(dump_schema(propose(csv, {"consent": Kind.SEALED, "age": Kind.LOCAL})))
    return path


def test_a_page_is_written_and_no_schema(cli: Cli, csv: Path) -> None:
    page = csv.with_name("review.html")
    result = cli.run("schema", csv, "--page", page)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == (
        f"wrote {page}: choose there and download the schema, then run: cleave schema {csv} --from review.toml\n"
    )
    assert page.stat().st_mode & 0o777 == 0o600
    assert "p11" not in page.read_text("utf-8")
    assert sorted(os.listdir(csv.parent)) == ["people.csv", "review.html"]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["-", "-people.csv", "it's 1 $file.csv"])
def test_the_command_of_a_page_can_be_run(
    cli: Cli, csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "review.toml").write_text(dump_schema(propose(csv)))
    typed = csv.read_text() if name == "-" else None
    csv.rename(tmp_path / f"./{name}")
    result = cli.run("schema", "--page", "review.html", "--", name, typed=typed)
    program, *arguments = shlex.split(result.stderr.partition("then run: ")[2])
    assert program == "cleave"
    result = cli.run(*arguments, typed=typed)
    assert result.exit_code == 0, result.output
    assert len(list(tmp_path.glob("*.schema.toml"))) == 1


def test_a_page_has_values_only_with_an_option_and_says_so(cli: Cli, csv: Path) -> None:
    page = csv.with_name("review.html")
    result = cli.run("schema", csv, "--page", page, "--show-values")
    assert result.stderr.endswith(f"{page} holds values of the file: keep it as private as the file\n")
    text = page.read_text("utf-8")
    assert "This page holds values of the file." in text
    assert "<code>south</code>, <code>north</code>" in text


def test_a_page_is_not_overwritten_and_a_schema_beside_it_does_not_matter(cli: Cli, csv: Path) -> None:
    page = csv.with_name("review.html")
    page.write_text("mine")
    csv.with_suffix(".schema.toml").write_text("reviewed")
    assert "review.html: already exists" in cli.fails(3, "schema", csv, "--page", page)
    assert page.read_text() == "mine"
    assert cli.run("schema", csv, "--page", page, "--force").exit_code == 0
    assert csv.with_suffix(".schema.toml").read_text() == "reviewed"


def test_options_settle_what_a_page_begins_with(cli: Cli, csv: Path) -> None:
    page = csv.with_name("review.html")
    cli.run("schema", csv, "--page", page, "--sealed", "region", "--entity", "", "--table", "other")
    text = page.read_text("utf-8")
    assert "decided: sealed; proposed plain" in text
    assert "nobody named" in text
    assert "<h1><bdi>other</bdi></h1>" in text


def test_a_reviewed_schema_is_tried_printed_and_written(cli: Cli, csv: Path, reviewed: Path) -> None:
    result = cli.run("schema", csv, "--from", reviewed)
    assert result.exit_code == 0, result.output
    target = csv.with_suffix(".schema.toml")
    assert target.read_text() == reviewed.read_text()
    assert result.stdout.splitlines()[0].split() == ["column", "kind", "type", "reason"]
    assert "consent: yes and no come back as true and false\n" in result.stderr
    assert f"wrote {target}" in result.stderr
    assert "already exists" in cli.fails(3, "schema", csv, "--from", reviewed)
    assert cli.run("schema", csv, "--from", reviewed, "--force", "--json").exit_code == 0


def test_each_plain_column_is_named(cli: Cli, tmp_path: Path) -> None:
    """Also where someone wrote one reason for many, which may be a false one."""
    names = [f"diagnosis_{place}" for place in range(6)]
    table = tmp_path / "wide.csv"
    table.write_text(",".join(names) + "\n" + ("a," * 5 + "a\n") * 9)
    columns = "".join(f'[columns.{name}]\nkind = "plain"\ntype = "VARCHAR"\nreason = "harmless"\n' for name in names)
    (tmp_path / "review.toml").write_text(columns)
    result = cli.run("schema", table, "--from", tmp_path / "review.toml")
    assert [line.split()[:2] for line in result.stdout.splitlines()[2:]] == [[name, "plain"] for name in names]


def test_what_comes_back_otherwise_is_unsure_where_no_one_knew(cli: Cli, csv: Path, reviewed: Path) -> None:
    """As a file that changed after its proposal, or a schema that was written by hand."""
    text = reviewed.read_text()
    csv.write_text(csv.read_text().replace(",41,", ",4.10000000000000000001,"))
    reviewed.write_text(text.replace('kind = "local"\ntype = "BIGINT"', 'kind = "local"\ntype = "DOUBLE"'))
    result = cli.run("schema", csv, "--from", reviewed)
    assert result.exit_code == 0, result.output
    schema = load_schema(csv.with_suffix(".schema.toml"))
    assert [each.name for each in schema.columns if each.unsure] == ["age"]
    assert schema.column("age").reason.endswith("; a number comes back with other digits")
    assert "4.1" not in result.output
    assert "unsure of age: none of it is plain" in result.stderr
    assert "review it" not in result.stderr  # somebody did


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("patient_id,region", "patient_id,area", "is not named in the schema"),
        (",41,yes", ",41,maybe", "consent"),
        (",41,", ",old,", "age"),
    ],
)
def test_a_file_that_the_schema_does_not_fit_is_refused(
    cli: Cli, csv: Path, reviewed: Path, old: str, new: str, problem: str
) -> None:
    csv.write_text(csv.read_text().replace(old, new))
    said = cli.fails(3, "schema", csv, "--from", reviewed)
    assert problem in said
    assert "maybe" not in said
    assert not csv.with_suffix(".schema.toml").exists()


@pytest.mark.parametrize("content", ["no = toml = at all", '[columns.a]\nkind = "plain"\n', ""])
def test_what_is_no_schema_is_refused(cli: Cli, csv: Path, reviewed: Path, content: str) -> None:
    reviewed.write_text(content)
    assert "review.toml" in cli.fails(3, "schema", csv, "--from", reviewed)
    reviewed.unlink()
    missing = cli.fails(3, "schema", csv, "--from", reviewed)
    assert "review.toml: there is no such file" in missing
    assert "folder of downloads" in missing


def test_a_text_column_of_parquet_that_a_schema_calls_numbers_is_tried(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    duckdb.execute(f"COPY (SELECT '007' AS code, 'yes' AS flag, '-' AS gap, 3 AS n FROM range(5)) TO '{path}'")
    reviewed = tmp_path / "review.toml"
    types = {"code": "BIGINT", "flag": "VARCHAR", "gap": "INTEGER", "n": "INTEGER"}
    reviewed.write_text(
        '[csv]\nnull_tokens = ["-"]\n'
        + "".join(f'[columns.{name}]\nkind = "sealed"\ntype = "{type_}"\n' for name, type_ in types.items())
    )
    result = cli.run("schema", path, "--from", reviewed)
    assert result.exit_code == 0, result.output
    schema = load_schema(tmp_path / "t.schema.toml")
    assert [each.name for each in schema.columns if each.unsure] == ["code", "gap"]


def test_a_kind_that_a_type_cannot_have_is_no_choice(cli: Cli, tmp_path: Path) -> None:
    path, page = tmp_path / "t.parquet", tmp_path / "review.html"
    duckdb.execute(f"COPY (SELECT INTERVAL 3 DAY AS stay, 'x' AS code FROM range(5)) TO '{path}'")
    assert "column 'stay': INTERVAL cannot be plain" in cli.fails(3, "schema", path, "--plain", "stay")
    assert cli.run("schema", path, "--page", page).exit_code == 0
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page.read_text("utf-8"))
    choices = {each["name"]: list(each["chosen"]) for each in json.loads(data)["columns"]}
    assert choices == {'"stay"': ["encrypted", "sealed", "local"], '"code"': ["plain", "sealed", "local"]}


def test_a_terminal_shows_what_comes_back(csv: Path, reviewed: Path) -> None:
    main, side = pty.openpty()
    command = [sys.executable, "-c", "from cleave.local.main import main; main()"]
    command += ["schema", str(csv), "--from", str(reviewed), "--yes"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=side, stderr=subprocess.PIPE, cwd=ROOT) as process:
        os.close(side)
        said = b""
        try:
            while more := os.read(main, 4096):
                said += more
        except OSError:  # Linux: the other end closed
            pass
        finally:
            os.close(main)
        _, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    assert b"consent: no comes back as false" in said
