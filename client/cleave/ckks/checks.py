"""Checks of a decrypted answer: sentinels, sums, weighted sums, ranges.

Nothing from a service is used before it passes (docs/ckks.md section 7). The checks detect a wrong key, a lost,
repeated or foreign chunk, flipped bits, offsets at chosen positions, and swapped totals. The client knows every row, so
it knows the sum at every coefficient up to the noise of fresh encryptions.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from cleave.ckks.layout import FRESH_VARIANCE, SIGMAS_EXACT, Layout, noise
from cleave.ckks.packing import ChunkRange, Packing
from cleave_shared.errors import CheckFailed
from cleave_shared.moments import SENTINELS
from cleave_shared.requests import SumsRequest, SumsResponse

CHECKS = ("envelope", "sentinel", "residual", "range", "total")

Coefficients = NDArray[np.int64]


def check_envelope(request: SumsRequest, response: SumsResponse) -> None:
    for name in ("version", "profile", "key_id", "label"):
        if getattr(request, name) != getattr(response, name):
            raise CheckFailed("envelope", f"the answer is to another request: {name} differs")
    totals, lanes = [len(each) for each in response.totals], [each.stop - each.start for each in request.lanes]
    if totals != lanes:
        raise CheckFailed("envelope", f"the answer has {sum(totals)} totals, expected {sum(lanes)}")


def check_sentinels(part: ChunkRange, results: Coefficients, expected: Coefficients) -> None:
    """Compare every sentinel coefficient with the sum sent. `results` and `expected` have the shape (runs, N). Raises
    CheckFailed.
    """
    for run, result, sent in zip(part.runs, results, expected, strict=True):
        require_sentinels(
            result,
            sent[-SENTINELS:],
            run.chunks,
            f"chunks {run.start}..{run.stop - 1} did not come back as they were sent",
            hint="a chunk was lost, duplicated, swapped or damaged, or another key was used: run the query again, "
            "and if it happens again do not use this service",
        )


def require_sentinels(
    results: Coefficients, expected: Coefficients, terms: int, message: str, hint: str | None = None
) -> None:
    """Check the sentinels of sums of `terms` ciphertexts. `results`: (..., N); `expected`: (..., SENTINELS).

    Raises CheckFailed.
    """
    if (np.abs(results[..., -SENTINELS:] - expected) > noise(terms)).any():
        raise CheckFailed("sentinel", message, hint=hint)


def require_weighted_sum(
    check: int, sums: Iterable[int], weights: Iterable[int], sentinels: int, chunks: int, modulus: int
) -> None:
    """Check that a lane's check result equals its sums, each times its weight, plus the weighted `sentinels`.

    Raises CheckFailed if they differ modulo q by more than the noise of the sentinels of `chunks` chunks.
    """
    weighted = sum(weight * value for weight, value in zip(weights, sums, strict=True))
    off = (check - weighted - sentinels) % modulus
    if min(off, modulus - off) > noise(SENTINELS * chunks):
        raise CheckFailed(
            "scan",
            "the sums of a scan do not agree with each other or with the ciphertexts of the request",
            hint="a chunk was lost, duplicated or swapped, or a sum is another's: run the query again, and if it fails "
            "again, do not use this service",
        )


def check_totals(part: ChunkRange, results: Coefficients, expected: Coefficients) -> None:
    """Compare every coefficient, so every position of every group, with what was sent. Raises CheckFailed."""
    for run, result, sent in zip(part.runs, results, expected, strict=True):
        if (np.abs(result - sent) > noise(run.chunks)).any():
            raise CheckFailed(
                "total",
                f"a group's total over chunks {run.start}..{run.stop - 1} is not what was sent",
            )


class GroupDrift:
    """Checks how far the group totals of all answers are from what was sent, added up per lane.

    One coefficient may be off by its noise. If a service shifts many coefficients a little to one side, their sum moves
    by far more than the noise of a sum.
    """

    def __init__(self, packing: Packing) -> None:
        self._lanes = packing.lanes
        self._capacity = packing.placement.capacity
        groups = len(packing.placement.counts)
        self._drift = np.zeros((packing.lanes, groups), np.int64)
        self._terms = np.zeros(groups, np.int64)

    def check(self, part: ChunkRange, results: Coefficients, expected: Coefficients) -> None:
        for run, result, sent in zip(part.runs, results, expected, strict=True):
            block = run.block
            if not len(block.groups):
                continue
            used = int(block.positions.sum())
            off = (result - sent)[: self._lanes * self._capacity].reshape(self._lanes, self._capacity)[:, :used]
            self._drift[:, block.groups] += np.add.reduceat(off, block.first, axis=1)
            self._terms[block.groups] += block.positions * run.chunks
            allowed = SIGMAS_EXACT * np.sqrt(FRESH_VARIANCE * self._terms[block.groups])
            if (np.abs(self._drift[:, block.groups]) > allowed).any():
                raise CheckFailed("total", "a group's total differs from what was sent by more than noise")


def fields_of_lanes(layout: Layout, lanes: Coefficients, chunks: int) -> Coefficients:
    """Decode a sum of `chunks` chunks: from lanes (lanes, positions) to totals (fields, positions).

    Raises CheckFailed if an exact lane is farther from an integer than its noise, or a total is out of its field's
    range.
    """
    fields = np.empty((len(layout.fields), lanes.shape[1]), np.int64)
    for lane, coefficients in zip(range(len(layout.used)), lanes[: len(layout.used)], strict=True):
        for number, totals in fields_of_lane(layout, lane, coefficients, chunks):
            fields[number] = totals
    return fields


def fields_of_lane(
    layout: Layout, lane: int, coefficients: Coefficients, chunks: int
) -> list[tuple[int, Coefficients]]:
    """Number and totals of each field of one exact lane (positions,). Raises as `fields_of_lanes` does."""
    rounded = (coefficients + (1 << (layout.guard - 1))) >> layout.guard
    if (np.abs(coefficients - (rounded << layout.guard)) > noise(chunks)).any():
        raise CheckFailed("residual", "a decrypted total is not an integer within its noise")
    if (rounded < 0).any() or (rounded >> layout.used[lane]).any():
        raise _out_of_range()
    fields = []
    for number in layout.numbers_by_lane[lane]:
        field = layout.fields[number]
        totals = (rounded >> field.offset) & ((1 << field.width) - 1)
        if (totals > field.largest * chunks).any():
            raise _out_of_range()
        fields.append((number, totals))
    return fields


def _out_of_range() -> CheckFailed:
    return CheckFailed("range", "a decrypted total is beyond its column's bounds")
