"""Results of a scan in few ciphertexts, under a packing key that the asker's link leads to."""

from __future__ import annotations

import time
from collections.abc import Sequence

from cleave_services.sensitive.evaluate import Totals
from cleave_services.sensitive.scan import Wanted
from cleave_services.sensitive.workers import spread
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import WireError
from cleave_shared.packing import Packer, PackingKey
from cleave_shared.seal import ring


@dataclass(frozen=True, slots=True)
class Packing:
    """`key`: SEAL's file of it. `shift`: of sums; check results are to come out once."""

    key: bytes
    levels: int
    shift: int


def packed(profile: str, packing: Packing, wanted: Wanted, totals: Totals, workers: int, seconds: float) -> Totals:
    """`totals` of a scan, packed in order; in forked processes, as all that reads what others sent.

    Raises WireError, and what `spread` raises.
    """
    started = time.monotonic()

    def pack(share: Sequence[range]) -> list[bytes]:
        return pack_all(profile, packing, wanted, totals, share)

    found = spread(pack, _parts(packing, wanted, totals), workers, started + seconds)
    files = dict(enumerate(file for files in found for file in files))
    return Totals(files, totals.seconds | {"pack": time.monotonic() - started})


def pack_all(
    profile: str, packing: Packing, wanted: Wanted, totals: Totals, parts: Sequence[range] | None = None
) -> list[bytes]:
    """One file of each of `parts`: numbers of results, of all there are where none are named. Raises WireError."""
    of = ring(profile)
    packer = Packer(of, PackingKey(of, packing.key, packing.levels))
    files = []
    for numbers in _parts(packing, wanted, totals) if parts is None else parts:
        results = [of.ciphertext(totals.files[number]) for number in numbers]
        shifts = [packing.levels if number % wanted.results < wanted.first else packing.shift for number in numbers]
        files.append(packer.file(packer.pack(results, shifts)))
    return files


def _parts(packing: Packing, wanted: Wanted, totals: Totals) -> list[range]:
    """The results that each ciphertext holds. Raises WireError where one of them was not made."""
    count, each = wanted.lanes * wanted.results, (1 << packing.levels) - 1
    if len(totals.files) != count:
        raise WireError("cuts: a partial sum has no row")
    return [range(start, min(start + each, count)) for start in range(0, count, each)]
