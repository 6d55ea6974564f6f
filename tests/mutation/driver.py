"""Run mutmut in the current folder, and write what became of every mutant to report.json. Run by `run`.

mutmut runs against a mutant the tests that it saw calling the function. It does not see what runs in a forked child,
so `--every-test` has all tests run against all mutants.
"""

from __future__ import annotations

import difflib
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import libcst
from mutmut import __main__ as mutmut
from mutmut.mutation.data import SourceFileMutationData
from mutmut.mutation.diff_apply import read_functions_from_index
from mutmut.runners.harness import PytestRunner
from mutmut.state import state
from mutmut.stats import status_by_exit_code
from mutmut.utils.file_utils import walk_mutatable_files
from mutmut.utils.format_utils import orig_function_and_class_names_from_key
from mutmut.workers.isolation import get_mutant_runner


def once_collected(*, forks: bool) -> None:
    """Once mutmut knows the tests of every function: take each test for one of every function, if the target forks.

    Then make sure that the tests pass where mutants are tested, under a mutant that there is not. Else all would seem
    to be killed, whatever they change.
    """
    collect = mutmut.collect_or_load_stats

    def collected(*arguments: Any, **named: Any) -> None:
        collect(*arguments, **named)
        tests = state().duration_by_test
        if forks:
            for function in state().current_function_hashes:
                state().tests_by_mangled_function_name[function] = set(tests)
            # nor must what a test starts as a process of its own import the originals
            os.environ["PYTHONPATH"] = str(Path("mutants/src").absolute())
        control = get_mutant_runner(1)
        control.startup()
        seconds = sum(tests.values())
        control.submit("nothing.x_changed__mutmut_1", list(tests), int(6 * (seconds + 3)), seconds)
        if code := control.wait_for_result().exit_code:
            raise SystemExit(f"error: the tests fail ({code}) where nothing is changed")
        control.shutdown()

    mutmut.collect_or_load_stats = collected


def apart() -> None:
    """Have each mutant tested in a session of its own: one that signals its process group ends nobody else."""
    run_tests = PytestRunner.run_tests

    def alone(runner: PytestRunner, *, mutant_name: str | None, tests: Iterable[str]) -> int:
        if mutant_name:
            os.setsid()
        return run_tests(runner, mutant_name=mutant_name, tests=tests)

    PytestRunner.run_tests = alone


def told(path: Path, mutant: str, code: int | None) -> dict[str, str]:
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
        "outcome": status_by_exit_code[code],
    }


def main() -> None:
    children, *rest = sys.argv[1:]
    apart()
    once_collected(forks=bool(rest))
    mutmut._run([], int(children))
    report = []
    for path in walk_mutatable_files():
        data = SourceFileMutationData(path=path)
        data.load()
        report += [told(path, mutant, code) for mutant, code in data.exit_code_by_key.items()]
    Path("report.json").write_text(json.dumps(report, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
