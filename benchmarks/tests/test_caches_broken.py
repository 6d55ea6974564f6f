"""Why Cleave encrypts afresh: caching schemes that benchmarks/ measures give plaintexts to whoever sees ciphertexts.

Each attack is given ciphertexts and a few known plaintexts, as anyone has who guesses or contributes a row; no key.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.insecure import nemesis, rache
from cleave_shared import seal
from cleave_shared.params import SUM60_PACK

SLOTS = SUM60_PACK.degree // 2
Doubles = nemesis.Doubles


@pytest.fixture(scope="module")
def ring() -> seal.Ring:
    return seal.ring(SUM60_PACK.name)


@pytest.fixture(scope="module")
def keys(ring: seal.Ring) -> tuple[Any, Any]:
    """Encryptor, decryptor."""
    generator, public = seal.api.KeyGenerator(ring.context), seal.api.PublicKey()
    generator.create_public_key(public)
    secret = generator.secret_key()
    return seal.api.Encryptor(ring.context, public, secret), seal.api.Decryptor(ring.context, secret)


def made_by_nemesis(
    ring: seal.Ring, keys: tuple[Any, Any], cached: Doubles, *values: Doubles
) -> tuple[list[int], list[list[int]]]:
    """c1 of the cached ciphertext, and of one for each of the `values`."""
    scheme = nemesis.InsecureNemesis(ring, keys[0], cached, np.random.default_rng(5))
    made = [scheme.reconstruct(each) for each in values]
    for ciphertext in made:
        scheme.randomise(ciphertext)
    return nemesis.second(ring, scheme.base), [nemesis.second(ring, ciphertext) for ciphertext in made]


def test_two_nemesis_ciphertexts_give_the_plaintext(ring: seal.Ring, keys: tuple[Any, Any]) -> None:
    """The cached one and another: no plaintext of either is known."""
    random = np.random.default_rng(1)
    cached, secret = random.uniform(0.5, 2, SLOTS), random.normal(100, 30, SLOTS)
    base, (other,) = made_by_nemesis(ring, keys, cached, secret)
    assert np.abs(nemesis.ratios(ring, base, other) - secret / cached).max() < 1e-3


def test_two_nemesis_ciphertexts_and_one_known_plaintext_give_the_other(ring: seal.Ring, keys: tuple[Any, Any]) -> None:
    """The cached ciphertext is never seen."""
    random = np.random.default_rng(6)
    cached, known, secret = random.uniform(0.5, 2, SLOTS), random.normal(50, 10, SLOTS), random.normal(100, 30, SLOTS)
    base, (first, other) = made_by_nemesis(ring, keys, cached, known, secret)
    found = nemesis.base_of(ring, first, known, cached)
    assert found == base
    assert np.abs(nemesis.ratios(ring, found, other) * cached - secret).max() < 1e-2


def test_nemesis_tells_that_two_plaintexts_are_equal(ring: seal.Ring, keys: tuple[Any, Any]) -> None:
    random = np.random.default_rng(2)
    values = random.normal(50, 10, SLOTS)
    cached = random.uniform(0.5, 2, SLOTS)
    _, (first, again, different) = made_by_nemesis(ring, keys, cached, values, values, values + 1)
    assert first == again
    assert first != different


def test_rache_ciphertexts_of_known_values_give_every_other(ring: seal.Ring, keys: tuple[Any, Any]) -> None:
    random = np.random.default_rng(3)
    bits = 8
    scheme = rache.InsecureRache(ring, keys[0], bits, 1.0, 2.0**40, random)
    values = [int(value) for value in random.integers(1, 2**bits, 24)]
    made = [scheme.reconstruct(value) for value in values]
    for ciphertext in made:
        scheme.randomise(ciphertext)
    known = 20  # more than the nine cached ones, so that they span every other
    found = [rache.recovered(ring, made[:known], values[:known], each) for each in made[known:]]
    assert found == values[known:]


def test_what_a_used_up_pool_of_zeros_gives_is_not_broken_so(ring: seal.Ring, keys: tuple[Any, Any]) -> None:
    """The same attack on fresh encryptions finds nothing: it is the cache that leaks."""
    random = np.random.default_rng(4)
    encoder, cached = seal.api.CKKSEncoder(ring.context), np.ones(SLOTS)
    known, secret = random.normal(50, 10, SLOTS), random.normal(100, 30, SLOTS)
    made = []
    for values in (known, secret):
        zero = seal.api.Ciphertext()
        keys[0].encrypt_zero_symmetric(zero)
        zero.scale = nemesis.RATIO_SCALE
        ring.evaluator.add_plain_inplace(zero, nemesis.encoded(encoder, values, nemesis.RATIO_SCALE))
        made.append(nemesis.second(ring, zero))
    base = nemesis.base_of(ring, made[0], known, cached)
    assert np.abs(nemesis.ratios(ring, base, made[1]) - secret).max() > 1e3
