"""Masks (integer polynomials) and their products with ciphertexts, in less than half the time of SealEvaluator.

SEAL encodes integer polynomials for BFV only; products of transformed polynomials are the same in every scheme. So
ciphertexts are multiplied in a BFV context of the same ring: same N, same primes, same transform. Input and output are
files of the CKKS profile, which differ from BFV's in the parameters' id only. Nothing is encrypted, decrypted or
rescaled: a ciphertext is multiplied by an integer polynomial modulo X^N + 1 and q (docs/ckks.md section 1).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import zstandard

from cleave_shared import seal
from cleave_shared.errors import WireError
from cleave_shared.moments import Polynomial

_PARMS = struct.Struct("<4Q")  # a ciphertext's first field: the parameters' id
_FILE_BYTES = 1 << 18  # of a ciphertext in any form
_PLAIN_BITS = 20  # a mask's coefficients are below 2^19 in magnitude; BFV accepts these as a plaintext


class MaskEvaluator(seal.SealEvaluator):
    """The evaluator for scans (its protocol is in cleave_services.sensitive.evaluate)."""

    def __init__(self, of: seal.Ring) -> None:
        super().__init__(of)
        parameters = seal.api.EncryptionParameters(seal.api.SCHEME_TYPE.BFV)
        parameters.set_poly_modulus_degree(of.degree)
        parameters.set_coeff_modulus(seal.api.CoeffModulus.Create(of.degree, list(of.profile.prime_bits)))
        parameters.set_plain_modulus(seal.api.Modulus(1 << _PLAIN_BITS))
        self._context = seal.api.SEALContext(parameters, True, seal.api.SEC_LEVEL_TYPE.TC128)
        if not self._context.parameters_set() or parameters.coeff_modulus()[0].value() != of.modulus:
            raise ValueError(f"profile {of.profile.name}: SEAL has no BFV context of its ring")
        self._evaluator = seal.api.Evaluator(self._context)
        self._bfv = _PARMS.pack(*self._context.first_parms_id())
        self._ckks = _PARMS.pack(*of.context.first_parms_id())
        head = seal.PLAINTEXT.pack(0, 0, 0, 0, of.degree, 1.0)
        self._file = bytearray(seal.wrapped(head, seal.array_file(np.zeros(of.degree, np.uint64))))
        self._residues = np.frombuffer(self._file, np.int64)[-of.degree :]  # reused for each mask

    def __reduce__(self) -> Any:
        return mask_evaluator, (self._ring.profile.name,)

    def load(self, blob: bytes | memoryview) -> Any:
        """A ciphertext of the profile. Raises WireError."""
        refused = WireError(f"not a ciphertext of profile {self._ring.profile.name}")
        try:
            inside = seal.inside(blob, _FILE_BYTES)
            if inside[: _PARMS.size] != self._ckks:
                raise refused
            file = seal.wrapped(self._bfv, inside[_PARMS.size :])
            ciphertext = seal.restore(seal.api.Ciphertext(), self._context, file)
        except (RuntimeError, ValueError, IndexError, struct.error, zstandard.ZstdError):
            raise refused from None
        if ciphertext.size() != 2 or ciphertext.scale != 1.0:
            raise refused
        if ciphertext.is_transparent():
            raise WireError("a ciphertext is transparent: its second polynomial is zero, and anyone can read it")
        return ciphertext

    def masks(self, polynomials: Sequence[Polynomial]) -> list[Any]:
        return [self._mask(each) for each in polynomials]

    def dump(self, ciphertext: Any, coefficients: int) -> bytes:
        if coefficients > 1 and ciphertext.is_ntt_form():
            self._evaluator.transform_from_ntt_inplace(ciphertext)
        return self._ring.truncated(ciphertext, coefficients)

    def _mask(self, polynomial: Polynomial) -> Any:
        largest = 1 << (_PLAIN_BITS - 1)
        if polynomial.max() >= largest or polynomial.min() <= -largest:
            raise ValueError("a mask's coefficients are too large")
        np.bitwise_and(polynomial, (1 << _PLAIN_BITS) - 1, out=self._residues)  # adds 2^20 to negative coefficients
        mask = seal.restore(seal.api.Plaintext(), self._context, self._file)
        self._evaluator.transform_to_ntt_inplace(mask, self._context.first_parms_id())
        return mask


@lru_cache(maxsize=1)
def mask_evaluator(profile: str) -> MaskEvaluator:
    """Raises WireError for an unknown profile. Made once per process and inherited by its workers."""
    return MaskEvaluator(seal.ring(profile))
