"""The encrypted part of a job, after packing: plaintexts, requests, and checked totals by group."""

from __future__ import annotations

import contextlib
import copy
import math
import mmap
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from cleave.aggregates.base import SIGMAS, Estimate
from cleave.ckks.checks import Coefficients, GroupDrift, check_envelope, check_sentinels, check_totals, fields_of_lanes
from cleave.ckks.cipher import Cipher
from cleave.ckks.encode import SENTINEL_SHIFT, Encoded, Scale
from cleave.ckks.encryptors import ChunkSpan, Shared
from cleave.ckks.layout import FRESH_VARIANCE, ROUNDING_UNITS, Layout, NarrowField, WideLane
from cleave.ckks.packing import BlockRun, ChunkRange, Packing
from cleave.ckks.secret_key import SharedKey
from cleave_shared.chunks import joined
from cleave_shared.errors import CheckFailed, WireError
from cleave_shared.moments import SENTINELS
from cleave_shared.requests import Lane, SumsRequest, SumsResponse

LEAST_TO_ADD = 12  # chunks: below this the NTT form is as fast, and needs no second context


class Job:
    def __init__(self, packing: Packing, encoded: Encoded, cipher: Cipher) -> None:
        self.packing = packing
        self._plaintexts, self._scales = encoded
        self._cipher = cipher
        self._begin()
        name = secrets.token_bytes(16)  # makes the sentinels of each job different
        for index, plaintext in enumerate(self._plaintexts):
            plaintext[-SENTINELS:] = cipher.sentinels(name, index) << SENTINEL_SHIFT
        self._to_add = packing.chunks >= LEAST_TO_ADD

    def _begin(self) -> None:
        self._totals = GroupTotals(self.packing, self._scales)
        self._drift = GroupDrift(self.packing)
        self._accepted: set[int] = set()  # chunks

    def unanswered(self) -> Job:
        """A copy of the job without accepted answers."""
        job = copy.copy(self)
        job._begin()
        return job

    def encrypt(self, part: ChunkSpan) -> Iterator[bytes]:
        """Yield the objects of a request, one ciphertext each."""
        return _encrypted(self._cipher, self._plaintexts[part.start : part.stop], to_add=self._to_add)

    @contextlib.contextmanager
    def shared(self) -> Iterator[Shared]:
        """The plaintexts in a memory file, and the key, for workers."""
        with os.fdopen(os.memfd_create("plaintexts"), "wb") as file:
            file.write(self._plaintexts.data)
            file.flush()
            yield file.fileno(), _Shared, (self._cipher.shared, self._to_add)

    def request(self, part: ChunkRange, key_id: str, objects: Sequence[bytes | memoryview]) -> SumsRequest:
        """`objects`: the ciphertexts of `encrypt` for this part."""
        left = iter(objects)
        lanes = [Lane(objects=[next(left) for _ in range(run.chunks)], stop=1) for run in part.runs]
        return SumsRequest(profile=self.packing.profile.name, key_id=key_id, lanes=lanes)

    def accept(self, part: ChunkRange, request: SumsRequest, response: SumsResponse) -> None:
        """Decrypt, check and add one answer, completely or not at all.

        Raises CheckFailed; then nothing of the job may be used. Not thread-safe.
        """
        check_envelope(request, response)
        if not self._accepted.isdisjoint(range(part.start, part.stop)):
            raise CheckFailed("envelope", "an answer about the same chunks has been accepted before")
        try:
            results = self._cipher.decrypt([total for (total,) in response.totals])
        except WireError as error:
            raise CheckFailed("envelope", f"a result of the answer is {error.message}") from None
        expected = self._expected(part)
        check_sentinels(part, results, expected)
        decoded = [(run, self._totals.decode(run, result)) for run, result in zip(part.runs, results, strict=True)]
        check_totals(part, results, expected)
        self._drift.check(part, results, expected)
        for run, positions in decoded:
            self._totals.add(run, positions)
        self._accepted.update(range(part.start, part.stop))

    def _expected(self, part: ChunkRange) -> NDArray[np.int64]:
        """The sum of each run's plaintexts (runs, N)."""
        return np.stack([self._plaintexts[run.start : run.stop].sum(axis=0) for run in part.runs])

    @property
    def totals(self) -> GroupTotals:
        """The totals. Raises CheckFailed if an answer is missing."""
        if len(self._accepted) != self.packing.chunks:
            raise CheckFailed("envelope", "not every chunk has been answered")
        return self._totals


class _Shared:
    """A job in a worker: its plaintexts in a memory file, and the key."""

    def __init__(self, plaintexts: int, key: SharedKey, to_add: bool) -> None:
        self._cipher = Cipher.from_shared(key)
        memory = mmap.mmap(plaintexts, 0, prot=mmap.PROT_READ)
        self._plaintexts = np.frombuffer(memory, np.int64).reshape(-1, self._cipher.ring.degree)
        self._to_add = to_add

    def encrypt(self, part: ChunkSpan) -> Iterator[bytes]:
        return _encrypted(self._cipher, self._plaintexts[part.start : part.stop], to_add=self._to_add)


def _encrypted(cipher: Cipher, polynomials: NDArray[np.int64], *, to_add: bool) -> Iterator[bytes]:
    for ciphertext in cipher.each_to_add(polynomials) if to_add else cipher.encrypt(polynomials):
        yield joined([ciphertext])


_HALF = 32
_LOW = (1 << _HALF) - 1


@dataclass(frozen=True, slots=True)
class Whole:
    """Each group's total of one column, in units of 2^-exponent. `bound` gives the error bound for a number of terms;
    None: totals are exact.
    """

    totals: list[int]
    exponent: int
    bound: Callable[[int], Fraction] | None


class GroupTotals:
    """Totals of every field and real lane for each group, in two halves. So adding up to 2^31 of them cannot
    overflow.
    """

    def __init__(self, packing: Packing, scales: tuple[Scale, ...]) -> None:
        self._packing = packing
        self._scales = scales
        layout, groups = packing.layout, len(packing.placement.counts)
        self._rows = packing.placement.counts
        self._terms = packing.placement.terms()
        slots = len(layout.fields) + layout.lanes - len(layout.used)
        self._low = np.zeros((slots, groups), np.int64)
        self._high = np.zeros((slots, groups), np.int64)

    def decode(self, run: BlockRun, coefficients: Coefficients) -> Coefficients:
        """Decode one result (N,) to totals (slots, used positions). Raises CheckFailed."""
        layout, capacity = self._packing.layout, self._packing.placement.capacity
        lanes = coefficients[: layout.lanes * capacity].reshape(layout.lanes, capacity)
        fields = fields_of_lanes(layout, lanes, run.chunks)
        return np.concatenate([fields, lanes[len(layout.used) :]])

    def add(self, run: BlockRun, positions: Coefficients) -> None:
        block = run.block
        if len(block.groups):
            used = positions[:, : int(block.positions.sum())]
            self._low[:, block.groups] += np.add.reduceat(used & _LOW, block.first, axis=1)
            self._high[:, block.groups] += np.add.reduceat(used >> _HALF, block.first, axis=1)

    @property
    def terms(self) -> list[int]:
        """Number of fresh ciphertext coefficients in each group's totals."""
        return [int(each) for each in self._terms]

    def whole(self, number: int) -> Whole:
        """The totals of column `number` for all groups."""
        layout = self._packing.layout
        place, scale = layout.by_column[number], self._scales[number]
        if isinstance(place, WideLane):
            slot = len(layout.fields) + place.lane - len(layout.used)
            return Whole(self._slot(slot), scale.exponent, lambda terms: wide_bound(terms, scale))
        at = layout.first_fields[number]
        if isinstance(place, NarrowField):
            shifted = [t - int(n) * scale.shift for t, n in zip(self._slot(at), self._rows, strict=True)]
            return Whole(shifted, scale.exponent, lambda _: ROUNDING_UNITS * unit_of(scale))
        fields = [[total << each.shift for total in self._slot(at + i)] for i, each in enumerate(place.fields)]
        return Whole([sum(parts) for parts in zip([0] * len(self._rows), *fields, strict=True)], 0, None)

    def _slot(self, slot: int) -> list[int]:
        high, low = self._high[slot], self._low[slot]
        if not len(high) or (np.abs(high).max() < 1 << 29 and low.max() < 1 << 61):
            whole: list[int] = ((high << _HALF) + low).tolist()
            return whole
        return [(h << _HALF) + w for h, w in zip(high.tolist(), low.tolist(), strict=True)]

    def estimates(self, group: int) -> list[Estimate]:
        """The total of each column for one group."""
        slots = [(int(h) << _HALF) + int(w) for h, w in zip(self._high[:, group], self._low[:, group], strict=True)]
        return estimates(self._packing.layout, self._scales, slots, int(self._rows[group]), int(self._terms[group]))


def unit_of(scale: Scale) -> Fraction:
    return Fraction(2) ** -scale.exponent


def wide_bound(terms: int, scale: Scale) -> Fraction:
    """The error bound of a total of a real column with its own lane."""
    return (Fraction(SIGMAS * math.sqrt(FRESH_VARIANCE * terms)) + ROUNDING_UNITS) * unit_of(scale)


def estimates(layout: Layout, scales: Sequence[Scale], slots: Sequence[int], rows: int, terms: int) -> list[Estimate]:
    """The total of each column over `rows` rows, from `slots`: each is a sum of `terms` fresh coefficients."""
    columns, at = [], 0
    for place, scale in zip(layout.by_column, scales, strict=True):
        fields = place.fields
        totals, at = slots[at : at + len(fields)], at + len(fields)
        if isinstance(place, WideLane):
            total = slots[len(layout.fields) + place.lane - len(layout.used)]
            columns.append(Estimate(total * unit_of(scale), wide_bound(terms, scale)))
        elif isinstance(place, NarrowField):
            columns.append(Estimate((totals[0] - rows * scale.shift) * unit_of(scale), ROUNDING_UNITS * unit_of(scale)))
        else:
            columns.append(
                Estimate(Fraction(sum(part << field.shift for part, field in zip(totals, fields, strict=True))))
            )
    return columns
