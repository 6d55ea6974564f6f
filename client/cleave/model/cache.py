"""Timings of this machine, where `cleave bench --calibrate` keeps them: a file of the user's cache, one for each
processor, number of cores and version of Cleave, so that none is read on another machine or of other code.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
from importlib.metadata import version
from pathlib import Path

from cleave.files import write_atomically
from cleave.model.operations import Operation
from cleave.model.timings import SHIPPED, Timings
from cleave_shared.errors import InputError

_LONGEST = 100.0  # seconds of an operation; a file that says more is none of ours


def current() -> Timings:
    """Those of this machine where it was calibrated, else those Cleave comes with."""
    return load() or SHIPPED


def load() -> Timings | None:
    """None where there are none, or none that can be read: an estimate is no reason to fail."""
    try:
        told = json.loads(place().read_bytes())
        seconds = {Operation(name): float(taken) for name, taken in told["seconds"].items()}
        source = str(told["source"])
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    if not all(math.isfinite(each) and 0 <= each <= _LONGEST for each in seconds.values()) or len(source) > 80:
        return None
    return Timings({**SHIPPED.seconds, **seconds}, source)


def save(timings: Timings) -> Path:
    """Where they are now. Raises InputError where they cannot be written."""
    told = {"source": timings.source, "seconds": {str(name): taken for name, taken in timings.seconds.items()}}
    write_atomically(place(), json.dumps(told, indent=1) + "\n", error=InputError, overwrite=True)
    return place()


def place() -> Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    folder = Path(base) if base.startswith("/") else Path.home() / ".cache"
    about = [_processor(), str(len(os.sched_getaffinity(0))), platform.python_version(), version("cleave")]
    return folder / "cleave" / f"timings-{hashlib.sha256(json.dumps(about).encode()).hexdigest()[:16]}.json"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line for line in lines if line.startswith("model name")), platform.machine())
