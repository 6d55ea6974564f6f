"""Key generation, encryption and decryption: with `cleave.ckks.key_file` the only owner of the secret key."""

from __future__ import annotations

import hmac
from collections.abc import Sequence

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
            raise KeyFileError("the key file does not hold a key of its profile") from None
        self._encryptor = seal.api.Encryptor(self.ring.context, secret)
        self._decryptor = seal.api.Decryptor(self.ring.context, secret)
        self._sentinel_key = key.derive("sentinel")

    def encrypt(self, polynomials: NDArray[np.int64]) -> list[bytes]:
        """Seeded symmetric ciphertexts, one a row of `polynomials` (k, N): 8 bytes a coefficient.

        Coefficients must be below q/2 in magnitude; they are encoded exactly.
        """
        residues = self.ring.ntt(self.ring.residues(polynomials))
        # without a target SEAL returns the serialisable form whose second half is a 64-byte seed
        return [seal.save(self._encryptor.encrypt_symmetric(self.ring.plaintext(values))) for values in residues]

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
