"""Products by way of BFV's context are those of CKKS's, to the last residue; what is no ciphertext is refused."""

from __future__ import annotations

import random

import numpy as np
import pytest

from cleave.ckks.cipher import Cipher
from cleave.ckks.secret_key import SecretKey
from cleave_shared import seal
from cleave_shared.errors import WireError
from cleave_shared.masking import mask_evaluator
from cleave_shared.seal import SealEvaluator, ring


def _files(key: SecretKey, count: int) -> list[bytes]:
    values = np.random.default_rng(count).integers(-(1 << 58), 1 << 58, (count, key.profile.degree))
    return Cipher(key).encrypt(values)


def test_products_and_sums_are_the_same(key: SecretKey) -> None:
    name, degree = key.profile.name, key.profile.degree
    rng = np.random.default_rng(5)
    polynomials = [
        rng.integers(-(1 << 18), 1 << 18, degree),
        rng.integers(-1, 2, degree),
        np.eye(1, degree, 7, np.int64)[0],
    ]
    first, second = _files(key, 2)
    results = []
    for evaluator in (SealEvaluator(ring(name)), mask_evaluator(name)):
        masks = evaluator.masks(polynomials)
        total = evaluator.multiply(evaluator.load(first), masks[0])
        total = evaluator.add(total, evaluator.multiply(evaluator.load(second), masks[1]))
        total = evaluator.add(total, evaluator.multiply(evaluator.load(second), masks[2]))
        once = evaluator.dump(total, 1)
        again = evaluator.dump(evaluator.add(evaluator.load(once), evaluator.load(once)), 1)
        results.append([ring(name)._polynomials(ring(name).ciphertext(file)) for file in (once, again)])
    assert all((one == other).all() for one, other in zip(*results, strict=True))


def test_coefficient_0_alone_of_a_phase_is_kept(key: SecretKey) -> None:
    of, (file,) = ring(key.profile.name), _files(key, 1)
    for evaluator in (SealEvaluator(of), mask_evaluator(key.profile.name)):
        kept = of._polynomials(of.ciphertext(evaluator.dump(evaluator.load(file), 1)))
        first, second = of._polynomials(of.ciphertext(file))
        (constant,), (whole,) = of.inverse_ntt(kept[:1]), of.inverse_ntt(first[None])
        assert constant[0] == whole[0] == of.constant(first)
        assert not constant[1:].any()
        assert (kept[1] == second).all()


def test_a_mask_is_within_what_bfv_takes(key: SecretKey) -> None:
    with pytest.raises(ValueError, match="too large"):
        mask_evaluator(key.profile.name).masks([np.full(key.profile.degree, 1 << 19)])


def test_what_is_no_ciphertext_is_refused(key: SecretKey) -> None:
    evaluator, rng = mask_evaluator(key.profile.name), random.Random(1)
    (file,) = _files(key, 1)
    bomb = seal.wrapped(bytes(1 << 24), compress=True)
    for hostile in (b"", file[:-1], file + b"x", b"x" * len(file), bomb, seal.save(seal.api.Plaintext())):
        with pytest.raises(WireError):
            evaluator.load(hostile)
    for _ in range(50):
        damaged = bytearray(file)
        damaged[rng.randrange(200)] ^= 1 << rng.randrange(8)
        try:
            evaluator.multiply(
                evaluator.load(bytes(damaged)), evaluator.masks([np.ones(key.profile.degree, np.int64)])[0]
            )
        except WireError:
            continue
