"""Encryptions of zero with a message added: they must be what SEAL itself would have made."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cleave.ckks.cipher import Cipher, Form
from cleave.ckks.secret_key import SecretKey
from cleave_shared import seal
from cleave_shared.errors import WireError

N = 8192
FORMS: list[Form] = ["coefficients", "ntt"]


def polynomials(count: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    found = np.random.default_rng(5).integers(-(2**58), 2**58, (count, N))
    found[:, :3] = (2**58, -(2**58), 0)
    return found


class Given:
    """Zeros out of memory."""

    def __init__(self, zeros: list[bytes]) -> None:
        self.zeros = zeros

    def take(self, _form: Form, count: int) -> list[memoryview]:
        taken, self.zeros = self.zeros[:count], self.zeros[count:]
        return list(map(memoryview, taken))

    def told(self) -> bytes:
        return b""


@pytest.mark.parametrize("form", FORMS)
def test_what_is_made_of_a_zero_is_what_seal_adds_up(key: SecretKey, form: Form) -> None:
    """To the bit: SEAL's own add_plain of its own transform."""
    cipher = Cipher(key)
    (zero,) = cipher.fresh(form, 1)
    (message,) = polynomials(1)
    ring = cipher.ring
    encrypt = Cipher(key, Given([zero])).encrypt if form == "ntt" else Cipher(key, Given([zero])).encrypt_to_add
    (blob,) = encrypt(message[None])
    bare = ring.ciphertext(ring.seeded(zero, np.zeros(N, np.uint64), ntt_form=form == "ntt"))
    if form == "coefficients":
        ring.evaluator.transform_to_ntt_inplace(bare)
    ring.evaluator.add_plain_inplace(bare, ring.plaintexts([message])[0])
    ours = ring.ciphertext(blob)
    assert ours.is_ntt_form() == (form == "ntt")
    if form == "coefficients":
        ring.evaluator.transform_to_ntt_inplace(ours)
    assert seal.save(ours) == seal.save(bare)


@pytest.mark.parametrize("form", FORMS)
def test_noise_and_size_are_those_of_any_ciphertext(key: SecretKey, form: Form) -> None:
    cipher = Cipher(key)
    sent = polynomials(6)
    warm = Cipher(key, Given(cipher.fresh(form, 4)))  # and two of them fresh
    blobs = warm.encrypt(sent) if form == "ntt" else warm.encrypt_to_add(sent)
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
    total, *others = map(evaluator.load, cipher.encrypt_to_add(sent))
    for each in others:
        total = evaluator.add(total, each)
    assert np.abs(cipher.decrypt([evaluator.dump(total, N)]) - sent.sum(axis=0)).max() < 13.37 * (10.5 * 9) ** 0.5


def test_the_two_forms_are_never_added(key: SecretKey) -> None:
    cipher, evaluator = Cipher(key), seal.SealEvaluator(seal.ring(key.profile.name))
    sent = polynomials(1)
    total, other = evaluator.load(*cipher.encrypt(sent)), evaluator.load(*cipher.encrypt_to_add(sent))
    with pytest.raises(WireError, match="not all of one form"):
        evaluator.add(total, other)


def test_another_key_reads_nothing(key: SecretKey, other_key: SecretKey) -> None:
    blobs = Cipher(key).encrypt_to_add(np.zeros((1, N), np.int64))
    assert np.abs(Cipher(other_key).decrypt(blobs)).max() > 2**50


@pytest.mark.parametrize("cut", [0, 1, 81, 40_000])
def test_what_is_no_zero_is_refused(key: SecretKey, cut: int) -> None:
    cipher = Cipher(key)
    (zero,) = cipher.fresh("ntt", 1)
    values = np.zeros(N, np.uint64)
    for blob, ntt_form in ((zero[cut:], False), (zero[:-1], True), (zero + b"x", True)):
        with pytest.raises(ValueError, match="not a seeded ciphertext"):
            cipher.ring.seeded(blob, values, ntt_form=ntt_form)
