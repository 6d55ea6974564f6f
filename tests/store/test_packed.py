"""Sums that come back packed: exact whatever the values are, within the noise that is allowed for, and harm shows."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import zstandard
from numpy.typing import NDArray

from cleave.aggregates.columns import Exact
from cleave.ckks.cipher import Cipher
from cleave.ckks.key_file import create_key, open_key
from cleave.ckks.layout import noise, plan_layout, public_variance
from cleave.ckks.packed import Packing, fit, largest, noise_of, numbers, sums, switch_noise
from cleave.ckks.secret_key import SecretKey
from cleave.store import packed
from cleave.store.lanes import plan_lanes
from cleave.store.scanned import Question, question
from cleave.store.stored_lanes import SCAN_ROWS
from cleave_services.sensitive.scan import selected_mask
from cleave_shared import limits, seal
from cleave_shared.errors import CheckFailed, WireError
from cleave_shared.packing import Packer, PackingKey, ciphertexts, elements
from cleave_shared.params import SUM60_PACK
from tests.store import packing
from tests.store.campaign import FACTOR, FULL
from tests.store.scanning import Rows, Totals
from tests.store.test_scanned import FAULTS, Faulty

TIMES = 2 * FACTOR  # CLEAVE_CAMPAIGN
LIMITS = [(1 << 26) - 1, 5_000, 1]
DEGREE, MODULUS = SUM60_PACK.degree, seal.ring(SUM60_PACK.name).modulus


def _key(folder: Path) -> SecretKey:
    create_key(folder / "key.json", None)
    return open_key(folder / "key.json", None)


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> SecretKey:
    return _key(tmp_path_factory.mktemp("key"))


@pytest.fixture(scope="module")
def other_key(tmp_path_factory: pytest.TempPathFactory) -> SecretKey:
    return _key(tmp_path_factory.mktemp("other"))


def _rows(key: SecretKey, kind: str, count: int, columns: list[int] | None = None) -> Rows:
    rng = np.random.default_rng(7)

    def values(limit: int) -> NDArray[np.uint64]:
        found = np.zeros(count, np.uint64)
        if kind == "largest":
            found[:] = limit
        elif kind == "largest at the ends":
            found[[0, -1]] = limit
        elif kind == "random":
            found = rng.integers(0, limit, count, np.uint64, endpoint=True)
        return found

    return Rows(key, [(limit, values(limit)) for limit in columns or LIMITS], SCAN_ROWS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "groups"),
    [("largest", 7), ("largest", 8), ("none", 31), ("largest at the ends", 31), ("largest", 31), ("random", 90)],
)
def test_packed_sums_are_exact(key: SecretKey, kind: str, groups: int) -> None:
    rows = _rows(key, kind, 9_000)
    numbers_ = (np.arange(9_000) % (groups + 1)).astype(np.int32)
    found, answers = packing.totals(rows, numbers_, groups)
    assert (answers > 0) == (rows.lanes.count * (groups + 1) > limits.PACKED_RESULTS)
    assert found == rows.truth(numbers_)


@pytest.mark.parametrize("groups", [0, 1, 14, 15, 16, 64])
def test_so_many_results(key: SecretKey, groups: int) -> None:
    """One lane, so groups + 1 results: packed from 17 on; no question at all about no group."""
    rows = _rows(key, "random", 8_176, [1_000])
    numbers_ = (np.arange(8_176) % 100 + 1).astype(np.int32)
    numbers_[numbers_ > groups] = 0
    found, answers = packing.totals(rows, numbers_, max(1, groups))
    assert answers == (groups + 1 > limits.PACKED_RESULTS)
    assert found == rows.truth(numbers_)


@pytest.mark.skipif(not FULL, reason="a campaign: make campaign")
def test_more_results_than_coefficients(key: SecretKey) -> None:
    rows = _rows(key, "random", 9_000, [1_000])
    numbers_ = np.arange(1, 9_001, dtype=np.int32)
    found, answers = packing.totals(rows, numbers_, 9_000)
    assert answers == -(-9_000 // (limits.MAX_PACKED_RESULTS - 1))
    assert found == rows.truth(numbers_)


def test_many_rows_have_several_checks(key: SecretKey) -> None:
    """In one call."""
    rows = _rows(key, "largest", 100_000, [1_000])
    most = packed.most_rows(packing.room(rows), 13)
    numbers_ = (np.arange(100_000) % 20 + 1).astype(np.int32)
    ((cut, made),) = packing.cuts(rows, numbers_, 20)
    assert made
    assert made.checks == (16, 4)
    assert 16 * 5_000 <= most < 17 * 5_000
    found, _ = packing.totals(rows, numbers_, 20)
    assert found == rows.truth(numbers_)
    asked = question(cut, packing=made)
    for fault in ("group skips a chunk", "chunk lost"):
        with pytest.raises(CheckFailed, match="do not agree"):
            rows.scanned().accept(
                asked, packing.answer(rows, asked, sums=Faulty(rows, asked, fault, random.Random(fault)))
            )
    other = replace(asked, packing=replace(made, checks=(4, 16)))
    with pytest.raises(CheckFailed, match="do not agree"):
        rows.scanned().accept(other, packing.answer(rows, asked))


def test_groups_of_many_rows_come_back_one_by_one(key: SecretKey) -> None:
    """Beside small ones, which are packed."""
    rows = _rows(key, "largest", 110_000, [(1 << 26) - 1])
    most = packed.most_rows(packing.room(rows), 14)
    numbers_ = np.ones(110_000, np.int32)
    numbers_[-24:] = np.arange(2, 26)
    assert 20_000 < most < 109_000
    kinds = {made is None: cut.groups for cut, made in packing.cuts(rows, numbers_, 25)}
    assert kinds == {True: (0,), False: tuple(range(1, 25))}
    found, _ = packing.totals(rows, numbers_, 25)
    assert found == rows.truth(numbers_)


def _layouts() -> list[tuple[int, float, list[int]]]:
    public = public_variance(DEGREE)
    columns = [[1], [(1 << 26) - 1, 5_000, 1], [(1 << 60) - 1], [(1 << 43) - 1, 7]]
    return [
        (window, variance, each) for window in (8_192, SCAN_ROWS) for variance in (10.5, public) for each in columns
    ]


@pytest.mark.parametrize(("window", "variance", "columns"), _layouts())
@pytest.mark.parametrize("rows", [1, 100, 4_096, 60_000])
def test_a_fit_has_room_and_one_step_more_has_not(window: int, variance: float, columns: list[int], rows: int) -> None:
    """In integers: what may be there neither wraps nor is rounded to another."""
    layout = plan_layout([Exact(each) for each in columns], window, SUM60_PACK.capacity_bits, 1, 1, variance)
    lanes = range(layout.lanes)
    most = max(largest(layout, lane, rows) for lane in lanes)
    found = fit(layout, lanes, min(rows, window), 200, DEGREE, MODULUS)
    assert all(largest(layout, lane, window) < MODULUS // 4 for lane in lanes), (
        "what the layout promised of a whole window"
    )
    if found is None:
        fresh = 4 * noise(min(rows, window), variance)  # the least factor that 2 levels have is 1
        assert 4 * most + 2 * fresh >= MODULUS or switch_noise(DEGREE, 2) + fresh >= 4 << (layout.guard - 1) or rows > 1
        return
    off = noise_of(layout, found, min(rows, window), DEGREE)
    assert found.factor * largest_of(layout, lanes, min(rows, window)) + 2 * off < MODULUS
    assert off < found.factor << (layout.guard - 1)


def largest_of(layout: object, lanes: range, rows: int) -> int:
    return max(largest(layout, lane, rows) for lane in lanes)  # type: ignore[arg-type]


@pytest.mark.parametrize("variance", [10.5, public_variance(DEGREE)])
@pytest.mark.parametrize("window", [8_192, SCAN_ROWS])
@pytest.mark.parametrize("chunks", [1, 128])
def test_a_sum_that_is_off_by_one_shows_in_the_check(variance: float, window: int, chunks: int) -> None:
    """However the rows that one call may select are spread over groups, and whatever their weights."""
    lanes = plan_lanes([Exact(1_000)], window, SUM60_PACK, variance)
    room = packed.Room(lanes, DEGREE, MODULUS)
    most = packed.most_rows(room, chunks)
    assert most > 100
    weighted = float(most * packed.WEIGHTS.stop**2)
    allowed = packed.agreement(room, weighted, chunks, limits.MAX_PACKING_LEVELS)
    assert packed.WEIGHTS.start << lanes.layout.guard > 2 * allowed


@pytest.mark.parametrize("levels", [2, 6, 7])
def test_what_packing_adds_stays_within_its_bound(key: SecretKey, levels: int) -> None:
    """Of numbers that stand all over the modulus; and the bound is not a wild one."""
    ring, cipher = seal.ring(SUM60_PACK.name), Cipher(key)
    rng = np.random.default_rng(levels)
    count, extreme = (1 << levels) - 1, MODULUS // 2
    whole = rng.integers(-extreme, extreme, (count, DEGREE))
    whole[: count // 2, 0] = rng.choice([-extreme, extreme, 0, -1], count // 2)
    made = cipher.encrypt(whole)
    packer = Packer(ring, PackingKey(ring, cipher.packing_key(levels), levels))
    shifts = [int(each) for each in rng.integers(0, levels + 1, count)]
    before = cipher.decrypt(made)[:, 0]
    together = [ring.ciphertext(each) for each in made]
    for each in together:
        if not each.is_ntt_form():
            ring.evaluator.transform_to_ntt_inplace(each)
    file = packer.file(packer.pack(together, shifts))
    after = numbers(cipher.decrypt([file]), count, Packing(levels, 0))
    off = [
        (int(found) - (int(value) << (levels - shift)) + extreme) % MODULUS - extreme
        for found, value, shift in zip(after, before, shifts, strict=True)
    ]
    worst, bound = max(map(abs, off)), switch_noise(DEGREE, levels)
    assert worst < bound
    if levels > 2:
        assert worst > bound / 20


def _asked(rows: Rows, numbers_: NDArray[np.int32], groups: int) -> Question:
    (found,) = [each for each in packing.cuts(rows, numbers_, groups) if each[1]]
    return question(found[0], packing=found[1])


@pytest.fixture(scope="module")
def sound(key: SecretKey) -> tuple[Rows, Question, Totals]:
    rows = _rows(key, "random", 9_000)
    asked = _asked(rows, (np.arange(9_000) % 21).astype(np.int32), 20)
    return rows, asked, packing.answer(rows, asked)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_what_a_service_does_wrong_is_found(sound: tuple[Rows, Question, Totals], fault: str) -> None:
    rows, asked, _ = sound
    rng = random.Random(fault)
    for _ in range(TIMES):
        with pytest.raises(CheckFailed):
            rows.scanned().accept(asked, packing.answer(rows, asked, sums=Faulty(rows, asked, fault, rng)))


def test_one_row_that_is_left_out_shows(key: SecretKey) -> None:
    """Where all values are 1, and as many rows are selected as one call may select."""
    rows = _rows(key, "largest", 60_000, [1])
    most = min(60_000, packed.most_rows(packing.room(rows), 8))
    numbers_ = (np.arange(60_000) % 40 + 1).astype(np.int32)
    numbers_[most:] = 0
    asked = _asked(rows, numbers_, 40)

    class OneLess(Faulty):
        def _masks(self, chunk: object) -> tuple[list[int], list[object]]:
            results, masks = super()._masks(chunk)  # type: ignore[arg-type]
            if chunk.place == 0:  # type: ignore[attr-defined]
                without = chunk.numbers == 1  # type: ignore[attr-defined]
                without[np.flatnonzero(without)[3]] = False
                masks[results.index(1)] = self._evaluator.masks([selected_mask(DEGREE, without)])[0]  # type: ignore[list-item]
            return results, masks

    rows.scanned().accept(asked, packing.answer(rows, asked))
    with pytest.raises(CheckFailed, match="do not agree"):
        rows.scanned().accept(asked, packing.answer(rows, asked, sums=OneLess(rows, asked, "", random.Random(1))))


def test_what_happens_to_an_answer_is_found(sound: tuple[Rows, Question, Totals], other_key: SecretKey) -> None:
    rows, asked, answer = sound
    assert asked.packing
    rows.scanned().accept(asked, answer)
    ring = rows.cipher.ring
    rng = random.Random(3)

    def changed(at: tuple[int, int], add: int) -> Totals:
        """One residue of a polynomial is another."""
        polynomials = ring._polynomials(ring.ciphertext(answer[0][0])).copy()
        polynomials[at] = (int(polynomials[at]) + add) % ring.modulus
        return [[ring._ciphertext_file(polynomials, ntt_form=False), *answer[0][1:]]]

    step = DEGREE >> asked.packing.levels
    for _ in range(TIMES):
        with pytest.raises(CheckFailed):  # garbage everywhere
            rows.scanned().accept(asked, changed((1, rng.randrange(DEGREE)), rng.randrange(1, ring.modulus)))
        with pytest.raises(CheckFailed):  # one number is another, or an empty place is not
            rows.scanned().accept(asked, changed((0, step * rng.randrange(1 << asked.packing.levels)), 1 << 45))
    with pytest.raises(CheckFailed, match="not empty"):
        rows.scanned().accept(asked, changed((0, DEGREE - step), 1 << 40))
    with pytest.raises(CheckFailed):
        rows.scanned(other_key).accept(asked, answer)
    for other in ([], [[]], [answer[0] * 2], [answer[0], answer[0]]):
        with pytest.raises(CheckFailed, match="results"):
            rows.scanned().accept(asked, other)
    with pytest.raises(CheckFailed, match="not a ciphertext"):
        rows.scanned().accept(asked, [[b"x"]])
    again = replace(asked, label="0" * 32)
    with pytest.raises(CheckFailed, match="do not agree"):
        rows.scanned().accept(again, answer)


def test_sums_without_room_are_found(key: SecretKey) -> None:
    """What `fit` is for: multiplied more often than there is room for, they wrap."""
    rows = _rows(key, "largest", 16_000)
    asked = _asked(rows, (np.arange(16_000) % 6).astype(np.int32), 5)
    rows.scanned().accept(asked, packing.answer(rows, asked))
    assert asked.packing
    tight = replace(asked, packing=replace(asked.packing, levels=8, shift=0))
    assert asked.packing != tight.packing
    with pytest.raises(CheckFailed):
        rows.scanned().accept(tight, packing.answer(rows, tight))
    noisy = replace(asked, packing=replace(asked.packing, levels=8, shift=8))
    with pytest.raises(CheckFailed):
        rows.scanned().accept(noisy, packing.answer(rows, noisy))


def test_a_sum_between_two_integers_is_found() -> None:
    layout = plan_layout([Exact(1_000)], SCAN_ROWS, SUM60_PACK.capacity_bits, 1, 1)
    packing_, one = Packing(4, 0), np.array([1], np.int64)
    step = packing_.factor << layout.guard
    for off in (0, int(noise_of(layout, packing_, 1, DEGREE)), -int(noise_of(layout, packing_, 1, DEGREE))):
        found = sums(np.array([7 * step + off]), one, layout, packing_, DEGREE, MODULUS)
        assert found.tolist() == [7 << layout.guard]
    for off in (int(noise_of(layout, packing_, 1, DEGREE)) + 2, step // 2, -step // 3):
        with pytest.raises(CheckFailed, match="not an integer"):
            sums(np.array([7 * step + off]), one, layout, packing_, DEGREE, MODULUS)


def test_a_key_that_is_not_the_one_is_refused_or_found(
    sound: tuple[Rows, Question, Totals], other_key: SecretKey
) -> None:
    rows, asked, _ = sound
    ring, own = rows.cipher.ring, packing.key_of(rows)
    flipped = bytearray(own)
    flipped[len(own) // 2] ^= 4
    harms: list[tuple[bytes, type[Exception]]] = [
        (Cipher(other_key).packing_key(limits.MAX_PACKING_LEVELS), CheckFailed),
        (bytes(flipped), CheckFailed),
        (own[:-1], WireError),
        (b"", WireError),
        (seal.save(ring.plaintexts([np.ones(DEGREE, np.int64)])[0]), WireError),
        (rows.cipher.packing_key(2), WireError),
        (bytes(limits.MAX_KEY_BYTES + 1), WireError),
        (_of_other_parameters(), WireError),
    ]
    for content, error in harms:
        with pytest.raises(error):
            rows.scanned().accept(asked, packing.answer(rows, asked, key=content))


def _of_other_parameters() -> bytes:
    parameters = seal.api.EncryptionParameters(seal.api.SCHEME_TYPE.CKKS)
    parameters.set_poly_modulus_degree(DEGREE)
    parameters.set_coeff_modulus(seal.api.CoeffModulus.Create(DEGREE, [60, 50, 60]))
    context = seal.api.SEALContext(parameters, True, seal.api.SEC_LEVEL_TYPE.TC128)
    return seal.save(seal.api.KeyGenerator(context).create_galois_keys(elements(limits.MAX_PACKING_LEVELS)))


def test_the_key_does_not_hold_the_secret(key: SecretKey) -> None:
    secret = zstandard.ZstdDecompressor().decompressobj().decompress(key.secret[16:])[-2 * 8 * DEGREE :]
    made = seal.restore(seal.api.GaloisKeys(), Cipher(key).ring.context, Cipher(key).packing_key(3))
    content = seal.inside(seal.save(made), 1 << 24)
    pieces = [secret[at : at + 32] for at in range(0, len(secret), 32)]
    assert len(set(pieces)) > len(pieces) // 2
    assert not any(piece in content for piece in pieces[:: max(1, len(pieces) // 200)])


def test_no_ciphertext_is_without_an_empty_place() -> None:
    for levels in range(1, limits.MAX_PACKING_LEVELS + 1):
        for results in (1, (1 << levels) - 1, 1 << levels, 300):
            places = ciphertexts(results, levels) << levels
            assert places - results >= ciphertexts(results, levels)
