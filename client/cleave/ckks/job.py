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

from cleave.aggregates.base import Estimate, Moment
from cleave.ckks.cipher import Cipher
from cleave.ckks.columns import Bounds, Prepared, Values, estimate, prepare
from cleave.ckks.layout import (
    DISTRUST,
    FRESH_VARIANCE,
    SENTINEL_SHIFT,
    SIGMAS_EXACT,
    Layout,
    Source,
    Total,
    pack,
    plan_layout,
    polynomials,
)
from cleave.sql.plan import Argument
from cleave.table.schema import Schema
from cleave.table.source import identifier
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
    """A moment of an argument: log2 of its scale, and its share of the bytes by the bits it takes of a row."""

    argument: int
    moment: Moment
    exact: bool
    scale: int
    bytes: int


class Job:
    """One query's encrypted columns: their layout, their requests, and the totals that came back."""

    def __init__(
        self,
        profile: Profile,
        arguments: Sequence[Argument],
        values: Sequence[Values],
        arrangement: Arrangement,
        schema: Schema | None = None,
    ) -> None:
        self.profile = profile
        self.arrangement = arrangement
        self.rows = len(arrangement.order)
        self.prepared: list[Prepared] = [
            prepare(
                argument,
                column.values[arrangement.order],
                _taken(column.valid, arrangement.order),
                _declared_bounds(argument, schema),
            )
            for argument, column in zip(arguments, values, strict=True)
        ]
        self._keys = [(i, moment) for i, prepared in enumerate(self.prepared) for moment in prepared.sources]
        sources: list[Source] = [self.prepared[i].sources[moment] for i, moment in self._keys]
        self.layout: Layout = plan_layout(sources, self.rows, self._window, profile.capacity_bits)
        self.lanes = self.layout.lanes
        self._matrix = pack(self.layout, sources) if self.lanes else None
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

    def moments(self, group: int) -> list[dict[Moment, Estimate]]:
        """The moments of every argument over the group with opaque number `group` (-1: no rows at all)."""
        rows = self._counts.get(group, 0)
        integers = self._integers.get(group, [0] * len(self._keys))
        totals: list[dict[Moment, Total]] = [{} for _ in self.prepared]
        for source, (argument, moment) in enumerate(self._keys):
            totals[argument][moment] = self.layout.total(source, integers[source], rows)
        return [estimate(prepared, total, rows) for prepared, total in zip(self.prepared, totals, strict=True)]

    def described(self) -> list[EncryptedColumn]:
        """Every encrypted column, for `cleave plan`."""
        bits = [
            sum(field.bits_total for field in place.fields) if place.is_exact else self.profile.capacity_bits
            for place in self.layout.places
        ]
        return [
            EncryptedColumn(
                argument=argument,
                moment=moment,
                exact=place.is_exact,
                scale=self.layout.guard if place.is_exact else place.exponent,
                bytes=round(self.chunks * bytes_of_chunk(self.profile) * taken / max(1, sum(bits))),
            )
            for (argument, moment), place, taken in zip(self._keys, self.layout.places, bits, strict=True)
        ]


def bytes_of_chunk(profile: Profile) -> int:
    return 8 * profile.degree + _FILE_OVERHEAD


def chunks_per_request(profile: Profile) -> int:
    return (limits.MAX_BODY_BYTES - limits.HEAD_BYTES) // bytes_of_chunk(profile)


def _taken(valid: NDArray[np.bool_] | None, order: NDArray[np.intp]) -> NDArray[np.bool_] | None:
    if valid is None:
        return None
    taken = valid[order]
    return None if taken.all() else taken


def _declared_bounds(argument: Argument, schema: Schema | None) -> Bounds | None:
    """The schema's bounds of an exact argument that is just a column, in its last decimal, rounded outwards."""
    if schema is None or argument.decimals is None or len(argument.columns) != 1:
        return None
    column = schema.column(argument.columns[0])
    if argument.sql != identifier(column.name) or column.lower is None or column.upper is None:
        return None
    unit = 10**argument.decimals
    return math.floor(column.lower * unit), math.ceil(column.upper * unit)


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
