"""One operation to time: what it works on, what it does, and how one sees that it did it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.lab.timing import RUNS, SECONDS, Clock, Timing, time_of

# What only profiles have. "Encrypt to be added" is what most columns take from integers to a file: coefficient form
# needs no transform. The rest: benchmarks.lab.services.
OF_PROFILES = (
    "encrypt to be added",
    "carry",
    "load to be masked",
    "mask rows",
    "mask and add",
    "save a masked sum",
    "load a masked sum",
)
# In the order of a table. "Encrypt" is of a plaintext that is encoded, "load" of bytes that are in memory.
PRIMITIVES = (
    "encode",
    "encrypt, public key",
    "encrypt, symmetric",
    "encrypt, seeded",
    "load, seeded",
    "load, expanded",
    "add",
    "mask encode",
    "multiply by plaintext",
    "multiply",
    "relinearise",
    "rescale",
    "rotate",
    "decrypt",
    "decode",
    "save",
    "save, seeded",
    *OF_PROFILES,
)


class WrongResultError(Exception):
    """An operation gave something else than it should, so its time means nothing."""


@dataclass(frozen=True, slots=True)
class Primitive:
    """`work` does `times` operations on what `setup` gives; `is_right` is asked of what it gave back."""

    name: str
    setup: Callable[[], Any]
    work: Callable[[Any], Any]
    is_right: Callable[[Any], bool]
    times: int = 1


@dataclass(frozen=True, slots=True)
class Measured(Timing):
    """Seconds of one operation at parameters `of`: degree N and the bits of the primes, the special one last."""

    name: str
    of: str
    degree: int
    prime_bits: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Family:
    """The primitives there are at one set of parameters."""

    of: str
    degree: int
    prime_bits: tuple[int, ...]
    primitives: Sequence[Primitive]

    def measure(
        self, primitive: Primitive, *, seconds: float = SECONDS, runs: int = RUNS, clock: Clock = time.perf_counter
    ) -> Measured:
        """Raises WrongResultError where the operation does not do what it says."""
        timing = measured(primitive, seconds=seconds, runs=runs, clock=clock)
        return Measured(
            *(timing.seconds, timing.least, timing.most, timing.calls),
            *(primitive.name, self.of, self.degree, self.prime_bits),
        )


def measured(
    primitive: Primitive, *, seconds: float = SECONDS, runs: int = RUNS, clock: Clock = time.perf_counter
) -> Timing:
    """Time one operation, after a look at its result. Raises WrongResultError."""
    if not primitive.is_right(primitive.work(primitive.setup())):
        raise WrongResultError(f"{primitive.name}: not the right result")
    timing = time_of(primitive.work, primitive.setup, seconds=seconds, runs=runs, clock=clock)
    return timing.each_of(primitive.times)
