"""The shell in a real terminal: Ctrl-C, signals, the history, the passphrase, and what a killed one leaves."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path

import pexpect
import pytest

import cleave
from cleave.ckks.key_file import create_key
from cleave_shared.errors import EXIT_CODES
from tests.functional.processes import HANGS, descendants, have_ended, met
from tests.functional.scripted import Reply, scripted
from tests.samples import SAMPLES, copy_patients

CLEAVE = str(Path(sys.executable).with_name("cleave"))
PASSPHRASE = "a-passphrase-of-the-shell"
# computed by the plain service, in a child of its own, for longer than any test waits
LONG = "SELECT AVG(age), SUM(list_sum(range(LENGTH(ward) * 9000000))) FROM patients;"
PROMPT = "patients>"


class Terminal:
    """A shell on a terminal of its own. What it shows is matched as it comes, colours and movements left out."""

    def __init__(self, folder: Path, key: Path, *options: str, table: str = "", **environment: str) -> None:
        self.state = folder / "state"
        self.lasting: list[int] = []
        self.child = pexpect.spawn(
            CLEAVE,
            ["shell", table or str(folder / "patients.csv"), "--key", str(key), *options],
            env={
                **os.environ,
                "XDG_STATE_HOME": str(self.state),
                "PROMPT_TOOLKIT_NO_CPR": "1",  # a terminal would tell where its cursor is
                "TERM": "xterm",
                **environment,
            },
            dimensions=(50, 160),
            timeout=HANGS,
            encoding="utf-8",
        )

    def ask(self, line: str, *expected: str) -> None:
        self.child.send(f"{line}\r")
        for each in expected:
            self.child.expect_exact(each)

    def interrupt(self) -> None:
        """Ctrl-C; returns at the next prompt."""
        self.child.sendintr()
        self.child.expect_exact("cancelled")
        self.child.expect_exact(PROMPT)

    def compute(self, line: str) -> None:
        """Ask, and return when the shell itself has computed for half a second."""
        before = self._ticks()
        self.ask(line)
        assert met(lambda: self._ticks() > before + os.sysconf("SC_CLK_TCK") / 2)

    def _ticks(self) -> int:
        user, system = Path(f"/proc/{self.child.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return int(user) + int(system)

    def settle(self) -> None:
        """Past the greeting: what runs now, a fork server, is there to stay."""
        self.child.expect_exact("patients: 600 rows, 9 columns.")
        self.child.expect_exact(PROMPT)
        self.lasting = descendants(self.child.pid)

    def children(self) -> list[int]:
        return [each for each in descendants(self.child.pid) if each not in self.lasting]

    def leave(self) -> int | None:
        self.child.sendeof()
        return self.ended()

    def ended(self) -> int | None:
        self.child.expect(pexpect.EOF)
        self.child.close()
        status: int | None = self.child.exitstatus
        return status

    def is_at_its_prompt(self) -> bool:
        try:
            self.ask("", PROMPT)
        except pexpect.ExceptionPexpect:
            return False
        return True


@pytest.mark.parametrize(("columns", "fitting"), [(40, 3), (200, 6)])
def test_an_answer_fits_on_the_terminal(folder: Path, key_file: Path, columns: int, fitting: int) -> None:
    sql = "SELECT ward, age, bill, weight, admitted, insured FROM patients ORDER BY age"
    shown, status = pexpect.run(
        shlex.join([CLEAVE, "--quiet", "query", str(folder / "patients.csv"), sql, "--key", str(key_file)]),
        withexitstatus=True,
        env={name: value for name, value in os.environ.items() if name != "COLUMNS"}
        | {"XDG_STATE_HOME": str(folder / "state"), "TERM": "xterm"},
        dimensions=(24, columns),
        timeout=HANGS,
        encoding="utf-8",
    )
    assert status == 0, shown
    *lines, last = shown.splitlines()
    assert len(lines) == 3 + 40
    assert max(map(len, lines)) <= columns
    assert len(lines[0].split()) == fitting
    assert last.startswith("Not shown: 560 of 600 rows" + (" and 3 of 6 columns (weight, " if fitting < 6 else ". "))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return copy_patients(tmp_path).parent


@pytest.fixture(scope="module")
def standing() -> Iterator[list[Terminal]]:
    """At most one shell that tests use in turn."""
    found: list[Terminal] = []
    yield found
    for each in found:
        each.child.close(force=True)


@pytest.fixture
def terminal(standing: list[Terminal], tmp_path_factory: pytest.TempPathFactory, key_file: Path) -> Iterator[Terminal]:
    """A shell at its prompt, which the test leaves there; the folder's table is for it alone."""
    if not standing:
        standing.append(Terminal(copy_patients(tmp_path_factory.mktemp("standing")).parent, key_file))
        standing[0].settle()
    standing[0].lasting = descendants(standing[0].child.pid)  # an earlier test's question may have started some
    yield standing[0]
    if not standing[0].is_at_its_prompt():
        standing.pop().child.close(force=True)


@pytest.fixture
def start(folder: Path, key_file: Path) -> Iterator[Callable[..., Terminal]]:
    begun: list[Terminal] = []

    def begin(*options: str, key: Path = key_file, **environment: str) -> Terminal:
        begun.append(Terminal(folder, key, *options, **environment))
        begun[-1].settle()
        return begun[-1]

    yield begin
    for each in begun:
        each.child.close(force=True)


def test_errors_leave_it_standing(terminal: Terminal) -> None:
    terminal.ask("SELECT nothing FROM patients;", "error: there is no column 'nothing'", "hint: ", PROMPT)
    terminal.ask(".nothing", "error: there is no command .nothing", PROMPT)
    terminal.ask("SELECT AVG(age)\rFROM patients;", "checks passed", PROMPT)


def test_ctrl_c_ends_what_is_computed_here_at_once(terminal: Terminal) -> None:
    terminal.ask(LONG)
    assert met(terminal.children)
    children = terminal.children()
    terminal.interrupt()
    assert have_ended(*children)
    terminal.ask("SELECT AVG(age) FROM patients;", "checks passed", PROMPT)


def test_ctrl_c_ends_a_wait_for_a_service_at_once_and_ctrl_d_the_shell(start: Callable[..., Terminal]) -> None:
    with scripted([Reply(stall=600)]) as server:
        terminal = start("--endpoint", server.url)
        terminal.ask("SELECT AVG(age) FROM patients;")
        assert met(lambda: server.asked)
        terminal.interrupt()
        terminal.ask("SELECT MEDIAN(age) FROM patients;", "52.0", "Nothing was sent", PROMPT)
        assert terminal.leave() == 0


@pytest.mark.slow  # quick: the tests above
def test_ctrl_c_ends_a_question_that_duckdb_answers_here(terminal: Terminal) -> None:
    terminal.compute(
        "SELECT COUNT(*) FROM patients a, patients b, patients c, patients d WHERE a.age + b.age < c.age + d.age;"
    )
    terminal.interrupt()
    terminal.ask("SELECT MEDIAN(age) FROM patients;", "52.0", PROMPT)


def test_ctrl_c_at_the_prompt_gives_up_the_line(terminal: Terminal) -> None:
    terminal.child.send("SELECT nothing")
    terminal.child.sendintr()
    terminal.child.expect_exact(PROMPT)
    terminal.ask("SELECT MEDIAN(age) FROM patients;", "52.0", PROMPT)


@pytest.mark.slow
def test_what_was_asked_is_recalled_by_the_next_shell(start: Callable[..., Terminal]) -> None:
    first = start()
    first.ask("SELECT MEDIAN(age) FROM patients;", "52.0", PROMPT)
    assert first.leave() == 0
    kept = first.state / "cleave" / "history"
    assert "+SELECT MEDIAN(age) FROM patients;" in kept.read_text()
    assert kept.stat().st_mode & 0o777 == 0o600
    second = start()
    second.child.send("\x1b[A")
    second.ask("", "52.0", PROMPT)
    assert second.leave() == 0


@pytest.mark.parametrize("how", ["option", "environment"])
@pytest.mark.slow  # as above
def test_the_history_can_be_switched_off(start: Callable[..., Terminal], how: str) -> None:
    terminal = start("--no-history") if how == "option" else start(CLEAVE_NO_HISTORY="1")
    terminal.ask("SELECT MEDIAN(age) FROM patients;", "52.0", PROMPT)
    assert terminal.leave() == 0
    assert not terminal.state.exists()


@pytest.mark.slow  # tests/cli/test_shell_editor.py has histories in this process
def test_a_history_that_cannot_be_kept_is_told_and_no_more(start: Callable[..., Terminal], folder: Path) -> None:
    (folder / "state").write_text("no folder")
    terminal = Terminal(folder, folder / "none.json")
    terminal.child.expect_exact("warning: history")
    terminal.ask("SELECT MEDIAN(age) FROM patients;", "52.0", PROMPT)
    assert terminal.leave() == 0


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a stored table, whose key is wrapped: of a shell over a file no passphrase is needed."""
    folder = tmp_path_factory.mktemp("stored")
    create_key(key := folder / "key.json", PASSPHRASE.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        store, rows = folder / "store", SAMPLES / "patients.csv"
        cleave.put(rows, "patients", store=store, by=["ward"], key=key, passphrase=PASSPHRASE)
    return folder


@pytest.mark.slow  # tests/security/test_stored_secrets.py has one in this process
def test_a_wrong_passphrase_ends_it(stored: Path) -> None:
    wrong = Terminal(stored, stored / "key.json", "--store", str(stored / "store"), table="patients")
    wrong.child.expect_exact("Passphrase: ")
    wrong.ask("a wrong one", "error: ")
    assert wrong.ended() == EXIT_CODES["key"]


def test_the_passphrase_is_asked_for_once_and_not_shown(stored: Path) -> None:
    terminal = Terminal(stored, stored / "key.json", "--store", str(stored / "store"), table="patients")
    terminal.child.expect_exact("Passphrase: ")
    terminal.ask(PASSPHRASE, PROMPT)
    assert PASSPHRASE not in terminal.child.before
    for column in ("age", "weight"):
        terminal.ask(f"SELECT AVG({column}) FROM patients;", "checks passed", PROMPT)
    assert terminal.leave() == 0
    assert PASSPHRASE not in (terminal.state / "cleave" / "history").read_text()


def test_ctrl_c_at_the_passphrase_leaves(stored: Path) -> None:
    terminal = Terminal(stored, stored / "key.json", "--store", str(stored / "store"), table="patients")
    terminal.child.expect_exact("Passphrase: ")
    terminal.child.sendintr()
    assert terminal.ended() == 128 + signal.SIGINT


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.sampled(4)
def test_other_signals_end_it_and_leave_nothing(start: Callable[..., Terminal], number: int, busy: bool) -> None:
    terminal = start()
    if busy:
        terminal.ask(LONG)
        assert met(terminal.children)
    else:
        assert met(lambda: not termios.tcgetattr(terminal.child.child_fd)[3] & termios.ECHO)  # it reads keys by now
    processes = [*descendants(terminal.child.pid), terminal.child.pid]
    terminal.child.kill(number)
    terminal.child.expect(pexpect.EOF)
    assert termios.tcgetattr(terminal.child.child_fd)[3] & termios.ECHO  # the terminal is as it was
    assert terminal.ended() == 128 + number
    assert have_ended(*processes)


BUSY = """
import time, tty
from cleave.cli import process

process.protect()
with process.Signals():
    tty.setraw(0)
    while True:
        try:
            print("raw", flush=True)
            time.sleep(600)
        except KeyboardInterrupt:
            pass
"""


def test_the_terminal_is_as_it_was_even_if_nothing_was_cleaned_up() -> None:
    child = pexpect.spawn(sys.executable, ["-c", BUSY], timeout=HANGS)
    child.expect_exact("raw")
    child.kill(signal.SIGTERM)
    child.expect(pexpect.EOF)
    assert termios.tcgetattr(child.child_fd)[3] & termios.ECHO
    child.close()
    assert child.exitstatus == 128 + signal.SIGTERM


@pytest.mark.slow
def test_ctrl_d_while_something_is_left_behind_ends_it_too(start: Callable[..., Terminal]) -> None:
    """One vector of DuckDB's, which no interrupt reaches."""
    terminal = start()
    terminal.compute("SELECT COUNT(*) FROM patients WHERE list_sum(range(LENGTH(ward) * 9000000)) > 0 AND age > 0;")
    terminal.interrupt()
    assert terminal.leave() == 0


def test_the_table_is_read_once(terminal: Terminal) -> None:
    terminal.state.with_name("patients.csv").unlink()
    terminal.ask("SELECT MEDIAN(age) FROM patients;", "52.0", PROMPT)
    terminal.ask("SELECT AVG(age) FROM patients;", "checks passed", PROMPT)


@pytest.mark.slow  # quick: test_processes.py kills a query
def test_a_killed_shell_leaves_no_process(terminal: Terminal) -> None:
    terminal.ask(LONG)
    assert met(terminal.children)
    children = descendants(terminal.child.pid)
    terminal.child.kill(signal.SIGKILL)
    assert have_ended(*children)
