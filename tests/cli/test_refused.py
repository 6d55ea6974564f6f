"""Commands that are refused: with which exit code, and what they say. Words of a command are those of a shell."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.cli.runner import Cli

AGES = "'SELECT AVG(age) FROM patients'"
REFUSED = [
    # how it is called
    (3, "plan -- --debug 'SELECT 1'", "no such file"),
    (2, "shell -", "cannot hold both"),
    (2, "plan patients.csv 'bill ~ age'", "only cleave fit takes formulas"),
    (2, "fit patients.csv", "a table and a formula are needed"),
    (2, f"query patients.csv {AGES} --timeout 0", "--timeout"),
    (2, f"query patients.csv {AGES} --min-group -1", "--min-group"),
    (2, f"query patients.csv {AGES} --memory 1GB", "--memory"),
    (2, f"query patients.csv {AGES} --job arn", "--job"),
    (2, f"query patients.csv {AGES} --lambda one", "--lambda"),
    (2, f"query patients.csv {AGES} --reader carol.json", "--reader needs a stored table"),
    (
        2,
        f"query patients.csv {AGES} --format yaml",
        "error: Invalid value for '--format': 'yaml' is not one of 'table'",
    ),
    *((2, words, "--help") for words in ("no-such-command", "--no-such-option", "query", "query t.csv", "plan t.csv")),
    (2, "key export", "--help"),
    (2, "serve --port 70000", "--help"),
    (2, "qurey", "hint: did you mean 'query'?"),
    (2, "key shwo", "hint: did you mean 'show'?"),
    (2, "query --stroe x", "hint: did you mean '--store'?"),
    (2, "drop t --ys", "hint: did you mean '--yes'?"),
    *(
        (2, f"{command} {words}", said)
        for command in ("query", "plan")
        for words, said in (
            ("patients.csv 'SELECT 1' --sql-file -", "one query is needed"),
            ("patients.csv", "a query is needed"),
            ("- --sql-file -", "both the table and the SQL"),
        )
    ),
    (2, f"query patients.csv {AGES} --format parquet", "error: "),
    (2, f"query patients.csv {AGES} --json --format csv", "error: "),
    # not: Invalid value: -o
    (2, f"query patients.csv {AGES} -o answer.docx", "error: -o: the ending names no format; "),
    # what is read
    (3, "query patients.csv nothing.csv 'SELECT 1'", "nothing.csv: there is no such file"),
    (3, "query '*.parquet' 'SELECT 1'", "*.parquet: matches no file"),
    (3, "schema absent.csv", "absent.csv"),
    (3, "schema -", "-o"),
    *(
        (3, f"{command} {folder}{more}", said)
        for folder in (".", "..", "/", "{folder}")
        for command, more, said in (
            ("schema", "", "is a directory"),
            ("plan", " 'SELECT 1'", "is a directory"),
            ("put", f" --table t --store {folder}", "--append takes a folder"),
        )
    ),
    (3, "schema damaged.xlsx", "cannot be read as an Excel file"),
    (3, "schema damaged.xlsx --sheet A", "cannot be read as an Excel file"),
    (3, "schema patients.parquet", "there is no such file"),
    # what a schema is to be
    (3, "schema new.csv --plain wart", "no column 'wart'"),
    (3, "schema new.csv --encrypted email", "column 'email': VARCHAR cannot be encrypted"),
    (2, "schema new.csv --plain ward --sealed Ward", "'Ward' is given both as plain and as sealed"),
    (2, "schema new.csv --plain ward,", "a name is missing"),
    *(
        (2, f"schema new.csv --check {more}", "--check writes nothing")
        for more in ("--plain ward", "--yes", "--accept")
    ),
    (3, "schema new.csv --plain w*d2", "no column matches 'w*d2'"),
    (3, "schema new.csv --plain wa* --sealed *rd", "column 'ward': 'wa*' makes it plain, '*rd' makes it sealed"),
    *(
        (2, f"schema new.csv --page a.html {more}", "--page writes no schema")
        for more in ("--check", "--from a.toml", "-o a.toml", "--json")
    ),
    *(
        (2, f"schema new.csv --from a.toml {more}", "--from has all choices")
        for more in ("--plain ward", "--accept", "--skip 1", "--check", "--show-values")
    ),
    # what is written
    (3, "schema patients.csv --yes", "already exists"),
    (
        3,
        f"query nowhere.csv {AGES} --report there.html",
        "there.html: already exists",
    ),  # before the table is looked for
    (5, "key new --key there.html --no-passphrase", "already exists"),
    (3, "schema patients.csv -o patients.csv/below/a.toml", "cannot be written"),
    (
        3,
        f"query patients.csv {AGES} -o patients.csv/answer.csv",
        "patients.csv/answer.csv: patients.csv is not a folder",
    ),
    (3, f"query patients.csv {AGES} --report patients.csv/page.html", "is not a folder"),
    (2, f"query patients.csv {AGES} --report out.txt", "let it end in .html"),
    (2, f"query patients.csv {AGES} -o a.txt --report ./a.txt", "same file"),
    # keys
    (5, "key show --key none.json", "cleave key new"),
    (5, "key new --key new.json --passphrase-fd 987", "file descriptor 987 cannot be read"),
    (2, "key new --key new.json --passphrase word", "there is no option"),
    (2, "key new --key new.json -p word", "there is no option"),
    # the question
    (
        4,  # --min-group leaves out row by row: who makes this answerable must leave out what follows from it as well
        "query patients.csv 'SELECT ward, SUM(SUM(age)) OVER () FROM patients GROUP BY ward' --min-group 2",
        "minimum group size cannot be kept",
    ),
    (
        4,
        "query patients.csv 'SELECT ward FROM patients WHERE age > 40' --cloud-only --key none.json",
        "the query selects single rows",
    ),
]


def contents() -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}


@pytest.mark.parametrize(("code", "words", "said"), REFUSED, ids=[words for _, words, _ in REFUSED])
def test_a_command_is_refused(
    ready: Cli, table: Path, code: int, words: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(table.parent)
    Path("damaged.xlsx").write_bytes(b"not a workbook")
    Path("there.html").write_text("mine")
    Path("new.csv").write_text(
        "email,ward,age,status\n" + "".join(f"p{n}@example.org,north,{40 + n},x\n" for n in range(10))
    )
    before = contents()
    assert said in " ".join(ready.fails(code, *shlex.split(words.format(folder=table.parent))).split("\n"))
    assert contents() == before
