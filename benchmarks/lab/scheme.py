"""Throw-away keys for one set of CKKS parameters, through SEAL: nothing is ever encrypted for anybody under them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from cleave_shared import seal
from cleave_shared.params import CLASSICAL_2024

FILE_BYTES = 1 << 24  # of a ciphertext or plaintext of any ring here


class Scheme:
    """Encrypts, evaluates and decrypts in `context`; what takes long to make is made when it is first used."""

    def __init__(self, context: Any) -> None:
        self.context = context
        self.evaluator = seal.api.Evaluator(context)
        self._generator = seal.api.KeyGenerator(context)
        secret = self._generator.secret_key()
        self.symmetric = seal.api.Encryptor(context, secret)
        self.decryptor = seal.api.Decryptor(context, secret)

    @cached_property
    def public(self) -> Any:
        key = seal.api.PublicKey()
        self._generator.create_public_key(key)
        return seal.api.Encryptor(self.context, key)

    @cached_property
    def relinearisation(self) -> Any:
        keys = seal.api.RelinKeys()
        self._generator.create_relin_keys(keys)
        return keys

    def galois(self, elements: list[int]) -> Any:
        keys = seal.api.GaloisKeys()
        self._generator.create_galois_keys(elements, keys)
        return keys

    def encrypted(self, plaintext: Any) -> Any:
        ciphertext = seal.api.Ciphertext()
        self.symmetric.encrypt_symmetric(plaintext, ciphertext)
        return ciphertext

    def seeded(self, plaintext: Any) -> Any:
        return self.symmetric.encrypt_symmetric(plaintext)  # without a target: half of it is a seed

    def publicly_encrypted(self, plaintext: Any) -> Any:
        ciphertext = seal.api.Ciphertext()
        self.public.encrypt(plaintext, ciphertext)
        return ciphertext

    def decrypted(self, ciphertext: Any) -> Any:
        plaintext = seal.api.Plaintext()
        self.decryptor.decrypt(ciphertext, plaintext)
        return plaintext

    def loaded(self, blob: bytes) -> Any:
        return seal.restore(seal.api.Ciphertext(), self.context, blob)


def context_of(degree: int, prime_bits: tuple[int, ...]) -> Any:
    """SEAL's objects for parameters that need not be a profile. Raises ValueError below 128-bit security."""
    if sum(prime_bits) > CLASSICAL_2024[degree]:
        raise ValueError(f"{sum(prime_bits)} modulus bits at N = {degree} are not 128-bit secure")
    parameters = seal.api.EncryptionParameters(seal.api.SCHEME_TYPE.CKKS)
    parameters.set_poly_modulus_degree(degree)
    parameters.set_coeff_modulus(seal.api.CoeffModulus.Create(degree, list(prime_bits)))
    return seal.api.SEALContext(parameters, True, seal.api.SEC_LEVEL_TYPE.TC128)


def into(operation: Callable[..., None], *operands: Any) -> Any:
    """What SEAL writes into a new ciphertext."""
    result = seal.api.Ciphertext()
    operation(*operands, result)
    return result


def in_place(operation: Callable[..., None], ciphertext: Any, *others: Any) -> Any:
    operation(ciphertext, *others)
    return ciphertext


def expanded(ciphertext: Any) -> bytes:
    """Its file with both polynomials in full and nothing compressed: what is read more than once is kept so."""
    return seal.wrapped(seal.inside(seal.save(ciphertext), FILE_BYTES))
