"""The fork server: children like any others, from a process with one thread, and nothing left of either."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cleave_shared import fork_server
from cleave_shared.children import Child, ChildLimits
from cleave_shared.errors import ProcessDied, ServiceError, WireError
from cleave_shared.fork_server import ForkServer
from tests.functional.processes import HANGS, have_ended, is_alive, met
from tests.unit import forked


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    """One for all: an interpreter of its own, started again when it is used after it was stopped or has died."""
    made = ForkServer([])
    yield made
    made.stop()


@contextlib.contextmanager
def called(
    server: ForkServer, work: Callable[..., None], arguments: Sequence[object] = (), bounds: ChildLimits | None = None
) -> Iterator[Child]:
    with server.fork() as child:
        child.call(work, arguments, bounds or ChildLimits())
        yield child


def pids(child: Child) -> tuple[int, int]:
    pid, parent, *_ = map(int, child.receive(HANGS))
    return pid, parent


def answer(server: ForkServer, *arguments: object) -> list[bytes]:
    with called(server, forked.tell, arguments) as child:
        return child.receive(HANGS)


def test_arguments_arrive_and_answers_come_back(server: ForkServer) -> None:
    large = b"\0" * 4_400_000
    _, _, *came = answer(server, "a", 1, large)
    assert came == [b"'a'", b"1", repr(large).encode()]


def test_the_parent_of_children_has_one_thread_and_is_not_this_process(server: ForkServer) -> None:
    with ThreadPoolExecutor(8) as pool:  # this process has more
        answers = list(pool.map(lambda number: answer(server, number), range(16)))
    assert [int(each[2]) for each in answers] == list(range(16))
    (parent,) = {int(each[1]) for each in answers}
    assert parent != os.getpid()
    assert len(list(Path(f"/proc/{parent}/task").iterdir())) == 1


@pytest.mark.parametrize("alone", [True, False])
def test_beside_threads_it_is_a_new_interpreter(*, alone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if alone:
        monkeypatch.setattr(fork_server, "threads", lambda: 1)
    made, waiting = ForkServer([]), threading.Event()
    thread = threading.Thread(target=waiting.wait)
    thread.start()
    try:
        made.start()
        parent = int(answer(made)[1])
        same = Path(f"/proc/{parent}/cmdline").read_bytes() == Path("/proc/self/cmdline").read_bytes()
        assert same == alone
        assert len(list(Path(f"/proc/{parent}/task").iterdir())) == 1
    finally:
        waiting.set()
        thread.join()
        made.stop()


@pytest.mark.parametrize("forked_one", [True, False])
@pytest.mark.parametrize("given", [{"PATH": "/bin", "AWS_PROFILE": "one", "HOME": "/there"}, None])
def test_its_environment_is_that_of_who_made_it(
    given: dict[str, str] | None, *, forked_one: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that starts, by a fork or not, and its successor; what is not stated is not there."""
    for name in ("AWS_PROFILE", "HOME", "CLEAVE_PASSPHRASE", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "another")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    if forked_one:
        monkeypatch.setattr(fork_server, "threads", lambda: 1)
    made, waiting = ForkServer([], given), threading.Event()
    thread = threading.Thread(target=waiting.wait)
    thread.start()
    try:
        made.start()
        for _ in range(2):
            with called(made, forked.environment) as child:
                head, *pairs = child.receive(HANGS)
            variables = dict(each.decode().split("=", 1) for each in pairs)
            variables.pop("LC_CTYPE", None)  # of Python's own making in the C locale
            assert variables == given if given is not None else variables.keys() <= set(fork_server._FEW)
            assert given is not None or variables["TZ"] == "Asia/Tokyo"
            os.kill(int(head), signal.SIGKILL)
            assert have_ended(int(head))
    finally:
        waiting.set()
        thread.join()
        made.stop()


def test_a_child_shares_descriptors_and_its_server_keeps_none(server: ForkServer, tmp_path: Path) -> None:
    ours = [os.open(tmp_path / name, os.O_RDWR | os.O_CREAT) for name in "abcd"]
    before = forked_files(server)
    with server.fork(ours) as child:
        for each in ours:
            os.close(each)
        child.call(forked.write_to_shared, (b"said",), lasting=True)
        assert child.receive(HANGS) == []
        child.call(forked.write_to_shared, (b" twice",))
        assert child.receive(HANGS) == []
    assert [(tmp_path / name).read_bytes() for name in "abcd"] == [b"said twice"] * 4
    assert met(lambda: forked_files(server) == before)


def forked_files(server: ForkServer) -> int:
    answer(server)  # whose descriptors are closed by the next answer
    return len(os.listdir(f"/proc/{answer(server)[1].decode()}/fd"))


def test_modules_of_some_children_are_imported_once_by_the_server() -> None:
    made = ForkServer(["tests.unit.forked"])
    try:
        for modules, loaded in (((), b"False"), (("colorsys",), b"True"), ((), b"True")):
            with made.fork(modules=modules) as child:
                child.call(forked.say_whether_loaded, ("colorsys",))
                assert child.receive(HANGS) == [loaded]
    finally:
        made.stop()


def test_errors_ends_and_bounds_are_as_of_any_child(server: ForkServer) -> None:
    with called(server, forked.refuse) as child, pytest.raises(WireError) as raised:
        child.receive(HANGS)
    assert vars(raised.value) == vars(WireError("chunk 3 is none", hint="send one", code="media_type"))
    for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT):
        with called(server, forked.end_by, (number,)) as child, pytest.raises(ProcessDied) as died:
            child.receive(HANGS)
        assert (died.value.signal, died.value.late) == (number, False)
    with called(server, forked.tell_timer_and_end, (), ChildLimits(seconds=HANGS)) as child:
        assert 0 < float(child.receive(HANGS)[0]) <= HANGS
        with pytest.raises(ProcessDied) as died:
            child.receive(HANGS)
    assert (died.value.signal, died.value.late) == (signal.SIGALRM, True)


def test_a_child_ends_with_its_block(server: ForkServer) -> None:
    with called(server, forked.tell_and_sleep) as child:
        pid, _ = pids(child)
        assert is_alive(pid)
    assert have_ended(pid)
    with called(server, forked.tell_and_sleep) as child:
        pid, _ = pids(child)
        with pytest.raises(ProcessDied) as died:
            child.receive(0.05)
        assert died.value.late
        assert have_ended(pid)


@pytest.mark.parametrize("how", ["its block", "its deadline", "its server", "a signal"])
def test_what_a_child_starts_ends_with_it(server: ForkServer, how: str) -> None:
    """No timer and no parent's end reaches it: whoever ends or reaps the child ends it."""
    bounds = ChildLimits(seconds=2 if how == "its deadline" else None)
    with called(server, forked.start_another_and_sleep, bounds=bounds) as child:
        both = pids(child)
        if how == "its server":
            server.stop()
        elif how == "a signal":
            os.kill(both[0], signal.SIGKILL)
        if how != "its block":
            assert have_ended(*both)
    assert have_ended(*both)


def test_nothing_of_a_child_is_left_open(server: ForkServer) -> None:
    (_, parent) = map(int, answer(server))

    def descriptors() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), len(os.listdir(f"/proc/{parent}/fd"))

    before = descriptors()  # perhaps with a lifeline: the server closes its end after it has told over it
    for _ in range(5):
        with called(server, forked.tell_and_sleep) as one, called(server, forked.refuse):
            pids(one)
    assert met(lambda: all(now <= then for now, then in zip(descriptors(), before, strict=True)))


def test_a_child_holds_nothing_but_its_own_end(server: ForkServer) -> None:
    with called(server, forked.tell_and_sleep), called(server, forked.descriptors) as child:
        names = [each.decode() for each in child.receive(HANGS)]
    assert sum(name.startswith(("socket:", "pipe:", "anon_inode:")) for name in names) == 1, names


def test_a_server_that_died_is_started_again(server: ForkServer) -> None:
    with called(server, forked.tell_and_sleep) as child:
        pid, parent = pids(child)
        os.kill(parent, signal.SIGKILL)
        with pytest.raises(ProcessDied):
            child.receive(HANGS)
        assert have_ended(pid)
    assert int(answer(server)[1]) != parent


def test_a_server_that_died_is_not_asked_through_what_its_children_still_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that was just forked holds its server's end of the socket to the client: here this process does."""
    spawn, held = fork_server._spawned, []

    def holding(control: socket.socket, *rest: Any) -> int:
        held.append(control.dup())
        return spawn(control, *rest)

    monkeypatch.setattr(fork_server, "_spawned", holding)
    monkeypatch.setattr(fork_server, "threads", lambda: 2)
    made = ForkServer([])
    parent = int(answer(made)[1])
    os.kill(parent, signal.SIGKILL)
    assert have_ended(parent)
    assert int(answer(made)[1]) != parent
    made.stop()
    for each in held:
        each.close()


def test_a_server_that_cannot_start_is_one_error() -> None:
    broken = ForkServer(["there_is_no_such_module"])
    with pytest.raises(ServiceError, match="no process can be started"):
        broken.fork()
    broken.stop()


def test_a_forked_process_has_a_server_of_its_own_and_keeps_no_other_alive(server: ForkServer) -> None:
    (_, parent) = map(int, answer(server))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, answer(server)[1])
        time.sleep(600)
    assert int(os.read(reading, 100)) != parent
    server.stop()
    assert have_ended(parent)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(reading)
    os.close(writing)


CLIENT = """
import os, sys, threading, time
from cleave_shared.fork_server import ForkServer
from tests.unit import forked
threads = {threads}
for _ in range(threads):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
server = ForkServer([])
kid = server.fork()
kid.call(forked.tell_and_sleep)
print(*map(int, kid.receive(120)), flush=True)
{end}
"""


@pytest.mark.parametrize("threads", [0, 1])
@pytest.mark.parametrize(
    ("end", "number"),
    [("time.sleep(600)", signal.SIGKILL), ("input() or sys.exit(3)", 0), ("time.sleep(600)", signal.SIGTERM)],
)
@pytest.mark.sampled(3)
def test_server_and_children_end_with_their_client(threads: int, end: str, number: int) -> None:
    """Forked where the client has one thread, a new interpreter where it has more."""
    command = [sys.executable, "-c", CLIENT.format(threads=threads, end=end)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as client:
        assert client.stdin
        assert client.stdout
        pid, server = map(int, client.stdout.readline().split())
        assert (b"-I" in Path(f"/proc/{server}/cmdline").read_bytes().split(b"\0")) == bool(threads)
        if number:
            client.send_signal(number)
        else:
            client.stdin.write("\n")
            client.stdin.flush()
        client.wait(HANGS)
        assert have_ended(pid, server)
