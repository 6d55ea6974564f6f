"""The sensitive half of one query: requests out, checked totals back.

Whatever a service returns is believed only after the checks of docs/ckks.md section 7. They find faults: a wrong key,
a lost, doubled, swapped or foreign chunk, flipped bits, overflow. A service that applies a wrong but complete partition
of the rows is not found.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cleave.aggregates.base import Estimate, Figure
from cleave.aggregates.columns import Values
from cleave.ckks.cipher import Cipher
from cleave.ckks.columns import Columns, Name
from cleave.ckks.layout import (
    DISTRUST,
    FRESH_VARIANCE,
    SENTINEL_SHIFT,
    SIGMAS_EXACT,
    Layout,
    pack,
    plan_layout,
    polynomials,
    scaled,
)
from cleave_shared import limits
from cleave_shared.errors import CheckFailed, WireError
from cleave_shared.moments import (
    FILTERED,
    SENTINELS,
    Run,
    Segment,
    rows_per_chunk,
    segments,
    sentinel_label,
    sentinel_weights,
)
from cleave_shared.params import Profile
from cleave_shared.seal import BATCH
from cleave_shared.wire import MomentsRequest, MomentsResponse

# A seeded ciphertext's file over its 8 N bytes of residues: headers, the seed, zstd's framing.
_FILE_OVERHEAD = 512
MAX_GROUPS = limits.MAX_RESULTS - 1  # in one answer, beside the sentinel
CHECKS = ("envelope", "groups", "sentinel", "residual", "range", "total")


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The selected rows in the order of the sensitive half."""

    order: NDArray[np.intp]  # places in the plain half
    runs: list[Run]  # (opaque number, rows)
    group_of: NDArray[np.intp]  # index of the group each opaque number stands for


@dataclass(frozen=True, slots=True)
class Slice:
    """Chunks `start`..`stop` of the job, sent in one request; `runs` says which groups are asked for."""

    start: int
    stop: int
    first_row: int
    runs: tuple[Run, ...]

    @property
    def rows(self) -> int:
        return sum(rows for _, rows in self.runs)


@dataclass(frozen=True, slots=True)
class EncryptedColumn:
    """What it is of, log2 of its scale, and its share of the bytes by the bits it takes of a row.

    `unit`: what 1 in the column stands for, beside the scale.
    """

    name: Name
    unit: float
    exact: bool
    scale: int
    bytes: int


class Job:
    """One query's encrypted columns: their layout, their requests, and the totals that came back."""

    def __init__(
        self,
        profile: Profile,
        columns: Columns,
        names: Sequence[str],
        values: Sequence[Values],
        arrangement: Arrangement,
    ) -> None:
        """`values` and `names` are the arguments'; `columns` is made of their domains."""
        self.profile = profile
        self.arrangement = arrangement
        self.rows = len(arrangement.order)
        self.columns = columns
        layout = plan_layout(columns.types, self.rows, self._window, profile.capacity_bits)
        self.lanes = layout.lanes
        encoded = columns.encode(names, [taken(column, arrangement.order) for column in values])
        self.layout: Layout = scaled(layout, encoded, self._window, profile.capacity_bits) if encoded else layout
        self._matrix = pack(self.layout, encoded) if self.lanes else None
        self._name = secrets.token_bytes(16)  # makes every job's sentinels its own
        self._integers: dict[int, list[int]] = {}  # by opaque group number, one a source
        self._counts: dict[int, int] = dict(arrangement.runs)

    @property
    def _window(self) -> int:
        return min(limits.MAX_ROWS, chunks_per_request(self.profile) * rows_per_chunk(self.profile.degree, 1))

    @cached_property
    def chunks(self) -> int:
        return -(-self.rows // rows_per_chunk(self.profile.degree, self.lanes)) if self.lanes else 0

    def slices(self, streams: int) -> list[Slice]:
        """Cut the job into requests: within the limits of a body and an answer, and enough for `streams` at once."""
        if not self.lanes or not self.rows:
            return []
        capacity = rows_per_chunk(self.profile.degree, self.lanes)
        by_chunk = list(segments(self.arrangement.runs, capacity))
        most = min(chunks_per_request(self.profile), max(8, -(-len(by_chunk) // streams)))
        slices: list[Slice] = []
        start, groups, runs = 0, set[int](), list[Run]()

        def flush(stop: int) -> None:
            nonlocal start, groups, runs
            if runs:
                slices.append(Slice(start, stop, start * capacity, tuple(runs)))
            start, groups, runs = stop, set(), []

        for index, chunk in enumerate(by_chunk):
            here = {segment.group for segment in chunk}
            full = index - start == most or (index - start + 1) * capacity > limits.MAX_ROWS
            if full or len(groups | here) > MAX_GROUPS:
                flush(index)
            if len(here) > MAX_GROUPS:  # ask for this chunk several times, each time for some of its groups
                some = sorted(here)
                for first in range(0, len(some), MAX_GROUPS):
                    runs = _only(chunk, set(some[first : first + MAX_GROUPS]))
                    start = index
                    flush(index + 1)
                continue
            groups |= here
            for segment in chunk:
                _extend(runs, segment.group, segment.stop - segment.start)
        flush(len(by_chunk))
        return slices

    def encrypt(self, cipher: Cipher, part: Slice) -> list[bytes]:
        assert self._matrix is not None  # noqa: S101 - a slice exists only where there are lanes
        files = []
        for start in range(part.start, part.stop, BATCH):
            stop = min(start + BATCH, part.stop)
            sentinels = np.stack([cipher.sentinels(self._name, index) for index in range(start, stop)])
            files += cipher.encrypt(polynomials(self._matrix, self.profile.degree, start, stop, sentinels))
        return files

    def request(self, part: Slice, key_id: str, schema_hash: str, chunks: list[bytes]) -> MomentsRequest:
        return MomentsRequest(
            profile=self.profile.name,
            key_id=key_id,
            schema_hash=schema_hash,
            lanes=self.lanes,
            rows=part.rows,
            chunk_range=(part.start, part.stop),
            runs=list(part.runs),
            chunks=chunks,
        )

    def accept(self, cipher: Cipher, part: Slice, request: MomentsRequest, answer: MomentsResponse) -> None:
        """Decrypt, check and add one answer. Raises CheckFailed, and then nothing of the job may be used."""
        counts: dict[int, int] = {}
        for group, rows in part.runs:
            if group != FILTERED:
                counts[group] = counts.get(group, 0) + rows
        _check_echo(request, answer)
        if sorted((each.group, each.rows) for each in answer.groups) != sorted(counts.items()):
            raise CheckFailed("groups", "the answer's groups are not those that were asked for", hint=DISTRUST)
        try:
            results = cipher.decrypt([answer.sentinel, *(each.totals for each in answer.groups)])
        except WireError as error:
            raise CheckFailed("envelope", f"a result of the answer is {error.message}", hint=DISTRUST) from None
        self._check_sentinel(cipher, part, int(results[0, 0]))
        totals = results[1:, : self.lanes]
        self._check_totals(part, totals)
        decoded = [
            (each.group, self.layout.decode([int(c) for c in coefficients], each.rows))
            for each, coefficients in zip(answer.groups, totals, strict=True)
        ]
        for group, integers in decoded:  # only now: an answer is taken whole or not at all
            known = self._integers.get(group, [0] * len(integers))
            self._integers[group] = [a + b for a, b in zip(known, integers, strict=True)]

    def _check_sentinel(self, cipher: Cipher, part: Slice, coefficient: int) -> None:
        capacity = rows_per_chunk(self.profile.degree, self.lanes)
        expected = 0
        for index, chunk in zip(range(part.start, part.stop), segments(part.runs, capacity), strict=True):
            label = sentinel_label(index, chunk, capacity)
            expected += int(cipher.sentinels(self._name, index) @ sentinel_weights(label))
        noise = SIGMAS_EXACT * math.sqrt(FRESH_VARIANCE * SENTINELS * (part.stop - part.start))
        if abs(coefficient - (expected << SENTINEL_SHIFT)) > noise:
            raise CheckFailed(
                "sentinel",
                f"chunks {part.start}..{part.stop - 1} did not come back as they were sent",
                hint="a chunk was lost, doubled, swapped or damaged, or another key was used: ask again, and if it "
                "happens again do not use this service",
            )

    def _check_totals(self, part: Slice, totals: NDArray[np.int64]) -> None:
        """All groups together must equal what was sent, lane by lane, within the noise."""
        assert self._matrix is not None  # noqa: S101 - a slice exists only where there are lanes
        asked = np.repeat([group != FILTERED for group, _ in part.runs], [rows for _, rows in part.runs])
        rows = self._matrix[part.first_row : part.first_row + part.rows]
        sent = (rows if asked.all() else rows[asked]).sum(axis=0)
        noise = SIGMAS_EXACT * math.sqrt(FRESH_VARIANCE * part.rows)
        for lane in range(self.lanes):
            if abs(sum(int(total) for total in totals[:, lane]) - int(sent[lane])) > noise:
                raise CheckFailed(
                    "total",
                    f"the groups of chunks {part.start}..{part.stop - 1} do not add up to what was sent",
                    hint=DISTRUST,
                )

    def figures(self, group: int) -> list[Figure]:
        """Of every aggregate asked, over the group with opaque number `group` (-1: no rows at all)."""
        rows = self._counts.get(group, 0)
        integers = self._integers.get(group, [0] * len(self.columns.types))
        totals: list[Estimate] = [self.layout.total(i, integer, rows) for i, integer in enumerate(integers)]
        return self.columns.figures(totals, rows)

    def described(self) -> list[EncryptedColumn]:
        """Every encrypted column, for `cleave plan`."""
        bits = [
            sum(field.bits_total for field in place.fields) if place.is_exact else self.profile.capacity_bits
            for place in self.layout.places
        ]
        return [
            EncryptedColumn(
                name=name,
                unit=float(reading.unit),
                exact=place.is_exact,
                scale=self.layout.guard if place.is_exact else place.exponent,
                bytes=round(self.chunks * bytes_of_chunk(self.profile) * taken / max(1, sum(bits))),
            )
            for name, reading, place, taken in zip(
                self.columns.names, self.columns.readings, self.layout.places, bits, strict=True
            )
        ]


def bytes_of_chunk(profile: Profile) -> int:
    return 8 * profile.degree + _FILE_OVERHEAD


def chunks_per_request(profile: Profile) -> int:
    return (limits.MAX_BODY_BYTES - limits.HEAD_BYTES) // bytes_of_chunk(profile)


def taken(column: Values, order: NDArray[np.intp]) -> Values:
    """The rows of `column` at the places `order`."""
    return Values(column.values[..., order], None if column.valid is None else column.valid[order])


def _only(chunk: Sequence[Segment], groups: set[int]) -> list[Run]:
    runs: list[Run] = []
    for segment in chunk:
        _extend(runs, segment.group if segment.group in groups else FILTERED, segment.stop - segment.start)
    return runs


def _extend(runs: list[Run], group: int, rows: int) -> None:
    if runs and runs[-1][0] == group:
        runs[-1] = (group, runs[-1][1] + rows)
    else:
        runs.append((group, rows))


def _check_echo(request: MomentsRequest, answer: MomentsResponse) -> None:
    for name in ("version", "profile", "key_id", "schema_hash", "lanes", "rows", "chunk_range"):
        if getattr(request, name) != getattr(answer, name):
            raise CheckFailed("envelope", f"the answer is to another request: {name} differs", hint=DISTRUST)
