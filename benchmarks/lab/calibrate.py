"""How long the operations of `benchmarks.lab.model` take on this machine: what `make bench-model` measures first.

Those on ciphertexts are timed one by one, and what others take is guessed from the shipped timings by how this machine
compares at these. Then questions over files and stored tables that are made for it are asked, by every way there is,
and all timings fitted to what they took. Three quarters of a minute.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import suite
from benchmarks.lab.asked import Asked, of_files, of_stores
from benchmarks.lab.coefficients import coefficients
from benchmarks.lab.model.fit import fitted
from benchmarks.lab.model.operations import Operation
from benchmarks.lab.model.timings import SHIPPED, Timings
from cleave.ask.services import Embedded
from cleave.ckks.key_file import create_key
from cleave_shared.params import SUM60_PACK

_BUSY = 1.5  # times as long as the shortest run of a question, the longest; of the median question


def calibrate(embedded: Embedded, say: Callable[[str], None] = lambda _: None) -> Timings:
    """`embedded` opens the services of this process. Raises WrongResultError, and what a question may."""
    say("single operations on ciphertexts")
    found = _primitives()
    pace = statistics.geometric_mean(found[each] / SHIPPED.seconds[each] for each in found)
    guess = replace(SHIPPED, seconds={each: found.get(each, pace * SHIPPED.seconds[each]) for each in Operation})
    with TemporaryDirectory() as name:
        folder = Path(name)
        create_key(folder / "key.json", None)
        asked = list(_told(folder, embedded, say))
    spread = statistics.median(each.spread for each in asked)
    if spread > _BUSY:
        say(f"this machine is busy: a question took {spread:.1f} times as long once as another time; repeat it later")
    source = f"calibrated on this machine, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    return fitted([each.sample for each in asked], guess, source, found)


def _told(folder: Path, embedded: Embedded, say: Callable[[str], None]) -> Iterator[Asked]:
    for what, made in (("files", of_files), ("stored tables", of_stores)):
        say(f"questions over {what}")
        place = folder / what
        place.mkdir()
        yield from made(place, folder / "key.json", embedded)


def _primitives() -> dict[Operation, float]:
    family = coefficients(SUM60_PACK)
    names = ("encrypt to be added", "mask encode", "multiply by plaintext", "add", "load, seeded")
    told = suite.primitives(suite.Effort(0.03, 5), names, of=lambda: iter([family]))
    seconds = {each.name: each.seconds for each in told}
    return {
        Operation.ENCRYPT: seconds["encrypt to be added"],
        Operation.ENCRYPT_ALONE: seconds["encrypt to be added"],
        Operation.ADD: seconds["load, seeded"] + seconds["add"],
        Operation.MASK: seconds["mask encode"],
        Operation.MULTIPLY: seconds["multiply by plaintext"] + seconds["add"],
    }
