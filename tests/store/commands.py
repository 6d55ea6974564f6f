"""`cleave` commands in processes of their own that can be killed, without a second of imports for each.

`python -m tests.store.commands` imports the program once, in one thread, and forks a process for every line of JSON it
reads; it answers with a line when that process and all that it started are gone.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

# everything that the commands import when they need it
from cleave.local.main import main
from cleave.objects.s3 import Bucket

ROOT = Path(__file__).parents[2]
_ORPHAN_SECONDS = 60.0
_LONGEST = 600.0


@dataclass(frozen=True, slots=True)
class Ended:
    """`code`: as Popen has it, -9 where it was killed. `changes`: how often it changed something on disk or in S3."""

    code: int
    changes: int
    seconds: float
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True)
class Death:
    """By SIGKILL: at change number `at`, once it is `made` or just before; or `after` so many seconds."""

    at: int | None = None
    made: bool = False
    after: float | None = None


class Commands:
    """The forking process. `run` waits until a command is over."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self._folder = folder
        self._environment = environment

    def __enter__(self) -> Commands:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.store.commands"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=os.environ | self._environment,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._process:
            self.start_no_more()
            self._process.wait(_LONGEST)

    def start(self, *words: object, death: Death = Death(), environment: dict[str, str] | None = None) -> None:
        """One after another: the second starts when the first is over."""
        line = {"words": list(map(str, words)), "at": death.at, "made": death.made, "after": death.after}
        line |= {"environment": environment or {}, "folder": str(self._folder)}
        assert self._process.stdin
        self._process.stdin.write(json.dumps(line) + "\n")
        self._process.stdin.flush()

    def result(self) -> Ended:
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, "the forking process ended"
        found = json.loads(line)
        assert not found.pop("orphans"), "a process outlived the command that started it"
        return Ended(**found)

    def run(self, *words: object, death: Death = Death(), environment: dict[str, str] | None = None) -> Ended:
        self.start(*words, death=death, environment=environment)
        return self.result()

    def start_no_more(self) -> None:
        if self._process.stdin:
            self._process.stdin.close()


def _serve() -> None:
    for line in sys.stdin:
        wanted = json.loads(line)
        sys.stdout.write(json.dumps(_one(wanted)) + "\n")
        sys.stdout.flush()


def _one(wanted: dict[str, Any]) -> dict[str, Any]:
    out, err = (Path(wanted["folder"]) / f"{os.getpid()}.{name}" for name in ("out", "err"))
    reading, writing = os.pipe()
    started = time.monotonic()
    child = os.fork()
    if not child:
        os.close(reading)
        os.set_inheritable(writing, True)  # so that it stays open as long as anybody of this command lives
        _become(wanted, out, err, writing)
    os.close(writing)
    after = wanted["after"]
    changes, until = 0, started + (_LONGEST if after is None else after)
    killed = False
    while True:
        ready, _, _ = select.select([reading], [], [], max(0.0, until - time.monotonic()))
        if ready:
            read = os.read(reading, 4096)
            changes += len(read)
            if not read:
                break
        elif killed:
            break
        else:
            os.kill(child, signal.SIGKILL)
            killed, until = True, time.monotonic() + _ORPHAN_SECONDS
    orphans = bool(killed and not ready)
    os.close(reading)
    _, status = os.waitpid(child, 0)
    seconds = time.monotonic() - started
    code = os.waitstatus_to_exitcode(status)
    texts = {"stdout": out.read_text(), "stderr": err.read_text()}
    return {"code": code, "changes": changes, "seconds": seconds, "orphans": orphans, **texts}


def _become(wanted: dict[str, Any], out: Path, err: Path, pipe: int) -> None:
    """The command, in the process that was forked for it."""
    for path, handle in ((out, 1), (err, 2)):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(opened, handle)
        os.close(opened)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.environ.update(wanted["environment"])
    sys.argv = ["cleave", *wanted["words"]]
    _count_changes(pipe, wanted["at"], made=wanted["made"])
    try:
        main()
    finally:
        os._exit(99)  # main has ended this process by itself


def _count_changes(pipe: int, at: int | None, *, made: bool) -> None:
    left = [at]

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def change(*given: Any, **named: Any) -> Any:
            dies = left[0] == 0
            if left[0] is not None:
                left[0] -= 1
            if dies and not made:
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                result = real(*given, **named)
            finally:  # also where nothing was to be changed: it is counted above
                os.write(pipe, b".")
            if dies:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return change

    for name in ("link", "replace", "unlink", "fsync", "mkdir", "rmdir", "truncate", "rename"):
        setattr(os, name, counted(getattr(os, name)))
    for name in ("_put", "delete"):
        setattr(Bucket, name, counted(getattr(Bucket, name)))


if __name__ == "__main__":
    _serve()
