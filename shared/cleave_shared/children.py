"""A bounded child: a forked process that ends with its parent or at its deadline, and holds nothing that it inherited.

A child answers over its own socket, in frames of plain bytes. Nothing from it is unpickled, so a child that hostile
input took over can only send data to its parent. Lambda has no usable /dev/shm; hence fork and a socket pair, not Pool
or Queue. A child's standard streams are /dev/null, because a crashing C++ library may print values.

  with children.fork(lambda channel: channel.send([answer()]), ChildLimits(seconds=25)) as child:
      (blob,) = child.receive(26)

The end of the block kills and reaps the child, whatever happened in the block. A child may also wait for calls
(`answer_calls`, `Child.call`), as children of cleave_shared.crew and cleave_shared.fork_server do.

A child is its own session. When it ends, its parent kills every process in that session's first group, such as a
program that fetches credentials. It does not kill a process that left the group, nor any if the parent is killed too.
Each such process has the child's limits for one process, but not `seconds`. A child that reads hostile input is
`confined` and calls `start_no_more`, so it has no such processes, except under root, who may always fork.
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

_libc = ctypes.CDLL(None, use_errno=True)  # prctl(2); loaded here, because a child should load nothing
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
# linux/landlock.h; system call numbers are the same on every processor
_CREATE_RULESET, _RESTRICT_SELF, _RULESET_VERSION = 444, 446, 1
_READ = 1 << 2 | 1 << 3  # files and folders
_TCP = 1 << 0 | 1 << 1  # bind, connect
_OTHERS = 1 << 0 | 1 << 1  # abstract sockets of other processes, and signals to them
_closed_off = False
_HEAD = struct.Struct("<BI")  # kind of frame, number of parts
_PARTS, _ERROR = 0, 1
_MOST_PARTS = 1 << 20
_MOST_READ = 1 << 20  # bytes of buffer allocated before they arrive
_LATE = (signal.SIGALRM, signal.SIGXCPU)
GONE_SECONDS = 0.5  # maximum wait for a killed child before its parent goes on
_HELD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_DEFAULT = (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM, signal.SIGXCPU, signal.SIGQUIT, signal.SIGCHLD)


@dataclass(frozen=True, slots=True)
class ChildLimits:
    """Limits of a child; None: no limit.

    `seconds` of wall-clock time; `cpu_seconds` of all threads (the kernel ends it); `memory`: bytes of address space
    besides what it inherits (allocations fail).

    `confined`: it and its children cannot create, change or delete files, run programs, use TCP, or signal other
    processes (Landlock, if the kernel has it). Open files and memory files can grow to `memory` bytes. Only for a
    process with one thread.
    """

    seconds: float | None = None
    cpu_seconds: int | None = None
    memory: int | None = None
    confined: bool = False


_UNBOUNDED = ChildLimits()


class Channel:
    """One end of a channel between parent and child: frames of byte strings."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, parts: Sequence[bytes | memoryview], seconds: float | None = None) -> None:
        """Raises OSError (or TimeoutError, a subclass) if the other end is gone or does not read."""
        self._send(_PARTS, parts, seconds)

    def receive(self, seconds: float | None = None, most: int = 1 << 32) -> list[bytes]:
        """The next frame, of at most `most` bytes.

        Raises EOFError at the end, TimeoutError, ServiceError for a malformed or too large frame, and any CleaveError
        that the other end sent instead of a frame.
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
        first = b"".join([head, *parts[:1]])  # together: a reader woken by the head alone would sleep again
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
    """A forked process, seen from its parent; `fork` makes it. A context manager that kills and reaps it."""

    def __init__(self, pid: int, channel: Channel) -> None:
        self.pid = pid
        self.channel = channel
        self._status: int | None = None
        self._killed = False

    def send(self, parts: Sequence[bytes | memoryview], seconds: float | None = None) -> None:
        """Send a frame. Raises ProcessDied if the child is gone or does not read within `seconds`; it is then
        killed.
        """
        try:
            self.channel.send(parts, seconds)
        except OSError as error:
            raise self._died(late=isinstance(error, TimeoutError)) from None

    def receive(self, seconds: float | None = None, most: int = 1 << 32) -> list[bytes]:
        """The next frame from the child, of at most `most` bytes.

        Raises ProcessDied if none arrives within `seconds` or the child has ended; it is then killed. An error that
        ended the child's work is raised here: a CleaveError unchanged, any other by its class's name.
        """
        try:
            return self.channel.receive(seconds, most)
        except (EOFError, OSError) as error:
            raise self._died(late=isinstance(error, TimeoutError)) from None

    def call(
        self,
        work: Callable[..., None],
        arguments: Sequence[object] = (),
        bounds: ChildLimits = _UNBOUNDED,
        *,
        lasting: bool = False,
    ) -> None:
        """Let a child that runs `answer_calls` run `work(channel, *arguments)` within `bounds`, counted from now.

        `work` must be a function of a module; the child imports it by name. `arguments` are pickled; a memoryview is
        sent without a copy and arrives as bytes. Unless `lasting`, the child then ends. Raises ProcessDied.
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
            # Python before 3.12.7 crashes if the garbage collector finds a memoryview's buffer in an error's frames
            # (CPython issue 77894)
            for view in raw:
                view.release()
            for buffer in buffers:
                buffer.release()

    def is_idle(self) -> bool:
        """True if the child waits for a call: it has sent nothing that was not received, and was not ended."""
        if self._killed:
            return False
        poll = select.poll()
        poll.register(self.channel.fileno(), select.POLLIN)
        return not poll.poll(0)

    def kill(self) -> None:
        """Kill and reap the child. A second call does nothing.

        The kernel may need seconds to free gigabytes on a busy machine; then a thread reaps it.
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
        """Only close this process's ends: for a process forked from the one that made the child."""
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
        self.kill()  # usually dead already, with its exit status
        number = os.WTERMSIG(self._status) if self._status and os.WIFSIGNALED(self._status) else None
        how = f" ({signal.Signals(number).name})" if number else ""
        return ProcessDied(
            f"a forked process died{how}", hint="is there enough memory?", signal=number, late=number in _LATE
        )

    def _reap(self) -> None:
        try:
            self._status = os.waitpid(self.pid, 0)[1]
        except ChildProcessError:  # our parent ignores SIGCHLD, so the kernel has reaped it
            self._status = 0


def _as_buffer(view: memoryview) -> tuple[type[bytes], tuple[pickle.PickleBuffer]]:
    return bytes, (pickle.PickleBuffer(view),)


def fork(work: Callable[[Channel], None], bounds: ChildLimits = _UNBOUNDED, keep: Collection[int] = ()) -> Child:
    """Run `work` in a forked child. It keeps regular files, memory files, and the descriptors in `keep`.

    The calling thread must live as long as the child, because the kernel ties the child to it (prctl(2),
    PR_SET_PDEATHSIG). `work` must not use anything that parent threads may hold locked: locks, executors, event loops,
    and libraries like DuckDB that work outside the GIL (see cleave_shared.fork_server). TenSEAL is safe.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        pid = fork_onto(theirs, work, bounds, keep)
    return Child(pid, Channel(ours))


def fork_onto(
    end: socket.socket, work: Callable[[Channel], None], bounds: ChildLimits = _UNBOUNDED, keep: Collection[int] = ()
) -> int:
    """Fork like `fork`, over an existing socket. Returns the child's process id."""
    parent = os.getpid()
    pid = bare_fork()
    if pid == 0:
        _live(work, Channel(end), bounds, parent, {end.fileno(), *keep})
    return pid


def end(pid: int) -> None:
    """Kill a child that is not reaped yet, and its process group, if it leads one."""
    for kill in (os.kill, os.killpg):
        with contextlib.suppress(ProcessLookupError):
            kill(pid, signal.SIGKILL)


def bare_fork() -> int:
    """Fork with signals blocked: an exception in a handler would be lost in a library's fork hook.

    The child must call `calm_signals` to unblock them.
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
    """Serve calls (`Child.call`) until the channel ends. `shared`: the first arguments of each call."""
    lasting = True
    with contextlib.suppress(EOFError):
        while lasting:
            head, payload, *buffers = channel.receive()
            bounds, lasting = json.loads(head)
            limit(ChildLimits(**bounds))
            work, arguments = pickle.loads(payload, buffers=buffers)  # noqa: S301 - from the process that it serves
            work(channel, *shared, *arguments)
            limit_time(0.0)  # a caller that waits longer ends this process


def _is_gone(pid: int, seconds: float) -> bool:
    """True if the child ends within `seconds`. Old kernels (before 5.3) cannot tell: True at once."""
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
    """End this process when its parent's thread ends. Exits at once if `parent` is no longer the parent."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _live(
    work: Callable[[Channel], None], channel: Channel, bounds: ChildLimits, parent: int, keep: set[int]
) -> NoReturn:
    """A child's life from fork to exit. Nothing of the parent is flushed, finalised, or run at exit."""
    code = 1
    try:
        die_with(parent)
        os.setsid()
        gc.disable()  # a collection would copy inherited pages and run finalisers of the parent's objects
        calm_signals()
        let_go(keep)
        _confine()
        limit(bounds)
        work(channel)
        code = 0
    except BaseException as error:  # noqa: BLE001 - the parent's code must not run on here
        with contextlib.suppress(BaseException):
            channel._send(_ERROR, _dumped(error), 1.0)
    finally:
        os._exit(code)


def calm_signals() -> None:
    """Reset the signal handlers that a new process inherited."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group, but the parent decides what ends
    for each in _DEFAULT:
        signal.signal(each, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def let_go(keep: set[int]) -> None:
    """Replace the standard streams and every inherited pipe and socket by /dev/null.

    They are replaced, not closed: an inherited object may still close its descriptor, which must not be another file by
    then.
    """
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor in keep or descriptor == null:
            continue
        with contextlib.suppress(OSError):  # the listing's own descriptor is already closed
            mode = os.fstat(descriptor).st_mode
            if descriptor <= 2 or not (stat.S_ISREG(mode) or stat.S_ISCHR(mode) or stat.S_ISDIR(mode)):
                os.dup2(null, descriptor, inheritable=descriptor <= 2)


def _confine() -> None:
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")  # if memory is short, the kernel ends the child, not its parent
    refuse_core_dumps()
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def limit(bounds: ChildLimits) -> None:
    """Limit this child from now on. Existing limits are never raised, except `seconds`."""
    if bounds.memory is not None:
        with open("/proc/self/statm", encoding="ascii") as file:
            inherited = int(file.read().split()[0]) * resource.getpagesize()
        _lower(resource.RLIMIT_AS, inherited + bounds.memory)
        if bounds.confined:
            _lower(resource.RLIMIT_FSIZE, bounds.memory)
    if bounds.confined:
        _close_off()
    if bounds.cpu_seconds is not None:
        _lower(resource.RLIMIT_CPU, bounds.cpu_seconds, spare=1)  # SIGXCPU at the soft limit, SIGKILL at the hard one
    if bounds.seconds is not None:
        limit_time(bounds.seconds)


def start_no_more() -> None:
    """From now on this process cannot start threads or processes. The kernel exempts root."""
    _lower(resource.RLIMIT_NPROC, 0)  # the limit counts all processes of a user: only 0 does not depend on others


def _close_off() -> None:
    """Deny what `ChildLimits` means by "confined" to this thread and everything it starts (landlock(7)). Older kernels
    deny less, those before 5.13 nothing.
    """
    global _closed_off  # noqa: PLW0603 - a fact about the process
    version = 0 if _closed_off else _libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _RULESET_VERSION)
    if version <= 0:
        return
    count = 13 if version < 2 else 14 if version < 3 else 15  # number of rights over files
    files = (1 << count) - 1 & ~_READ
    rights = struct.pack("=QQQ", files, _TCP, _OTHERS)[: 8 if version < 4 else 16 if version < 6 else 24]
    ruleset = _libc.syscall(_CREATE_RULESET, rights, ctypes.c_size_t(len(rights)), 0)
    if ruleset < 0 or _libc.syscall(_RESTRICT_SELF, ruleset, 0):
        raise OSError(ctypes.get_errno(), "Landlock")
    os.close(ruleset)
    _closed_off = True


def limit_time(seconds: float) -> None:
    """End this child after `seconds`; 0 removes the limit.

    SIGALRM has no handler, so the kernel ends the process.
    """
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _lower(what: int, to: int, spare: int = 0) -> None:
    """Set both limits, without raising the current ones. The hard limit is higher than the soft one by `spare`."""
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
        "code": vars(error).get("code"),  # its class has another one
        "name": error.name,
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
        errors.EXIT_CODES[facts["code"] or "failed"]  # a KeyError for an unknown code
        more = {name: facts[name] for name in ("code", "name", "check", "status") if facts[name] is not None}
        rebuilt = kind(message=facts["message"], hint=facts["hint"], **more)
    except (ValueError, LookupError, TypeError):
        return ServiceError("a forked process sent no frame", status=500)
    return rebuilt if isinstance(rebuilt, CleaveError) else ServiceError("a forked process sent no frame", status=500)
