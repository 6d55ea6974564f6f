"""Polynomials modulo X^N + 1 and a product of primes. SEAL does the arithmetic and draws the noise, through TenSEAL."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cleave_shared import seal

_HEAD = struct.Struct("<4Q?3QdQ")  # parms_id, NTT form, polynomials, N, primes, scale, correction factor
_ARRAY = 24  # bytes of an array's own header and length
_PRIME_BITS = 60
_RANDOM_BYTES = 1 << 17  # twice what 8,192 residues need: few numbers of 60 bits are not below the prime

Polynomial = NDArray[np.uint64]  # (primes, N) residues in NTT form


def context_of(degree: int, moduli: Sequence[Any]) -> Any:
    """SEAL's context over the primes, the special one last. Raises ValueError below 128 bits of security."""
    parameters = seal.api.EncryptionParameters(seal.api.SCHEME_TYPE.CKKS)
    parameters.set_poly_modulus_degree(degree)
    parameters.set_coeff_modulus(list(moduli))
    context = seal.api.SEALContext(parameters, True, seal.api.SEC_LEVEL_TYPE.TC128)
    if not context.parameters_set():
        raise ValueError("SEAL refuses the parameters")
    return context


class Arithmetic:
    """Operations on polynomials over `moduli`, SEAL's Modulus objects.

    SEAL evaluates below the key level only, so `above` is one more prime, for that level. A parms_id depends on the
    level's primes only: files fit every other context that has a level with the same primes.
    """

    def __init__(self, degree: int, moduli: Sequence[Any], above: Any) -> None:
        self.context = context_of(degree, [*moduli, above])
        self.degree = degree
        self.primes = [each.value() for each in moduli]
        self.evaluator = seal.api.Evaluator(self.context)
        self._shape = (len(self.primes), degree)
        self._one = np.ones(self._shape, np.uint64)
        self._id = self.context.first_parms_id()
        throwaway = seal.api.KeyGenerator(self.context).secret_key()  # its encryptions of zero yield noise
        self._zeros = seal.api.Encryptor(self.context, throwaway)
        self._reader = seal.api.Decryptor(self.context, throwaway)

    def ciphertext_file(self, *polynomials: Polynomial, ntt_form: bool = True) -> bytes:
        head = _HEAD.pack(*self._id, ntt_form, len(polynomials), self.degree, len(self.primes), 1.0, 1)
        return seal.wrapped(head, seal.array_file(np.concatenate(polynomials).reshape(-1)))

    def plaintext_file(self, polynomial: Polynomial) -> bytes:
        head = seal.PLAINTEXT.pack(*self._id, polynomial.size, 1.0)
        return seal.wrapped(head, seal.array_file(polynomial.reshape(-1)))

    def ciphertext(self, *polynomials: Polynomial, ntt_form: bool = True) -> Any:
        return seal.restore(seal.api.Ciphertext(), self.context, self.ciphertext_file(*polynomials, ntt_form=ntt_form))

    def polynomials(self, ciphertext: Any) -> NDArray[np.uint64]:
        """(polynomials, primes, N)"""
        shape = (ciphertext.size(), *self._shape)
        head = _HEAD.size + _ARRAY
        inside = seal.inside(seal.save(ciphertext), head + 8 * int(np.prod(shape)))
        return np.frombuffer(inside, np.uint64, -1, head).reshape(shape)

    def add(self, first: Polynomial, *others: Polynomial) -> Polynomial:
        total = self.ciphertext(first, self._one)  # SEAL refuses a second polynomial of zeros
        for each in others:
            self.evaluator.add_inplace(total, self.ciphertext(each, self._one))
        return self.polynomials(total)[0]

    def negate(self, polynomial: Polynomial) -> Polynomial:
        return self._by(self.evaluator.negate_inplace, polynomial)

    def multiply(self, one: Polynomial, other: Polynomial) -> Polynomial:
        factor = seal.restore(seal.api.Plaintext(), self.context, self.plaintext_file(other))
        return self._by(lambda ciphertext: self.evaluator.multiply_plain_inplace(ciphertext, factor), one)

    def of_integers(self, coefficients: Sequence[int]) -> Polynomial:
        residues = np.array([[each % prime for each in coefficients] for prime in self.primes], np.uint64)
        return self._by(self.evaluator.transform_to_ntt_inplace, residues, ntt_form=False)

    def integers(self, polynomial: Polynomial) -> list[int]:
        """The N coefficients, each nearest to 0 (Chinese remainder theorem)."""
        whole = 1
        found = [0] * self.degree
        for prime, residues in zip(
            self.primes, self._by(self.evaluator.transform_from_ntt_inplace, polynomial).tolist(), strict=True
        ):
            inverse = pow(whole, -1, prime)
            found = [low + whole * ((new - low) * inverse % prime) for low, new in zip(found, residues, strict=True)]
            whole *= prime
        return [each - whole if each > whole // 2 else each for each in found]

    def noise(self) -> Polynomial:
        """Fresh noise of SEAL's sampler: the decryption of an encryption of zero."""
        zero, noise = seal.api.Ciphertext(), seal.api.Plaintext()
        self._zeros.encrypt_zero_symmetric(zero)
        self._reader.decrypt(zero, noise)
        return seal.plaintext_values(noise).reshape(self._shape)

    def secret(self) -> Polynomial:
        """A fresh ternary secret of SEAL's key generator."""
        values = seal.plaintext_values(seal.api.KeyGenerator(self.context).secret_key())
        return values.reshape(-1, self.degree)[: len(self.primes)]

    def uniform(self, seed: bytes) -> Polynomial:
        """A public polynomial that everyone derives from the seed: SHAKE-256, without numbers that are no residue."""
        rows = []
        for at, prime in enumerate(self.primes):
            numbers = np.frombuffer(hashlib.shake_256(seed + bytes([at])).digest(_RANDOM_BYTES), np.uint64)
            numbers = numbers >> np.uint64(64 - _PRIME_BITS)
            rows.append(numbers[numbers < prime][: self.degree])
        return np.stack(rows)

    def _by(self, operation: Callable[[Any], None], polynomial: Polynomial, *, ntt_form: bool = True) -> Polynomial:
        ciphertext = self.ciphertext(polynomial, self._one, ntt_form=ntt_form)
        operation(ciphertext)
        return self.polynomials(ciphertext)[0]
