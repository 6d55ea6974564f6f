"""Encryptions of zero with a message added: they must be what SEAL itself would have made."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cleave.ckks.cipher import Cipher
from cleave.ckks.secret_key import SecretKey
from cleave_shared import seal
from cleave_shared.errors import WireError

N = 8192


def polynomials(count: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    found = np.random.default_rng(5).integers(-(2**58), 2**58, (count, N))
    found[:, :3] = (2**58, -(2**58), 0)
    return found


def test_what_is_made_of_a_zero_is_what_seal_adds_up(key: SecretKey) -> None:
    """To the bit: SEAL's own add_plain of its own transform."""
    cipher = Cipher(key)
    (zero,) = cipher._encrypted_zeros(1)
    (message,) = polynomials(1)
    ring = cipher.ring
    bare = ring.ciphertext(ring.seeded(zero, np.zeros(N, np.int64)))
    ring.evaluator.transform_to_ntt_inplace(bare)
    ring.evaluator.add_plain_inplace(bare, ring.plaintexts([message])[0])
    ours = ring.ciphertext(ring.seeded(zero, message))
    assert not ours.is_ntt_form()
    ring.evaluator.transform_to_ntt_inplace(ours)
    assert seal.save(ours) == seal.save(bare)


@pytest.mark.parametrize("form", ["coefficients", "ntt"])
def test_noise_and_size_of_a_ciphertext(key: SecretKey, form: str) -> None:
    cipher = Cipher(key)
    sent = polynomials(6)
    blobs = cipher.encrypt(sent) if form == "ntt" else list(cipher.each_to_add(sent))
    errors = cipher.decrypt(blobs) - sent
    assert np.abs(errors).max() <= 21
    assert 9.9 < errors.var() < 11.1
    assert all(len(blob) / N < 8.05 for blob in blobs)
    seeds = {blob[-64:] for blob in blobs}
    assert len(seeds) == len(blobs)


def test_sums_of_coefficient_forms_are_sums(key: SecretKey) -> None:
    cipher, ring = Cipher(key), seal.ring(key.profile.name)
    sent = polynomials(9) >> 4
    evaluator = seal.SealEvaluator(ring)
    total, *others = map(evaluator.load, cipher.each_to_add(sent))
    for each in others:
        total = evaluator.add(total, each)
    assert np.abs(cipher.decrypt([evaluator.dump(total, N)]) - sent.sum(axis=0)).max() < 13.37 * (10.5 * 9) ** 0.5


def test_the_two_forms_are_never_added(key: SecretKey) -> None:
    cipher, evaluator = Cipher(key), seal.SealEvaluator(seal.ring(key.profile.name))
    sent = polynomials(1)
    total, other = evaluator.load(*cipher.encrypt(sent)), evaluator.load(*cipher.each_to_add(sent))
    with pytest.raises(WireError, match="have different forms"):
        evaluator.add(total, other)


def test_another_key_reads_nothing(key: SecretKey, other_key: SecretKey) -> None:
    blobs = list(Cipher(key).each_to_add(np.zeros((1, N), np.int64)))
    assert np.abs(Cipher(other_key).decrypt(blobs)).max() > 2**50


@pytest.mark.parametrize("cut", [0, 1, 81, 40_000])
def test_what_is_no_zero_is_refused(key: SecretKey, cut: int) -> None:
    cipher = Cipher(key)
    (zero,), values = cipher._encrypted_zeros(1), np.zeros(N, np.int64)
    for blob in (zero[cut:-1], zero[:-1], zero + b"x"):
        with pytest.raises(ValueError, match="not a seeded ciphertext"):
            cipher.ring.seeded(blob, values)
