"""Microbenchmarks: what a service and the client's end of an answer are made of, on the profile that users have."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from benchmarks.lab.coefficients import NOISE, Integers, row_mask
from benchmarks.lab.primitive import Family, Primitive
from cleave.aggregates import AGGREGATES
from cleave.aggregates.base import Estimate, Facts, Figure, Moment
from cleave.aggregates.columns import Domain
from cleave.aggregates.moments import Power, Sum
from cleave.ckks.cipher import Cipher
from cleave.ckks.secret_key import fresh_key
from cleave_shared import seal
from cleave_shared.masking import MaskEvaluator
from cleave_shared.moments import SENTINELS
from cleave_shared.params import SUM60_PACK, Profile

CHUNKS = 64  # about half a million values
GROUPS = 20
PAIRS = 16
FINISHED = 1_000
MICRO = ("aligned sum", "masked sum", "moment pair", "variance finish")
_GUARD = 16  # bits above the noise
_VALUES = 1 << 16
_SEED = 13


class _Sums:
    """Chunks of a profile, and sums of them as its service makes them."""

    def __init__(self, profile: Profile) -> None:
        self.ring = seal.ring(profile.name)
        self.cipher = Cipher(fresh_key(profile))
        self.evaluator = seal.SealEvaluator(self.ring)
        self.masking = MaskEvaluator(self.ring)
        self.usable = self.ring.degree - SENTINELS
        self._random = np.random.default_rng(_SEED)

    def integers(self, chunks: int, below: int) -> Integers:
        return self._random.integers(0, below, (chunks, self.ring.degree))

    def added(self, files: list[bytes]) -> bytes:
        total = self.evaluator.load(files[0])
        for file in files[1:]:
            total = self.evaluator.add(total, self.evaluator.load(file))
        return self.evaluator.dump(total, self.ring.degree)

    def masked(self, file: bytes, masks: list[Integers]) -> list[bytes]:
        ciphertext = self.masking.load(file)
        products = [self.masking.multiply(ciphertext, mask) for mask in self.masking.masks(masks)]
        return [self.masking.dump(product, 1) for product in products]

    def round_trip(self, polynomials: Integers) -> Integers:
        (total,) = self.cipher.decrypt([self.added(list(self.cipher.each_to_add(polynomials)))])
        return np.asarray(total)


def micro(profile: Profile = SUM60_PACK) -> Iterator[tuple[Family, str]]:
    """Each microbenchmark, a family of its own, and what one run of it is."""
    for primitive, told in _each(_Sums(profile)):
        yield Family(profile.name, profile.degree, profile.prime_bits, [primitive]), told


def _each(sums: _Sums) -> Iterator[tuple[Primitive, str]]:
    values = sums.integers(CHUNKS, _VALUES) << _GUARD
    files, total = sums.cipher.encrypt(values), values.sum(axis=0)

    def is_total(file: bytes) -> bool:
        (got,) = sums.cipher.decrypt([file])
        return bool((np.abs(got - total) <= NOISE).all())

    yield (
        Primitive("aligned sum", lambda: files, sums.added, is_total),
        f"{CHUNKS} seeded chunks of {sums.usable:,} values loaded, added up and saved by the service",
    )

    bounds = np.linspace(0, sums.usable, GROUPS + 1).astype(int).tolist()
    spans = list(itertools.pairwise(bounds))
    masks = [row_mask(sums.ring.degree, *span) for span in spans]

    def are_sums(made: list[bytes]) -> bool:
        got = sums.cipher.decrypt(made)[:, 0]
        return bool((np.abs(got - [values[0, start:stop].sum() for start, stop in spans]) <= NOISE).all())

    yield (
        Primitive("masked sum", lambda: files[0], lambda file: sums.masked(file, masks), are_sums),
        f"one seeded chunk loaded, {GROUPS} masks encoded, multiplied and saved as results by the service",
    )

    lane = sums.usable // 2
    pairs = np.zeros((PAIRS, sums.ring.degree), np.int64)
    pairs[:, :lane] = sums.integers(PAIRS, 1 << 12)[:, :lane]
    pairs[:, lane : 2 * lane] = pairs[:, :lane] ** 2
    pairs <<= _GUARD
    pair_total = pairs.sum(axis=0)
    yield (
        Primitive(
            "moment pair",
            lambda: pairs,
            sums.round_trip,
            lambda got: bool((np.abs(got - pair_total) <= NOISE).all()),
        ),
        f"{PAIRS * lane:,} values and their squares, {PAIRS} chunks: encode to decode, both ends",
    )
    yield _variance_finish()


def _variance_finish() -> tuple[Primitive, str]:
    random = np.random.default_rng(_SEED)
    facts = [Facts(Domain(None, low=-100.0, high=300.0), Fraction(100))]
    rows, deviation = 1_000, 20.0
    cases: list[dict[Moment, Estimate]] = [
        {
            Sum(): Estimate(Fraction(float(mean)) * rows, Fraction(1, 2**20)),
            Power(2): Estimate(Fraction(rows * (deviation**2 + float(mean - 100) ** 2)), Fraction(1, 2**20)),
        }
        for mean in random.normal(100.0, 1.0, FINISHED)
    ]
    variance = AGGREGATES["VAR_POP"]

    def finished(each: list[dict[Moment, Estimate]]) -> list[Figure]:
        return [variance.finish(rows, moments, facts) for moments in each]

    def is_right(figures: list[Figure]) -> bool:
        return all(isinstance(f.value, float) and abs(f.value - deviation**2) <= f.bound + 1e-9 for f in figures)

    told = f"of {FINISHED:,} groups, from sums of values and squares to figures with their bounds"
    return Primitive("variance finish", lambda: cases, finished, is_right), told
