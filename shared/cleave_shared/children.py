"""A bounded child: a forked process that dies with its parent and at its deadline, and holds nothing that it inherited.

A child answers over a socket of its own, in frames of plain bytes. Nothing it sends is unpickled, so a child that
hostile input has taken over reaches its parent only as data. Lambda has no usable /dev/shm, hence fork and a socket
pair, no Pool and no Queue. Its standard streams are /dev/null: what a dying C++ library prints may quote values.

    with children.fork(lambda channel: channel.send([answer()]), Bounds(seconds=25)) as child:
        (blob,) = child.receive(26)

Leaving the block kills the child and reaps it, so whatever goes wrong in the block, none is left. A child may also wait
for its work (`answer_calls`, `Child.call`), as children of `cleave_shared.crew` and `cleave_shared.fork_server` do.

A child is a session of its own. When it ends, its parent kills every process in that session's first group, such as a
program that fetches credentials. Not found: a process that left the group; one whose child's parent was killed too.
Such a process has the child's limits for one process, each for itself, but not `seconds`. A child that reads hostile
input is `confined` and calls `start_no_more`, so it has no such processes, unless it is root's: root may always fork.
"""

from __future__ import annotations

import contextlib
import copyreg
import ctypes
import gc
import io
import json
import os
import pickle
import resource
import select
import signal
import socket
import stat
import struct
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from typing import NoReturn

from cleave_shared import errors
from cleave_shared.core_dumps import refuse_core_dumps
from cleave_shared.errors import CleaveError, ProcessDied, ServiceError

_libc = ctypes.CDLL(None, use_errno=True)  # prctl(2); loaded here, since a child should not load anything
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
# linux/landlock.h; the numbers of the calls are the same on every processor
_CREATE_RULESET, _RESTRICT_SELF, _RULESET_VERSION = 444, 446, 1
_READ = 1 << 2 | 1 << 3  # files and folders
_TCP = 1 << 0 | 1 << 1  # bind, connect
_OTHERS = 1 << 0 | 1 << 1  # abstract sockets of other processes, signals to them
_closed_off = False
_HEAD = struct.Struct("<BI")  # kind of frame, number of parts
_PARTS, _ERROR = 0, 1
_MOST_PARTS = 1 << 20
_MOST_READ = 1 << 20  # bytes that are made room for before they are there
_LATE = (signal.SIGALRM, signal.SIGXCPU)
GONE_SECONDS = 0.5  # what a killed child may take to be gone before its parent goes on
_HELD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_DEFAULT = (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM, signal.SIGXCPU, signal.SIGQUIT, signal.SIGCHLD)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of a child; None: no bound.

    `seconds` by the clock and `cpu_seconds` of all its threads (the kernel ends it), `memory` bytes of address space
    beyond what it inherits (allocations fail).

    `confined`: it and what it starts make, change and delete no file, run no program, use no TCP, signal no other
    process (Landlock, where the kernel has it). A file that is open, or in memory, grows to `memory` bytes at most. For
    a process with one thread.
    """

    seconds: float | None = None
    cpu_seconds: int | None = None
    memory: int | None = None
    confined: bool = False


_UNBOUNDED = Bounds()


class Channel:
    """End of a channel between parent and child: frames of byte strings."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, parts: Sequence[bytes | memoryview], seconds: float | None = None) -> None:
        """Raises OSError, TimeoutError being one, where the other end is gone or does not read."""
        self._send(_PARTS, parts, seconds)

    def receive(self, seconds: float | None = None, most: int = 1 << 32) -> list[bytes]:
        """The next frame. `most` bounds its bytes.

        Raises EOFError at the end, TimeoutError, ServiceError for a frame that is malformed or too large, and whatever
        CleaveError the other end sent in place of one.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        kind, count = _HEAD.unpack(self._read(_HEAD.size, deadline))
        if kind not in (_PARTS, _ERROR) or count > _MOST_PARTS:
            raise ServiceError("a forked process sent no frame", status=500)
        sizes = struct.unpack(f"<{count}Q", self._read(8 * count, deadline))
        if sum(sizes) > most:
            raise ServiceError(f"a forked process sent more than {most:,} bytes", status=500)
        parts = [self._read(size, deadline) for size in sizes]
        if kind == _ERROR:
            raise _rebuilt(parts)
        return parts

    def close(self) -> None:
        self._socket.close()

    def _send(self, kind: int, parts: Sequence[bytes | memoryview], seconds: float | None) -> None:
        head = _HEAD.pack(kind, len(parts)) + struct.pack(f"<{len(parts)}Q", *map(len, parts))
        self._socket.settimeout(seconds)
        first = b"".join([head, *parts[:1]])  # a reader that is woken for a head alone goes to sleep again
        for part in (first, *parts[1:]):
            self._socket.sendall(part)

    def _read(self, size: int, deadline: float | None) -> bytes:
        read: list[bytes] = []
        while size:
            if deadline is not None and (left := deadline - time.monotonic()) <= 0:
                raise TimeoutError
            self._socket.settimeout(None if deadline is None else left)
            got = self._socket.recv(min(size, _MOST_READ), socket.MSG_WAITALL)
            if not got:
                raise EOFError
            read.append(got)
            size -= len(got)
        return read[0] if len(read) == 1 else b"".join(read)


class Child:
    """A forked process, seen from its parent; made by `fork`. A context manager that kills and reaps it."""

    def __init__(self, pid: int, channel: Channel) -> None:
        self.pid = pid
        self.channel = channel
        self._status: int | None = None
        self._killed = False

    def send(self, parts: Sequence[bytes | memoryview], seconds: float | None = None) -> None:
        """Raises ProcessDied if the child is gone or does not read within `seconds`; it is dead thereafter."""
        try:
            self.channel.send(parts, seconds)
        except OSError as error:
            raise self._died(late=isinstance(error, TimeoutError)) from None

    def receive(self, seconds: float | None = None, most: int = 1 << 32) -> list[bytes]:
        """The next frame the child sends, of at most `most` bytes.

        Raises ProcessDied if there is none within `seconds` or none comes any more; the child is dead thereafter.
        An error that ended the child's work is raised as it was if it is a CleaveError, by its class's name otherwise.
        """
        try:
            return self.channel.receive(seconds, most)
        except (EOFError, OSError) as error:
            raise self._died(late=isinstance(error, TimeoutError)) from None

    def call(
        self,
        work: Callable[..., None],
        arguments: Sequence[object] = (),
        bounds: Bounds = _UNBOUNDED,
        *,
        lasting: bool = False,
    ) -> None:
        """Have a child that runs `answer_calls` do `work(channel, *arguments)` within `bounds`, which count from now.

        `work` is a module's own function, which the child looks up by name. `arguments` are pickled; a memoryview among
        them is sent as it is, and comes as bytes. Unless `lasting` the child ends after it. Raises ProcessDied.
        """
        buffers: list[pickle.PickleBuffer] = []
        payload = io.BytesIO()
        pickler = pickle.Pickler(payload, pickle.HIGHEST_PROTOCOL, buffer_callback=buffers.append)
        pickler.dispatch_table = {**copyreg.dispatch_table, memoryview: _as_buffer}
        pickler.dump((work, tuple(arguments)))
        head = json.dumps([asdict(bounds), lasting]).encode()
        raw = [each.raw() for each in buffers]
        try:
            self.send([head, payload.getvalue(), *raw], bounds.seconds)
        finally:
            # Python before 3.12.7 crashes where an error's frames hold a buffer of a memoryview and the collector finds
            # them (CPython's issue 77894)
            for view, buffer in zip(raw, buffers, strict=True):
                view.release()
                buffer.release()

    def kill(self) -> None:
        """End it at once and reap it. Does nothing a second time.

        The kernel may take seconds to free gigabytes where processors are short: a thread reaps it then.
        """
        if self._killed:
            return
        self._killed = True
        end(self.pid)
        if _is_gone(self.pid, GONE_SECONDS):
            self._reap()
        else:
            threading.Thread(target=self._reap, daemon=True).start()

    def release(self) -> None:
        """Close this process's ends and do nothing else: for a process forked from the one that made the child."""
        self.channel.close()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.channel.close()
        self.kill()

    def _died(self, *, late: bool) -> ProcessDied:
        if late:
            self.kill()
            return ProcessDied("a forked process did not answer in time", late=True)
        self.kill()  # mostly dead already, which keeps its status
        number = os.WTERMSIG(self._status) if self._status and os.WIFSIGNALED(self._status) else None
        how = f" ({signal.Signals(number).name})" if number else ""
        return ProcessDied(
            f"a forked process died{how}", hint="is there enough memory?", signal=number, late=number in _LATE
        )

    def _reap(self) -> None:
        try:
            self._status = os.waitpid(self.pid, 0)[1]
        except ChildProcessError:  # our parent ignores SIGCHLD: the kernel has reaped it
            self._status = 0


def _as_buffer(view: memoryview) -> tuple[type[bytes], tuple[pickle.PickleBuffer]]:
    return bytes, (pickle.PickleBuffer(view),)


def fork(work: Callable[[Channel], None], bounds: Bounds = _UNBOUNDED, keep: Collection[int] = ()) -> Child:
    """Run `work` in a forked child. It keeps open regular and memory files and the descriptors in `keep`.

    The thread that calls must live as long as the child: the kernel ties the child to it (prctl(2), PR_SET_PDEATHSIG).
    `work` must not use what threads of the parent may hold locked: locks, executors, event loops, and libraries like
    DuckDB that work outside the GIL (see `fork_server`). TenSEAL does not.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        pid = fork_onto(theirs, work, bounds, keep)
    return Child(pid, Channel(ours))


def fork_onto(
    end: socket.socket, work: Callable[[Channel], None], bounds: Bounds = _UNBOUNDED, keep: Collection[int] = ()
) -> int:
    """Fork like `fork`, over an existing socket. Returns the child's process id."""
    parent = os.getpid()
    pid = bare_fork()
    if pid == 0:
        _live(work, Channel(end), bounds, parent, {end.fileno(), *keep})
    return pid


def end(pid: int) -> None:
    """Kill a child that is not reaped yet, and its group, where it has become one."""
    for kill in (os.kill, os.killpg):
        with contextlib.suppress(ProcessLookupError):
            kill(pid, signal.SIGKILL)


def bare_fork() -> int:
    """Fork with signals held back: an exception of a handler would be lost in a library's fork hook.

    In the child they are held back until it calls `calm_signals`.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)
    pid = -1
    try:
        pid = os.fork()
    finally:
        if pid:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid


def answer_calls(channel: Channel, shared: Sequence[int] = ()) -> None:
    """Serve a child's calls (`Child.call`) until its channel ends. `shared`: the first arguments of each."""
    lasting = True
    with contextlib.suppress(EOFError):
        while lasting:
            head, payload, *buffers = channel.receive()
            bounds, lasting = json.loads(head)
            limit(Bounds(**bounds))
            work, arguments = pickle.loads(payload, buffers=buffers)  # noqa: S301 - from the process that it serves
            work(channel, *shared, *arguments)
            limit_time(0.0)  # anyone who waits longer ends this process


def _is_gone(pid: int, seconds: float) -> bool:
    """Return whether the child ends within `seconds`. True at once where the kernel (before 5.3) cannot say."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return True
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(1000 * seconds))
    finally:
        os.close(descriptor)


def die_with(parent: int) -> None:
    """End this process when its parent's thread does. Exits at once if `parent` is no longer the parent."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _live(work: Callable[[Channel], None], channel: Channel, bounds: Bounds, parent: int, keep: set[int]) -> NoReturn:
    """Run a child from fork to exit. Nothing of the parent is flushed, finalised or run at its exit."""
    code = 1
    try:
        die_with(parent)
        os.setsid()
        gc.disable()  # would copy every inherited page and run finalisers of the parent's objects
        calm_signals()
        let_go(keep)
        _confine()
        limit(bounds)
        work(channel)
        code = 0
    except BaseException as error:  # noqa: BLE001 - nothing may run on into the parent's code
        with contextlib.suppress(BaseException):
            channel._send(_ERROR, _dumped(error), 1.0)
    finally:
        os._exit(code)


def calm_signals() -> None:
    """Reset the signal handlers that a new process inherited."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches a whole group; the parent decides what ends
    for each in _DEFAULT:
        signal.signal(each, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def let_go(keep: set[int]) -> None:
    """Put /dev/null in the place of the standard streams and of every inherited pipe, socket and the like.

    In their place, since an inherited object may still close its number, which another file must not have by then.
    """
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor in keep or descriptor == null:
            continue
        with contextlib.suppress(OSError):  # the listing's own descriptor is closed by now
            mode = os.fstat(descriptor).st_mode
            if descriptor <= 2 or not (stat.S_ISREG(mode) or stat.S_ISCHR(mode) or stat.S_ISDIR(mode)):
                os.dup2(null, descriptor, inheritable=descriptor <= 2)


def _confine() -> None:
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")  # where memory is short, the child goes and not its parent
    refuse_core_dumps()
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def limit(bounds: Bounds) -> None:
    """Bound this child from now on. A limit that holds already is never raised, except the time by the clock."""
    if bounds.memory is not None:
        with open("/proc/self/statm", encoding="ascii") as file:
            inherited = int(file.read().split()[0]) * resource.getpagesize()
        _lower(resource.RLIMIT_AS, inherited + bounds.memory)
        if bounds.confined:
            _lower(resource.RLIMIT_FSIZE, bounds.memory)
    if bounds.confined:
        _close_off()
    if bounds.cpu_seconds is not None:
        _lower(resource.RLIMIT_CPU, bounds.cpu_seconds, spare=1)  # SIGXCPU comes at the soft limit, SIGKILL at the hard
    if bounds.seconds is not None:
        limit_time(bounds.seconds)


def start_no_more() -> None:
    """From now on this process starts no thread and no process. The kernel exempts root."""
    _lower(resource.RLIMIT_NPROC, 0)  # counts all of a user's processes: only 0 does not depend on the others


def _close_off() -> None:
    """Deny what `Bounds.confined` names to this thread and all that it starts (landlock(7)). Older kernels deny less,
    those before 5.13 nothing.
    """
    global _closed_off  # noqa: PLW0603 - a fact about the process
    version = 0 if _closed_off else _libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _RULESET_VERSION)
    if version <= 0:
        return
    count = 13 if version < 2 else 14 if version < 3 else 15  # rights to files
    files = (1 << count) - 1 & ~_READ
    rights = struct.pack("=QQQ", files, _TCP if version >= 4 else 0, _OTHERS if version >= 6 else 0)
    rights = rights[: 8 if version < 4 else 16 if version < 6 else 24]
    ruleset = _libc.syscall(_CREATE_RULESET, rights, ctypes.c_size_t(len(rights)), 0)
    if ruleset < 0 or _libc.syscall(_RESTRICT_SELF, ruleset, 0):
        raise OSError(ctypes.get_errno(), "Landlock")
    os.close(ruleset)
    _closed_off = True


def limit_time(seconds: float) -> None:
    """End this child after so many seconds; 0: no limit any more.

    SIGALRM has no handler: the kernel ends the process.
    """
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _lower(what: int, to: int, spare: int = 0) -> None:
    """Both limits, never above what holds already; the hard one by `spare` above the soft."""
    _, hard = resource.getrlimit(what)
    most = to + spare if hard == resource.RLIM_INFINITY else min(to + spare, hard)
    resource.setrlimit(what, (min(to, most), most))


_KINDS = {kind.__name__: kind for kind in vars(errors).values() if isinstance(kind, type)}


def _dumped(error: BaseException) -> list[bytes]:
    if not isinstance(error, CleaveError):
        return [json.dumps({"kind": type(error).__name__}).encode()]
    facts = {
        "kind": type(error).__name__,
        "message": error.message,
        "hint": error.hint,
        "check": getattr(error, "check", None),
        "status": getattr(error, "status", None),
    }
    return [json.dumps(facts).encode()]


def _rebuilt(parts: list[bytes]) -> CleaveError:
    try:
        facts = json.loads(parts[0])
        kind = _KINDS.get(facts["kind"])
        if kind is None:
            return ServiceError(f"a forked process failed: {facts['kind']}", status=500)
        more = {name: facts[name] for name in ("check", "status") if facts[name] is not None}
        rebuilt = kind(message=facts["message"], hint=facts["hint"], **more)
    except (ValueError, LookupError, TypeError):
        return ServiceError("a forked process sent no frame", status=500)
    return rebuilt if isinstance(rebuilt, CleaveError) else ServiceError("a forked process sent no frame", status=500)
