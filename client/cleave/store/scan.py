"""A scan: sums of rows that plain columns select, made by the services, of a stored table.

    plain service      which group is each row of the plain half in?       WHERE, keys, filters: as over files
    here               where does each row stand among the ciphertexts?    the sealed order, read once
    sensitive service  what do these positions add up to?                  links to lanes, numbers of groups

Each segment takes as many calls as its results do; several are under way at once. The sensitive service learns which
positions are in one group together, of as many questions as are asked: `--no-scan` has rows fetched instead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import groupby
from typing import Protocol

import numpy as np

from cleave.store.cellwise import StoredPlan, Sums
from cleave.store.manifest import Object, Segment
from cleave.store.masks import cut, stored_order
from cleave.store.rowwise import parts_of
from cleave.store.scanned import Question, question
from cleave.store.sources import Part
from cleave.store.stored import Stored
from cleave.store.stored_lanes import OBJECT_CHUNKS, SCAN_ROWS, columns_of_rows
from cleave.table.progress import Progress
from cleave_shared import limits, rowsets
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import CheckFailed, QueryRefused, WireError
from cleave_shared.rowsets import Numbers
from cleave_shared.scan import ScanObject, ScanRequest, ScanResponse, SelectRequest, SelectResponse
from cleave_shared.stored import Linked
from cleave_shared.wire import PlainResponse

MOST_RESULTS = 4_000  # of one question: 270 MB
CALLS_UNDER_WAY = 4  # of services elsewhere; each has 4 MB of results at most


class Asking(Protocol):
    """How services are asked about a stored table (cleave.store.remote)."""

    def linked(self, which: Object, *, plain: bool = False) -> Linked: ...

    def select(self, request: SelectRequest) -> SelectResponse: ...

    def scan(self, request: ScanRequest) -> ScanResponse: ...


@dataclass(frozen=True, slots=True)
class Selected:
    """What the plain service tells. `numbers`: of each segment the groups of its rows, 0 for a row of none;
    `kept`: by filter, of each segment whether it holds.
    """

    response: PlainResponse
    numbers: tuple[Numbers, ...]
    kept: dict[str | None, tuple[Numbers, ...]]

    def numbers_of(self, filter_: str | None, segment: int) -> Numbers:
        if filter_ is None:
            return self.numbers[segment]
        return self.numbers[segment] * self.kept[filter_][segment]

    def rows_of(self, filter_: str | None) -> list[int]:
        """Of each group, where the filter holds."""
        groups = len(self.response.counts)
        found = np.zeros(groups, np.int64)
        for segment in range(len(self.numbers)):
            found += np.bincount(self.numbers_of(filter_, segment), minlength=groups + 1)[1:]
        return [int(count) for count in found]


def select(asking: Asking, stored: Stored, plan: StoredPlan) -> Selected:
    """Raises ServiceError, StoreError; CheckFailed for row sets that are not those of the groups."""
    request = select_request(asking, stored, plan)
    answer = asking.select(request)
    segments = stored.manifest.segments
    shape = [len(answer.numbers), len(answer.filters), *map(len, answer.filters)]
    if answer.rows != stored.manifest.rows or shape != [len(segments), len(request.filters)] + [
        len(segments) for _ in request.filters
    ]:
        raise CheckFailed("plain groups", "the plain service's answer is to another request")
    try:
        numbers = _unpacked(answer.numbers, segments, len(answer.counts))
        kept: dict[str | None, tuple[Numbers, ...]] = {
            filter_: _unpacked(each, segments, 1) for filter_, each in zip(request.filters, answer.filters, strict=True)
        }
    except WireError as error:
        raise CheckFailed("plain groups", f"the plain service's row sets: {error.message}") from None
    response = PlainResponse(
        schema_hash=stored.manifest.table_id,
        rows=answer.rows,
        counts=answer.counts,
        keys=answer.keys,
        aggregates=answer.aggregates,
        timings=answer.timings,
    )
    selected = Selected(response, numbers, kept)
    if selected.rows_of(None) != answer.counts:
        raise CheckFailed("plain groups", "the plain service's row sets are not of its groups")
    return selected


def plain_columns(stored: Stored, plan: StoredPlan) -> list[str]:
    """Those the plain service reads for a scan: of WHERE, keys, filters and plain aggregates."""
    read = {*plan.selecting, *plan.plain_columns, *(name for each in plan.arguments for name in each.columns)}
    return [column.name for column in stored.schema.columns if column.name in read and column.kind == "plain"]


def select_request(asking: Asking, stored: Stored, plan: StoredPlan) -> SelectRequest:
    segments = stored.manifest.segments
    return SelectRequest(
        objects=[asking.linked(each.plain, plain=True) for each in segments if each.plain is not None],
        rows=[each.rows for each in segments],
        columns=plain_columns(stored, plan),
        where=plan.where,
        keys=list(plan.keys),
        aggregates=[part for aggregate in plan.plain for part in aggregate.parts],
        filters=list(dict.fromkeys(source.filter for source in plan.sources if source.filter is not None)),
    )


def _unpacked(packed: Sequence[bytes], segments: Sequence[Segment], groups: int) -> tuple[Numbers, ...]:
    return tuple(rowsets.unpack(each, segment.rows, groups) for each, segment in zip(packed, segments, strict=True))


@dataclass(frozen=True, slots=True)
class ScanAnswer:
    """`sums`: by argument of the plan, in the order of the response's groups."""

    response: PlainResponse
    sums: list[Sums]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the sensitive service: what is asked about one segment, where `filter` holds."""

    segment: Segment
    filter: str | None
    question: Question


Totals = list[list[bytes]]
Send = Callable[[Iterable[Call]], Iterator[tuple[Call, Totals]]]  # every call with its answer, in order


def scan(
    asking: Asking,
    stored: Stored,
    plan: StoredPlan,
    progress: Progress,
    side_by_side: int = CALLS_UNDER_WAY,
) -> ScanAnswer:
    """`side_by_side`: calls under way at once.

    Raises ServiceError, StoreError, CheckFailed; ManyGroupsError.
    """
    selected = select(asking, stored, plan)
    require_few(stored, plan, len(selected.response.counts))
    found = Scan(stored, plan, selected)
    advance = progress.stage("scan", stored.manifest.rows, "rows")
    return ScanAnswer(selected.response, found.sums(lambda calls: sent(asking, stored, calls, side_by_side), advance))


class ManyGroupsError(QueryRefused):
    """Sums of so many groups are too many for a scan."""


@dataclass(frozen=True, slots=True)
class AnswerSize:
    """Bound of what a scan answers: `results` ciphertexts in `calls` calls, `bytes` with the row sets of the plain
    service, which are `row_sets` bytes.
    """

    results: int
    calls: int
    bytes: int
    row_sets: int


def answer_of_scan(stored: Stored, plan: StoredPlan, groups: int) -> AnswerSize:
    """Bound the answer of a scan of `groups` groups."""
    each = [results_of(stored, plan, segment.rows, groups) for segment in stored.manifest.segments]
    filters = 1 + len({source.filter for source in plan.sources if source.filter is not None})
    row_sets = filters * sum(-(-segment.rows // 8) * groups.bit_length() for segment in stored.manifest.segments)
    calls = sum(-(-results // limits.MAX_SCAN_RESULTS) for results in each)
    return AnswerSize(sum(each), calls, sum(each) * limits.MASKED_RESULT_BYTES + row_sets, row_sets)


def most_groups(stored: Stored, plan: StoredPlan) -> int:
    """Most groups that a scan answers."""
    few, many = 1, MOST_RESULTS
    while few < many:
        middle = (few + many + 1) // 2
        few, many = (middle, many) if too_large(answer_of_scan(stored, plan, middle)) == "" else (few, middle - 1)
    return few


def too_large(answer: AnswerSize) -> str:
    """What of an answer is too large; "" where nothing is."""
    if answer.results > MOST_RESULTS:
        return f"{answer.results:,} sums, at most {MOST_RESULTS:,} are asked for in one question"
    if answer.row_sets > limits.MAX_RESULT_BYTES:
        return f"{answer.row_sets:,} bytes of row sets, at most {limits.MAX_RESULT_BYTES:,} fit"
    return ""


def require_few(stored: Stored, plan: StoredPlan, groups: int) -> None:
    """Raises ManyGroupsError where the answer for `groups` groups, which the plain service counted, is too large."""
    if groups > 1 and (reason := too_large(answer_of_scan(stored, plan, groups))):
        raise ManyGroupsError(
            f"{groups:,} groups are too many for a scan: {reason}",
            hint=f"a scan of this question answers up to {most_groups(stored, plan):,} groups: group by something "
            "coarser, or raise --fetch-limit so that rows are fetched",
        )


def results_of(stored: Stored, plan: StoredPlan, rows: int, groups: int) -> int:
    """Most ciphertexts that come back of a segment of `rows` rows: of each lane a check, and partial sums."""
    filters = len(parts_of(plan.sources, plan.parts))
    return len(lanes_of_parts(stored, plan)) * filters * (1 + groups + rows // SCAN_ROWS)


def lanes_of_parts(stored: Stored, plan: StoredPlan) -> set[int]:
    """The lanes of rows that hold what `plan` adds up."""
    lanes, kept = stored.row_lanes, enumerate(columns_of_rows(stored.manifest))
    return {lane for at, each in kept if (each.measure, each.part) in plan.parts for lane in lanes.of(at)}


class Scan:
    """Of the rows that `selected` tells."""

    def __init__(self, stored: Stored, plan: StoredPlan, selected: Selected) -> None:
        self._stored = stored
        self._plan = plan
        self._selected = selected
        kept = enumerate(columns_of_rows(stored.manifest))
        self.columns: dict[Part, int] = {(each.measure, each.part): at for at, each in kept}
        self.wanted = {filter_: parts for filter_, parts in parts_of(plan.sources, plan.parts).items() if parts}

    @property
    def groups(self) -> int:
        return len(self._selected.response.counts)

    def calls(self) -> Iterator[Call]:
        """All there are, segment after segment, whose order is read when its calls are taken."""
        lanes = self._stored.row_lanes
        for number, segment in enumerate(self._stored.manifest.segments):
            order = None  # megabytes, for which nothing is read where no row is selected
            for filter_, parts in self.wanted.items():
                needed = sorted({lane for part in parts for lane in lanes.of(self.columns[part])})
                numbers = self._selected.numbers_of(filter_, number)
                if not numbers.any():
                    continue
                order = self._stored.order(segment) if order is None else order
                placed = stored_order(numbers, order, lanes.capacity)
                yield from self._cut(segment, filter_, placed, needed)

    def _cut(self, segment: Segment, filter_: str | None, placed: Numbers, lanes: list[int]) -> Iterator[Call]:
        window = SCAN_ROWS
        yield from (Call(segment, filter_, question(each)) for each in cut(placed, self.groups, lanes, window))

    def sums(self, send: Send, advance: Callable[[int], None] = lambda _: None) -> list[Sums]:
        """By argument and group, in the order of the plain service's groups. Raises what `send` does, CheckFailed."""
        left = {segment.id: segment.rows for segment in self._stored.manifest.segments}  # rows nothing came of yet
        totals = {(filter_, part): [0] * self.groups for filter_, parts in self.wanted.items() for part in parts}
        for _, answers in groupby(send(self.calls()), key=lambda each: (each[0].segment.id, each[0].filter)):
            about = list(answers)
            self._add(totals, about)
            advance(left.pop(about[0][0].segment.id, 0))
        advance(sum(left.values()))
        return self.by_argument(totals)

    def by_argument(self, totals: Mapping[tuple[str | None, Part], list[int]]) -> list[Sums]:
        """`totals`: of each group, by filter and part. Raises CheckFailed where a group has more values than rows."""
        rows = {filter_: self._selected.rows_of(filter_) for filter_ in {each.filter for each in self._plan.sources}}
        return [self._of_argument(place, totals, rows) for place in range(len(self._plan.arguments))]

    def _add(self, totals: dict[tuple[str | None, Part], list[int]], answers: Sequence[tuple[Call, Totals]]) -> None:
        """All answers about one segment and filter."""
        first = answers[0][0]
        scanned = self._stored.scanned(first.segment)
        seen: set[int] = set()
        for call, results in answers:
            scanned.accept(call.question, results)
            seen.update(call.question.cut.groups)
        for part in self.wanted[first.filter]:
            for group in seen:
                totals[first.filter, part][group] += scanned.total(self.columns[part], group)

    def _of_argument(
        self,
        place: int,
        totals: Mapping[tuple[str | None, Part], list[int]],
        selected: Mapping[str | None, list[int]],
    ) -> Sums:
        source, measures = self._plan.sources[place], self._stored.manifest.measures
        of = {number for number, _ in source.terms}
        found: Sums = {
            part: entries for (filter_, part), entries in totals.items() if filter_ == source.filter and part[0] in of
        }
        counted = source.counted(measures)
        rows = selected[source.filter]
        if counted is not None and any(count > most for count, most in zip(found[counted, "count"], rows, strict=True)):
            raise CheckFailed("range", "a group has more values than rows")
        found[None] = rows if counted is None else found[counted, "count"]
        return found


def request_of(call: Call, linked: Callable[[Object], Linked], stored: Stored) -> ScanRequest:
    """With links, which expire: made when it is sent."""
    cut_, segment = call.question.cut, call.segment
    assert segment.scan is not None  # noqa: S101 - no scan is planned otherwise (cleave.store.rowwise)
    objects = sorted({chunk // OBJECT_CHUNKS for chunk in cut_.chunks})
    return ScanRequest(
        profile=stored.manifest.profile,
        key_id=stored.manifest.table_id,
        label=call.question.label,
        lanes=[
            [
                ScanObject(**linked(segment.scan.lanes[lane][place]).model_dump(), first=place * OBJECT_CHUNKS)
                for place in objects
            ]
            for lane in cut_.lanes
        ],
        chunks=list(cut_.chunks),
        numbers=cut_.numbers,
        cuts=[list(each) for each in cut_.cuts],
        weights=list(call.question.weights),
    )


def sent(
    asking: Asking, stored: Stored, calls: Iterable[Call], side_by_side: int = CALLS_UNDER_WAY
) -> Iterator[tuple[Call, Totals]]:
    """So many calls under way at once, and one that waits; none after an error. Raises ServiceError, StoreError,
    CheckFailed.
    """

    def ask(call: Call) -> Totals:
        return asking.scan(request_of(call, asking.linked, stored)).totals

    under_way: deque[tuple[Call, Future[Totals]]] = deque()
    pool = ThreadPoolExecutor(side_by_side, "scan")
    try:
        for call in calls:
            under_way.append((call, pool.submit(ask, call)))
            if len(under_way) > side_by_side:
                yield _first(under_way)
        while under_way:
            yield _first(under_way)
    except BaseException:  # Ctrl-C as well: calls under way end with the question, and are not waited for here
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def _first(under_way: deque[tuple[Call, Future[Totals]]]) -> tuple[Call, Totals]:
    """The answer to the first, once it is there. Raises what any of them raises meanwhile."""
    waiting = {future for _, future in under_way}
    call, first = under_way.popleft()
    while not first.done():
        done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        for each in done:
            each.result()
    return call, first.result()
