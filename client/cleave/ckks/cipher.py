"""CKKS encryption and decryption. Only this module and cleave.ckks.secret_key handle CKKS secret keys."""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cleave.ckks.secret_key import SecretKey, SharedKey
from cleave_shared import seal
from cleave_shared.errors import DAMAGED, CheckFailed, WireError
from cleave_shared.moments import SENTINELS
from cleave_shared.params import Profile

_TOGETHER = 8  # encryptions per batch: one by one, Python's and SEAL's code evict each other from the processor's cache


class Sentinels:
    """The secret values that identify a ciphertext: HMAC-SHA-256 under a key of 32 bytes."""

    def __init__(self, key: bytes) -> None:
        self._sentinel_key = key

    def sentinels(self, job: bytes, index: int) -> NDArray[np.int64]:
        """The SENTINELS secret 16-bit values of chunk `index` of a job."""
        digest = hmac.digest(self._sentinel_key, job + index.to_bytes(8, "big"), "sha256")
        return np.frombuffer(digest, np.uint16, SENTINELS).astype(np.int64)


class _Encoder(Sentinels):
    """Encodes integers as SEAL plaintexts."""

    def __init__(self, profile: Profile, sentinel_key: bytes) -> None:
        super().__init__(sentinel_key)
        self.ring = seal.ring(profile.name)
        # decrypting (a, b - a) with s = 0 gives a, with s = 1 gives b: a way to make SEAL plaintexts from given values
        self._first, self._second = (
            seal.api.Decryptor(self.ring.context, self.ring.constant_key(seal.api.SecretKey(), value))
            for value in (0, 1)
        )

    def plaintexts(self, polynomials: NDArray[np.int64]) -> Iterator[Any]:
        """Yield SEAL plaintexts in NTT form. Two polynomials a and b are transformed as a ciphertext (a, b - a), and
        read by decrypting it.

        That takes half the time of transforming, saving and loading each (docs/ckks.md section 1).
        """
        pair = np.empty((2, self.ring.degree), np.int64)
        for start in range(0, len(polynomials), 2):
            pair[0] = polynomials[start]
            last = start + 1 == len(polynomials)
            np.subtract(polynomials[start if last else start + 1], pair[0], out=pair[1])
            alone = last or not pair[1].any()
            if alone:  # SEAL refuses a ciphertext whose second polynomial is zero
                pair[1, 0] = 1
            ciphertext = self.ring.transformed(self.ring.residues(pair))
            for decryptor in (self._first,) if last else (self._first, self._first if alone else self._second):
                plaintext = seal.api.Plaintext()
                decryptor.decrypt(ciphertext, plaintext)
                yield plaintext


class Cipher(_Encoder):
    """Encrypts and decrypts under one secret key. It is never pickled."""

    def __init__(self, key: SecretKey) -> None:
        super().__init__(key.profile, key.derive("sentinel"))
        self._key = key
        secret = seal.api.SecretKey()
        try:
            seal.restore(secret, self.ring.context, key.secret)
        except (RuntimeError, ValueError, IndexError):
            raise CheckFailed("stored", "a CKKS secret is no key of its profile", hint=DAMAGED) from None
        self._encryptor = seal.api.Encryptor(self.ring.context, secret)
        self._decryptor = seal.api.Decryptor(self.ring.context, secret)

    @classmethod
    def from_shared(cls, key: SharedKey) -> Cipher:
        """The cipher of a key from `shared`, in a worker process."""
        return cls(SecretKey.from_shared(key))

    @property
    def shared(self) -> SharedKey:
        """The key, for workers of this process only."""
        return self._key.shared

    def encrypt(self, polynomials: NDArray[np.int64]) -> list[bytes]:
        """Seeded symmetric ciphertexts, one per row of `polynomials` (k, N), with 8 bytes per coefficient.

        Coefficients must be below q/2 in magnitude. Encoding is exact.
        """
        # without a target SEAL returns the serialisable form, whose second half is a 64-byte seed
        return [seal.save_short(self._encryptor.encrypt_symmetric(each)) for each in self.plaintexts(polynomials)]

    def each_to_add(self, polynomials: NDArray[np.int64]) -> Iterator[bytes]:
        """Yield seeded ciphertexts in coefficient form, so plaintexts need no NTT. They can be added, but not
        multiplied by masks.

        A small batch is encrypted when its first ciphertext is needed.
        """
        for start in range(0, len(polynomials), _TOGETHER):
            several = polynomials[start : start + _TOGETHER]
            for polynomial, zero in zip(several, self._encrypted_zeros(len(several)), strict=True):
                yield self.ring.seeded(zero, polynomial)

    def _encrypted_zeros(self, count: int) -> list[bytes]:
        """Fresh encryptions of zero in coefficient form. Each must mask one plaintext only."""
        fresh = [self._in_coefficients.encrypt_zero_symmetric() for _ in range(count)]
        return [seal.inside(blob, 1 << 20) for blob in [seal.save_short(each) for each in fresh]]

    @cached_property
    def _in_coefficients(self) -> Any:
        context = self.ring.coefficient_context
        blob = seal.under_other_parameters(self._key.secret, context.key_parms_id())
        return seal.api.Encryptor(context, seal.restore(seal.api.SecretKey(), context, blob))

    def decrypt(self, blobs: Sequence[bytes]) -> NDArray[np.int64]:
        """The centred coefficients (k, N) of k ciphertexts. Raises WireError for other bytes."""
        return self.ring.centred(self.ring.inverse_ntt(np.stack([*self._phases(blobs)])))

    def constants(self, blobs: Sequence[bytes]) -> NDArray[np.int64]:
        """The centred coefficient 0 of each (k,), in half the time of `decrypt`. Raises as `decrypt` does."""
        return self.ring.centred(np.array([self.ring.constant(each) for each in self._phases(blobs)], np.uint64))

    def _phases(self, blobs: Sequence[bytes]) -> Iterator[seal.Residues]:
        """Yield the residues (N,) of each decrypted ciphertext. Raises WireError."""
        for blob in blobs:
            ciphertext, plaintext = self.ring.ciphertext(blob), seal.api.Plaintext()
            try:
                if not ciphertext.is_ntt_form():
                    self.ring.evaluator.transform_to_ntt_inplace(ciphertext)
                self._decryptor.decrypt(ciphertext, plaintext)
            except (RuntimeError, ValueError):
                raise WireError(f"not a result of profile {self.ring.profile.name}") from None
            yield seal.plaintext_values(plaintext)
