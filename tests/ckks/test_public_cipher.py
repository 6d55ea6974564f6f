"""Encryption with a public key: exact to within its own noise, 16 bytes a value, and read by the owner alone."""

from __future__ import annotations

import numpy as np
import pytest

from cleave.ckks.cipher import Cipher, PublicCipher, generate
from cleave.ckks.layout import noise, public_sum_variance, public_variance
from cleave.ckks.secret_key import SecretKey
from cleave.store.lanes import plan_lanes
from cleave_shared.errors import KeyFileError
from cleave_shared.params import SUM60_PACK

SECRET, PUBLIC = generate(SUM60_PACK)
OWNER = Cipher(SecretKey("0" * 32, SUM60_PACK, SECRET, b"m" * 32))
CONTRIBUTOR = PublicCipher(SUM60_PACK, PUBLIC, b"s" * 32)
COUNT = 40


@pytest.fixture(scope="module")
def errors() -> np.ndarray:
    sent = np.random.default_rng(7).integers(-(2**57), 2**57, (COUNT, SUM60_PACK.degree))
    files = CONTRIBUTOR.encrypt(sent)
    assert max(map(len, files)) <= 16.1 * SUM60_PACK.degree
    return OWNER.decrypt(files) - sent


def test_the_noise_is_that_of_rounding(errors: np.ndarray) -> None:
    """(1 + h) / 12 for a secret of h coefficients that are not 0, about two thirds of them."""
    assert errors.var() == pytest.approx((1 + 2 / 3 * SUM60_PACK.degree) / 12, rel=0.05)
    assert errors.var() < public_variance(SUM60_PACK.degree)
    assert np.abs(errors).max() < noise(1, CONTRIBUTOR.variance)


def test_the_owners_bounds_would_not_do(errors: np.ndarray) -> None:
    """Why guards of rows of contributors are wider: without it their values would not be told from damage."""
    assert np.abs(errors).max() > noise(1)
    assert np.abs(errors.sum(axis=0)).max() > noise(COUNT)
    assert np.abs(errors.sum(axis=0)).max() < noise(COUNT, CONTRIBUTOR.variance)


def test_sums_by_masks_stay_within_their_bound(errors: np.ndarray) -> None:
    """Also by masks that follow a root at which this secret is large, which independent noise would not notice."""
    degree = SUM60_PACK.degree
    at = np.arange(degree)
    roots = np.abs(np.fft.fft(errors * np.exp(1j * np.pi * at / degree)))  # at the odd powers, every ciphertext's own
    loud = int(roots.mean(axis=0).argmax())
    follows = np.cos(np.pi * at * (1 - 2 * loud) / degree) > 0
    sums = errors[:, follows].sum(axis=1)
    assert np.abs(sums).max() > 1.5 * np.sqrt(follows.sum() * errors.var()), "no such mask: the test shows nothing"
    for mask in (follows, ~follows, at % 2 == 0, at < degree // 2, np.ones(degree, bool)):
        within = noise(int(mask.sum()), public_sum_variance(degree))
        assert np.abs(errors[:, mask].sum(axis=1)).max() < within / 2
        assert abs(errors[:, mask].sum()) < noise(COUNT * int(mask.sum()), public_sum_variance(degree))


def test_guards_leave_room_for_a_window_of_it() -> None:
    owners, contributors = (
        plan_lanes([], 64, SUM60_PACK, variance).layout for variance in (OWNER.variance, CONTRIBUTOR.variance)
    )
    assert (owners.guard, contributors.guard) == (10, 13)
    assert 2 * noise(64, contributors.variance) <= 1 << contributors.guard


def test_the_same_values_are_never_the_same_ciphertext() -> None:
    assert len(set(CONTRIBUTOR.encrypt(np.zeros((8, SUM60_PACK.degree), np.int64)))) == 8


def test_another_owner_reads_noise() -> None:
    other = Cipher(SecretKey("1" * 32, SUM60_PACK, generate(SUM60_PACK)[0], b"m" * 32))
    found = other.decrypt(CONTRIBUTOR.encrypt(np.zeros((1, SUM60_PACK.degree), np.int64)))
    assert np.abs(found).mean() > 2**56


def test_sentinels_are_the_contributors_own() -> None:
    assert (CONTRIBUTOR.sentinels(b"a", 1) != OWNER.sentinels(b"a", 1)).any()
    assert (CONTRIBUTOR.sentinels(b"a", 1) != CONTRIBUTOR.sentinels(b"a", 2)).any()


@pytest.mark.parametrize("public", [b"", b"key", PUBLIC[:-1], PUBLIC + b"0", SECRET, bytes(len(PUBLIC))])
def test_what_is_no_public_key_is_told(public: bytes) -> None:
    with pytest.raises(KeyFileError, match="public key"):
        PublicCipher(SUM60_PACK, public, b"s" * 32)
