"""Every primitive does what its name says: their own looks at their results pass, and see what is wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import suite
from benchmarks.lab.coefficients import coefficients, rotated
from benchmarks.lab.micro import MICRO
from benchmarks.lab.primitive import OF_PROFILES, PRIMITIVES, Family, WrongResultError, measured
from benchmarks.lab.scheme import context_of
from benchmarks.lab.services import services
from benchmarks.lab.slots import RINGS, slots
from cleave_shared.params import SUM60_PACK

ONCE = suite.Effort(seconds=1e-6, runs=1)


@pytest.fixture(scope="module", params=["slots", "coefficients"])
def family(request: pytest.FixtureRequest) -> Family:
    return slots(*RINGS[0]) if request.param == "slots" else coefficients(SUM60_PACK)


def test_all_are_there_and_right(family: Family) -> None:
    found = suite.primitives(ONCE, of=lambda: iter([family]))
    missing = {"rescale"} if family.of == SUM60_PACK.name else {*OF_PROFILES}
    assert [each.name for each in found] == [name for name in PRIMITIVES if name not in missing]
    assert all(each.seconds > 0 and each.calls >= 1 for each in found)
    assert {(each.degree, each.prime_bits) for each in found} == {(family.degree, family.prime_bits)}


def test_a_primitive_that_does_something_else_is_not_timed(family: Family) -> None:
    """What one gives is wrong for every other that gives a ciphertext or a plaintext."""
    by_name = {each.name: each for each in family.primitives}
    for name, wrong in (
        ("multiply", "rotate"),
        ("rotate", "multiply"),
        ("encrypt, symmetric", "rotate"),
        ("relinearise", "encrypt, symmetric"),
        ("load, seeded", "rotate"),
        ("decrypt", "mask encode"),
    ):
        other = by_name[wrong]
        of_other = replace(by_name[name], setup=other.setup, work=lambda given, other=other: _plain(other.work(given)))
        with pytest.raises(WrongResultError):
            measured(of_other, seconds=1e-6, runs=1)


def test_a_primitive_of_services_that_does_something_else_is_not_timed() -> None:
    by_name = {each.name: each for each in services(SUM60_PACK)}
    for name, wrong in (
        ("carry", "save a masked sum"),
        ("load to be masked", "load a masked sum"),
        ("load a masked sum", "load to be masked"),
        ("save a masked sum", "carry"),
    ):
        other = by_name[wrong]
        with pytest.raises(WrongResultError):
            measured(replace(by_name[name], setup=other.setup, work=other.work), seconds=1e-6, runs=1)
    rows = by_name["mask rows"]
    with pytest.raises(WrongResultError):
        measured(replace(rows, work=lambda selected: rows.work(~selected)), seconds=1e-6, runs=1)


def _plain(result: object) -> object:
    return result[0] if isinstance(result, list) else result


def test_microbenchmarks_are_right() -> None:
    found = suite.microbenchmarks(ONCE)
    assert [each.name for each, _ in found] == list(MICRO)


def test_names_choose() -> None:
    of = iter([slots(*RINGS[0])])
    assert [each.name for each in suite.primitives(ONCE, ["add", "rotate"], of=lambda: of)] == ["add", "rotate"]


def test_weak_parameters_are_not_measured() -> None:
    with pytest.raises(ValueError, match="not 128-bit secure"):
        context_of(4096, (60, 60))


def test_rotated_is_an_automorphism() -> None:
    """That of X^2 is its square's, here by the definition of a product modulo X^N + 1."""
    random = np.random.default_rng(3)
    a, b = random.integers(-9, 9, (2, 8))

    def product(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        whole = np.convolve(one, other)
        low = whole[:8].copy()
        low[: len(whole) - 8] -= whole[8:]
        return low

    assert (rotated(product(a, b)) == product(rotated(a), rotated(b))).all()
    assert (rotated(a) != a).any()
