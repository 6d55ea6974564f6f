"""What a forked child finds itself with, and what its parent makes of every frame and of every end."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import resource
import signal
import socket
import stat
import struct
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cleave_shared import children
from cleave_shared.children import Channel, Child, ChildLimits
from cleave_shared.errors import CheckFailed, InputError, KeyFileError, ProcessDied, ServiceError, WireError
from tests.functional.processes import HANGS, are_reaped

FOREVER = 600.0


def told(look: Callable[[], object], bounds: ChildLimits = ChildLimits(), keep: tuple[int, ...] = ()) -> Any:  # noqa: B008
    """What `look` returns in a child, by JSON."""
    with children.fork(lambda channel: channel.send([json.dumps(look()).encode()]), bounds, keep) as child:
        (answer,) = child.receive(HANGS)
    return json.loads(answer)


def test_a_fork_that_fails_leaves_signals_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> int:
        raise BlockingIOError

    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    monkeypatch.setattr(os, "fork", none)
    with pytest.raises(BlockingIOError):
        children.bare_fork()
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


def test_signals_are_as_in_a_new_process_save_ctrl_c() -> None:
    signals = (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM, signal.SIGXCPU, signal.SIGQUIT, signal.SIGINT)

    def handler(number: int, frame: object) -> None:
        raise AssertionError

    def look() -> list[object]:
        return [
            [signal.getsignal(each) == signal.SIG_DFL for each in signals],
            signal.getsignal(signal.SIGINT) == signal.SIG_IGN,
            sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
            signal.set_wakeup_fd(-1),
            gc.isenabled(),
        ]

    before = {each: signal.signal(each, handler) for each in signals}
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    wakeup = signal.set_wakeup_fd(writing)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGUSR1])
    try:
        assert told(look) == [[True] * 5 + [False], True, [], -1, False]
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        signal.set_wakeup_fd(wakeup)
        for each, was in before.items():
            signal.signal(each, was)
        os.close(reading)
        os.close(writing)


def test_a_child_gains_no_privileges_and_dumps_nothing() -> None:
    ends_with = ctypes.c_int()

    def look() -> list[object]:
        status = Path("/proc/self/status").read_text()
        return [
            "NoNewPrivs:\t1" in status,
            Path("/proc/self/oom_score_adj").read_text().strip(),
            resource.getrlimit(resource.RLIMIT_CORE),
            children._libc.prctl(3, 0, 0, 0, 0),  # PR_GET_DUMPABLE
            children._libc.prctl(2, ctypes.byref(ends_with), 0, 0, 0),  # PR_GET_PDEATHSIG
            ends_with.value,
        ]

    assert told(look) == [True, "1000", [0, 0], 0, 0, signal.SIGKILL]


def test_a_child_without_bounds_is_bound_by_what_held_before() -> None:
    def look() -> list[object]:
        return [resource.getrlimit(resource.RLIMIT_AS), resource.getrlimit(resource.RLIMIT_CPU), *timer()]

    assert told(look) == [
        [*resource.getrlimit(resource.RLIMIT_AS)],
        [*resource.getrlimit(resource.RLIMIT_CPU)],
        0.0,
        0.0,
    ]


def timer() -> tuple[float, float]:
    return signal.getitimer(signal.ITIMER_REAL)


def test_bounds_are_set_as_told() -> None:
    def look() -> list[object]:
        return [resource.getrlimit(resource.RLIMIT_AS), resource.getrlimit(resource.RLIMIT_CPU), *timer()]

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    memory, cpu, left, again = told(look, ChildLimits(seconds=50.0, cpu_seconds=3, memory=1 << 30))
    inherited = pages * resource.getpagesize()
    assert memory[0] == memory[1]
    assert abs(memory[0] - (1 << 30) - inherited) < 64 << 20  # both processes may have grown by a little
    assert cpu == [3, 4]
    assert 45 < left <= 50
    assert again == 0.0


def test_what_a_confined_child_may_write_and_start() -> None:
    def look() -> list[object]:
        children.start_no_more()
        return [resource.getrlimit(resource.RLIMIT_FSIZE), resource.getrlimit(resource.RLIMIT_NPROC)]

    assert told(look, ChildLimits(memory=1 << 30, confined=True)) == [[1 << 30, 1 << 30], [0, 0]]
    assert told(lambda: [*resource.getrlimit(resource.RLIMIT_FSIZE)], ChildLimits(memory=1 << 30)) == [
        *resource.getrlimit(resource.RLIMIT_FSIZE)
    ]


class Landlock:
    """A kernel that knows Landlock in `version`, and keeps what it is told."""

    def __init__(self, version: int, creates: bool = True, restricts: bool = True) -> None:
        self.version, self.creates, self.restricts = version, creates, restricts
        self.told: list[tuple[object, ...]] = []
        self.ruleset = -1

    def syscall(self, *arguments: Any) -> int:
        self.told.append(tuple(getattr(each, "value", each) for each in arguments))
        number, first = arguments[:2]
        if number == 446:
            return 0 if self.restricts else -1
        if first is None:
            return self.version
        self.ruleset = os.open("/dev/null", os.O_RDONLY) if self.creates else -1
        return self.ruleset


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Landlock]:
    def know(*arguments: Any, **options: Any) -> Landlock:
        kernel = Landlock(*arguments, **options)
        monkeypatch.setattr(children, "_libc", kernel)
        monkeypatch.setattr(children, "_closed_off", False)
        return kernel

    return know


@pytest.mark.parametrize(
    ("version", "rights"),
    [  # of linux/landlock.h as of each version: files (all but reading files and folders), TCP, scopes
        (1, [0x1FF3]),
        (2, [0x3FF3]),
        (3, [0x7FF3]),
        (4, [0x7FF3, 3]),
        (5, [0x7FF3, 3]),
        (6, [0x7FF3, 3, 3]),
        (7, [0x7FF3, 3, 3]),
    ],
)
def test_what_each_kernel_denies_a_confined_child(
    version: int, rights: list[int], kernel: Callable[..., Landlock]
) -> None:
    there = kernel(version)
    children._close_off()
    content = b"".join(each.to_bytes(8, "little") for each in rights)
    assert there.told == [(444, None, 0, 1), (444, content, len(content), 0), (446, there.ruleset, 0)]
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(there.ruleset)
    children._close_off()
    assert len(there.told) == 3, "it was confined again"


@pytest.mark.parametrize("version", [-1, 0])
def test_a_kernel_without_landlock_denies_nothing(version: int, kernel: Callable[..., Landlock]) -> None:
    there = kernel(version)
    children._close_off()
    assert there.told == [(444, None, 0, 1)]


@pytest.mark.parametrize("refused", ["creates", "restricts"])
def test_a_child_that_cannot_be_confined_does_not_work(refused: str, kernel: Callable[..., Landlock]) -> None:
    there = kernel(6, **{refused: False})
    with pytest.raises(OSError, match="Landlock"):
        children._close_off()
    if there.ruleset >= 0:
        os.close(there.ruleset)


def test_a_limit_is_never_raised() -> None:
    def look() -> list[object]:
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
        found: list[object] = []
        for to, spare in ((200, 1), (100, 1), (99, 1), (60, 5), (90, 0)):
            children._lower(resource.RLIMIT_NOFILE, to, spare)
            found.append(resource.getrlimit(resource.RLIMIT_NOFILE))
        return found

    assert told(look) == [[100, 100], [100, 100], [99, 100], [60, 65], [65, 65]]


def test_an_unlimited_one_is_lowered() -> None:
    def look() -> list[object]:
        asked: list[object] = []
        resource.getrlimit = lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY)  # this child's alone
        resource.setrlimit = lambda *limit: asked.append(limit)  # type: ignore[assignment]
        children._lower(resource.RLIMIT_CPU, 60, 5)
        children._lower(resource.RLIMIT_AS, 60)
        return asked

    assert told(look) == [[resource.RLIMIT_CPU, [60, 65]], [resource.RLIMIT_AS, [60, 60]]]


def kinds() -> dict[int, str]:
    """What every descriptor of this process is: null, file, folder, device or other."""
    null = os.stat(os.devnull).st_rdev
    found = {}
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        try:
            about = os.fstat(descriptor)
        except OSError:  # the listing's own
            continue
        if stat.S_ISCHR(about.st_mode):
            found[descriptor] = "null" if about.st_rdev == null else "device"
        else:
            found[descriptor] = {stat.S_IFREG: "file", stat.S_IFDIR: "folder"}.get(stat.S_IFMT(about.st_mode), "other")
    return found


def test_what_a_child_holds_open(tmp_path: Path) -> None:
    """Files, folders and devices stay, and what is to be kept; pipes, sockets and the standard streams go."""
    (tmp_path / "file").write_text("x")
    file = os.open(tmp_path / "file", os.O_RDONLY)
    folder = os.open(tmp_path, os.O_RDONLY)
    device = os.open("/dev/zero", os.O_RDONLY)
    memory = os.memfd_create("x")
    pipe = os.pipe()
    kept = os.pipe()
    ours, theirs = socket.socketpair()

    def look() -> dict[int, object]:
        found = kinds()
        chosen = [file, folder, device, memory, *pipe, *kept, ours.fileno(), theirs.fileno()]
        return {
            **{number: found.get(each) for number, each in enumerate(chosen)},
            10: [found.get(each) for each in (0, 1, 2)],
            11: [os.get_inheritable(each) for each in (0, 1, 2, pipe[0])],
            12: sum(kind == "other" for kind in found.values()),
        }

    try:
        assert told(look, keep=kept) == {
            "0": "file",
            "1": "folder",
            "2": "device",
            "3": "file",
            "4": "null",
            "5": "null",
            "6": "other",
            "7": "other",
            "8": "null",
            "9": "null",
            "10": ["null", "null", "null"],
            "11": [True, True, True, False],
            "12": 3,  # what is kept, and the child's own end
        }
    finally:
        for descriptor in (file, folder, device, memory, *pipe, *kept):
            os.close(descriptor)
        ours.close()
        theirs.close()


def test_standard_streams_that_are_files_go_too(tmp_path: Path) -> None:
    """`cleave query > out.csv`: a child has no business in there. It can write to /dev/null and read its end."""
    saved = os.dup(1)
    with (tmp_path / "out").open("wb") as file:
        os.dup2(file.fileno(), 1)
        try:
            assert told(lambda: [kinds()[1], os.write(1, b"secret value"), os.read(1, 9) == b""]) == ["null", 12, True]
        finally:
            os.dup2(saved, 1)
            os.close(saved)
    assert (tmp_path / "out").read_bytes() == b""


def test_no_code_of_the_parents_is_run_after_the_work() -> None:
    """Neither handlers of its exit nor blocks that are being left: the child ends where its work does."""
    reading, writing = os.pipe()
    with contextlib.ExitStack() as stack:
        stack.callback(os.write, writing, b"x")
        child = stack.enter_context(children.fork(lambda _: None, keep=[writing]))
        assert ended_in_order(child)
        failing = stack.enter_context(children.fork(lambda _: 1 / 0, keep=[writing]))  # type: ignore[arg-type, return-value]
        assert os.waitstatus_to_exitcode(os.waitpid(failing.pid, 0)[1]) == 1
    os.close(writing)
    assert os.read(reading, 10) == b"x"
    os.close(reading)


@pytest.mark.parametrize("kind", ["file", "pipe"])
def test_only_the_standard_streams_go_whatever_they_are(kind: str, tmp_path: Path) -> None:
    """A file that happens to be descriptor 3 stays; a pipe does not, and what took its place is for this process."""
    (tmp_path / "file").write_text("x")
    taken = os.open(tmp_path / "file", os.O_RDONLY) if kind == "file" else os.pipe()[0]

    def look(channel: Channel) -> None:
        os.dup2(taken, 3)
        children.let_go({channel.fileno()})
        channel.send([json.dumps([kinds()[3], os.get_inheritable(3)]).encode()])

    with children.fork(look, keep=[taken]) as child:
        (found,) = child.receive(HANGS)
    os.close(taken)
    assert json.loads(found) == (["file", True] if kind == "file" else ["null", False])


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (WireError("chunk 3 is none", hint="send one", code="media_type"), WireError, "chunk 3 is none"),
        (KeyError("secret value"), ServiceError, "a forked process failed: KeyError"),
        (KeyboardInterrupt(), ServiceError, "a forked process failed: KeyboardInterrupt"),
        (SystemExit(0), ServiceError, "a forked process failed: SystemExit"),
    ],
)
def test_an_error_ends_the_work_and_is_told(error: BaseException, kind: type[ServiceError], message: str) -> None:
    def fail(_: Channel) -> None:
        raise error

    with children.fork(fail) as child:
        with pytest.raises(kind) as raised:
            child.receive(HANGS)
        assert raised.value.message == message
        assert os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1]) == 1


def test_an_error_that_nobody_reads_does_not_keep_a_child() -> None:
    def stuck(channel: Channel) -> None:
        channel.send([bytes(10 << 20)], 0.1)

    with children.fork(stuck) as child:
        assert children._is_gone(child.pid, HANGS)
        assert os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1]) == 1


def test_where_a_child_may_not_offer_itself_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container may forbid it; the child works all the same."""

    def forbidden(path: str, *arguments: object, **named: object) -> object:
        if "oom" in path:
            raise PermissionError(13, "Permission denied")
        return open(path, *arguments, **named)  # type: ignore[call-overload]

    monkeypatch.setattr(children, "open", forbidden, raising=False)
    assert told(lambda: 1, ChildLimits(memory=1 << 30)) == 1


def test_an_orphan_by_the_time_it_starts_ends_at_once() -> None:
    def late(channel: Channel) -> None:
        channel.send([b"before"])
        children.die_with(os.getppid() + 1)
        channel.send([b"after"])

    with children.fork(late) as child:
        assert child.receive(HANGS) == [b"before"]
        with pytest.raises(ProcessDied) as died:
            child.receive(HANGS)
    assert died.value.signal is None
    assert os.WEXITSTATUS(child._status or 0) == 1


ERRORS = [
    WireError("a", hint="b", code="media_type"),
    WireError("a"),
    ServiceError("a", status=503),
    ServiceError("a"),
    CheckFailed("total", "a", hint="b"),
    CheckFailed("total", "a", hint=None),
    InputError("a", hint="b"),
    KeyFileError("a"),
]


@pytest.mark.parametrize("error", ERRORS, ids=repr)
def test_errors_cross_over_as_they_are(error: ServiceError) -> None:
    rebuilt = children._rebuilt(children._dumped(error))
    assert type(rebuilt) is type(error)
    assert vars(rebuilt) == vars(error)
    assert rebuilt.args == error.args


def test_what_an_error_says_on_its_way() -> None:
    assert [json.loads(part) for part in children._dumped(CheckFailed("total", "a", hint="b"))] == [
        {
            **{"kind": "CheckFailed", "message": "a", "hint": "b", "code": None, "name": None},
            **{"check": "total", "status": None},
        }
    ]
    assert [json.loads(part) for part in children._dumped(ValueError("secret value"))] == [{"kind": "ValueError"}]


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [b""],
        [b"\xff"],
        [b"[]"],
        [b"5"],
        [b"{}"],
        [b'{"kind":"WireError"}'],
        [b'{"kind":"WireError","message":"a","hint":null,"check":null}'],
        # it takes no check
        [b'{"kind":"WireError","message":"a","hint":null,"code":null,"name":null,"check":"total","status":null}'],
        [b'{"kind":"WireError","message":"a","hint":null,"code":"odd","name":null,"check":null,"status":null}'],
        [b'{"kind":"WireError","message":"a","hint":null,"code":["odd"],"name":null,"check":null,"status":null}'],
        [b'{"kind":[],"message":"a","hint":null,"code":null,"name":null,"check":null,"status":null}'],
    ],
)
def test_an_error_that_is_none_is_one_of_the_service(parts: list[bytes]) -> None:
    error = children._rebuilt(parts)
    assert type(error) is ServiceError
    assert (error.status, error.message) == (500, "a forked process sent no frame")


def test_only_errors_of_ours_are_made_of_what_a_child_says(monkeypatch: pytest.MonkeyPatch) -> None:
    class Odd:
        def __init__(self, message: str, hint: str | None) -> None:
            pass

    monkeypatch.setitem(children._KINDS, "Odd", Odd)
    error = children._rebuilt(
        [b'{"kind":"Odd","message":"a","hint":null,"code":null,"name":null,"check":null,"status":null}']
    )
    assert type(error) is ServiceError
    assert (error.status, error.message) == (500, "a forked process sent no frame")


def test_an_unknown_error_is_told_by_its_class() -> None:
    error = children._rebuilt([b'{"kind":"ZeroDivisionError"}'])
    assert (type(error), error.message) == (ServiceError, "a forked process failed: ZeroDivisionError")
    assert isinstance(error, ServiceError)
    assert error.status == 500


def ends() -> tuple[Channel, socket.socket]:
    ours, theirs = socket.socketpair()
    return Channel(ours), theirs


def frame(kind: int, *parts: bytes) -> bytes:
    return struct.pack(f"<BI{len(parts)}Q", kind, len(parts), *map(len, parts)) + b"".join(parts)


@pytest.mark.parametrize("at_once", [1 << 20, 2])
def test_frames_on_the_way(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "_MOST_READ", at_once)
    channel, other = ends()
    with contextlib.closing(channel), other:
        channel.send([b"a", memoryview(b"bc"), b""])
        assert other.recv(100) == frame(0, b"a", b"bc", b"")
        assert channel.fileno() == channel._socket.fileno()
        other.sendall(frame(0, b"x", b"") + frame(0) + frame(1, b'{"kind":"KeyError"}') + frame(0, b"y"))
        assert channel.receive(HANGS) == [b"x", b""]
        assert channel.receive() == []
        with pytest.raises(ServiceError, match="failed: KeyError"):
            channel.receive(HANGS)
        assert channel.receive(HANGS, most=1) == [b"y"]
        other.sendall(frame(0, b"abc", b"d"))
        assert channel.receive(HANGS, most=4) == [b"abc", b"d"]
        other.sendall(frame(0, b"abc", b"de"))
        with pytest.raises(ServiceError, match="more than 4 bytes") as caught:
            channel.receive(HANGS, most=4)
        assert caught.value.status == 500


@pytest.mark.parametrize(
    ("kind", "parts", "refused"), [(0, 0, False), (0, 3, False), (0, 4, True), (0, 1 << 31, True), (2, 0, True)]
)
def test_heads_of_frames(kind: int, parts: int, refused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert children._MOST_PARTS == 1 << 20
    monkeypatch.setattr(children, "_MOST_PARTS", 3)
    channel, other = ends()
    with contextlib.closing(channel), other:
        other.sendall(struct.pack("<BI", kind, parts) + bytes(24))
        if not refused:
            assert channel.receive(HANGS) == [b""] * parts
            return
        with pytest.raises(ServiceError, match="sent no frame") as caught:
            channel.receive(HANGS)
        assert caught.value.status == 500


def test_a_frame_that_drips_has_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, seconds = iter(frame(0, b"a" * 100)), iter(range(1000))
    waits: list[float] = []

    class Dripping:
        """A byte a second, by the clock below."""

        def settimeout(self, wait: float) -> None:
            waits.append(wait)

        def recv(self, _size: int, _flags: int) -> bytes:
            return bytes([next(whole)])

    with monkeypatch.context() as patch:
        patch.setattr(children, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
        with pytest.raises(TimeoutError):
            Channel(Dripping()).receive(20)  # type: ignore[arg-type]
    assert waits == [*range(19, 0, -1)]
    channel, other = ends()
    with contextlib.closing(channel), other:
        for over in (0, -1):
            with pytest.raises(TimeoutError):
                channel.receive(over)


@pytest.mark.parametrize("there", [0, 3, 5, 9, 13, 15])
def test_a_frame_that_stops_anywhere_has_a_deadline(there: int) -> None:
    """In its head, in its sizes or in its parts."""
    channel, other = ends()
    with contextlib.closing(channel), other:
        other.sendall(frame(0, b"abcd")[:there])
        with pytest.raises(TimeoutError):
            channel.receive(0.1)


def test_a_child_that_does_not_answer_is_killed() -> None:
    with children.fork(sleep) as child:
        with pytest.raises(ProcessDied) as died:
            child.receive(0.1)
        assert (died.value.late, died.value.signal, died.value.status) == (True, None, 500)
        assert died.value.message == "a forked process did not answer in time"
        assert are_reaped(child.pid)


def test_who_does_not_read_is_not_sent_to_for_ever() -> None:
    channel, other = ends()
    with contextlib.closing(channel), other, pytest.raises(TimeoutError):
        channel.send([bytes(10 << 20)], 0.1)
    channel, other = ends()
    with contextlib.closing(channel):
        other.close()
        with pytest.raises(BrokenPipeError):
            channel.send([b"x"])
        with pytest.raises(EOFError):
            channel.receive(HANGS)


def sleep(_: Channel) -> None:
    time.sleep(FOREVER)


def test_a_child_that_does_not_read_is_killed() -> None:
    with children.fork(sleep) as child:
        with pytest.raises(ProcessDied) as died:
            child.send([bytes(10 << 20)], 0.1)
        assert (died.value.late, died.value.signal, died.value.status) == (True, None, 500)
        assert are_reaped(child.pid)


@pytest.mark.usefixtures("expected_crashes")
def test_a_child_that_is_gone_cannot_be_sent_to() -> None:
    with children.fork(lambda _: os.kill(os.getpid(), signal.SIGSEGV)) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(ProcessDied) as died:
            child.send([b"x"], HANGS)
    assert (died.value.late, died.value.signal) == (False, signal.SIGSEGV)
    assert died.value.message == "a forked process died (SIGSEGV)"


def test_a_child_that_leaves_without_a_word_has_died() -> None:
    with children.fork(lambda _: None) as child, pytest.raises(ProcessDied) as died:
        child.receive(HANGS)
    assert (died.value.message, died.value.late, died.value.signal) == ("a forked process died", False, None)


def test_a_frame_too_large_for_a_child_to_send() -> None:
    with children.fork(lambda channel: channel.send([bytes(100)])) as child, pytest.raises(ServiceError, match="99"):
        child.receive(HANGS, 99)


def test_killing_twice_kills_once(monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[tuple[int, int]] = []
    kill = os.kill
    monkeypatch.setattr(os, "kill", lambda pid, number: (killed.append((pid, number)), kill(pid, number))[1])
    with children.fork(sleep) as child:
        child.kill()
        child.kill()
        assert os.WTERMSIG(child._status or 0) == signal.SIGKILL
    assert killed == [(child.pid, signal.SIGKILL)]  # never a number that is somebody else's by now


def test_whoever_else_reaped_it() -> None:
    """SIGCHLD ignored: the kernel reaps."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with children.fork(sleep) as child:
            child.kill()
        assert child._status == 0
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_a_child_that_takes_long_to_go_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel frees gigabytes slowly: a thread reaps it then."""
    waited: list[float] = []

    def not_gone(_: int, seconds: float) -> bool:
        waited.append(seconds)
        return False

    monkeypatch.setattr(children, "_is_gone", not_gone)
    reaped = threading.Event()
    reap = Child._reap
    where: list[threading.Thread] = []

    def watched(self: Child) -> None:
        where.append(threading.current_thread())
        reap(self)
        reaped.set()

    monkeypatch.setattr(Child, "_reap", watched)
    with children.fork(sleep) as child:
        child.kill()
        assert reaped.wait(HANGS)
    assert waited == [children.GONE_SECONDS] == [0.5]
    assert are_reaped(child.pid)
    assert where[0] is not threading.main_thread()
    assert where[0].daemon
    assert os.WTERMSIG(child._status or 0) == signal.SIGKILL


def test_who_is_gone() -> None:
    with children.fork(sleep) as child:
        assert not children._is_gone(child.pid, 0.2)
        os.kill(child.pid, signal.SIGKILL)
        assert children._is_gone(child.pid, HANGS)
        descriptors = len(os.listdir("/proc/self/fd"))
        children._is_gone(child.pid, HANGS)
        assert len(os.listdir("/proc/self/fd")) == descriptors


def test_where_the_kernel_cannot_tell_who_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", none)
    with children.fork(sleep) as child:
        assert children._is_gone(child.pid, HANGS)
        child.kill()  # waits for it, as ever
        assert os.WTERMSIG(child._status or 0) == signal.SIGKILL


def ended_in_order(child: Child) -> bool:
    """Wait for its end, and leave it to be reaped."""
    end = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    return end is not None and (end.si_code, end.si_status) == (os.CLD_EXITED, 0)


def _reports(channel: Channel, *arguments: bytes | str) -> None:
    """Send the arguments back, and the seconds that the clock still allows."""
    left, _ = signal.getitimer(signal.ITIMER_REAL)
    channel.send([*(each.encode() if isinstance(each, str) else each for each in arguments), str(left).encode()])


def test_a_child_answers_calls_while_they_last() -> None:
    bounds = ChildLimits(seconds=HANGS)
    with children.fork(children.answer_calls) as child:
        child.call(_reports, ("first",), bounds, lasting=True)
        word, left = child.receive(HANGS)
        assert word == b"first"
        assert 0 < float(left) <= HANGS
        child.call(_reports, ("second", memoryview(b"raw")), lasting=True)
        assert child.receive(HANGS) == [b"second", b"raw", b"0.0"], "the first call's clock goes on"
        child.call(_reports, ("last",), bounds)
        assert child.receive(HANGS)[0] == b"last"
        assert ended_in_order(child)


def _numbers(channel: Channel, *numbers: int) -> None:
    channel.send([json.dumps(numbers).encode()])


def test_what_all_calls_share_comes_first() -> None:
    with children.fork(lambda channel: children.answer_calls(channel, (7, 8))) as child:
        child.call(_numbers, (9,))
        assert child.receive(HANGS) == [b"[7, 8, 9]"]


def test_a_child_that_waits_for_calls_ends_with_its_channel() -> None:
    with children.fork(children.answer_calls) as child:
        child.channel.close()
        assert ended_in_order(child)


def test_a_call_sends_buffers_as_they_are_and_within_its_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[list[bytes], float | None]] = []
    monkeypatch.setattr(Child, "send", lambda _, parts, seconds=None: sent.append(([*map(bytes, parts)], seconds)))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        Child(0, Channel(ours)).call(_reports, (memoryview(b"raw"),), ChildLimits(seconds=7.0))
    (((_, _, raw), seconds),) = sent
    assert (raw, seconds) == (b"raw", 7.0)


def _collect_the_error_of_a_call(channel: Channel) -> None:
    class Dead(Child):
        def send(self, parts: Sequence[bytes | memoryview], *_: object) -> None:
            raise ProcessDied(f"before it had {len(parts)} parts")

    gc.freeze()  # what the parent holds is not the child's to collect: DuckDB's threads are not in it
    try:
        Dead(0, channel).call(_reports, (memoryview(b"raw"),))
    except ProcessDied as error:
        error.__context__ = ValueError(error)  # a cycle, with the frames of the call in it
    channel.send([str(gc.collect() > 0).encode()])


def test_the_error_of_a_call_with_buffers_can_be_collected() -> None:
    """Python before 3.12.7 crashes where the error's frames have a buffer of a memoryview."""
    with children.fork(_collect_the_error_of_a_call) as child:
        assert child.receive(HANGS) == [b"True"]


def test_the_parents_end_is_its_own() -> None:
    """Else a child would never see that its parent is gone, nor a parent its child."""
    before = set(os.listdir("/proc/self/fd"))
    with children.fork(lambda channel: channel.send(channel.receive(HANGS), HANGS)) as child:
        assert len(set(os.listdir("/proc/self/fd")) - before) == 1
        child.send([b"x"], HANGS)
        assert child.receive(HANGS) == [b"x"]
    assert set(os.listdir("/proc/self/fd")) == before


def test_a_fork_over_a_socket_that_is_there() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        pid = children.fork_onto(theirs, lambda channel: channel.send([str(os.getpid()).encode()]))
        assert Channel(ours).receive(HANGS) == [str(pid).encode()]
        os.waitpid(pid, 0)
