"""A flame graph of a command and its child processes: sampled by py-spy where that is installed, drawn as SVG here.

py-spy reads stacks of Python and of SEAL together, from outside and without root, for it starts what it looks at. It is
not among Cleave's dependencies: `pip install py-spy`, or `make bench`, which has it in an environment of its own.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from cleave.bench.profiler import CommandFailedError, profile
from cleave_shared.dataclass import dataclass

PROGRAM = "CLEAVE_PY_SPY"  # the environment's name for where it is, if not on the path
RATE = 200  # samples a second
_LEAST_SHARE = 1 / 540  # of a frame that is drawn: two pixels
_PROCESS = re.compile(r'^process \d+:".*"$')
WIDTH, _ROW = 1080, 17


@dataclass(slots=True)
class Frame:
    """A function as called on one way, with the samples in which it was on the stack."""

    name: str
    samples: int = 0
    calls: dict[str, Frame] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Box:
    """A frame's place in a drawing WIDTH wide, rows from the top; `kind` says what runs there."""

    x: float
    y: int
    width: float
    name: str
    title: str
    kind: str

    @property
    def shown(self) -> str:
        letters = int(self.width / 6.4) - 1
        return "" if letters < 3 else self.name if len(self.name) <= letters else f"{self.name[: letters - 1]}\u2026"


def py_spy() -> str | None:
    """Where it is, None if it is not installed."""
    return os.environ.get(PROGRAM) or shutil.which("py-spy") or shutil.which("py-spy", path=Path(sys.executable).parent)


def record(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Frame | None:
    """Run it once more under py-spy. None where that is not installed, or may not look."""
    program = py_spy()
    if program is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "stacks"
        words = [program, "record", "--rate", str(RATE), "--format", "raw", "--function", "--output", str(file)]
        for native in (["--native"], []):  # which some machines do not have
            try:
                profile([*words, *native, "--subprocesses", "--", *command], environment)
            except CommandFailedError:
                continue
            if file.exists():
                return folded(file.read_text("utf-8", "replace").splitlines())
    return None


def folded(lines: Iterable[str]) -> Frame:
    """A tree from lines of `frame;frame;... samples`."""
    root = Frame("all")
    for line in lines:
        stack, _, samples = line.rpartition(" ")
        if not samples.isdigit():
            continue
        root.samples += int(samples)
        at = root
        for name in _frames(stack):
            at = at.calls.setdefault(name, Frame(name))
            at.samples += int(samples)
    return root


def _frames(stack: str) -> Iterator[str]:
    """Of a stack that begins with the process's command line, which may hold paths; and that holds its parent's."""
    depth = 0
    for part in re.split(r";(?=(?:[^\"]*\"[^\"]*\")*[^\"]*$)", stack):
        if _PROCESS.match(part):
            depth += 1
            if depth > 1:
                yield "child process"
        else:
            yield part


def boxes(root: Frame) -> list[Box]:
    """From the top down, widest first."""
    return list(_placed(root, 0.0, 0, root.samples)) if root.samples else []


def height(drawn: Sequence[Box]) -> int:
    return max((box.y for box in drawn), default=0) + _ROW


def _placed(frame: Frame, x: float, depth: int, whole: int) -> Iterator[Box]:
    share = frame.samples / whole
    if share < _LEAST_SHARE:
        return
    title = f"{frame.name}: {100 * share:.1f}%"
    yield Box(round(x, 2), depth * _ROW, round(WIDTH * share, 2), frame.name, title, _kind(frame.name))
    for call in sorted(frame.calls.values(), key=lambda each: -each.samples):
        yield from _placed(call, x, depth + 1, whole)
        x += WIDTH * call.samples / whole


def _kind(name: str) -> str:
    """By the file behind the name: this package, SEAL, other Python, or what is compiled."""
    if "(cleave" in name:
        return "ours"
    if "seal" in name.lower():
        return "seal"
    return "python" if ".py)" in name or "<frozen" in name else "compiled"
