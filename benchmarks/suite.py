"""`make bench`: single operations on ciphertexts, and what services and answers are made of; Markdown.

CKKS in slots at three ring degrees, then integers in coefficients at Cleave's own profile. Every result is checked
before its operation is timed. `make bench-image` runs the same in the image that Lambda runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.lab.coefficients import coefficients
from benchmarks.lab.micro import MICRO, micro
from benchmarks.lab.primitive import PRIMITIVES, Family, Measured, Primitive
from benchmarks.lab.slots import RINGS, slots
from benchmarks.lab.timing import CLOCKS
from benchmarks.tables import figure, machine, markdown
from cleave_shared.params import PROFILES


def families() -> Iterator[Family]:
    """CKKS in slots at three ring degrees, then each profile. Making one takes up to a second: keys are generated."""
    for degree, prime_bits, scale_bits in RINGS:
        yield slots(degree, prime_bits, scale_bits)
    for profile in PROFILES.values():
        yield coefficients(profile)


@dataclass(frozen=True, slots=True)
class Effort:
    """Seconds that accumulate in each of so many runs, by a clock of CLOCKS."""

    seconds: float
    runs: int
    clock: str = "wall"

    def spent(self, family: Family, primitive: Primitive) -> Measured:
        """Raises WrongResultError."""
        return family.measure(primitive, seconds=self.seconds, runs=self.runs, clock=CLOCKS[self.clock])


def primitives(
    effort: Effort, names: Sequence[str] = PRIMITIVES, of: Callable[[], Iterator[Family]] = families
) -> list[Measured]:
    """Time the named primitives of every family that has them. Raises WrongResultError."""
    return [effort.spent(family, each) for family in of() for each in family.primitives if each.name in names]


def microbenchmarks(effort: Effort, names: Sequence[str] = MICRO) -> list[tuple[Measured, str]]:
    """Time the named microbenchmarks; each with a description of one run. Raises WrongResultError."""
    every = [(family, each, told) for family, told in micro() for each in family.primitives]
    return [(effort.spent(family, each), told) for family, each, told in every if each.name in names]


def primitive_table(found: Sequence[Measured]) -> str:
    """Microseconds of each primitive, a column for each family."""
    of = list(dict.fromkeys(each.of for each in found))
    by = {(each.name, each.of): each for each in found}
    rows = [
        [name, *(_cell(by.get((name, family))) for family in of)]
        for name in PRIMITIVES
        if any((name, family) in by for family in of)
    ]
    return markdown(["microseconds (spread)", *of], rows)


def micro_table(found: Sequence[tuple[Measured, str]]) -> str:
    rows = [[each.name, _cell(each, 1e3), told] for each, told in found]
    return markdown(["milliseconds (spread)", "", "one run"], rows)


def _cell(found: Measured | None, unit: float = 1e6) -> str:
    return "" if found is None else f"{figure(found.seconds * unit)} ± {50 * found.spread:.0f}%"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=0.5, help="that accumulate in each run")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--wall", action="store_true", help="by the wall clock, not by processor time")
    parser.add_argument("names", nargs="*", help="only these")
    given = parser.parse_args()
    effort = Effort(given.seconds, given.runs, "wall" if given.wall else "processor")
    unknown = {*given.names} - {*PRIMITIVES, *MICRO}
    if unknown:
        sys.exit(f"there is no {', '.join(sorted(unknown))} among {', '.join((*PRIMITIVES, *MICRO))}")
    print(f"{machine()}; median of {given.runs} runs, {effort.clock} time\n")
    print(primitive_table(primitives(effort, given.names or PRIMITIVES)))
    print()
    print(micro_table(microbenchmarks(effort, given.names or MICRO)))


if __name__ == "__main__":
    main()
