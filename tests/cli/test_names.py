"""Names that no file can have, or that cannot be opened, in every place of the command line where a name may stand."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import cleave
from cleave.ckks.key_file import create_key
from cleave.cli.app import create_cli
from cleave.local.embedded import embedded_services
from cleave.local.main import SERVERS
from cleave.store.identity import create_identity
from cleave_shared.errors import CleaveError
from tests.cli.prepared import Prepared
from tests.cli.runner import Cli
from tests.samples import copy_patients
from tests.unprivileged import obeying_permissions

SAMPLES = Path(__file__).parents[1] / "samples"
SQL = "SELECT COUNT(*) FROM patients"
# Words that each command runs with; an option under test replaces or joins them.
WORDS = {
    "schema": ["patients.csv"],
    "plan": ["patients.csv", SQL],
    "query": ["patients.csv", SQL],
    "shell": ["patients.csv"],
    "put": ["patients.csv", "--table", "more"],
    "show": ["trial"],
    "log": ["trial"],
    "pull": ["trial", "-o", "out.csv"],
    "derive": ["trial", "age + 1", "--as", "older"],
    "delete": ["trial", "--where", "age > 200"],
    "update": ["trial", "--where", "age > 200", "--set", "age=1"],
    "alter": ["trial", "--rename", "age=years"],
    "compact": ["trial"],
    "verify": ["trial"],
    "drop": ["trial", "--yes"],
    "serve": ["--port", "0"],
    "gateway": ["--port", "0"],
    "config": ["user", "Grace"],
    "key new": ["--no-passphrase"],
    "key copy": ["-o", "copy.json"],
    "key export": ["-o", "public.json", "--table", "trial"],
    "key rotate": ["trial", "--new-key", "new.json"],
    "scan add": ["trial"],
    "scan drop": ["trial"],
    "release new": ["trial"],
    "release ls": ["trial"],
    "release revoke": ["trial", "carol"],
    "user add": ["alice", "--token"],
    "user remove": ["alice"],
    "contributor add": ["trial", "west", "--contributor-key", "west.pub"],
    "contributor ls": ["trial"],
    "contributor collect": ["trial"],
    "contributor clear": ["trial"],
    "contributor remove": ["trial", "west"],
}
NAMES = {
    "too long": "n" * 300,
    "too deep": "d/" * 2500 + "x",
    "unknown home": "~nobody-of-this-name/x",
    "folder": "folder",
    "no folder": "nosuch/x",
    "below a file": "patients.csv/x",
    "links in a circle": "circle",
    "no permission": "locked/x",
}
# Options whose files are read or written by each command that has them, without another reason to fail first.
READ = ("--key", "--schema", "--with", "--output", "--report", "--users", "--new-key", "--to", "--contributor-key")
NAMED = re.compile("FILE|PLACE|FOLDER|NAME|ID|CONTRIBUTOR|ANALYST")


def commands() -> Iterator[tuple[str, Any]]:
    root: Any = typer.main.get_command(create_cli(embedded_services, more=SERVERS))
    for name, command in root.commands.items():
        for each, member in getattr(command, "commands", {"": command}).items():
            yield f"{name} {each}".strip(), member


def options() -> Iterator[Any]:
    for command, made in commands():
        for each in made.params:
            if NAMED.search(each.metavar or "") and each.opts[0] not in ("--profile", "--region", "--lambda"):
                yield pytest.param(command, each.opts[-1], id=f"{command} {each.opts[-1]}")


@pytest.fixture
def run(cli: Cli, prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Runs a command in a folder with a table, a store and a key."""

    def make() -> None:
        copy_patients(prepared.root)
        for name in ("key.json", "new.json"):
            create_key(prepared.root / name, None)
        create_identity(prepared.root / "west")
        done = cli.run("put", "patients.csv", "--table", "trial", "--by", "ward")
        assert done.exit_code == 0, done.output

    monkeypatch.setattr("cleave.local.serve.serve", lambda *_, **__: None)  # they would listen until they are stopped
    monkeypatch.setattr("cleave.gateway.serve.serve", lambda *_, **__: None)
    with prepared.used() as root:
        monkeypatch.chdir(root)
        cli.environment |= {"CLEAVE_KEY": "key.json", "CLEAVE_STORE": "store", "XDG_STATE_HOME": "state"}
        cli.environment["XDG_CONFIG_HOME"] = str(root / "config")
        prepared.bring("table", make)
        (root / "folder").mkdir()
        (root / "locked").mkdir(mode=0o000)
        (root / "circle").symlink_to("circle")
        yield cli.run
        (root / "locked").chmod(0o700)


@pytest.mark.sampled(18, 3)
@pytest.mark.parametrize(("command", "option"), list(options()))
def test_a_name_that_cannot_be_used_is_shown_with_the_reason(
    run: Callable[..., Any], command: str, option: str
) -> None:
    words = WORDS.get(command, [])
    for kind, name in NAMES.items():
        if not option.startswith("-"):
            given = [name, *words[1:]]
        elif option in words:
            given = [*words[: words.index(option) + 1], name, *words[words.index(option) + 2 :]]
        else:
            given = [*words, option, name]
        with obeying_permissions():
            done = run(*command.split(), *given)
        assert done.exit_code in (0, 2, 3, 4, 5, 6), (kind, done.stderr)
        assert done.exit_code != 6 or option == "--store", (kind, done.stderr)
        if done.exit_code in (3, 5) and option in READ:
            assert re.match(rf"error: (/\S*/)?{re.escape(name)}: ", done.stderr), (kind, done.stderr)


OUTPUTS = ("--output", "--report", "--page", "--record")
# Every option or argument that names what a command writes. The table is empty; no other input exists.
WRITTEN = {
    "query --output": "query a.csv SQL -o nosuch/x.csv",
    "query --report": "query a.csv SQL --force --report nosuch/x.html",
    "survival --report": "survival a.csv --time t --event e --width 3 --report nosuch/x.html",
    "schema --output": "schema a.csv -o nosuch/x.toml",
    "schema --page": "schema a.csv --force --page nosuch/x.html",
    "pull --output": "pull t --force -o nosuch/x.csv",
    "delete --record": "delete t --where c --record nosuch/x.json",
    "release new --page": "release new t --to a.pub --dry-run --page nosuch/x.md",
    "key new --key": "key new --key nosuch/x.json",
    "key export --output": "key export -o nosuch/x.json",
    "key copy --output": "key copy -o nosuch/x.json",
    "key contributor --output": "key contributor -o nosuch/x.pem",
    "key split --output": "key split a.json -o nosuch",
    "key join --output": "key join a.txt b.txt -o nosuch/x.json",
    "analyst new --output": "analyst new -o nosuch/x.pem",
    "reader new FILE": "reader new nosuch/x.json",
    "user add --users": "user add ann --users nosuch/x.toml",
}


def test_every_output_is_among_the_cases() -> None:
    outputs = {
        f"{command} {option}"
        for command, made in commands()
        for each in made.params
        for option in OUTPUTS
        if option in each.opts
    }
    assert outputs <= WRITTEN.keys()


@pytest.mark.parametrize("case", WRITTEN)
def test_a_missing_folder_is_an_error_before_all_work(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.csv").touch()
    cli.environment |= {"CLEAVE_KEY": "key.json", "CLEAVE_STORE": "store", "XDG_CONFIG_HOME": str(tmp_path / "config")}
    words = [SQL if word == "SQL" else word for word in WRITTEN[case].split()]
    done = cli.run(*words)
    assert done.exit_code in (3, 5), done.output
    error, hint = done.stderr.splitlines()
    assert re.fullmatch(r"error: nosuch/\S+: there is no folder nosuch", error), error
    assert hint == "hint: make it first: mkdir -p nosuch"
    assert os.listdir() == ["a.csv"]


@pytest.mark.parametrize("words", ["config store s3://b", "key new --no-passphrase", "key contributor", "analyst new"])
def test_cleave_makes_its_own_folder(cli: Cli, tmp_path: Path, words: str) -> None:
    cli.environment |= {"CLEAVE_KEY": "", "XDG_CONFIG_HOME": str(tmp_path / "config")}
    done = cli.run(*words.split())
    assert done.exit_code == 0, done.output
    assert (tmp_path / "config" / "cleave").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("words", ["query patients.csv --schema", "query trial --key", "query trial --analyst"])
def test_a_file_without_end_or_content_is_an_error(run: Callable[..., Any], words: str) -> None:
    os.mkfifo("pipe", 0o600)  # nobody writes to it
    for name in ("/dev/zero", "pipe"):
        done = run(*words.split(), name, SQL)
        assert done.exit_code == (3 if "--schema" in words else 5), done.stderr
        assert done.stderr.startswith(f"error: {name}: "), done.stderr


@pytest.mark.parametrize("words", [["query"], ["plan"], ["query", "--store", "store"]])
def test_a_query_may_be_longer_than_the_name_of_a_file(run: Callable[..., Any], words: list[str]) -> None:
    table = ["patients.csv"] if "--store" not in words else []
    sql = f"SELECT COUNT(*) AS n FROM {'patients' if table else 'trial'} WHERE ward <> '{'x' * 300}'"
    done = run(*words, *table, sql)
    assert done.exit_code == 0, done.stderr
    assert run(*words, *table, f"{sql} AND {' AND '.join(['age > 0'] * 500)}").exit_code == 0


def test_a_file_may_have_the_longest_name_there_is(run: Callable[..., Any]) -> None:
    name = f"{'n' * 251}.csv"
    assert run("query", "patients.csv", SQL, "-o", name).exit_code == 0
    assert Path(name).read_text().splitlines()[0] == "count_star()"


@pytest.mark.parametrize("name", ["a\0b", "n" * 300])
def test_python_says_the_same(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    calls = [
        lambda: cleave.query(name, SQL, schema="patients.schema.toml"),
        lambda: cleave.query("trial", "SELECT COUNT(*) FROM trial", store="store", key=name),
        lambda: cleave.show("trial", store=name, key="key.json"),
        lambda: cleave.pull("trial", name + ".csv", store="store", key="key.json"),
    ]
    for call in calls:
        with pytest.raises(CleaveError, match=r"n{300}|is no path"):
            call()
