"""Forked children: what they answer, how they end, and what is left of them: nothing."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cleave_shared import children
from cleave_shared.children import Channel, ChildLimits
from cleave_shared.core_dumps import refuse_core_dumps
from cleave_shared.errors import CheckFailed, ProcessDied, ServiceError, WireError
from tests.functional.processes import HANGS, are_reaped, have_ended, is_alive

FOREVER = 600.0


def sleep(_: Channel) -> None:
    time.sleep(FOREVER)


def tell_and_sleep(channel: Channel) -> None:
    channel.send([b"ready"])
    time.sleep(FOREVER)


def test_frames_go_both_ways_and_large_ones_too() -> None:
    def echo(channel: Channel) -> None:
        while True:
            channel.send(channel.receive())

    with children.fork(echo) as child:
        for parts in ([], [b""], [b"a", b"", b"\0" * 3_000_000]):
            child.send(parts)
            assert child.receive(HANGS) == parts
    assert have_ended(child.pid)


@pytest.mark.parametrize(
    "error",
    [
        WireError("chunk 3 is none", hint="send one", code="media_type"),
        ServiceError("x", status=500),
        CheckFailed("total", "y"),
    ],
)
def test_an_error_on_purpose_arrives_as_it_was(error: Exception) -> None:
    def fail(_: Channel) -> None:
        raise error

    with children.fork(fail) as child, pytest.raises(type(error)) as raised:
        child.receive(HANGS)
    assert vars(raised.value) == vars(error)


def test_an_error_nobody_expected_is_told_by_its_class() -> None:
    def fail(_: Channel) -> None:
        raise KeyError("secret value")

    with children.fork(fail) as child, pytest.raises(ServiceError, match=r"failed: KeyError$"):
        child.receive(HANGS)


@pytest.mark.usefixtures("expected_crashes")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
def test_a_child_that_dies_is_one_error(number: int) -> None:
    with children.fork(lambda _: os.kill(os.getpid(), number)) as child, pytest.raises(ProcessDied) as died:
        child.receive(HANGS)
    assert (died.value.signal, died.value.late) == (number, False)


def test_half_a_frame_is_one_error() -> None:
    def half(channel: Channel) -> None:
        os.write(channel.fileno(), b"\0\x01\0\0\0\xff")

    with children.fork(half) as child, pytest.raises(ProcessDied):
        child.receive(HANGS)


@pytest.mark.parametrize("sent", [b"\x07" + bytes(12), b"\0\xff\xff\xff\xff", b"\0\1\0\0\0" + b"\xff" * 8])
def test_what_is_no_frame_or_too_large_is_refused(sent: bytes) -> None:
    def lie(channel: Channel) -> None:
        os.write(channel.fileno(), sent)
        sleep(channel)

    with children.fork(lie) as child, pytest.raises(ServiceError, match="sent"):
        child.receive(HANGS)


def test_a_child_that_is_late_is_killed() -> None:
    with children.fork(sleep) as child:
        with pytest.raises(ProcessDied) as died:
            child.receive(0.05)
        assert died.value.late
        assert have_ended(child.pid)


def test_the_kernel_ends_a_child_at_its_deadline() -> None:
    with children.fork(sleep, ChildLimits(seconds=0.05)) as child, pytest.raises(ProcessDied) as died:
        child.receive(HANGS)
    assert (died.value.signal, died.value.late) == (signal.SIGALRM, True)


def test_the_kernel_ends_a_child_that_computes_too_long() -> None:
    def spin(_: Channel) -> None:
        while True:
            pass

    with children.fork(spin, ChildLimits(cpu_seconds=1)) as child, pytest.raises(ProcessDied) as died:
        child.receive(HANGS)
    assert (died.value.signal, died.value.late) == (signal.SIGXCPU, True)


def test_memory_is_bounded() -> None:
    def grow(channel: Channel) -> None:
        channel.send([str(len(bytearray(40 << 20))).encode()])
        bytearray(200 << 20)

    with children.fork(grow, ChildLimits(memory=100 << 20)) as child:
        assert child.receive(HANGS) == [str(40 << 20).encode()]
        with pytest.raises(ServiceError, match="failed: MemoryError"):
            child.receive(HANGS)


def test_no_core_and_no_tracing() -> None:
    def look(channel: Channel) -> None:
        dumpable = children._libc.prctl(3, 0, 0, 0, 0)  # PR_GET_DUMPABLE
        channel.send([str(resource.getrlimit(resource.RLIMIT_CORE)).encode(), str(dumpable).encode()])

    with children.fork(look) as child:
        assert child.receive(HANGS) == [b"(0, 0)", b"0"]


def test_memory_files_stay_usable_for_who_is_not_root() -> None:
    """SEAL and DuckDB read them by /proc/self/fd, which belongs to root once a process is not dumpable."""

    def use(channel: Channel) -> None:
        if os.geteuid() == 0:
            os.setuid(65534)
        refuse_core_dumps()
        file = os.memfd_create("x")
        os.write(file, b"seen")
        channel.send([Path(f"/proc/self/fd/{file}").read_bytes()])

    with children.fork(use) as child:
        assert child.receive(HANGS) == [b"seen"]


def test_a_child_holds_no_inherited_socket_or_pipe_open() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    address = listener.getsockname()
    reading, writing = os.pipe()
    with children.fork(tell_and_sleep) as first, children.fork(tell_and_sleep) as second:
        assert [first.receive(HANGS), second.receive(HANGS)] == [[b"ready"]] * 2
        listener.close()
        os.close(writing)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, HANGS)
        assert os.read(reading, 1) == b""
        os.kill(first.pid, signal.SIGKILL)
        with pytest.raises(ProcessDied):  # at once, though the second child was forked with the first one's end at hand
            first.receive(HANGS)
        assert is_alive(second.pid)
    os.close(reading)


def test_a_descriptor_to_keep_is_kept_and_the_number_of_another_stays_taken() -> None:
    kept_reading, kept = os.pipe()
    other_reading, other = os.pipe()

    def write(channel: Channel) -> None:
        os.write(kept, b"kept")
        os.write(other, b"lost")
        channel.send([])

    with children.fork(write, keep=[kept]) as child:
        child.receive(HANGS)
    os.close(kept)
    os.close(other)
    assert (os.read(kept_reading, 10), os.read(other_reading, 10)) == (b"kept", b"")
    os.close(kept_reading)
    os.close(other_reading)


def test_a_dying_child_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    def shout(_: Channel) -> None:
        os.write(1, b"secret value")
        os.write(2, b"secret value")
        raise ValueError("secret value")

    with children.fork(shout) as child, contextlib.suppress(ServiceError):
        child.receive(HANGS)
    assert capfd.readouterr() == ("", "")


def test_ctrl_c_is_the_parents_business_and_sigterm_ends_a_child() -> None:
    def echo_and_sleep(channel: Channel) -> None:
        channel.send(channel.receive())
        sleep(channel)

    with children.fork(echo_and_sleep) as child:
        os.kill(child.pid, signal.SIGINT)
        child.send([b"after it"])
        assert child.receive(HANGS) == [b"after it"]
        os.kill(child.pid, signal.SIGTERM)
        with pytest.raises(ProcessDied) as died:
            child.receive(HANGS)
    assert died.value.signal == signal.SIGTERM


def start_another(channel: Channel) -> None:
    """Send its number, and wait."""
    if (pid := os.fork()) == 0:
        channel.close()  # else its parent's end is not seen
        time.sleep(FOREVER)
    channel.send([str(pid).encode()])
    time.sleep(FOREVER)


@pytest.mark.parametrize("seconds", [None, 2])
def test_what_a_child_starts_ends_with_it(seconds: float | None) -> None:
    """Where the child is killed, and where the kernel ends it at its deadline: no timer is inherited."""
    with children.fork(start_another, ChildLimits(seconds=seconds)) as child:
        (started,) = child.receive(HANGS)
        if seconds is not None:
            with pytest.raises(ProcessDied):
                child.receive(HANGS)
    assert have_ended(child.pid, int(started))


def tried(*attempts: Callable[[], object]) -> list[bytes]:
    """Of each attempt the name of the error, or none."""
    found = []
    for attempt in attempts:
        try:
            attempt()
        except OSError as error:
            found.append(errno.errorcode[error.errno or 0].encode())
        else:
            found.append(b"")
    return found


def test_a_child_that_may_start_nothing_forks_and_execs_nothing() -> None:
    def fork(channel: Channel) -> None:
        if os.geteuid() == 0:
            os.setuid(65534)  # the kernel exempts root
        children.start_no_more()
        channel.send(tried(lambda: os.fork() or os._exit(0), lambda: os.posix_spawn("/bin/true", ["true"], {})))

    with children.fork(fork) as child:
        assert child.receive(HANGS) == [b"EAGAIN", b"EAGAIN"]


@pytest.mark.skipif(children._libc.syscall(444, None, ctypes.c_size_t(0), 1) < 6, reason="a kernel of before 6.12")
@pytest.mark.parametrize("started", [False, True])
def test_a_confined_child_and_what_it_starts_leave_nothing_behind(started: bool, tmp_path: Path) -> None:
    """Also as root, which no limit of processes binds."""
    (tmp_path / "there").write_bytes(b"before")
    listener = socket.create_server(("127.0.0.1", 0))
    address, parent = listener.getsockname(), os.getpid()
    attempts: dict[str, Callable[[], object]] = {
        "a new file": lambda: (tmp_path / "new").write_bytes(b"x"),
        "a file that is there": lambda: (tmp_path / "there").write_bytes(b"x"),
        "at its end": lambda: os.open(tmp_path / "there", os.O_WRONLY | os.O_APPEND),
        "a folder": (tmp_path / "folder").mkdir,
        "a link": lambda: (tmp_path / "link").symlink_to("there"),
        "a name": lambda: (tmp_path / "there").rename(tmp_path / "elsewhere"),
        "an end": (tmp_path / "there").unlink,
        "a program": lambda: os.posix_spawn("/bin/true", ["true"], {}),
        "a connection": lambda: socket.create_connection(address, HANGS),
        "a server": lambda: socket.create_server(("127.0.0.1", 0)),
        "a signal": lambda: os.kill(parent, 0),
        "memory without end": lambda: os.truncate(os.memfd_create("x"), (64 << 20) + 1),
    }

    def attempt(channel: Channel) -> None:
        channel.send(tried(*attempts.values()))

    def start(channel: Channel) -> None:
        if os.fork() == 0:
            attempt(channel)
        time.sleep(FOREVER)

    def work(channel: Channel) -> None:
        file = os.memfd_create("its own")
        Path(f"/proc/self/fd/{file}").write_bytes(b"seen")  # as SEAL and DuckDB do
        assert Path(f"/proc/self/fd/{file}").read_bytes() == b"seen"
        assert (tmp_path / "there").read_bytes() == b"before"
        (start if started else attempt)(channel)

    with listener, children.fork(work, ChildLimits(memory=64 << 20, confined=True)) as child:
        found = dict(zip(attempts, child.receive(HANGS), strict=True))
    refused = {"a name": {b"EACCES", b"EXDEV"}, "a signal": {b"EPERM"}, "memory without end": {b"EFBIG"}}
    assert {name: error for name, error in found.items() if error not in refused.get(name, {b"EACCES"})} == {}
    assert (tmp_path / "there").read_bytes() == b"before"
    assert [each.name for each in tmp_path.iterdir()] == ["there"]


def test_a_lasting_child_is_confined_once() -> None:
    """A process takes 16 rulesets; a worker of a crew answers more calls."""

    def work(channel: Channel) -> None:
        for _ in range(20):
            children.limit(ChildLimits(confined=True))
        channel.send([b"ready"])

    with children.fork(work) as child:
        assert child.receive(HANGS) == [b"ready"]


PARENT = """
import sys, time
from cleave_shared import children
def sleep(channel): time.sleep(600)
kids = [children.fork(sleep) for _ in range(3)]
print(*[kid.pid for kid in kids], flush=True)
{end}
"""


@pytest.mark.parametrize(
    ("end", "number"),
    [("time.sleep(600)", signal.SIGKILL), ("time.sleep(600)", signal.SIGTERM), ("time.sleep(600)", signal.SIGHUP),
     ("sys.exit(3)", 0), ("raise SystemError", 0)],
)  # fmt: skip
def test_no_child_outlives_its_parent(end: str, number: int) -> None:
    command = [sys.executable, "-c", PARENT.format(end=end)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as parent:
        assert parent.stdout
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert len(pids) == 3
        if number:
            parent.send_signal(number)
        parent.wait(HANGS)
        assert have_ended(*pids)


def test_leaving_the_block_by_an_error_leaves_no_child() -> None:
    with pytest.raises(ZeroDivisionError), children.fork(sleep) as child:
        1 / 0  # noqa: B018 - raises
    assert are_reaped(child.pid)


def test_a_fork_looks_at_open_descriptors_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process may have a million of them, and looking at each number takes a second."""
    looked: list[int] = []
    fstat = os.fstat
    monkeypatch.setattr(os, "fstat", lambda descriptor: (looked.append(descriptor), fstat(descriptor))[1])
    with children.fork(lambda channel: channel.send([str(len(looked)).encode()])) as child:
        (count,) = child.receive(HANGS)
    assert 0 < int(count) <= len(os.listdir("/proc/self/fd")) + 10
