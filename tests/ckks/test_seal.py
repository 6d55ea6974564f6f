"""SEAL's files and transforms as cleave_shared.seal reads them, against SEAL's own encoder."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pytest

from cleave.ckks.cipher import Cipher
from cleave.ckks.secret_key import SecretKey
from cleave_shared import seal
from cleave_shared.errors import WireError
from cleave_shared.params import SUM60_PACK, Profile


@pytest.fixture(scope="module")
def ring() -> seal.Ring:
    return seal.ring(SUM60_PACK.name)


def test_plaintexts_equal_those_of_seals_own_encoder(ring: seal.Ring) -> None:
    n = ring.degree
    coefficients = np.random.default_rng(1).integers(-(2**20), 2**20, n)
    powers = np.ones(n // 2, np.int64)
    for j in range(1, n // 2):
        powers[j] = powers[j - 1] * 3 % (2 * n)  # SEAL's slots are the roots zeta^(3^j)
    slots = (np.fft.ifft(coefficients * np.exp(1j * np.pi * np.arange(n) / n)) * n)[(powers - 1) // 2]
    theirs = seal.api.Plaintext()
    seal.api.CKKSEncoder(ring.context).encode(slots.tolist(), 1.0, theirs)
    (ours,) = ring.plaintexts([coefficients])
    assert np.array_equal(seal.plaintext_values(ours), seal.plaintext_values(theirs))


def test_transforms_invert_each_other_over_the_whole_range(ring: seal.Ring) -> None:
    edge = ring.modulus // 2
    polynomials = np.random.default_rng(2).integers(-edge, edge, (4, ring.degree))
    polynomials[0, :3] = (edge, -edge, 0)
    assert np.array_equal(ring.centred(ring.inverse_ntt(ring.ntt(ring.residues(polynomials)))), polynomials)


def test_a_polynomial_of_zeros_is_transformed_too(ring: seal.Ring) -> None:
    assert not ring.ntt(np.zeros((2, ring.degree), np.uint64)).any()


def test_fresh_noise_has_the_variance_the_bounds_use(key: SecretKey) -> None:
    cipher = Cipher(key)
    errors = cipher.decrypt(cipher.encrypt(np.zeros((8, cipher.ring.degree), np.int64)))
    assert np.abs(errors).max() <= 21  # centred binomial of 21 + 21 bits
    assert 10.0 < errors.var() < 11.0


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_polynomials_come_back_whatever_stands_beside_them(key: SecretKey, count: int) -> None:
    """They are transformed in pairs (a, b - a)."""
    cipher = Cipher(key)
    edge = 2**58
    polynomials = np.random.default_rng(3).integers(-edge, edge + 1, (count, cipher.ring.degree))
    polynomials[:, 0] = [edge, -edge, edge, -edge][:count]
    equal = np.zeros((count, cipher.ring.degree), np.int64)
    for each in (polynomials, equal, polynomials[:1].repeat(count, axis=0)):
        assert np.abs(cipher.decrypt(cipher.encrypt(each)) - each).max() <= 21


def test_a_seeded_ciphertext_costs_eight_bytes_a_value(key: SecretKey) -> None:
    cipher = Cipher(key)
    (blob,) = cipher.encrypt(np.ones((1, cipher.ring.degree), np.int64))
    assert len(blob) / cipher.ring.degree < 8.05


def test_another_key_decrypts_to_garbage(key: SecretKey, other_key: SecretKey) -> None:
    blobs = Cipher(key).encrypt(np.zeros((1, 8192), np.int64))
    assert np.abs(Cipher(other_key).decrypt(blobs)).max() > 2**50


@pytest.mark.parametrize("blob", [b"", b"x" * 100, bytes(70_000)], ids=["empty", "text", "zeros"])
def test_bytes_that_are_no_ciphertext_are_refused(ring: seal.Ring, blob: bytes) -> None:
    with pytest.raises(WireError, match="not a ciphertext"):
        ring.ciphertext(blob)


def test_a_truncated_ciphertext_is_refused(ring: seal.Ring, key: SecretKey) -> None:
    (blob,) = Cipher(key).encrypt(np.ones((1, ring.degree), np.int64))
    with pytest.raises(WireError, match="not a ciphertext"):
        ring.ciphertext(blob[:-100])


def test_a_ciphertext_of_other_parameters_is_refused(ring: seal.Ring) -> None:
    other = seal.Ring(Profile("INSECURE_small", 4096, (36, 36), (0, 0, 0), "test"))
    generator = seal.api.KeyGenerator(other.context)
    encryptor = seal.api.Encryptor(other.context, generator.secret_key())
    blob = seal.save(encryptor.encrypt_symmetric(other.plaintexts([np.ones(4096, np.int64)])[0]))
    with pytest.raises(WireError, match="not a ciphertext"):
        ring.ciphertext(blob)


def test_an_insecure_profile_cannot_be_built() -> None:
    with pytest.raises(ValueError, match="at most 106 are 128-bit secure"):
        Profile("INSECURE_wide", 4096, (60, 60), (0, 0, 0), "test")
    with pytest.raises(ValueError, match="no security bound"):
        Profile("INSECURE_tiny", 2048, (40,), (0, 0, 0), "test")


def test_a_thread_that_ends_leaves_no_file_open(key: SecretKey) -> None:
    """Else a process that asks question after question in threads of their own ends without any left."""
    cipher = Cipher(key)
    polynomials = np.zeros((1, key.profile.degree), np.int64)

    def open_files() -> int:
        thread = threading.Thread(target=lambda: cipher.decrypt(cipher.encrypt(polynomials)))
        thread.start()
        thread.join()
        return len(os.listdir("/proc/self/fd"))

    before = open_files()
    assert [open_files() for _ in range(5)] == [before] * 5


def test_a_short_file_through_a_pipe_is_the_same(ring: seal.Ring, monkeypatch: pytest.MonkeyPatch) -> None:
    ciphertext = ring.transformed(ring.residues(np.ones((2, ring.degree), np.int64)))
    assert seal.save_short(ciphertext) == seal.save_short(ciphertext) == seal.save(ciphertext)
    monkeypatch.setattr(seal, "_PIPE_BYTES", (1 << 32) - 1)  # more than anyone may have
    monkeypatch.setattr(seal, "_scratch", seal._Scratch())
    assert seal._scratch.files.pipe is None
    assert seal.save_short(ciphertext) == seal.save(ciphertext)


def test_half_a_file_out_of_a_pipe_is_an_error(ring: seal.Ring) -> None:
    whole = seal.save(ring.transformed(ring.residues(np.ones((2, ring.degree), np.int64))))

    class Torn:
        def save(self, path: str) -> None:
            Path(path).write_bytes(whole[: len(whole) // 2])

    with pytest.raises(ValueError, match="not a whole SEAL file"):
        seal.save_short(Torn())
