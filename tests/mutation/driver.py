"""Make the mutants of the current folder with mutmut, test each one and write report.json. Run by `run`.

One pytest session collects the tests. A first child runs them all and records which test calls which function. Each
mutant is tested in a child of its own: first the tests that call its function, then the others, quickest first, until
one fails. Limits are of processor time, or of time in which nothing at all runs, so a busy machine changes no outcome.
"""

from __future__ import annotations

import ctypes
import difflib
import json
import os
import resource
import select
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import libcst
import pytest
from mutmut import __main__ as mutmut
from mutmut.configuration import config
from mutmut.mutation import trampoline
from mutmut.mutation.data import SourceFileMutationData
from mutmut.mutation.diff_apply import read_functions_from_index
from mutmut.utils.file_utils import copy_also_copy_files, copy_src_dir, setup_source_paths, walk_mutatable_files
from mutmut.utils.format_utils import mangled_name_from_mutant_name, orig_function_and_class_names_from_key

HITS = Path("hits").absolute()  # lines of function and test
TIMES = Path("times.json").absolute()  # test to seconds
IDLE_SECONDS = 20.0  # without processor time, and nothing waiting for a processor: a deadlock
PR_SET_CHILD_SUBREAPER = 36
KILLED, TIMED_OUT = 1, 36


def processor_ticks(pid: int) -> tuple[int, bool]:
    """Sum the ticks of the processes below `pid`, ended ones they waited for included; is one of them runnable?"""
    ticks, runs = 0, False
    for below in descendants(pid):
        try:
            fields = (
                Path(f"/proc/{below}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            )
        except (FileNotFoundError, ProcessLookupError):
            continue
        ticks += sum(map(int, fields[11:15]))
        runs |= fields[0] in "RD"
    return ticks, runs


def descendants(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            below = task.read_text(encoding="ascii").split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        for child in map(int, below):
            yield child
            yield from descendants(child)


def guarded(test: Callable[[], int], wall_seconds: float) -> int:
    """Fork a guard that runs `test` in a child, ends it where it hangs, and then ends what it left behind.

    The guard's exit code: 0 where the tests pass, KILLED, or TIMED_OUT. Returns its process id.
    """
    if guard := os.fork():
        return guard
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # what loses its parent comes to the guard
    pid = os.fork()
    if not pid:
        os.setsid()  # a test that signals its process group ends nobody else
        code = KILLED
        try:
            code = test()
        finally:
            os._exit(code)
    ended = os.pidfd_open(pid)
    began = active = time.monotonic()
    before, code = 0, None
    while code is None:
        if select.select([ended], [], [], 1.0)[0]:
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            code = TIMED_OUT if status == -signal.SIGXCPU else KILLED if status else 0
            break
        ticks, runs = processor_ticks(os.getpid())
        now = time.monotonic()
        if runs or ticks != before:
            active = now
        before = ticks
        if now - active > IDLE_SECONDS or now - began > wall_seconds:
            code = TIMED_OUT
    while left := list(descendants(os.getpid())):
        for process in left:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            break
        time.sleep(0.01)
    os._exit(code)


class Mutants:
    """Plugin whose test loop tests every mutant; `outcomes` is filled by the time pytest ends."""

    def __init__(self, children: int, names: list[str]) -> None:
        self.children = children
        self.names = names
        self.outcomes: dict[str, str] = {}
        self.log = os.open("tests.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self.seconds: dict[str, float] = {}  # of processor time, by test

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.outcomes:  # nothing is changed yet
            os.write(self.log, f"{report.nodeid}\n{report.longreprtext}\n".encode())

    def run(self, session: pytest.Session, items: list[pytest.Item]) -> int:
        """Run tests in this child until one fails. Returns an exit code."""
        session.config.pluginmanager.unregister(name="terminalreporter")
        for item, following in zip(items, [*items[1:], None], strict=True):
            began = time.process_time()
            limit = int(began + 5 + 10 * self.seconds.get(item.nodeid, 300.0))
            resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            self.seconds.setdefault(item.nodeid, time.process_time() - began)
            if session.testsfailed:
                return KILLED
        return 0

    def run_all(self, session: pytest.Session) -> int:
        """Run all tests; write down their times, and which of them call which function, in forked children too."""
        seen: set[tuple[str, str]] = set()
        hits = os.open(HITS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

        def record(name: str, caller: str | None = None) -> None:
            hit = (name, os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0])
            if hit not in seen:
                seen.add(hit)
                os.write(hits, json.dumps(hit).encode() + b"\n")

        trampoline.record_trampoline_hit = record
        trampoline._mutant_under_test = "stats"
        os.environ.pop("MUTANT_UNDER_TEST", None)  # a program that a test starts has nothing to record
        code = self.run(session, session.items)
        TIMES.write_text(json.dumps(self.seconds), encoding="utf-8")
        return code

    def test_mutant(self, session: pytest.Session, name: str, items: list[pytest.Item]) -> int:
        trampoline.set_mutant_under_test(name)
        return self.run(session, items)

    def finish(self, guard: int) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(guard, 0)[1])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Interrupted("the tests cannot be collected")
        began = time.monotonic()
        if code := self.finish(guarded(lambda: self.run_all(session), 3600)):
            pytest.exit(f"the tests fail ({code}) where nothing is changed: see tests.log", returncode=2)
        wall = 120 + 10 * (time.monotonic() - began)
        self.seconds = json.loads(TIMES.read_text(encoding="utf-8"))
        calling: dict[str, set[str]] = defaultdict(set)
        for line in HITS.read_text(encoding="utf-8").splitlines():
            function, test = json.loads(line)
            calling[function].add(test)
        running: dict[int, str] = {}
        # the first changes nothing: the tests must pass in such a child, or every mutant would seem to be killed
        for name in ["nothing.x_changed__mutmut_1", *self.names]:
            covering = calling[mangled_name_from_mutant_name(name)]
            items = sorted(session.items, key=lambda item: (item.nodeid not in covering, self.seconds[item.nodeid]))
            guard = guarded(lambda name=name, items=items: self.test_mutant(session, name, items), wall)
            running[guard] = name
            if not self.outcomes:
                if code := self.finish(guard):
                    pytest.exit(f"the tests fail ({code}) in a child", returncode=2)
                self.outcomes[running.pop(guard)] = "survived"
            while len(running) >= self.children:
                self.collect(running)
        while running:
            self.collect(running)
        return True

    def collect(self, running: dict[int, str]) -> None:
        guard, status = os.wait()
        code = os.waitstatus_to_exitcode(status)
        self.outcomes[running.pop(guard)] = {0: "survived", TIMED_OUT: "timeout"}.get(code, "killed")
        name, outcome = list(self.outcomes.items())[-1]
        os.write(self.log, f"{len(self.outcomes) - 1}/{len(self.names)} {outcome} {name}\n".encode())


def mutated() -> list[SourceFileMutationData]:
    every = [SourceFileMutationData(path=path) for path in walk_mutatable_files()]
    for data in every:
        data.load()
    return every


def described(path: Path, mutant: str, outcome: str) -> dict[str, str]:
    found = read_functions_from_index(mutant, path)
    if found is None:
        raise SystemExit(f"error: mutmut lost {mutant}")
    before, after = (libcst.Module([function]).code.splitlines() for function in found)
    lines = list(difflib.unified_diff(before, after, n=0, lineterm=""))[3:]
    function, cls = orig_function_and_class_names_from_key(mutant)
    return {
        "function": f"{mutant.rpartition('.')[0]}:{f'{cls}.' if cls else ''}{function}",
        "was": " ".join(line[1:].strip() for line in lines if line.startswith("-")),
        "becomes": " ".join(line[1:].strip() for line in lines if line.startswith("+")),
        "outcome": outcome,
    }


def main() -> None:
    children = int(sys.argv[1])
    Path("mutants").mkdir()
    copy_src_dir()
    copy_also_copy_files()
    setup_source_paths()
    mutmut.create_mutants(children)
    os.environ["PYTHONPATH"] = str(Path("mutants/src").absolute())  # for programs that a test starts
    tests = config().pytest_add_cli_args_test_selection
    mutants = Mutants(children, [name for data in mutated() for name in data.exit_code_by_key])
    os.chdir("mutants")
    code = pytest.main(["-p", "no:cacheprovider", "-x", "--rootdir=.", "--tb=native", *tests], plugins=[mutants])
    os.chdir("..")
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise SystemExit(f"error: pytest ends with {code}")
    report = [
        described(data.path, mutant, mutants.outcomes[mutant]) for data in mutated() for mutant in data.exit_code_by_key
    ]
    Path("report.json").write_text(json.dumps(report, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
