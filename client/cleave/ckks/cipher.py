"""Key generation, encryption and decryption: with `cleave.ckks.key_file` the only owner of the secret key."""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cleave.ckks.secret_key import SecretKey
from cleave_shared import seal
from cleave_shared.errors import KeyFileError, WireError
from cleave_shared.moments import SENTINELS
from cleave_shared.params import Profile


def generate(profile: Profile) -> tuple[bytes, bytes]:
    """A new secret key and its public key, as SEAL's files."""
    generator = seal.api.KeyGenerator(seal.ring(profile.name).context)
    public = seal.api.PublicKey()
    generator.create_public_key(public)
    return seal.save(generator.secret_key()), seal.save(public)


class Cipher:
    """Encrypts and decrypts under one secret key. Forked workers inherit it; it is never pickled."""

    def __init__(self, key: SecretKey) -> None:
        self.ring = seal.ring(key.profile.name)
        secret = seal.api.SecretKey()
        try:
            seal.restore(secret, self.ring.context, key.secret)
        except (RuntimeError, ValueError, IndexError):
            raise KeyFileError(
                "the key file does not hold a key of its profile", hint="restore it from a backup"
            ) from None
        self._encryptor = seal.api.Encryptor(self.ring.context, secret)
        self._decryptor = seal.api.Decryptor(self.ring.context, secret)
        # with s = 0 and s = 1 the phase of (a, b - a) is a and b: SEAL's way to a plaintext of values that are there
        self._first, self._second = (
            seal.api.Decryptor(self.ring.context, self.ring.constant_key(seal.api.SecretKey(), value))
            for value in (0, 1)
        )
        self._sentinel_key = key.derive("sentinel")

    def encrypt(self, polynomials: NDArray[np.int64]) -> list[bytes]:
        """Seeded symmetric ciphertexts, one per row of `polynomials` (k, N): 8 bytes per coefficient.

        Coefficients must be below q/2 in magnitude; they are encoded exactly.
        """
        # without a target SEAL returns the serialisable form whose second half is a 64-byte seed
        return [seal.save(self._encryptor.encrypt_symmetric(plaintext)) for plaintext in self._plaintexts(polynomials)]

    def _plaintexts(self, polynomials: NDArray[np.int64]) -> Iterator[Any]:
        """SEAL plaintexts in NTT form, two at a time: transformed as a ciphertext (a, b - a), read out by decrypting.

        Half as long as transforming, saving and loading them again (docs/ckks.md section 1).
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

    def decrypt(self, blobs: Sequence[bytes]) -> NDArray[np.int64]:
        """The centred coefficients (k, N) of k results. Raises WireError if one is not a ciphertext."""
        phases = []
        for blob in blobs:
            ciphertext, plaintext = self.ring.ciphertext(blob), seal.api.Plaintext()
            try:
                if not ciphertext.is_ntt_form():
                    self.ring.evaluator.transform_to_ntt_inplace(ciphertext)
                self._decryptor.decrypt(ciphertext, plaintext)
            except (RuntimeError, ValueError):
                raise WireError(f"not a result of profile {self.ring.profile.name}") from None
            phases.append(seal.plaintext_values(plaintext))
        return self.ring.centred(self.ring.inverse_ntt(np.stack(phases)))

    def sentinels(self, job: bytes, index: int) -> NDArray[np.int64]:
        """The SENTINELS secret 16-bit values of chunk `index` of the job, by HMAC-SHA-256."""
        digest = hmac.digest(self._sentinel_key, job + index.to_bytes(8, "big"), "sha256")
        return np.frombuffer(digest, np.uint16, SENTINELS).astype(np.int64)
