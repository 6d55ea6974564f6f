"""No test asserts a time or sleeps for a fixed one: it would fail, or prove nothing, on a machine ten times slower."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functional.processes import HANGS

TESTS = Path(__file__).parents[1]
FILES = [*TESTS.rglob("*.py"), *(TESTS.parent / "benchmarks" / "tests").glob("*.py")]
CLOCKS = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "time", "time_ns"}
ALLOWED = {
    ("test_transport_hostile.py", "time.sleep(0.02)"),  # how long a fake service's answer takes; nothing waits for it
    ("test_fuzz_stored.py", "assert fault is None, (number, fault)"),  # 29 s, three times the service's own limit
}


def reads_clock(node: ast.AST) -> bool:
    """Whether `time.monotonic()` or its like is called in it."""
    return any(
        isinstance(each, ast.Call) and ast.unparse(each.func) in {f"time.{clock}" for clock in CLOCKS}
        for each in ast.walk(node)
    )


def asserted_times(tree: ast.AST) -> Iterator[str]:
    """Assertions over a clock, or over what a statement of the same function made of one."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        made: set[str] = set()
        for each in ast.walk(function):
            if isinstance(each, ast.Assign) and (reads_clock(each.value) or made & names(each.value)):
                made |= set().union(*map(names, each.targets))
        for each in ast.walk(function):
            if isinstance(each, ast.Assert) and (reads_clock(each.test) or made & names(each.test)):
                yield ast.unparse(each)


def names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def fixed_sleeps(tree: ast.AST) -> Iterator[str]:
    """Sleeps of a stated time, unless a loop looks again after each, or the sleep outlasts every test (`HANGS`)."""
    looped = {id(each) for loop in ast.walk(tree) if isinstance(loop, ast.While) for each in ast.walk(loop)}
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "time.sleep" and id(call) not in looped:
            parts = [part for argument in call.args for part in ast.walk(argument)]
            seconds = [part.value for part in parts if isinstance(part, ast.Constant)]
            drawn = any(isinstance(part, ast.Call) for part in parts)  # a random moment of a campaign
            if not drawn and any(isinstance(each, int | float) and 0 < each < HANGS for each in seconds):
                yield ast.unparse(call)


@pytest.mark.parametrize("find", [asserted_times, fixed_sleeps])
def test_no_test_depends_on_how_fast_the_machine_is(find: object) -> None:
    assert callable(find)
    tested = [path for path in FILES if find is fixed_sleeps or path.name.startswith("test_")]
    found = {
        (path.name, line)
        for path in tested
        if "time." in (text := path.read_text("utf-8"))
        for line in find(ast.parse(text))
    }
    assert found - ALLOWED == set()


def test_asserted_times_and_fixed_sleeps_are_found() -> None:
    timed = (
        "def test_x():\n    began = time.monotonic()\n    seconds = time.monotonic() - began\n    assert seconds < 2"
    )
    assert [*asserted_times(ast.parse(timed))] == ["assert seconds < 2"]
    assert [*asserted_times(ast.parse("def test_x():\n    assert time.time() < 5"))] == ["assert time.time() < 5"]
    sleeps = ("time.sleep(0.5)", "time.sleep(0.02 * late)", "time.sleep(600)", "time.sleep(pause)")
    polled = "while busy():\n    time.sleep(0.1)"
    assert [*fixed_sleeps(ast.parse("\n".join((*sleeps, polled))))] == [*sleeps[:2]]
