"""A scan: the services add up rows of a stored table that plain columns select.

  plain service      finds the group of each row of the plain half       WHERE, keys, filters: as over files
  here               finds each row's position among the ciphertexts     reads the sealed order once
  sensitive service  adds up these positions                             gets links to lanes, and group numbers

The plain service reads a limited number of segments per request; groups of several requests are combined here. The
number of calls of the sensitive service for a segment depends on the size of its results; several run at once. That
service learns which positions share a group, in each question. `--no-scan` has rows fetched instead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from cleave.sql.rejoin import Texts, keys_of, merge, places_of
from cleave.store.lanes import OBJECT_CHUNKS, SCAN_ROWS
from cleave.store.manifest import Manifest, Object, Segment
from cleave.sums.cellwise import OperandSums
from cleave.sums.combination import TotalOf
from cleave.sums.needs import CutSums
from cleave.sums.pairs import AggregateOperand
from cleave.sums.remote import LINK_SECONDS, rows_of
from cleave.sums.scanned import Scanned, SumCall, addends_of, stored_order, sum_call
from cleave.sums.stored import Stored
from cleave.table.progress import Progress
from cleave.text.quantities import counted
from cleave_shared import limits, rowsets
from cleave_shared.errors import CheckFailed, QueryRefused, WireError
from cleave_shared.requests import Linked, PlainRequest, PlainResponse, ScanObject, ScanRequest
from cleave_shared.rowsets import Numbers

MOST_RESULTS = 4_000  # per question: 270 MB
MOST_OF_ONE = 16_000  # per question with one group, which cannot be grouped more coarsely: 1.1 GB
MOST_ROW_SETS = 1 << 30  # bytes per question, in this process
CALLS_UNDER_WAY = 4  # calls to remote services; each returns up to 4 MB


@dataclass(frozen=True, slots=True)
class _RowSets:
    """Row sets of one segment, as answered. `places`: maps a group's number in the answer to its number among all
    groups.
    """

    rows: int
    numbers: bytes
    filters: dict[str, bytes]
    places: Numbers

    @property
    def size(self) -> int:
        return len(self.numbers) + sum(map(len, self.filters.values()))

    def groups(self, filter_: str | None) -> Numbers:
        """The group of each row, from 1. Rows without a group, and rows that the filter excludes, have 0."""
        groups = self.places[rowsets.unpack(self.numbers, self.rows, len(self.places) - 1)]
        return groups if filter_ is None else groups * rowsets.unpack(self.filters[filter_], self.rows, 1)


@dataclass(frozen=True, slots=True)
class Selected:
    """The plain service's answer. `keys` and `counts`: of all groups; `responses`: one per request."""

    responses: tuple[PlainResponse, ...]
    keys: list[Texts]
    counts: list[int]
    sets: tuple[_RowSets, ...]  # by segment

    def rows_of(self, filter_: str | None) -> list[int]:
        """Number of rows of each group where the filter holds."""
        return self.counts if filter_ is None else _counted(self.sets, len(self.counts), filter_)


def _counted(sets: Sequence[_RowSets], groups: int, filter_: str | None = None) -> list[int]:
    counts = np.zeros(groups, np.int64)
    for each in sets:
        counts += np.bincount(each.groups(filter_), minlength=groups + 1)[1:]
    return [int(count) for count in counts]


def select(stored: Stored, needs: CutSums, side_by_side: int = CALLS_UNDER_WAY) -> Selected:
    """Query the plain service for the groups of all rows, with `side_by_side` requests at once.

    Raises ServiceError, StoreError; CheckFailed for row sets that do not fit the groups; ManyGroupsError if the row
    sets are too large.
    """
    answers: list[tuple[PlainResponse, list[_RowSets]]] = []
    size = 0
    with ThreadPoolExecutor(side_by_side, "select") as pool:
        for answer in pool.map(lambda run: _selected(stored, needs, run), stored.runs):
            size += sum(each.size for each in answer[1])
            if size > MOST_ROW_SETS:
                raise ManyGroupsError(
                    f"row sets of more than {MOST_ROW_SETS:,} bytes are too many for a scan",
                    hint="group by something coarser, use fewer FILTERs, or raise --fetch-limit",
                )
            answers.append(answer)
    responses = tuple(response for response, _ in answers)
    merged = merge(needs.cut, responses)
    sets: list[_RowSets] = []
    for response, mine in answers:
        places = places_of(needs.cut.key_types, keys_of(response), merged.keys)
        if -1 in places:
            raise CheckFailed("plain groups", "a group of one request is not among the groups of all")
        numbers = np.array([0, *(place + 1 for place in places)], np.int32)
        sets += [replace(each, places=numbers) for each in mine]
    return Selected(responses, merged.keys, merged.counts, tuple(sets))


def _selected(stored: Stored, needs: CutSums, run: Sequence[Segment]) -> tuple[PlainResponse, list[_RowSets]]:
    """The checked answer about the segments of `run`, and its row sets."""
    request = PlainRequest(
        **rows_of(stored.services, run, plain_columns(stored, needs)),
        where=needs.cut.where,
        keys=list(needs.cut.keys),
        aggregates=[part for aggregate in needs.cut.plain for part in aggregate.parts],
        members=True,
        filters=needs.filters,
    )
    answer = stored.services.grouped(request)
    groups = len(answer.counts)
    shape = [len(answer.numbers), len(answer.filters), *map(len, answer.filters)]
    expected = [len(run), len(request.filters)] + [len(run) for _ in request.filters]
    if answer.rows != sum(request.rows) or shape != expected:
        raise CheckFailed("plain groups", "the plain service's answer is to another request")
    places = np.arange(groups + 1, dtype=np.int32)
    sets = [
        _RowSets(segment.rows, numbers, dict(zip(request.filters, filters, strict=True)), places)
        for segment, numbers, *filters in zip(run, answer.numbers, *answer.filters, strict=True)
    ]
    try:
        counts = _counted(sets, groups)
        for filter_ in request.filters:
            _counted(sets, groups, filter_)
    except WireError as error:
        raise CheckFailed("plain groups", f"the plain service's row sets: {error.message}") from None
    if counts != answer.counts:
        raise CheckFailed("plain groups", "the plain service's row sets are not of its groups")
    return answer, sets


def plain_columns(stored: Stored, needs: CutSums) -> list[str]:
    """The columns that the plain service reads for a scan: of WHERE, keys, filters and plain aggregates."""
    cut_ = needs.cut
    read = {*cut_.selecting, *cut_.plain_columns, *(name for each in cut_.arguments for name in each.columns)}
    return [column.name for column in stored.schema.columns if column.name in read and column.kind == "plain"]


@dataclass(frozen=True, slots=True)
class ScanAnswer:
    """`sums`: by argument; their groups are those of all `responses`, in the order of `keys`."""

    responses: tuple[PlainResponse, ...]
    keys: list[Texts]
    counts: list[int]
    sums: list[OperandSums]


@dataclass(frozen=True, slots=True)
class ScanCall:
    """One call of the sensitive service about one segment. `request` makes the request when it is sent, because links
    expire.
    """

    segment: str
    about: SumCall
    request: Callable[[], ScanRequest]


_Totals = list[list[bytes]]


def scan(stored: Stored, needs: CutSums, progress: Progress, side_by_side: int = CALLS_UNDER_WAY) -> ScanAnswer:
    """Scan with `side_by_side` calls at once.

    Raises ServiceError, StoreError, CheckFailed, ManyGroupsError.
    """
    require_few(stored, needs, 1)
    selected = select(stored, needs, side_by_side)
    require_few(stored, needs, len(selected.counts))
    scanning = Scan(stored, needs, selected)
    advance = progress.stage("scan", stored.manifest.rows, "rows")
    left = {segment.id: segment.rows for segment in stored.manifest.segments}  # rows without a result yet
    answers = sent(stored, scanning.calls(), side_by_side)
    for segment, about in groupby(answers, key=lambda each: each[0].segment):
        for call, totals in about:
            files = [blob for lane in totals for blob in lane]
            scanning.sums.accept(call.about.shape, files, [(segment, call.about)])
        advance(left.pop(segment))
    advance(sum(left.values()))
    return scanning.answer()


class ManyGroupsError(QueryRefused):
    """There are too many groups for a scan."""


@dataclass(frozen=True, slots=True)
class AnswerSize:
    """Bounds on the answer of a scan: `results` ciphertexts in `calls` calls of the sensitive service; row sets in
    `selects` requests of the plain service.

    `bytes`: of everything. `largest`: bytes of the largest plain answer.
    """

    results: int
    calls: int
    bytes: int
    selects: int
    largest: int
    groups: int

    @property
    def excess(self) -> str:
        """Names the part that is too large; "" if none is."""
        most = MOST_RESULTS if self.groups > 1 else MOST_OF_ONE
        if self.results > most:
            return f"{self.results:,} sums, a query may have at most {most:,}"
        if self.largest > limits.MAX_RESULT_BYTES:
            return f"{self.largest:,} bytes of row sets, at most {limits.MAX_RESULT_BYTES:,} fit"
        return ""


def answer_of_scan(stored: Stored, needs: CutSums, groups: int) -> AnswerSize:
    """Bound the answer of a scan with this many groups."""
    # for each: a check result and partial sums
    sums = len(lanes_of_totals(stored, needs)) * len(totals_by_filter(needs))
    each = [sums * (1 + groups + segment.rows // SCAN_ROWS) for segment in stored.manifest.segments]
    numbers = 1 + len(needs.filters)
    row_sets = [numbers * sum(-(-segment.rows // 8) * groups.bit_length() for segment in run) for run in stored.runs]
    calls = sum(-(-results // limits.MAX_SCAN_RESULTS) for results in each)
    size = sum(each) * limits.MASKED_RESULT_BYTES + sum(row_sets)
    return AnswerSize(sum(each), calls, size, len(row_sets), max(row_sets, default=0), groups)


def most_groups(stored: Stored, needs: CutSums) -> int:
    """The largest number of groups for a scan; 0 if no scan is possible."""
    few, many = 0, MOST_RESULTS
    while few < many:
        middle = (few + many + 1) // 2
        few, many = (middle, many) if not answer_of_scan(stored, needs, middle).excess else (few, middle - 1)
    return few


def require_few(stored: Stored, needs: CutSums, groups: int) -> None:
    """Raises ManyGroupsError if the answer for `groups` groups, counted by the plain service, is too large."""
    if reason := answer_of_scan(stored, needs, max(1, groups)).excess:
        most = most_groups(stored, needs)
        coarser = f"a scan of this query answers up to {most:,} groups: group by something coarser, or " if most else ""
        many = f"{groups:,} groups" if groups > 1 else counted(len(stored.manifest.segments), "segment")
        raise ManyGroupsError(
            f"{many} are too many for a scan: {reason}",
            hint=f"{coarser if most else ''}raise --fetch-limit so that rows are fetched",
        )


def lanes_of_totals(stored: Stored, needs: CutSums) -> set[int]:
    """The lanes that hold the columns to add up."""
    return {lane for which in needs.totals for lane in stored.row_lanes.holding(stored.row_columns[which])}


def totals_by_filter(needs: CutSums) -> dict[str | None, list[TotalOf]]:
    """The totals to add up, by filter. An empty list means that rows are only counted."""
    totals: dict[str | None, dict[TotalOf, None]] = {}
    for each in needs.operands:
        of = each.numbers
        totals.setdefault(each.filter, {}).update(dict.fromkeys(which for which in needs.totals if which[0] in of))
    return {filter_: list(each) for filter_, each in totals.items()}


class Scan:
    """A scan of the selected rows. Groups are numbered filter after filter, as in `_wanted`.

    `sums` collects the answers to `calls`. `rows`: number per group.
    """

    def __init__(self, stored: Stored, needs: CutSums, selected: Selected) -> None:
        self._stored = stored
        self._needs = needs
        self._selected = selected
        self._groups = len(selected.counts)
        self._wanted = {filter_: totals for filter_, totals in totals_by_filter(needs).items() if totals}
        self.rows = [count for filter_ in self._wanted for count in selected.rows_of(filter_)]
        self.sums = Scanned(stored.row_lanes, stored.cipher)

    def calls(self, weights: Sequence[int] | None = None, seconds: int = LINK_SECONDS) -> Iterator[ScanCall]:
        """All calls, segment after segment. A segment's order is read when its first call is made.

        `weights`: of the groups, if answers will be added up. `seconds`: validity of links.
        """
        linked = partial(self._stored.services.linked, seconds=seconds)
        lanes, columns = self._stored.row_lanes, self._stored.row_columns
        for number, segment in enumerate(self._stored.manifest.segments):
            order = None  # megabytes; not read if no row is selected
            for place, (filter_, totals) in enumerate(self._wanted.items()):
                needed = sorted({lane for which in totals for lane in lanes.holding(columns[which])})
                numbers = self._selected.sets[number].groups(filter_)
                if not numbers.any():
                    continue
                order = order_of(self._stored, segment) if order is None else order
                placed = stored_order(numbers, order, lanes.capacity)
                for addend in addends_of(placed, self._groups, needed, SCAN_ROWS):
                    groups = tuple(place * self._groups + group for group in addend.groups)
                    about = sum_call(replace(addend, groups=groups), weights)
                    request = partial(request_of, segment, about, linked, self._stored.manifest)
                    yield ScanCall(segment.id, about, request)

    def answer(self) -> ScanAnswer:
        """The sums by operand and group, in the order of the plain service's groups. Call it after the last answer.

        Raises CheckFailed if a group has more values than rows, or if rows are missing from a sum.
        """
        totals = {
            (filter_, which): [
                self.sums.total(self._stored.row_columns[which], group, self.rows[group])
                for group in range(place * self._groups, (place + 1) * self._groups)
            ]
            for place, (filter_, wanted) in enumerate(self._wanted.items())
            for which in wanted
        }
        sums = [self._of_operand(each, totals) for each in self._needs.operands]
        return ScanAnswer(self._selected.responses, self._selected.keys, self._selected.counts, sums)

    def _of_operand(
        self, operand: AggregateOperand, totals: Mapping[tuple[str | None, TotalOf], list[int]]
    ) -> OperandSums:
        of = operand.numbers
        sums = {
            which: entries
            for (filter_, which), entries in totals.items()
            if filter_ == operand.filter and which[0] in of
        }
        counted, rows = operand.counted(self._needs.measures), self._selected.rows_of(operand.filter)
        if counted is not None and any(count > most for count, most in zip(sums[counted, "count"], rows, strict=True)):
            raise CheckFailed("range", "a group has more values than rows")
        return OperandSums(sums, rows if counted is None else sums[counted, "count"])


def order_of(stored: Stored, segment: Segment) -> NDArray[np.uint32]:
    """For each row of a segment's ciphertexts, its row in the plain half. Raises CheckFailed."""
    if segment.scan is None:
        raise CheckFailed("stored", "a segment has no rows for scans")
    order = np.frombuffer(stored.tables.unseal(stored.vault, "rows", segment.scan.order), np.uint32)
    if len(order) != segment.rows:
        raise CheckFailed("stored", "a segment's order has another number of rows than the table's manifest")
    return order


def request_of(segment: Segment, about: SumCall, linked: Callable[[Object], Linked], manifest: Manifest) -> ScanRequest:
    addends = about.cut
    assert segment.scan is not None  # noqa: S101 - other scans are not planned (cleave.sums.cellwise)
    objects = sorted({chunk // OBJECT_CHUNKS for chunk in addends.chunks})
    return ScanRequest(
        profile=manifest.profile,
        key_id=manifest.table_id,
        label=about.label,
        lanes=[
            [
                ScanObject(**vars(linked(segment.scan.lanes[lane][place])), first=place * OBJECT_CHUNKS)
                for place in objects
            ]
            for lane in addends.lanes
        ],
        chunks=list(addends.chunks),
        numbers=addends.numbers,
        cuts=[list(each) for each in addends.cuts],
        weights=list(about.weights),
    )


def sent(stored: Stored, calls: Iterable[ScanCall], side_by_side: int) -> Iterator[tuple[ScanCall, _Totals]]:
    """Send the calls, `side_by_side` at once and one prepared. After an error no call is sent. Raises ServiceError,
    StoreError, CheckFailed.
    """

    services = stored.services

    def ask(call: ScanCall) -> _Totals:
        return services.scan(call.request()).totals

    under_way: deque[tuple[ScanCall, Future[_Totals]]] = deque()
    pool = ThreadPoolExecutor(side_by_side, "scan")
    try:
        for call in calls:
            under_way.append((call, pool.submit(ask, call)))
            if len(under_way) > side_by_side:
                yield _first(under_way)
        while under_way:
            yield _first(under_way)
    except BaseException:  # also Ctrl-C: running calls end with the question, without waiting here
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def _first(under_way: deque[tuple[ScanCall, Future[_Totals]]]) -> tuple[ScanCall, _Totals]:
    """The answer to the first call, when it arrives. Raises the error of any call that fails before."""
    waiting = {future for _, future in under_way}
    call, first = under_way.popleft()
    while not first.done():
        done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        for each in done:
            each.result()
    return call, first.result()
