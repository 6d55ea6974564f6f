"""The real commands, killed at work: what they leave behind (nothing), how soon, and what others can see of them."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from aws.serving import ROOT
from cleave.ckks.key_file import create_key
from cleave.cli.process import Signals
from tests.cli.runner import Cli, cli
from tests.functional.processes import HANGS, met
from tests.functional.scripted import Reply, Scripted, scripted
from tests.samples import write_schema

__all__ = ["cli"]
CLEAVE = [sys.executable, "-c", "from cleave.local.main import main; main()"]
PASSPHRASE = "canary horse battery"
MARK = "CLEAVE_TEST_MARK"  # in the environment of a command and of all that it starts
ROWS = 150_000  # 19 chunks of two lanes: encrypted by a forked process
MORE = 400_000  # 49 chunks: by several


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("table"), ROWS)


@pytest.fixture(scope="module")
def long_table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("long"), MORE)


def written(folder: Path, rows: int) -> Path:
    path = folder / "t.csv"
    with path.open("w") as file:
        file.write("ward,pay\n")
        file.writelines(f"w{row % 7},{row % 1000}.{row % 89:02}\n" for row in range(rows))
    write_schema(path, {"ward": "plain VARCHAR", "pay": "encrypted DECIMAL(10,2)"})
    create_key(folder / "key.json", None)
    return path


QUESTION = "SELECT ward, SUM(pay), VAR_SAMP(pay) FROM t GROUP BY ward"
LONG = f"SELECT ward, {', '.join(f'VAR_SAMP(pay + {number})' for number in range(6))} FROM t GROUP BY ward"


def query(table: Path, *options: str, sql: str = QUESTION) -> list[str]:
    return [*CLEAVE, "query", str(table), sql, "--key", str(table.with_name("key.json")), *options]


class Started:
    """A command in a session of its own, and how to find every process that it ever started."""

    def __init__(self, command: list[str], **environment: str) -> None:
        self.mark = f"{time.monotonic_ns()}"
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, MARK: self.mark, **environment},
            start_new_session=True,
        )

    def family(self) -> set[int]:
        """Living processes with our mark; children inherit it with the memory that holds the environment."""
        found = set()
        for folder in Path("/proc").iterdir():
            if folder.name.isdecimal():
                try:
                    state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                    marked = f"{MARK}={self.mark}".encode() in (folder / "environ").read_bytes().split(b"\0")
                except OSError:
                    continue
                if marked and state != "Z":
                    found.add(int(folder.name))
        return found

    def wait_for(self, processes: int) -> None:
        assert met(lambda: self.process.poll() is not None or len(self.family()) >= processes)
        assert self.process.poll() is None, self.process.communicate()

    def wait_for_program(self, name: str) -> None:
        names = lambda: [shown(pid, "comm").strip() for pid in self.family()]  # noqa: E731
        assert met(lambda: self.process.poll() is not None or name.encode() in names())
        assert self.process.poll() is None, self.process.communicate()

    def ends(self) -> None:
        """With all its processes: what holds it up would do so for ten minutes."""
        assert met(lambda: self.process.poll() is not None and not self.family()), f"alive: {self.family()}"

    def end(self) -> None:
        for pid in self.family():
            with contextlib.suppress(ProcessLookupError):  # a child goes with its parent
                os.kill(pid, signal.SIGKILL)
        self.process.communicate()


@pytest.fixture
def start() -> Iterator[type[Started]]:
    made: list[Started] = []

    class Kept(Started):
        def __init__(self, command: list[str], **environment: str) -> None:
            super().__init__(command, **environment)
            made.append(self)

    yield Kept
    for each in made:
        each.end()


def asked_by(server: Scripted) -> None:
    assert met(lambda: server.asked), "the server was not asked"


def shown(pid: int, name: str) -> bytes:
    """What /proc shows of a process: nothing once it has ended."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


STALLED = Reply(stall=600)
CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
NO_CREDENTIALS = dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"), "")
ENDS = (signal.SIGTERM, signal.SIGHUP, signal.SIGKILL, signal.SIGINT)
KILLED = pytest.mark.parametrize(
    ("number", "rows"),
    [
        (signal.SIGTERM, "table"),
        *(pytest.param(number, "long_table", marks=pytest.mark.slow) for number in ENDS),
    ],
)


@KILLED
def test_no_encryptor_outlives_its_query(
    number: signal.Signals, rows: str, request: pytest.FixtureRequest, service: str, start: type[Started]
) -> None:
    """A sensitive service that stalls holds the query while its encryptors wait, key in memory."""
    table = request.getfixturevalue(rows)
    with scripted(STALLED) as server:
        asking = start(query(table, "--endpoint", f"{server.url},{service}"))
        asked_by(server)
        os.kill(asking.process.pid, number)
        asking.ends()
    assert asking.process.returncode == (-9 if number == signal.SIGKILL else 128 + number)
    out, err = asking.process.communicate()
    assert out == b""
    assert b"Traceback" not in err


@pytest.mark.slow  # quick: the test above, test_killed.py
@pytest.mark.parametrize("number", ENDS)
def test_an_embedded_query_ends_with_all_its_processes(
    number: signal.Signals, long_table: Path, start: type[Started]
) -> None:
    asking = start(query(long_table, sql=LONG))
    asking.wait_for(4)  # it, both services and what one of them or the client has at work
    os.kill(asking.process.pid, number)
    asking.ends()
    out, err = asking.process.communicate()
    assert out == b""
    assert b"Traceback" not in err


@pytest.mark.parametrize("seconds", [0.0, 0.1, 0.2])
@pytest.mark.sampled(3)
def test_ctrl_c_ends_it_while_it_starts(seconds: float, table: Path, start: type[Started]) -> None:
    """While it still imports, and another process plans the question."""
    asking = start(query(table))
    asking.wait_for(2)
    time.sleep(seconds)
    os.killpg(asking.process.pid, signal.SIGINT)
    asking.ends()
    assert asking.process.returncode in (-signal.SIGINT, 130)
    assert asking.process.communicate() == (b"", b"")


def test_an_interrupt_that_python_drops_leaves_no_traceback() -> None:
    """Of a callback, such as an import's, Python drops the exception; pytest makes an error of what it prints."""

    class Thing:
        pass

    thing = Thing()
    dropped = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))
    with Signals() as signals:
        del thing
        gc.collect()
    assert dropped() is None
    assert signals.number == signal.SIGINT


@pytest.mark.parametrize("how", ["stall", "headers", "body", "lambda"])
@pytest.mark.slow  # test_the_passphrase_leaves_the_environment_at_once ends by it
def test_ctrl_c_at_the_keyboard_ends_it_at_once(how: str, table: Path, start: type[Started]) -> None:
    """SIGINT to the whole group, as a terminal sends it."""
    reply = STALLED if how == "stall" else Reply(missing=99, drip="headers" if how == "headers" else "body")
    with scripted(reply) as server:
        options, environment = ["--endpoint", server.url], {}
        if how == "lambda":
            options = ["--lambda", "one,other", "--region", "eu-west-1"]
            environment = {
                "AWS_ENDPOINT_URL_LAMBDA": server.url,
                "AWS_ACCESS_KEY_ID": "a",
                "AWS_SECRET_ACCESS_KEY": "b",
            }
        asking = start(query(table, *options), **environment)
        asked_by(server)
        os.killpg(asking.process.pid, signal.SIGINT)
        asking.ends()
    out, err = asking.process.communicate()
    assert (asking.process.returncode, out) == (130, b"")
    assert b"Traceback" not in err


@pytest.mark.slow  # the test below ends by one; tests/functional/test_transport_hostile.py has each wait for a service
def test_a_time_out_ends_it_with_one_error(table: Path, start: type[Started]) -> None:
    with scripted(Reply(missing=99, drip="body")) as server:
        asking = start(query(table, "--endpoint", server.url, "--timeout", "1.5"))
        out, err = asking.process.communicate(timeout=HANGS)
    assert (asking.process.returncode, out) == (6, b"")
    assert b"error: the query was not answered within the 1.5 seconds it was given\nhint: " in err
    asking.ends()


@pytest.mark.parametrize("way", ["--endpoint", "--lambda"])
@pytest.mark.parametrize("ended_by", ["--timeout", "Ctrl-C"])
@pytest.mark.sampled(4)
def test_a_program_for_credentials_that_hangs(
    way: str, ended_by: str, table: Path, start: type[Started], tmp_path: Path
) -> None:
    """A credential_process that never ends is ended with the query."""
    config = tmp_path / "config"
    config.write_text("[profile slow]\nregion = eu-west-1\ncredential_process = sleep 600\n")
    services = [way, "one,other" if way == "--lambda" else "http://127.0.0.1:1"]
    environment = {"AWS_CONFIG_FILE": str(config), "AWS_SHARED_CREDENTIALS_FILE": str(config), **NO_CREDENTIALS}
    seconds = "1.5" if ended_by == "--timeout" else "600"
    asking = start(query(table, *services, "--profile", "slow", "--timeout", seconds), **environment)
    if ended_by == "Ctrl-C":  # the time may be over before it is started
        asking.wait_for_program("sleep")
        os.kill(asking.process.pid, signal.SIGINT)
    asking.ends()
    out, err = asking.process.communicate()
    assert (asking.process.returncode, out) == (130 if ended_by == "Ctrl-C" else 6, b"")
    assert b"Traceback" not in err
    if ended_by == "--timeout":
        assert b"error: the query was not answered within the 1.5 seconds it was given\nhint: " in err


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "1e9", "soon"])
def test_time_outs_that_are_none(seconds: str, table: Path, cli: Cli) -> None:
    done = cli.run(*query(table, "--timeout", seconds)[len(CLEAVE) :])
    assert (done.exit_code, done.stdout) == (2, "")


# --- what others on this machine can see


def libc_prctl_dumpable() -> str:
    return "import ctypes; print('dumpable', ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"


def test_no_core_dump_and_no_debugger(table: Path) -> None:
    """PR_GET_DUMPABLE is 3 (prctl(2)); where it is 0, /proc/PID is root's and ptrace refuses."""
    code = f"from cleave.cli.process import protect; protect(); {libc_prctl_dumpable()}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "dumpable 0\n"
    assert ctypes.CDLL(None).prctl(3, 0, 0, 0, 0) == 1, "else this proves nothing"


def test_the_passphrase_leaves_the_environment_at_once(table: Path, start: type[Started]) -> None:
    """Also the block that /proc/PID/environ shows, and the environment that children inherit."""
    key = table.with_name("wrapped.json")
    create_key(key, PASSPHRASE.encode())
    with scripted(STALLED) as server:
        command = [*CLEAVE, "query", str(table), QUESTION, "--key", str(key), "--endpoint", server.url]
        asking = start(command, CLEAVE_PASSPHRASE=PASSPHRASE, CLEAVE_NEW_PASSPHRASE=PASSPHRASE)
        asked_by(server)
        seen = set()
        for pid in asking.family():
            environment, limits = shown(pid, "environ"), shown(pid, "limits")
            assert PASSPHRASE.encode() not in environment
            if environment and limits:  # else it has ended meanwhile, as what plans the question does
                assert MARK.encode() in environment
                assert b"Max core file size        0 " in limits
                seen.add(pid)
        assert asking.process.pid in seen
        os.killpg(asking.process.pid, signal.SIGINT)
        asking.ends()
    out, err = asking.process.communicate()
    assert (asking.process.returncode, out) == (130, b"")
    assert b"Traceback" not in err
    hidden = subprocess.run(
        [
            sys.executable,
            "-c",
            "from cleave.cli import passphrase, process; process.protect();"
            "import subprocess; subprocess.run(['env']); print(passphrase.current(None))",
        ],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "CLEAVE_PASSPHRASE": PASSPHRASE},
    ).stdout
    assert hidden.count(PASSPHRASE) == 1, "given to whoever asks for it, and to no child"
    assert hidden.endswith(f"b'{PASSPHRASE}'\n")
