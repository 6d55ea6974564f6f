"""A process with one thread that forks bounded children, whatever threads its client process has.

A forked child inherits its parent's locks as they were, but only one thread. A lock held by another thread is never
released. Python handles its own locks, but not those of libraries that work outside the GIL, such as DuckDB. So the
parent of such children never has a second thread:

  client --(1)--> fork server --(2)--> child, which answers the client over its own socket

(1) is a fork if the client has one thread, counted by the kernel; otherwise a new interpreter, started in 0.3 s in the
background. (2) is a fork, whatever the client's size. Client and server share a socket with one message per child. It
carries the child's end of its channel, a lifeline, and descriptors that the child shares. The server reports the
child's end over the lifeline. The child ends when the client or the lifeline ends.

  server = ForkServer(["cleave_services.plain.engine"])
  with server.fork() as child:
      child.call(work, (argument,), Bounds(seconds=25))
      (blob,) = child.receive(26)

The server's environment is stated when it is made. So a server that replaces one that died finds the same files and
credentials.

multiprocessing has a fork server too, but its children import the client's main module, and outlive it.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NoReturn

from cleave_shared import children
from cleave_shared.children import Channel, Child
from cleave_shared.core_dumps import refuse_core_dumps
from cleave_shared.errors import ServiceError

SHARED = 4  # descriptors per child, besides its own two
_FORK = b"+"  # the message for a child, followed by the modules that it needs
_MOST_MESSAGE = 1 << 10
_ENDED = struct.Struct("<iQ")  # from wait4(2): the status, and the most memory used, in KiB
_START_SECONDS = 60.0  # a new interpreter and its imports, on a busy machine
_ASK_SECONDS = 10.0  # a server only forks
_NEW = "import sys; sys.path[:] = sys.argv[2:]; from cleave_shared.fork_server import main; main()"
# What computing children need that open nothing themselves: the loader's variables, Lambda's size, and settings that
# keep libraries from threads and plugins.
_FEW = (
    *("PATH", "LD_LIBRARY_PATH", "LANG", "TZ", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE"),
    *("OPENBLAS_NUM_THREADS", "PYDANTIC_DISABLE_PLUGINS"),
)

_NONE = ServiceError("no process can be started", hint="is there enough memory?", status=500)


class ForkServer:
    """Starts with `start` or the first `fork`, and ends with this process.

    `preload`: modules that it imports, and functions (module:function) that it calls.
    """

    def __init__(self, preload: Sequence[str] = (), environment: Mapping[str, str] | None = None) -> None:
        """`environment`: of the server and its children. None: a minimal one, without credentials, passphrases and home
        folder.
        """
        self._preload = preload
        self._environment = environment
        self._lock = threading.Lock()
        self._process: _Process | None = None
        self._ready = False
        self.peak_kb = 0  # the most memory that any child used
        os.register_at_fork(after_in_child=self._forget)  # a process forked from this one starts its own server
        atexit.register(self.stop)

    def start(self) -> None:
        """Start the server if it is not running, without waiting for it. Best called while there is one thread.

        An error is not raised here: `fork` tries again, and raises it.
        """
        with self._lock, contextlib.suppress(ServiceError):
            self._started()

    def fork(self, share: Sequence[int] = (), modules: Sequence[str] = ()) -> Child:
        """A child of the server that waits for calls (`Child.call`). Raises ServiceError if none can be started.

        `share`: descriptors for the child, at most SHARED. Their numbers in the child are the first arguments of its
        calls. `modules`: what only some children need; the server imports them before it first forks such a child.
        """
        (ours, theirs), (lifeline, its_end) = socket.socketpair(), socket.socketpair()
        with contextlib.ExitStack() as stack:
            for each in (ours, lifeline):
                stack.push(each)
            with theirs, its_end:
                process = self._ask(" ".join(modules).encode(), [theirs.fileno(), its_end.fileno(), *share])
            stack.pop_all()
        return _Child(Channel(ours), lifeline, process, self.note)

    def stop(self) -> None:
        """End the server and all its children."""
        with self._lock:
            self._end()

    def _ask(self, modules: bytes, descriptors: list[int]) -> _Process:
        """Returns the server's process that was asked for a child."""
        with self._lock:
            if self._process is not None and self._process.has_ended():
                self._end()
            for last in (False, True):
                process = self._started()
                control = process.control
                try:
                    if not self._ready:
                        control.settimeout(_START_SECONDS)
                        self._ready = control.recv(1) != b""
                    control.settimeout(_ASK_SECONDS)
                    socket.send_fds(control, [_FORK + modules], descriptors)
                except OSError:  # it has ended
                    self._end()
                    if last:
                        raise _NONE from None
                else:
                    return process
            raise AssertionError("the last attempt returns or raises")

    def note(self, peak_kb: int) -> None:
        """Record a child's memory, if nobody waited for the child."""
        self.peak_kb = max(self.peak_kb, peak_kb)

    def _started(self) -> _Process:
        if self._process is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                try:
                    start = _forked if threads() == 1 else _spawned
                    pid = start(theirs, self._preload, self._variables())
                except OSError:
                    ours.close()
                    raise _NONE from None
            self._process, self._ready = _Process(pid, ours), False
        return self._process

    def _variables(self) -> Mapping[str, str]:
        if self._environment is not None:
            return self._environment
        # a library's threads must not run during a fork
        return {"OPENBLAS_NUM_THREADS": "1"} | {name: os.environ[name] for name in _FEW if name in os.environ}

    def _end(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process = None

    def _forget(self) -> None:
        if self._process is not None:
            self._process.control.close()  # otherwise the server would not notice the end of its client
            self._process = None
        self._lock = threading.Lock()


class _Process:
    """A server's process, seen from its client."""

    def __init__(self, pid: int, control: socket.socket) -> None:
        self.control = control
        self.pid = pid
        self._reaped = False

    def has_ended(self) -> bool:
        """True from its death on. Its children live a moment longer, and may hold its end of `control` until then."""
        try:
            return self._reaped or os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:  # reaped elsewhere
            return True

    def end(self) -> None:
        self.control.close()
        try:
            for _ in range(100):  # it ends when it reads that `control` is closed
                if os.waitpid(self.pid, os.WNOHANG)[0]:
                    return
                time.sleep(0.002)
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            return
        finally:
            self._reaped = True


class _Child(Child):
    """A child of the fork server."""

    def __init__(
        self, channel: Channel, lifeline: socket.socket, server: _Process, note: Callable[[int], None]
    ) -> None:
        super().__init__(0, channel)
        self._lifeline = lifeline
        self._server = server
        self._note = note  # called with the most memory that the child used, in KiB

    def is_idle(self) -> bool:
        return super().is_idle() and not self._server.has_ended()  # which ends the child, at once or a moment later

    def release(self) -> None:
        super().release()
        self._lifeline.close()

    def kill(self) -> None:
        if self._killed:
            return
        self._killed = True
        with contextlib.suppress(OSError, struct.error), self._lifeline:
            self._lifeline.shutdown(socket.SHUT_WR)
            self._lifeline.settimeout(children.GONE_SECONDS)
            self._status, peak = _ENDED.unpack(self._lifeline.recv(_ENDED.size))
            self._note(peak)


def threads() -> int:
    """Number of threads of this process, counted by the kernel: libraries' threads are included."""
    return len(os.listdir("/proc/self/task"))


def _forked(control: socket.socket, preload: Sequence[str], environment: Mapping[str, str]) -> int:
    parent = os.getpid()
    pid = children.bare_fork()
    if pid:
        return pid
    try:
        children.calm_signals()
        children.let_go({control.fileno()})
        os.environ.clear()
        os.environ.update(environment)
        _serve(control, parent, preload)
    finally:
        os._exit(1)


def _spawned(control: socket.socket, preload: Sequence[str], environment: Mapping[str, str]) -> int:
    """Start a new, isolated interpreter that finds the same modules. Its control socket is its stdin."""
    if not sys.executable:
        raise ServiceError("there is no Python interpreter to start another process with", status=500)
    actions = [
        (os.POSIX_SPAWN_DUP2, control.fileno(), 0),
        *((os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_WRONLY, 0) for stream in (1, 2)),
    ]
    arguments = json.dumps({"parent": os.getpid(), "preload": list(preload)})
    return os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-c", _NEW, arguments, *map(os.path.abspath, sys.path)],
        dict(environment),
        file_actions=actions,
    )


def main() -> NoReturn:
    """Serve the process that made this new interpreter."""
    arguments = json.loads(sys.argv[1])
    control = socket.socket(fileno=os.dup(0))
    children.calm_signals()
    children.let_go({control.fileno()})
    _serve(control, arguments["parent"], arguments["preload"])


def _serve(control: socket.socket, parent: int, preload: Sequence[str]) -> NoReturn:
    refuse_core_dumps()
    gc.freeze()  # a collection would write to every inherited page, and so copy it
    _import(preload)
    control.send(b"+")
    _Loop(control, parent).run()


def _import(modules: Sequence[str]) -> None:
    for preloaded in modules:
        module, _, function = preloaded.partition(":")
        imported = importlib.import_module(module)
        if function:
            getattr(imported, function)()
    gc.freeze()


class _Loop:
    """The loop of the server's single thread. It reads no payload: only children read hostile bytes."""

    def __init__(self, control: socket.socket, parent: int) -> None:
        self._control = control
        self._lifelines: dict[int, tuple[int, socket.socket]] = {}  # descriptor -> child
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        woken, wakes = os.pipe()
        os.set_blocking(wakes, False)
        os.set_blocking(woken, False)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._woken = woken
        self._poll.register(woken, select.POLLIN)
        self._parent: int | None = None
        with contextlib.suppress(OSError):  # on kernels without it, only the end of `control` shows it
            self._parent = os.pidfd_open(parent)
            self._poll.register(self._parent, select.POLLIN)

    def run(self) -> NoReturn:
        while True:
            ready = {descriptor for descriptor, _ in self._poll.poll()}
            if self._parent in ready:
                self._leave()
            for descriptor in ready & self._lifelines.keys():
                self._poll.unregister(descriptor)
                children.end(self._lifelines[descriptor][0])
            if self._woken in ready:
                self._reap()
            if self._control.fileno() in ready:  # last: a new lifeline may get the number of one that has ended
                self._take()

    def _leave(self) -> NoReturn:
        for pid, _ in self._lifelines.values():
            children.end(pid)
        os._exit(0)  # the kernel then ends unfinished children

    def _take(self) -> None:
        message, descriptors, _, _ = socket.recv_fds(self._control, _MOST_MESSAGE, 2 + SHARED, socket.MSG_CMSG_CLOEXEC)
        if not message:
            self._leave()
        channel, lifeline = (socket.socket(fileno=each) for each in descriptors[:2])
        shared = descriptors[2:]
        modules = message.removeprefix(_FORK).decode().split()
        if not sys.modules.keys() >= {*modules}:
            _import(modules)
        with channel:
            try:
                pid = children.fork_onto(channel, partial(children.answer_calls, shared=shared), keep=shared)
            except OSError:  # no memory or too many processes: the client sees both ends closed
                lifeline.close()
                return
            finally:
                for each in shared:
                    os.close(each)
        self._lifelines[lifeline.fileno()] = (pid, lifeline)
        self._poll.register(lifeline, select.POLLIN)

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._woken, 1 << 12)
        for descriptor, (pid, lifeline) in list(self._lifelines.items()):
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                continue
            children.end(pid)  # its process group too, while its number is not reused
            _, status, used = os.wait4(pid, 0)
            with contextlib.suppress(KeyError):
                self._poll.unregister(descriptor)
            with contextlib.suppress(OSError):
                lifeline.send(_ENDED.pack(status, used.ru_maxrss))
            lifeline.close()
            del self._lifelines[descriptor]
