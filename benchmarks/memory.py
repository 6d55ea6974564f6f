"""A command, with the most memory that it and all its descendants had at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cleave.bench.profiler import CommandFailedError, profile


@dataclass(frozen=True)
class Ran:
    output: bytes
    seconds: float
    peak_mb: float


def run(command: Sequence[str], environment: Mapping[str, str]) -> Ran:
    """Raises SystemExit where it fails."""
    try:
        ran, output = profile(command, environment, sampled=True)
    except CommandFailedError as error:
        raise SystemExit(str(error)) from None
    return Ran(output, ran.seconds, ran.peak_mb or 0.0)
