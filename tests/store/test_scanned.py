"""Masked sums of stored rows: exact, whatever the rows and the groups; and whatever goes wrong with them is found."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from cleave.ckks.secret_key import SecretKey, fresh_key
from cleave.store.lanes import SCAN_ROWS
from cleave.store.measures import SEGMENT_ROWS
from cleave.sums.scanned import Addends, SumCall, addends_of, counts_of, stored_order, sum_call
from cleave_services.sensitive.evaluate import Results as Found
from cleave_services.sensitive.scan import CHECK, MaskedSums, ScanChunk
from cleave_shared import limits, rowsets
from cleave_shared.errors import CheckFailed, WireError
from cleave_shared.moments import SENTINELS
from cleave_shared.params import DEFAULT_PROFILE
from cleave_shared.seal import SealEvaluator
from tests.campaign import FACTOR, sampled
from tests.store.scanning import SEGMENT, Rows, Totals

ROWS = 20_000  # three chunks, the last of them not full
TIMES = sampled(4, 20, 50 * FACTOR)  # CLEAVE_CAMPAIGN has more


@pytest.fixture(scope="module")
def rows() -> Rows:
    rng = np.random.default_rng(12)
    limits = (5_000, 10_494_950, 1, (1 << 53) + 7)
    return Rows(
        SecretKey("5e" * 16, DEFAULT_PROFILE, fresh_key(DEFAULT_PROFILE).secret, bytes(32)),
        [(limit, rng.integers(0, limit + 1, ROWS, np.uint64)) for limit in limits],
        SCAN_ROWS,
    )


def _calls(addends: Addends, times: int) -> Iterator[SumCall]:
    """Calls as `sum_call` makes them, with sentinels and weights that are the same in every run.

    The check misses one in 65,536 random exchanges of two chunks, and none of the first 5,000 of these.
    """
    rng = random.Random(5)
    for _ in range(times):
        yield SumCall(addends, rng.randbytes(16).hex(), tuple(rng.sample(range(1, 1 << 15), len(addends.groups))))


def _numbers(groups: int, seed: int = 1, share: float = 0.7) -> rowsets.Numbers:
    rng = np.random.default_rng(seed)
    return (rng.integers(1, groups + 1, ROWS) * (rng.random(ROWS) < share)).astype(np.int32)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("groups", "window"), [(1, None), (4, None), (3, 8_192), (100, None)])
def test_sums_are_exact(rows: Rows, groups: int, window: int | None) -> None:
    numbers = _numbers(groups)
    assert rows.totals(numbers, groups, window, shares=2) == rows.truth(numbers)


def test_the_largest_values_stay_in_their_fields() -> None:
    """All rows at their limit: the fullest a field can be."""
    limits = (5_000, (1 << 53) + 7, 1)
    full = Rows(
        fresh_key(DEFAULT_PROFILE), [(limit, np.full(4 * 8_176, limit, np.uint64)) for limit in limits], 1 << 15
    )
    numbers = np.ones(4 * 8_176, np.int32)
    numbers[-8:] = 0  # 32,704 rows do, 2^15 = 32,768 would
    assert full.totals(numbers, 1) == full.truth(numbers)


def test_chunks_without_a_selected_row_are_not_asked_about(rows: Rows) -> None:
    numbers = np.zeros(ROWS, np.int32)
    numbers[9_000:9_010] = 1
    (asked,) = rows.addends(numbers, 1)
    assert asked.chunks == (1,)
    assert asked.rows == ((10,),)
    assert rows.totals(numbers, 1) == rows.truth(numbers)
    assert rows.addends(np.zeros(ROWS, np.int32), 1) == []


def test_a_total_of_fewer_or_more_rows_than_a_group_has_is_none(rows: Rows) -> None:
    numbers = _numbers(1)
    (asked,) = map(sum_call, rows.addends(numbers, 1))
    scanned = rows.scanned()
    with pytest.raises(CheckFailed, match="not of all rows"):
        scanned.total(0, 0, 1)  # nothing has answered yet
    scanned.accept(asked.shape, [*itertools.chain(*rows.answer(asked))], [(SEGMENT, asked)])
    (count,) = map(sum, asked.cut.rows)
    assert scanned.total(0, 0, count) == rows.truth(numbers)[0, 0]
    for other in (count - 1, count + 1):
        with pytest.raises(CheckFailed, match="not of all rows"):
            scanned.total(0, 0, other)


def test_a_call_reads_no_more_bytes_than_a_service() -> None:
    """A row in each of a full segment's chunks: one sum of each lane, of all its objects."""
    capacity = DEFAULT_PROFILE.degree - SENTINELS
    placed = np.zeros((-(-SEGMENT_ROWS // capacity), capacity), np.int32)
    placed[:, 0] = 1
    calls = list(addends_of(placed, 1, range(40), SCAN_ROWS))
    assert [lane for each in calls for lane in each.lanes] == list(range(40))
    most = max(len(each.lanes) for each in calls)
    assert 10 < most <= limits.MAX_LINKED_BYTES // (len(placed) * 8 * DEFAULT_PROFILE.degree)


@pytest.mark.parametrize("seed", range(30))
def test_partial_sums_are_cut_where_their_fields_would_overflow(seed: int) -> None:
    rng = np.random.default_rng(seed)
    capacity, chunks, groups, lanes = 64, int(rng.integers(1, 40)), int(rng.integers(1, 90)), int(rng.integers(1, 40))
    window = int(rng.integers(capacity, 10 * capacity))
    numbers = (
        rng.integers(0, groups + 1, chunks * capacity - 5) * (rng.random(chunks * capacity - 5) < rng.random())
    ).astype(np.int32)
    order = rng.permutation(len(numbers)).astype(np.uint32)
    placed = stored_order(numbers, order, capacity)
    assert (placed.ravel()[: len(numbers)] == numbers[order]).all()
    seen: dict[tuple[int, int], int] = {}
    for each in addends_of(placed, groups, range(lanes), window):
        assert each.results <= 60
        counts = counts_of(placed, groups)
        size = rowsets.size(capacity, len(each.groups))
        told = np.stack(
            [
                rowsets.unpack(each.numbers[at * size : (at + 1) * size], capacity, len(each.groups))
                for at in range(len(each.chunks))
            ]
        )
        for at, group in enumerate(each.groups):
            assert ((told == at + 1) == (placed[list(each.chunks)] == group + 1)).all()
            starts = [*each.cuts[at], len(each.chunks)]
            by_chunk = counts[list(each.chunks), group]
            assert by_chunk[: starts[0]].sum() == 0
            assert [by_chunk[a:b].sum() for a, b in itertools.pairwise(starts)] == list(each.rows[at])
            assert all(0 < count <= window for count in each.rows[at])
            for lane in each.lanes:
                seen[lane, group] = seen.get((lane, group), 0) + sum(each.rows[at])
    assert seen == {
        (lane, group): int((numbers == group + 1).sum())
        for lane in range(lanes)
        for group in range(groups)
        if (numbers == group + 1).any()
    }


class Faulty(MaskedSums):
    """A service that does `fault` to the chunks of one group, of the check, or of all."""

    def __init__(self, rows: Rows, asked: SumCall, fault: str, rng: random.Random) -> None:
        super().__init__(rows.evaluator, rows.wanted(asked))
        self.fault, self.rng = fault, rng
        self.chunk = rng.randrange(len(asked.cut.chunks))
        self.result = rng.choice([CHECK, *range(1, rows.wanted(asked).results)])

    def evaluate(self, chunks: Sequence[ScanChunk]) -> Found:
        given = list(chunks)
        if self.fault == "chunk lost":
            del given[self.chunk]
        elif self.fault == "chunk doubled":
            given.append(given[self.chunk])
        elif self.fault == "chunks exchanged":
            a, b = self.rng.sample(range(len(given)), 2)
            one, other = given[a], given[b]
            given[a] = ScanChunk(one.place, one.number, one.numbers, other.files)
            given[b] = ScanChunk(other.place, other.number, other.numbers, one.files)
        elif self.fault == "lanes exchanged":
            one = given[self.chunk]
            files = list(one.files)
            a, b = self.rng.sample(range(len(files)), 2)
            files[a], files[b] = files[b], files[a]
            given[self.chunk] = ScanChunk(one.place, one.number, one.numbers, tuple(files))
        return super().evaluate(given)

    def _masks(self, chunk: ScanChunk) -> tuple[list[int], list[object]]:
        results, masks = super()._masks(chunk)
        if self.fault == "group skips a chunk" and chunk.place == self.chunk and self.result in results:
            at = results.index(self.result)
            del results[at], masks[at]
        if self.fault == "group takes a chunk twice" and chunk.place == self.chunk and self.result in results:
            at = results.index(self.result)
            results.append(results[at])
            masks.append(masks[at])
        if self.fault == "mask of another group" and len(results) > 2:
            a, b = self.rng.sample(range(1, len(results)), 2)
            masks[a], masks[b] = masks[b], masks[a]
        return results, masks


FAULTS = (
    "chunk lost",
    "chunk doubled",
    "chunks exchanged",
    "lanes exchanged",
    "group skips a chunk",
    "group takes a chunk twice",
    "mask of another group",
)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize("fault", FAULTS)
def test_what_a_service_does_wrong_is_found(rows: Rows, fault: str, times: int) -> None:
    numbers = _numbers(3)
    rng = random.Random(fault)
    (addends,) = rows.addends(numbers, 3)
    for asked in _calls(addends, times):
        with pytest.raises(CheckFailed):
            rows.read(asked, rows.answer(asked, Faulty(rows, asked, fault, rng)))


@pytest.mark.parametrize("times", TIMES)
def test_what_happens_to_an_answer_is_found(rows: Rows, times: int) -> None:
    """Results exchanged, an offset, a result of another call, another key."""
    numbers = _numbers(3)
    (addends,) = rows.addends(numbers, 3)
    rng = random.Random(7)
    asked, other = _calls(addends, 2)
    sound, stale = rows.answer(asked), rows.answer(other)
    rows.read(asked, sound)
    zero = rows.cipher.encrypt(np.eye(1, 8_192, dtype=np.int64) * (1 << 30))[0]
    evaluator = SealEvaluator(rows.cipher.ring)

    def exchanged(totals: Totals) -> None:
        lane = rng.randrange(len(totals))
        a, b = rng.sample(range(len(totals[lane])), 2)
        totals[lane][a], totals[lane][b] = totals[lane][b], totals[lane][a]

    def lanes_exchanged(totals: Totals) -> None:
        a, b = rng.sample(range(len(totals)), 2)
        at = rng.randrange(len(totals[a]))
        totals[a][at], totals[b][at] = totals[b][at], totals[a][at]

    def offset(totals: Totals) -> None:
        lane = rng.randrange(len(totals))
        at = rng.randrange(len(totals[lane]))
        added = evaluator.load(zero)
        totals[lane][at] = evaluator.dump(evaluator.add(evaluator.load(totals[lane][at]), added), 1)

    def of_another(totals: Totals) -> None:
        lane = rng.randrange(len(totals))
        totals[lane][CHECK] = stale[lane][CHECK]

    for harm in (exchanged, lanes_exchanged, offset, of_another):
        for _ in range(times):
            totals = [list(lane) for lane in sound]
            harm(totals)
            with pytest.raises(CheckFailed):
                rows.read(asked, totals)
    with pytest.raises(CheckFailed):
        rows.read(asked, sound, fresh_key(DEFAULT_PROFILE))
    for short in (sound[:-1], [lane[:-1] for lane in sound], [[*lane, lane[0]] for lane in sound], []):
        with pytest.raises(CheckFailed, match="results"):
            rows.read(asked, short)
    with pytest.raises(CheckFailed, match="not a ciphertext"):
        rows.read(asked, [[b"x" for _ in lane] for lane in sound])


@pytest.mark.parametrize("groups", [1, 2, 3, 4, 7, 8, 255, 256])
def test_numbers_of_rows_pack_into_as_few_bits_as_tell_groups_apart(groups: int) -> None:
    rng = np.random.default_rng(groups)
    for rows_ in (0, 1, 7, 8, 9, 8_192 - SENTINELS):
        numbers = rng.integers(0, groups + 1, rows_).astype(np.int32)
        content = rowsets.pack(numbers, groups)
        assert len(content) == groups.bit_length() * -(-rows_ // 8) == rowsets.size(rows_, groups)
        assert (rowsets.unpack(content, rows_, groups) == numbers).all()


def test_numbers_that_name_no_group_are_refused() -> None:
    content = rowsets.pack(np.array([3, 1, 2], np.int32), 3)
    with pytest.raises(WireError):
        rowsets.unpack(content, 3, 2)  # the same bits, of fewer groups
    with pytest.raises(WireError):
        rowsets.unpack(content + b"\0", 3, 3)
    with pytest.raises(WireError):
        rowsets.unpack(b"\x60\x10", 3, 2)  # a bit beyond the last row
