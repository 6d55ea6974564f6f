"""The shell's line editor: what Tab offers, when a line ends a statement, what is kept of it."""

from __future__ import annotations

import os
import signal
import stat
import threading
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from cleave.cli import console
from cleave.cli.shell import shell as cancel
from cleave.cli.shell.interactive import SqlCompleter, editor, history_path, is_complete, open_history
from cleave.cli.shell.shell import Cancellable, Cancelled
from cleave.table.schema import Column, CsvDialect, Kind, Schema
from cleave_shared.errors import InputError
from tests.functional.processes import HANGS, met

SCHEMA = Schema(
    (
        Column("ward", Kind.PLAIN, "VARCHAR"),
        Column("Age of patient", Kind.ENCRYPTED, "BIGINT"),
        Column("order", Kind.PLAIN, "BIGINT"),
        Column('quo"ted', Kind.LOCAL, "VARCHAR"),
        Column("avgas", Kind.PLAIN, "DOUBLE"),
        Column("bell\x07\u202e", Kind.PLAIN, "DOUBLE"),
    ),
    CsvDialect(),
)
SQL = SqlCompleter({"patients": SCHEMA, "wards": Schema((Column("beds", Kind.LOCAL, "BIGINT"),), CsvDialect())})


def offered(before: str) -> list[str]:
    return [each.text for each in SQL.get_completions(Document(before), CompleteEvent())]


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("SELECT wa", ["ward", "wards"]),
        ("SELECT war", ["ward", "wards"]),
        ("SELECT ward, WAR", ["ward", "wards"]),
        ("SELECT bed", ["beds"]),
        ("FROM pat", ["patients"]),
        ("SELECT AVG(age ", []),
        ("SELECT ", []),
        ("", []),
    ],
)
def test_columns_and_tables_come_first(before: str, expected: list[str]) -> None:
    assert offered(before)[: len(expected)] == expected
    if not expected:
        assert offered(before) == []


def test_names_that_need_quotes_get_them() -> None:
    assert offered("SELECT age")[0] == '"Age of patient"'
    assert '"order"' in offered("SELECT ord")
    assert offered('SELECT "a') == ['"Age of patient"', '"avgas"']
    assert offered('SELECT "quo')[0] == '"quo""ted"'


def test_functions_and_words_are_written_as_the_word_begins() -> None:
    assert {"avg", "avgas"} <= set(offered("SELECT av"))
    assert {"AVG", "avgas"} <= set(offered("SELECT AV"))
    assert "MEDIAN" in offered("SELECT Med")
    assert "regr_slope" in offered("SELECT regr_")
    assert "GROUP" in offered("FROM patients GR")
    assert "BY" in offered("FROM patients GROUP B")
    assert not [each for each in offered("SELECT __in") if each.startswith("__")]


@pytest.mark.parametrize("before", ["SELECT 'wa", "SELECT 'it''s wa", "SELECT 1 -- wa", "/* wa", "SELECT 'a' || 'wa"])
def test_nothing_is_offered_within_texts_and_comments(before: str) -> None:
    assert offered(before) == []


@pytest.mark.parametrize(
    "before", ["SELECT 'a' || wa", "/* c */ SELECT wa", "SELECT 1 -- c\n, wa", 'SELECT "it\'s", wa']
)
def test_after_them_it_is_again(before: str) -> None:
    assert offered(before)[0] == "ward"


def test_commands_complete_with_what_they_take() -> None:
    assert offered(".t") == [".tables"]
    assert offered("  .pl") == [".plan"]
    assert offered(".format j") == ["json"]
    assert "parquet" not in offered(".format ")
    assert offered(".plan SELECT war")[0] == "ward"
    assert offered(".exit ") == []


def test_what_is_shown_of_a_name_is_printable() -> None:
    (found,) = SQL.get_completions(Document("SELECT bell"), CompleteEvent())
    assert found.display_text == "bell\\x07\\u202e"


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("SELECT 1;", True),
        ("SELECT 1", False),
        ("SELECT 1; ", True),
        ("SELECT ';", False),
        ("SELECT 1; SELECT 2", False),
        ("SELECT 1 -- ;", False),
        ("", True),
        ("   ", True),
        ("-- nothing", True),
        (".plan SELECT 1", True),
        ("  .help", True),
    ],
)
def test_enter_ends_what_is_complete(text: str, ends: bool) -> None:
    assert is_complete(text) is ends


def typed(*keys: tuple[str, str]) -> str:
    """What the editor reads where these are typed, each once the text before it is there."""

    with create_pipe_input() as source:
        session = editor("patients", SQL, InMemoryHistory(), source, DummyOutput())

        def type_() -> None:
            for before, each in keys:
                if not met(lambda: session.app.is_running and session.default_buffer.text == before):  # noqa: B023
                    return
                source.send_text(each)

        typist = threading.Thread(target=type_, daemon=True)
        typist.start()
        return session.prompt()


def test_a_statement_takes_as_many_lines_as_it_needs() -> None:
    assert typed(
        ("", "SELECT ward,\r"), ("SELECT ward,\n", "';' AS x\r"), ("SELECT ward,\n';' AS x\n", "FROM patients;\r")
    ) == ("SELECT ward,\n';' AS x\nFROM patients;")


def test_tab_completes() -> None:
    assert typed(("", "SELECT beds, medi"), ("SELECT beds, medi", "\t"), ("SELECT beds, median", "(beds);\r")) == (
        "SELECT beds, median(beds);"
    )


def test_ctrl_c_gives_the_line_up_and_ctrl_d_ends() -> None:
    with pytest.raises(KeyboardInterrupt):
        typed(("", "SELECT"), ("SELECT", "\x03"))
    with pytest.raises(EOFError):
        typed(("", "\x04"))


def test_the_history_is_this_users_alone(tmp_path: Path) -> None:
    path = tmp_path / "state" / "cleave" / "history"
    os.umask(0o022)
    history = open_history(path)
    history.append_string("SELECT 'a literal';")
    history.append_string(" SELECT 'not kept';")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert list(open_history(path).load_history_strings()) == ["SELECT 'a literal';"]
    assert "not kept" not in path.read_text()


def test_a_history_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_text("")
    path.chmod(0o644)
    open_history(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_history_that_goes_meanwhile_is_as_private_when_it_comes_again(tmp_path: Path) -> None:
    path = tmp_path / "history"
    history = open_history(path)
    path.unlink()
    history.append_string("SELECT 1;")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.unlink()
    (tmp_path / "elsewhere").write_text("")
    path.symlink_to(tmp_path / "elsewhere")
    history.append_string("SELECT 2;")  # not kept, and no error
    assert (tmp_path / "elsewhere").read_text() == ""


def test_no_history_follows_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("")
    (tmp_path / "history").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="cannot be written"):
        open_history(tmp_path / "history")
    with pytest.raises(InputError, match="cannot be written"):
        open_history(Path("/proc/nowhere/history"))


def test_without_a_path_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    open_history(None).append_string("SELECT 1;")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"XDG_STATE_HOME": "/state"}, "/state/cleave/history"),
        ({"XDG_STATE_HOME": "relative"}, "~/.local/state/cleave/history"),
        ({}, "~/.local/state/cleave/history"),
    ],
)
def test_the_history_stands_where_states_do(environment: dict[str, str], expected: str) -> None:
    assert history_path(environment) == Path(expected).expanduser()


def press_once(begun: threading.Event, ident: int) -> None:
    """Ctrl-C, to a thread of this process, once work has begun."""

    def press() -> None:
        if begun.wait(HANGS):
            send_ctrl_c(ident)

    threading.Thread(target=press, daemon=True).start()


def test_what_can_be_told_to_end_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no longer than that: it would have ten minutes."""
    monkeypatch.setattr(cancel, "PATIENCE", 600.0)
    begun, told = threading.Event(), threading.Event()
    ended: list[bool] = []

    def work() -> None:
        begun.set()
        ended.append(told.wait(600))

    press_once(begun, threading.get_ident())
    with pytest.raises(Cancelled):
        Cancellable(told.set).run(work)
    assert ended == [True]


def test_what_cannot_be_told_is_left_behind_and_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ends = threading.Event(), threading.Event()
    seen: list[str] = []
    cancellable = Cancellable(lambda: seen.append("told"))

    def work() -> None:
        begun.set()
        ends.wait(600)

    press_once(begun, threading.get_ident())
    with pytest.raises(Cancelled):
        cancellable.run(work)
    assert not ends.is_set()
    assert met(lambda: len(seen) > 3)  # again and again: it may have been between two waits
    monkeypatch.setattr(console, "say", lambda _: ends.set())  # "waiting for what was cancelled to end"
    assert cancellable.run(ends.is_set) is True  # not before the other has ended


def test_a_signal_that_another_thread_receives_is_noticed_as_well() -> None:
    """The kernel may hand Ctrl-C to any thread; only this one runs Python's handler."""
    begun, told, other = threading.Event(), threading.Event(), threading.Event()
    bystander = threading.Thread(target=other.wait, args=[600], daemon=True)
    bystander.start()

    def work() -> None:
        begun.set()
        told.wait(600)

    press_once(begun, bystander.ident or 0)
    with pytest.raises(Cancelled):
        Cancellable(told.set).run(work)
    assert told.is_set()
    other.set()


def send_ctrl_c(ident: int) -> None:
    signal.pthread_kill(ident, signal.SIGINT)


def test_results_and_errors_come_through() -> None:
    cancellable = Cancellable(lambda: None)
    assert cancellable.run(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        cancellable.run(lambda: 1 // 0)
