"""Every primitive and microbenchmark there is, each made when its turn comes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from cleave.bench import flame
from cleave.bench.coefficients import coefficients
from cleave.bench.micro import MICRO, micro
from cleave.bench.primitive import PRIMITIVES, Family, Measured, Primitive
from cleave.bench.results import Micro
from cleave.bench.slots import RINGS, slots
from cleave.bench.timing import CLOCKS
from cleave.bench.workloads import CLEAVE, Observed, Workload, new_key, observe, surroundings
from cleave_shared.dataclass import dataclass
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
    effort: Effort,
    names: Sequence[str] = PRIMITIVES,
    of: Callable[[], Iterator[Family]] = families,
    done: Callable[[Measured], None] = lambda _: None,
) -> list[Measured]:
    """Time the named primitives wherever there are such. Raises WrongResultError."""
    found = []
    for family in of():
        for primitive in family.primitives:
            if primitive.name in names:
                found.append(effort.spent(family, primitive))
                done(found[-1])
    return found


def microbenchmarks(
    effort: Effort, names: Sequence[str] = MICRO, done: Callable[[Measured], None] = lambda _: None
) -> list[Micro]:
    """Raises WrongResultError."""
    found = []
    for family, told in micro():
        (primitive,) = family.primitives
        if primitive.name in names:
            found.append(Micro(effort.spent(family, primitive), told))
            done(found[-1].measured)
    return found


@dataclass(frozen=True, slots=True)
class Watched:
    """A workload's figures and, where they were asked for and could be taken, its stacks."""

    observed: Observed
    stacks: flame.Frame | None


def whole_questions(
    of: Sequence[Workload],
    runs: int,
    *,
    stacks: bool = False,
    done: Callable[[Observed], None] = lambda _: None,
) -> list[Watched]:
    """One after the other, in a folder that is gone afterwards. Raises WrongResultError, CommandFailedError."""
    found: list[Watched] = []
    if not of:
        return found
    with tempfile.TemporaryDirectory(prefix="cleave-bench-") as name:
        folder = Path(name)
        key = new_key(folder)
        for workload in of:
            asked = workload.prepare(folder, key)
            observed = observe(workload, asked, folder, key, runs)
            done(observed)
            root = flame.record([*CLEAVE, *asked.words], surroundings(folder, key)) if stacks else None
            found.append(Watched(observed, root))
    return found
