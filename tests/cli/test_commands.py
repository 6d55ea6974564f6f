"""What holds for every command: help, version, exit codes, where output goes, errors nobody expected."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from cleave.cli.app import create_cli
from cleave.local.embedded import embedded_services
from cleave.local.main import SERVERS
from cleave_shared.errors import (
    EXIT_CODES,
    CheckFailed,
    CleaveError,
    InputError,
    KeyFileError,
    QueryRefused,
    ServiceError,
    WireError,
)
from tests.cli.runner import Cli

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-c", "from cleave.local.main import main; main()"]


def test_help_tells_every_exit_code(cli: Cli) -> None:
    told = cli.run("--help").stdout
    for code in {*EXIT_CODES.values()} | {0, 2, 130, 141}:
        assert re.search(rf"\b{code}\b", told), code


@pytest.mark.parametrize("command", [[], ["schema"], ["plan"], ["query"], ["serve"], ["key"], ["key", "new"]])
def test_every_command_has_help(cli: Cli, command: list[str]) -> None:
    result = cli.run(*command, "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith("Usage: cleave")
    assert result.stderr == ""


def commands_of(group: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands_of(command, (*before, name))
        else:
            yield (*before, name), command


def test_every_command_has_two_examples_of_itself_and_fits_two_screens(cli: Cli) -> None:
    for words, _ in commands_of(typer.main.get_group(create_cli(embedded_services, more=SERVERS))):
        shown = cli.run(*words, "--help").stdout
        examples = shown.partition("\nExamples:\n")[2].splitlines()
        assert len(examples) >= 2, words
        assert all(line.startswith(f"  cleave {' '.join(words)}") for line in examples), words
        assert len(shown.splitlines()) <= 80, words


def test_options_that_few_need_come_last(cli: Cli) -> None:
    options, advanced = cli.run("query", "--help").stdout.split("\nAdvanced:\n")
    assert "--min-group" in options
    assert "--no-scan" not in options
    assert "  --no-scan " in advanced
    advanced, large = advanced.split("\nVery large tables:\n")
    assert re.findall("--[a-z-]+", large.partition("\nExamples:")[0]) == ["--job", "--stop-job"]
    assert "--job" not in advanced


def test_the_version_is_printed(cli: Cli) -> None:
    assert re.fullmatch(r"cleave \d+\.\d+\.\d+(\.dev\d+)?\n", cli.run("--version").stdout)


def failing(cli: Cli, error: BaseException, monkeypatch: pytest.MonkeyPatch) -> Cli:
    def fail(*args: object, **rest: object) -> None:
        raise error

    monkeypatch.setattr("cleave.local.serve.serve", fail)
    return cli


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CleaveError("told", hint="do this"), 1),
        (InputError("told", hint="do this"), 3),
        (QueryRefused("told", hint="do this"), 4),
        (KeyFileError("told", hint="do this"), 5),
        (ServiceError("told", hint="do this"), 6),
        (WireError("told", hint="do this"), 6),
        (CheckFailed("sentinel", "told", hint="do this"), 7),
    ],
)
def test_every_error_has_its_code(cli: Cli, error: CleaveError, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert failing(cli, error, monkeypatch).fails(code, "serve") == "error: told\nhint: do this\n"


def test_an_unexpected_error_tells_its_class_only(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    error = failing(cli, ValueError("canary 4711"), monkeypatch).fails(1, "serve")
    assert error.startswith("error: unexpected ValueError\nhint: ")
    assert "canary" not in error


@pytest.mark.parametrize("words", [["--debug", "serve"], ["serve", "--debug"]])
def test_debug_shows_where(cli: Cli, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    result = failing(cli, ValueError("canary 4711"), monkeypatch).run(*words)
    assert result.exit_code == 1
    assert "Traceback" in result.stderr
    assert "canary 4711" in result.stderr
    assert result.stdout == ""


def test_debug_shows_where_an_error_on_purpose_was_raised(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    result = failing(cli, InputError("told"), monkeypatch).run("serve", "--debug")
    assert result.exit_code == 3
    assert "Traceback" in result.stderr
    assert result.stderr.endswith("error: told\n")


def test_an_interrupt_is_silent(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    result = failing(cli, KeyboardInterrupt(), monkeypatch).run("serve")
    assert (result.exit_code, result.output) == (130, "")


def test_what_breaks_after_an_interrupt_is_silent_too(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: object, **rest: object) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise RuntimeError("as DuckDB does") from None

    monkeypatch.setattr("cleave.local.serve.serve", interrupted)
    before = signal.getsignal(signal.SIGINT)
    result = cli.run("serve")
    assert (result.exit_code, result.output) == (130, "")
    assert signal.getsignal(signal.SIGINT) is before


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Where and how `cleave serve` was to listen."""
    given: list[dict[str, Any]] = []

    def note(host: str, port: int, ready: Callable[[str], None], **more: Any) -> None:
        given.append({"host": host, "port": port} | more)
        ready(f"http://{host}:{port}")

    monkeypatch.setattr("cleave.local.serve.serve", note)
    return given


def test_serve_passes_on_what_it_is_told(cli: Cli, served: list[dict[str, Any]]) -> None:
    told = cli.run("serve", "--host", "127.0.0.2", "--port", "0")
    assert (told.exit_code, told.stdout, told.stderr) == (0, "", "listening on http://127.0.0.2:0\n")
    cli.run("serve", "--quiet")
    named = ("--allow-host", "a.example", "--allow-host", "b", "--cors", "https://c.example", "--store", "/a/folder")
    cli.run("serve", *named)
    usual = {"host": "127.0.0.1", "port": 8000, "log": True, "names": (), "origins": (), "stores": []}
    assert served == [
        usual | {"host": "127.0.0.2", "port": 0},
        usual | {"log": False},
        usual | {"names": ["a.example", "b"], "origins": ["https://c.example"], "stores": ["file:///a/folder/"]},
    ]


@pytest.mark.usefixtures("served")
def test_serve_warns_where_others_can_reach_it(cli: Cli) -> None:
    assert "no authentication" in cli.run("serve", "--host", "0.0.0.0").stderr  # noqa: S104 - nothing listens here


def test_the_reader_of_stdout_may_leave(key_file: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    words = ["key", "show", "--key", str(key_file)]
    done = subprocess.run([*COMMAND, *words], stdout=writer, stderr=subprocess.PIPE, cwd=ROOT, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_ctrl_c_ends_without_a_traceback(tmp_path: Path) -> None:
    main, side = pty.openpty()
    command = [*COMMAND, "key", "new", "--key", str(tmp_path / "key.json")]
    with subprocess.Popen(
        command, stdin=side, stdout=subprocess.PIPE, stderr=side, cwd=ROOT, start_new_session=True
    ) as process:
        os.close(side)
        said = b""
        while not said.endswith(b": "):
            said += os.read(main, 1024)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=120)
        with contextlib.suppress(OSError):  # nothing is left to read
            said += os.read(main, 1024)
    os.close(main)
    assert (process.returncode, out) == (130, b"")
    assert said == b"New passphrase, at least 12 characters: "


def test_help_imports_nothing_heavy() -> None:
    heavy = [
        "_duckdb",
        "_sealapi_cpp",
        "fastapi",
        "httpx",
        "boto3",
        "botocore",
        "numpy",
        "pydantic",
        "rich",
        "cryptography",
    ]
    code = f"import sys, cleave.local.main; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("words", "made"),
    [
        (["query", "serve", "put"], {"query"}),
        (["--quiet", "--debug", "key", "show"], {"key"}),
        (["--help", "query"], None),
        (["--version"], None),
        (["quer"], None),
        (["--", "query"], None),
        ([], None),
    ],
)
def test_of_a_named_command_only_that_one_is_made(words: list[str], made: set[str] | None) -> None:
    """Whole where none is named: help, completion and what it says of a misspelled one list all of them."""
    every, some = (
        set(typer.main.get_group(create_cli(embedded_services, words=given, more=SERVERS)).commands)
        for given in ([], words)
    )
    assert some == (every if made is None else made)
    assert {"query", "key", "put"} < every


NOT_TEXT = os.fsdecode(b"caf\xe9")


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (1, [NOT_TEXT]),
        (2, ["query", NOT_TEXT, "SELECT 1"]),
        (3, ["query", "a.csv", f"SELECT '{NOT_TEXT}'"]),
        (3, ["ls", "--store", NOT_TEXT]),
        (3, ["ls", "--key", NOT_TEXT]),
        (2, ["ls", f"--{NOT_TEXT}"]),
        (2, ["put", NOT_TEXT, "--table", "t"]),
        (2, ["schema", NOT_TEXT]),
        (3, ["config", "store", NOT_TEXT]),
        (3, ["key", "show", NOT_TEXT]),
        (3, ["user", "add", NOT_TEXT]),
        (3, ["query", "--endpoint", NOT_TEXT]),
        (3, ["serve", "--host", NOT_TEXT]),
    ],
)
def test_an_argument_that_is_not_utf_8_is_refused(place: int, words: list[str], cli: Cli) -> None:
    said = cli.fails(2, *words)
    assert said.splitlines()[0] == f"error: argument {place} is not UTF-8 text: " + words[place - 1].replace(
        NOT_TEXT, "caf\\udce9"
    )


@pytest.mark.parametrize("variable", ["CLEAVE_STORE", "CLEAVE_KEY", "CLEAVE_ENDPOINT", "CLEAVE_ANALYST"])
def test_a_variable_that_is_not_utf_8_is_refused(variable: str, cli: Cli, key_file: Path) -> None:
    cli.environment |= {"CLEAVE_STORE": "/none", variable: NOT_TEXT}
    key = [] if variable in ("CLEAVE_ANALYST", "CLEAVE_KEY") else ["--key", key_file]
    said = cli.fails(2, "query", "SELECT SUM(age) FROM t", *key)
    assert said.startswith(f"error: {variable} is not UTF-8 text: caf\\udce9\n")
