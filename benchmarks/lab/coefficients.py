"""The primitives of a profile of Cleave's, integers in coefficients, by the code that serves users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.lab.primitive import Family, Primitive
from benchmarks.lab.scheme import Scheme, expanded, in_place, into
from benchmarks.lab.services import services
from cleave.ckks.cipher import Cipher
from cleave.ckks.secret_key import fresh_key
from cleave_shared import seal
from cleave_shared.masking import MaskEvaluator
from cleave_shared.params import Profile

_LARGEST = 1 << 20
_FACTOR = 1 << 30  # of a product: well above what its noise is
NOISE = 1 << 11  # no fresh coefficient errs by more, nor does a masked sum
_PUBLIC_NOISE = NOISE << 3
_PRODUCT_NOISE = 1 << 38
_SEED = 13
_ELEMENT = 3  # of the Galois group: what SEAL rotates slots by one with
_TOGETHER = 2  # polynomials that are encoded as a pair

Integers = NDArray[np.int64]


def coefficients(profile: Profile) -> Family:
    """No rescale: a profile of one data prime has nothing to rescale to."""
    ring = seal.ring(profile.name)
    scheme, cipher, masking, evaluator = (
        Scheme(ring.context),
        Cipher(fresh_key(profile)),
        MaskEvaluator(ring),
        ring.evaluator,
    )
    random = np.random.default_rng(_SEED)
    pair = random.integers(-_LARGEST, _LARGEST, (_TOGETHER, ring.degree))
    x, y = pair
    constant = np.zeros(ring.degree, np.int64)
    constant[0] = _FACTOR  # a product with it can be told without a convolution
    third = ring.degree // 3
    mask = row_mask(ring.degree, 0, third)
    galois = scheme.galois([_ELEMENT])

    def encoded(polynomials: Integers) -> list[Any]:
        return list(cipher.plaintexts(polynomials))

    def decoded(plaintext: Any) -> Integers:
        (polynomial,) = ring.centred(ring.inverse_ntt(seal.plaintext_values(plaintext)[None]))
        return np.asarray(polynomial)

    def holds(wanted: Integers, noise: int = NOISE) -> Callable[[Any], bool]:
        return lambda ciphertext: bool((np.abs(decoded(scheme.decrypted(ciphertext)) - wanted) <= noise).all())

    def is_file(blob: bytes) -> bool:
        return holds(x)(ring.ciphertext(blob))

    def are_pair(files: list[bytes]) -> bool:
        return bool((np.abs(cipher.decrypt(files) - pair) <= NOISE).all())

    def sums_the_first_third(product: Any) -> bool:
        total = decoded(scheme.decrypted(in_ntt_form(ring.ciphertext(masking.dump(product, ring.degree)))))[0]
        return bool(abs(int(total) - int(x[:third].sum())) <= NOISE)

    def in_ntt_form(ciphertext: Any) -> Any:
        return in_place(evaluator.transform_to_ntt_inplace, ciphertext)

    p, q, c = *encoded(pair), *encoded(constant[None])
    a, b = scheme.encrypted(p), scheme.encrypted(q)
    times = scheme.encrypted(c)
    size_three = expanded(into(evaluator.multiply, a, times))
    seeded, whole, opened = seal.save(scheme.seeded(p)), expanded(a), scheme.decrypted(a)
    total = scheme.loaded(whole)  # grows for as long as "add" is timed

    def add(ciphertext: Any) -> Any:
        return in_place(evaluator.add_inplace, ciphertext, b)

    (picking,), stored = masking.masks([mask]), masking.load(whole)
    primitives = (
        Primitive(
            "encode",
            lambda: pair,
            encoded,
            lambda made: all((decoded(one) == wanted).all() for one, wanted in zip(made, pair, strict=True)),
            _TOGETHER,
        ),
        Primitive("encrypt, public key", lambda: p, scheme.publicly_encrypted, holds(x, _PUBLIC_NOISE)),
        Primitive("encrypt, symmetric", lambda: p, scheme.encrypted, holds(x)),
        Primitive("encrypt, seeded", lambda: p, scheme.seeded, lambda made: is_file(seal.save(made))),
        Primitive("load, seeded", lambda: seeded, ring.ciphertext, holds(x)),
        Primitive("load, expanded", lambda: whole, ring.ciphertext, holds(x)),
        Primitive("add", lambda: total, add, lambda _: holds(x + y)(add(scheme.loaded(whole)))),
        Primitive(
            "mask encode",
            lambda: [mask],
            masking.masks,
            lambda made: sums_the_first_third(masking.multiply(stored, made[0])),
        ),
        Primitive(
            "multiply by plaintext", lambda: stored, lambda d: masking.multiply(d, picking), sums_the_first_third
        ),
        Primitive(
            "multiply", lambda: a, lambda d: into(evaluator.multiply, d, times), holds(x * _FACTOR, _PRODUCT_NOISE)
        ),
        Primitive(
            "relinearise",
            lambda: scheme.loaded(size_three),
            lambda d: in_place(evaluator.relinearize_inplace, d, scheme.relinearisation),
            lambda d: d.size() == 2 and holds(x * _FACTOR, _PRODUCT_NOISE)(d),
        ),
        Primitive(
            "rotate",
            lambda: a,
            lambda d: into(evaluator.apply_galois, d, _ELEMENT, galois),
            holds(rotated(x), _PUBLIC_NOISE),
        ),
        Primitive("decrypt", lambda: a, scheme.decrypted, lambda got: bool((np.abs(decoded(got) - x) <= NOISE).all())),
        Primitive("decode", lambda: opened, decoded, lambda got: bool((np.abs(got - x) <= NOISE).all())),
        Primitive("save", lambda: a, seal.save, is_file),
        Primitive("save, seeded", lambda: scheme.seeded(p), seal.save, is_file),
        Primitive(
            "encrypt to be added", lambda: pair, lambda several: list(cipher.each_to_add(several)), are_pair, _TOGETHER
        ),
        *services(profile),
    )
    return Family(profile.name, profile.degree, profile.prime_bits, primitives)


def row_mask(degree: int, start: int, stop: int) -> Integers:
    """The polynomial that brings the sum of the coefficients `start` to `stop` to coefficient 0."""
    mask = np.zeros(degree, np.int64)
    mask[degree - np.arange(max(start, 1), stop)] = -1
    mask[0] = start == 0
    return mask


def rotated(polynomial: Integers) -> Integers:
    """X to X^_ELEMENT, modulo X^N + 1."""
    degree = len(polynomial)
    places = np.arange(degree) * _ELEMENT % (2 * degree)
    out = np.empty_like(polynomial)
    out[places % degree] = np.where(places < degree, polynomial, -polynomial)
    return out
