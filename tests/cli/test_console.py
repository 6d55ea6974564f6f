"""Nothing raw from a file reaches the terminal, and every line goes where it belongs."""

from __future__ import annotations

import io
import sys

import pytest

from cleave.cli import console
from cleave.text.printable import printable
from cleave.text.tabular import Heading, table


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("Zürich 東京", "Zürich 東京"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x9b2J", "\\x9b2J"),
        ("a\nb\r\tc", "a\\nb\\r\\tc"),
        ("safe\u202etxt.exe", "safe\\u202etxt.exe"),
        ("\u2028\x00\x7f", "\\u2028\\x00\\x7f"),
        ("\ud800", "\\ud800"),
        ("[bold]not markup[/bold]", "[bold]not markup[/bold]"),
    ],
)
def test_what_cannot_be_seen_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_a_table_is_as_wide_as_it_needs_to_be() -> None:
    long = "9" * 300
    text = table([Heading("a\x1b", "key"), Heading("figure", "encrypted", "right")], [["東", "1"], ["x", long]])
    assert text.splitlines() == [
        "a\\x1b  " + " " * 294 + "figure",
        "key    " + " " * 291 + "encrypted",
        "-----  " + "-" * 300,
        "東     " + " " * 299 + "1",
        "x      " + long,
    ]


def test_a_table_without_rows() -> None:
    assert table([Heading("n")], []) == "n\n-"


def test_a_stream_of_few_letters_gets_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    console.out("1 ± 2 Zürich")
    assert raw.getvalue() == b"1 +/- 2 Z\\xfcrich\n"


def test_errors_go_to_stderr_in_two_lines(capsys: pytest.CaptureFixture[str]) -> None:
    console.report_error("column 'a\nb'", "look\x07 here")
    assert capsys.readouterr() == ("", "error: column 'a\\nb'\nhint: look\\x07 here\n")


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_a_log_gets_a_line_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, now = io.StringIO(), [0.0]
    monkeypatch.setattr(sys, "stderr", stream)
    advance = console.LineProgress(lambda: now[0]).stage("encrypt\x1b", 10_000, "rows")
    for now[0] in (1.0, 59.0, 61.0, 62.0, 120.0, 122.0):
        advance(1_000)
    assert stream.getvalue().splitlines() == [f"encrypt\\x1b: {done} of 10,000 rows" for done in ("3,000", "6,000")]


def test_progress_is_shown_to_a_person_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for stream, quiet, shown in ((Terminal(), False, True), (Terminal(), True, False), (io.StringIO(), False, False)):
        monkeypatch.setattr(sys, "stderr", stream)
        with console.progress(quiet=quiet) as progress:
            progress.stage("encrypt [and] send\x1b", 10)(10)
        assert ("encrypt [and] send\\x1b" in stream.getvalue()) is shown
        assert bool(stream.getvalue()) is shown
