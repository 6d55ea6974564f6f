"""`make bench-ring`: ring packing of results, beside what HERMES published, and what it would save a scan of 255 sums.

A result is a ciphertext of which one coefficient matters, as a masked sum is. Processor time of one thread: of the
packing itself, and of all of a service's share: results read from files, packed, and written. The product has no ring
packing, for it has no evaluation key.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.packing import Packer, elements
from benchmarks.tables import figure, markdown
from cleave_shared import seal
from cleave_shared.params import SUM60_PACK, Profile

LEVELS = (4, 6, 8, 10)
SCAN_LEVELS = 8  # 255 sums
RUNS = 5
NETWORK_BYTES = 12_500_000  # a second: 100 Mbit/s
HERMES = ["HERMES, as published", "4096", "", "", "0.31", "", "5", "", ""]
SMALL = Profile(
    name="ring-4096",
    degree=4096,
    prime_bits=(53, 53),
    estimated_bits=(129, 122, 87),
    source="docs/ckks.md section 6",
)


class Results:
    """Results to pack under a key made for the purpose."""

    def __init__(self, profile: Profile, levels: int) -> None:
        self.ring = seal.Ring(profile)
        self.levels = levels
        self.count = (1 << levels) - 1
        generator = seal.api.KeyGenerator(self.ring.context)
        secret = generator.secret_key()
        self._encryptor = seal.api.Encryptor(self.ring.context, secret)
        self._decryptor = seal.api.Decryptor(self.ring.context, secret)
        self.key_file = seal.save(generator.create_galois_keys(elements(levels)))
        self.keys = seal.restore(seal.api.GaloisKeys(), self.ring.context, self.key_file)
        self.packer = Packer(self.ring, self.keys, levels)
        self._made: list[bytes] = []

    def encrypted(self, number: int) -> bytes:
        """The file of a result that holds `number`, and others at the coefficients that do not matter."""
        ciphertext = seal.api.Ciphertext()
        polynomial = np.full(self.ring.degree, 7, np.int64)
        polynomial[0] = number
        self._encryptor.encrypt_symmetric(self.ring.plaintexts([polynomial])[0], ciphertext)
        return self.ring.truncated(ciphertext, 1)

    @property
    def files(self) -> list[bytes]:
        if not self._made:
            self._made = [self.encrypted(number) for number in range(min(self.count, 15))]
        return [self._made[at % len(self._made)] for at in range(self.count)]

    def read(self, files: Sequence[bytes]) -> list[Any]:
        return [self.ring.ciphertext(each) for each in files]

    def packed(self, files: Sequence[bytes], shift: int = 3) -> bytes:
        return self.packer.file(self.packer.pack(self.read(files), [shift] * len(files)))

    def decrypted(self, file: bytes) -> Any:
        """The centred coefficients (N,) of a ciphertext's file."""
        ciphertext, plaintext = self.ring.ciphertext(file), seal.api.Plaintext()
        if not ciphertext.is_ntt_form():
            self.ring.evaluator.transform_to_ntt_inplace(ciphertext)
        self._decryptor.decrypt(ciphertext, plaintext)
        return self.ring.centred(self.ring.inverse_ntt(seal.plaintext_values(plaintext)[None]))[0]


@dataclass(frozen=True, slots=True)
class Line:
    profile: Profile
    results: int
    pack: Sequence[float]  # seconds
    whole: Sequence[float]
    seeded: int  # bytes of the key
    expanded: int
    answer: int
    apart: int

    @property
    def cells(self) -> list[str]:
        each = [1e3 * seconds / self.results for seconds in self.pack]
        return [
            f"[{', '.join(map(str, self.profile.prime_bits))}]",
            str(self.profile.degree),
            str(self.results),
            f"{1e3 * statistics.median(self.pack):.0f}",
            f"{statistics.median(each):.2f} ({min(each):.2f} to {max(each):.2f})",
            f"{1e3 * statistics.median(self.whole) / self.results:.2f}",
            f"{self.seeded / 1e6:.2f} ({self.expanded / 1e6:.1f})",
            f"{self.answer / 1e3:.0f}",
            f"{self.apart / 1e3:,.0f}",
        ]


def measured(profile: Profile, levels: int, runs: int = RUNS) -> Line:
    made = Results(profile, levels)
    files, shifts = made.files, [3] * made.count
    made.packed(files)  # what is made once
    return Line(
        profile,
        made.count,
        [_seconds(partial(made.packer.pack, made.read(files), shifts)) for _ in range(runs)],
        [_seconds(lambda: made.packed(files)) for _ in range(runs)],
        len(made.key_file),
        len(seal.save(made.keys)),
        len(made.packed(files)),
        sum(map(len, files)),
    )


def scan(levels: int = SCAN_LEVELS, runs: int = RUNS) -> list[list[str]]:
    """What 2^levels - 1 sums of a scan take, packed and one by one, beside the masks and sums, which are the same."""
    made = Results(SUM60_PACK, levels)
    files = made.files
    answers = {"one by one": files, "packed": [made.packed(files)]}
    lines = []
    for way, found in answers.items():
        packing = [_seconds(lambda: made.packed(files)) for _ in range(runs)] if way == "packed" else [0.0]
        reading = [_seconds(lambda found=found: [made.decrypted(each) for each in found]) for _ in range(runs)]
        size = sum(map(len, found))
        lines.append(
            [
                f"{made.count} sums, {way}",
                figure(statistics.median(packing)),
                figure(statistics.median(reading)),
                f"{size / 1e6:.2f}",
                f"{size / NETWORK_BYTES:.2f}",
                f"{len(made.key_file) / 1e6:.2f}" if way == "packed" else "0",
            ]
        )
    return lines


def _seconds(work: Callable[[], object]) -> float:
    """Of processor time: one thread does it all, and others' load counts less so."""
    started = time.process_time()
    work()
    return time.process_time() - started


def main() -> None:
    print(f"Processor time of one thread; median of {RUNS} runs. Load at the start: {os.getloadavg()[0]:.1f}\n")
    head = ["moduli", "N", "results", "ms in all", "ms each", "ms each, files and all", "key, MB (expanded)"]
    rows = [measured(profile, levels).cells for profile in (SMALL, SUM60_PACK) for levels in LEVELS]
    print(markdown([*head, "answer, KB", "one by one, KB"], [*rows, HERMES]))
    print()
    head = ["a scan of", "packing, s", "decrypting, s", "MB back", "s at 100 Mbit/s", "key up once, MB"]
    print(markdown(head, scan()))


if __name__ == "__main__":
    main()
