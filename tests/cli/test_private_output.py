"""Files with decrypted values are their owner's alone, and no value of a table acts on a terminal or in Markdown."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cleave.cli import console
from cleave.cli.answer import Format, answer_bytes, print_content
from cleave.cli.shell.interactive import open_history
from cleave.files import PUBLIC, write_atomically
from cleave_shared.errors import InputError
from tests.cli.runner import Cli
from tests.cli.test_report import answer
from tests.samples import write_table

UMASKS = (0o000, 0o022, 0o077, 0o277)


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("mask", UMASKS)
def test_the_umask_only_takes_away(tmp_path: Path, mask: int) -> None:
    with umask(mask):
        write_atomically(tmp_path / "a.csv", b"x", error=InputError)
        write_atomically(tmp_path / "a.toml", b"x", mode=PUBLIC, error=InputError)
        open_history(tmp_path / "history")
    assert mode(tmp_path / "a.csv") == mode(tmp_path / "history") == 0o600 & ~mask
    assert mode(tmp_path / "a.toml") == 0o644 & ~mask


def test_a_link_to_itself_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.symlink_to("a.csv")
    write_atomically(path, b"x", error=InputError, overwrite=True)
    assert path.read_bytes() == b"x"


@pytest.mark.parametrize("linked", [False, True])
def test_what_is_no_file_is_not_replaced(tmp_path: Path, *, linked: bool) -> None:
    """A device neither: root could replace /dev/null."""
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "socket"))
    for name, is_kind in (("pipe", stat.S_ISFIFO), ("socket", stat.S_ISSOCK)):
        path = tmp_path / name
        if linked:
            path = tmp_path / f"to {name}"
            path.symlink_to(name)
        with pytest.raises(InputError, match="is not a regular file"):
            write_atomically(path, b"x", error=InputError, overwrite=True)
        assert is_kind((tmp_path / name).stat().st_mode)


def test_a_history_never_gains_rights(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_text("")
    path.chmod(0o244)
    with umask(0):
        open_history(path)
    assert mode(path) == 0o200


def test_every_file_that_query_and_pull_write(cli: Cli, key_file: Path, tmp_path: Path) -> None:
    write_table(tmp_path / "t.csv", "w,n\na,1\nb,2\n", w="plain VARCHAR", n="local BIGINT")
    cli.environment |= {"CLEAVE_KEY": str(key_file), "XDG_STATE_HOME": str(tmp_path / "state")}
    made = [tmp_path / f"out.{ending}" for ending in ("csv", "md", "txt", "json", "ndjson", "parquet")]
    with umask(0):
        for output in made:
            page = ("--report", tmp_path / "page.html") if output is made[0] else ()
            result = cli.run("query", tmp_path / "t.csv", "SELECT SUM(n) FROM t", "-o", output, *page)
            assert result.exit_code == 0, result.output
    assert {path.name: mode(path) for path in [*made, tmp_path / "page.html"]} == {
        path.name: 0o600 for path in [*made, tmp_path / "page.html"]
    }


HOSTILE = "\x1b]0;x\x07|\\|<img src=x>&`![a](http://x)\x9b31m\u202e\r\n"


def test_csv_on_a_terminal_shows_control_characters_and_a_pipe_gets_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    content = answer_bytes(answer([[HOSTILE, 3, 2.5]], [[None, None, 0.0]], [[None, None, True]]), Format.CSV)
    print_content(content, Format.CSV)
    assert HOSTILE in capsys.readouterr().out
    monkeypatch.setattr(console, "is_terminal", lambda _: True)
    print_content(content, Format.CSV)
    shown = capsys.readouterr().out
    assert all(char.isprintable() or char == "\n" for char in shown)
    assert r"\x1b]0;x\x07" in shown


def test_no_text_but_csv_has_a_control_character() -> None:
    given = answer([[HOSTILE, 3, 2.5]], [[None, None, 0.0]], [[None, None, True]])
    for chosen in set(Format) - {Format.CSV, Format.PARQUET, Format.XLSX}:
        text = answer_bytes(given, chosen).decode()
        assert all(char.isprintable() or char == "\n" for char in text), chosen


def test_markdown_makes_no_html_link_or_cell_of_a_value() -> None:
    given = answer([[HOSTILE, 3, 2.5]], [[None, None, 0.0]], [[None, None, True]])
    *_, row = answer_bytes(given, Format.MARKDOWN).decode().splitlines()
    assert row == (
        r"| \\x1b\]0;x\\x07\|\\\|&lt;img src=x&gt;&amp;\`!\[a\](http://x)\\x9b31m\\u202e\\r\\n | 3 | 2.5 exact |"
    )
