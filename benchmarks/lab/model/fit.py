"""Timings of operations from what whole questions took."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.lab.model.cost import Prices, Work
from benchmarks.lab.model.operations import Operation
from benchmarks.lab.model.timings import Timings
from cleave_shared.dataclass import dataclass

Vector = NDArray[np.float64]

# a timing that is e times what was guessed, or known, weighs as much as a question that is off by this share
_GUESSED, _KNOWN = 0.1, 1.0
_ROUNDS = 30
_STEP, _SMALL = 1.0, 1e-6  # of a logarithm: at most in one round, and to tell a slope by


@dataclass(frozen=True, slots=True)
class Sample:
    """A question over a store or files of this machine, by its services: counted, and by the clock."""

    work: Work
    seconds: float


def fitted(
    samples: Sequence[Sample], guess: Timings, source: str, known: Collection[Operation] = frozenset()
) -> Timings:
    """Timings with which `samples` are estimated to take what they took, as near to `guess` as they allow, and nearer
    where operations are `known`, since they were timed alone.

    Least squares of logarithms, of estimates over seconds and of timings over guesses: no timing becomes 0 or less,
    and what no sample depends on stays as guessed. By Gauss and Newton, since estimates are not linear in timings.
    """
    operations = list(Operation)
    guessed = np.array([guess.seconds[each] for each in operations])
    taken = np.log([each.seconds for each in samples])

    def timings(logs: Vector) -> Timings:
        return Timings(dict(zip(operations, (guessed * np.exp(logs)).tolist(), strict=True)), source)

    def off(logs: Vector) -> Vector:
        prices = Prices(bucket=False, elsewhere=False, timings=timings(logs))
        return np.log([prices.of(each.work).seconds for each in samples]) - taken

    doubts = np.array([_KNOWN if each in known else _GUESSED for each in operations])
    logs = np.zeros(len(operations))
    for _ in range(_ROUNDS):
        now = off(logs)
        slopes = np.stack([(off(logs + _SMALL * row) - now) / _SMALL for row in np.eye(len(operations))], axis=1)
        both = np.concatenate([slopes, np.diag(doubts)])
        step, *_ = np.linalg.lstsq(both, -np.concatenate([now, doubts * logs]), rcond=None)
        logs += step * min(1.0, _STEP / max(float(np.abs(step).max()), _SMALL))
        if np.abs(step).max() < _SMALL:
            break
    return timings(logs)
