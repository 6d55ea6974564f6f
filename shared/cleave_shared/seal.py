"""The only module that imports TenSEAL: contexts, transforms, ciphertext files. It holds no secret key.

SEAL's files are read and written here too, because its Python binding gives no access to coefficients. A polynomial
enters as a ciphertext in coefficient form, SEAL transforms it, and its values are read from the saved file. So every
transform is SEAL's own, and integers up to q/2 are encoded exactly. (SEAL's slot encoder uses float64 and loses
integers above about 2^45.) File layout: SEAL 4.3 `native/src/seal/ {serialization.h, ciphertext.cpp, plaintext.cpp}`;
tests/ckks/test_seal.py checks it by round trips.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Any, TypeVar

import numpy as np
import zstandard
from numpy.typing import NDArray
from tenseal import sealapi

from cleave_shared.errors import WireError
from cleave_shared.moments import Polynomial
from cleave_shared.params import PROFILES, Profile

api = sealapi  # for cleave.ckks.cipher, which alone handles keys
Residues = NDArray[np.uint64]  # (polynomials, N) values modulo q

_HEADER = struct.Struct("<HBBBBHQ")  # magic, header size, version major and minor, compression, reserved, size
_MAGIC, _ZSTD = 0xA15E, 2
_CIPHERTEXT = struct.Struct("<4Q?3QdQ")  # parms_id, NTT form, polynomials, N, primes, scale, correction factor
PLAINTEXT = struct.Struct("<4QQd")  # parms_id, coefficient count, scale
SEED_BYTES = 81  # of the second polynomial: a header, the generator's kind, 64 bytes
_PIPE_BYTES = 1 << 18
# polynomials per transform: larger buffers are mapped again each time (290 us per polynomial, 400 us with 15)
BATCH = 7

T = TypeVar("T")


class _Files:
    """Memory files, each created at first use. SEAL's binding can only save to and load from paths."""

    @cached_property
    def saved(self) -> int:
        return os.memfd_create("seal-saved")

    @cached_property
    def loaded(self) -> int:
        return os.memfd_create("seal-loaded")  # separate: it is never truncated, so its pages are reused

    @cached_property
    def pipe(self) -> tuple[int, int] | None:
        """The ends of a pipe, created at first use, because a forked child closes all inherited pipes
        (children.let_go).

        None if this user may not have a pipe of that size.
        """
        read, written = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        with contextlib.suppress(OSError):
            if fcntl.fcntl(written, fcntl.F_SETPIPE_SZ, _PIPE_BYTES) >= _PIPE_BYTES:
                return read, written
        os.close(read)
        os.close(written)
        return None

    def __del__(self) -> None:
        mine = self.__dict__
        for each in (mine.get("saved"), mine.get("loaded"), *(mine.get("pipe") or ())):
            if each is not None:
                os.close(each)


class _Scratch(threading.local):
    """One per thread, closed when the thread ends; this object itself outlives all threads."""

    def __init__(self) -> None:
        self.files = _Files()
        self.decompressor = zstandard.ZstdDecompressor()  # 12 us to create, 1 us to use


_scratch = _Scratch()


def _renew_scratch() -> None:
    global _scratch  # noqa: PLW0603 - a forked child must not share its parent's files
    _scratch = _Scratch()


os.register_at_fork(after_in_child=_renew_scratch)


@contextlib.contextmanager
def _named(file: int) -> Iterator[str]:
    """A path to an open file. Raises OSError if SEAL fails because this process may open no more files."""
    try:
        yield f"/proc/self/fd/{file}"
    except RuntimeError:
        os.close(os.dup(file))
        raise


def save(thing: Any) -> bytes:
    """A SEAL object (or its seeded form) as SEAL's file, compressed with zstd."""
    file = _scratch.files.saved
    with _named(file) as path:
        thing.save(path)
    return os.pread(file, os.fstat(file).st_size, 0)


def save_short(thing: Any) -> bytes:
    """Like `save`, for less than _PIPE_BYTES, as a ciphertext has: 45 us faster than through a file.

    SEAL would block forever when writing more than a pipe can hold.
    """
    pipe = _scratch.files.pipe
    if pipe is None:
        return save(thing)
    read, written = pipe
    with _named(written) as path:
        thing.save(path)
    blob = os.read(read, _PIPE_BYTES)
    if _HEADER.unpack_from(blob)[-1] != len(blob):
        raise ValueError("not a whole SEAL file")
    return blob


def restore(thing: T, context: Any, blob: bytes | bytearray | memoryview) -> T:
    """Load `blob` into the SEAL object `thing`.

    Raises ValueError or SEAL's RuntimeError if it does not belong there.
    """
    if len(blob) < _HEADER.size or _HEADER.unpack_from(blob)[-1] != len(blob):
        raise ValueError("not a whole SEAL file")  # else SEAL would read on into what the file held before
    file = _scratch.files.loaded
    os.pwrite(file, blob, 0)
    with _named(file) as path:
        thing.load(context, path)  # type: ignore[attr-defined]
    return thing


def _unwrap(blob: bytes | memoryview, size_inside: int = 0) -> bytes:
    """The content of a SEAL file. `size_inside`, if known, lets zstd allocate once."""
    magic, _, _, _, compression, _, size = _HEADER.unpack_from(blob)
    if magic != _MAGIC or size > len(blob):
        raise ValueError("not a SEAL file")
    if compression != _ZSTD:
        return bytes(blob[_HEADER.size : size])
    body = memoryview(blob)[_HEADER.size : size]
    if size_inside or zstandard.frame_content_size(body) >= 0:
        return _scratch.decompressor.decompress(body, max_output_size=size_inside)
    return _scratch.decompressor.decompressobj().decompress(body)


def inside(blob: bytes | memoryview, most: int) -> bytes:
    """The content of a SEAL file, of at most `most` bytes. Raises ValueError or zstandard.ZstdError for
    anything else.
    """
    if len(blob) < _HEADER.size or _HEADER.unpack_from(blob)[-1] != len(blob):
        raise ValueError("not a whole SEAL file")
    body = memoryview(blob)[_HEADER.size :]
    if _HEADER.unpack_from(blob)[4] == _ZSTD and not 0 <= zstandard.frame_content_size(body) <= most:
        raise ValueError("not a SEAL file of that size")
    return _unwrap(blob)


def under_other_parameters(blob: bytes, parms_id: Sequence[int]) -> bytes:
    """The file of a key for another context with the same ring and moduli. Only the parameters' id differs."""
    return wrapped(struct.pack("<4Q", *parms_id), _unwrap(blob)[32:])


def wrapped(*parts: bytes | memoryview, compress: bool = False) -> bytes:
    if compress:
        # residues do not get smaller, and are left at once
        parts = (zstandard.ZstdCompressor(level=-1).compress(b"".join(parts)),)
    size = _HEADER.size + sum(map(len, parts))
    return b"".join([_HEADER.pack(_MAGIC, _HEADER.size, 4, 3, _ZSTD if compress else 0, 0, size), *parts])


def array_file(values: NDArray[np.uint64]) -> bytes:
    return wrapped(struct.pack("<Q", values.size), np.ascontiguousarray(values).tobytes())


def plaintext_values(plaintext: Any) -> NDArray[np.uint64]:
    """The residues in a SEAL plaintext: (primes * N,) in NTT form."""
    array = _unwrap(_unwrap(save_short(plaintext))[PLAINTEXT.size :])
    return np.frombuffer(array, np.uint64, struct.unpack_from("<Q", array)[0], 8)


class Ring:
    """SEAL's objects for one profile, created once per process (about 40 ms) and inherited by forked workers."""

    def __init__(self, profile: Profile) -> None:
        parameters = api.EncryptionParameters(api.SCHEME_TYPE.CKKS)
        parameters.set_poly_modulus_degree(profile.degree)
        parameters.set_coeff_modulus(api.CoeffModulus.Create(profile.degree, list(profile.prime_bits)))
        self.context = api.SEALContext(parameters, True, api.SEC_LEVEL_TYPE.TC128)
        if not self.context.parameters_set():
            raise ValueError(f"profile {profile.name}: SEAL refuses its parameters")
        self.profile = profile
        self.degree = profile.degree
        self.modulus: int = parameters.coeff_modulus()[0].value()
        self.evaluator = api.Evaluator(self.context)
        self._parms_id: Sequence[int] = self.context.first_parms_id()

    def residues(self, polynomials: NDArray[np.int64]) -> Residues:
        """Signed coefficients, of magnitude below q/2, modulo q."""
        residues = polynomials >> 63  # -1 where negative
        residues &= self.modulus
        residues += polynomials
        return residues.view(np.uint64)

    def centred(self, residues: Residues) -> NDArray[np.int64]:
        """The signed coefficients of `residues`."""
        signed = residues.astype(np.int64)
        return np.where(signed > self.modulus // 2, signed - self.modulus, signed)

    def ntt(self, residues: Residues) -> Residues:
        return self._transform(residues, self.evaluator.transform_to_ntt_inplace, ntt_form=False)

    def inverse_ntt(self, residues: Residues) -> Residues:
        return self._transform(residues, self.evaluator.transform_from_ntt_inplace, ntt_form=True)

    def _transform(self, residues: Residues, transform: Callable[[Any], None], *, ntt_form: bool) -> Residues:
        batches = []
        for start in range(0, len(residues), BATCH):
            count = len(residues[start : start + BATCH])
            # SEAL refuses a ciphertext whose polynomials after the first are all zero; the padding is not
            padded = np.empty((count + 1, self.degree), np.uint64)
            padded[:count] = residues[start : start + BATCH]
            padded[count] = 1
            ciphertext = restore(api.Ciphertext(), self.context, self._ciphertext_file(padded, ntt_form=ntt_form))
            transform(ciphertext)
            batches.append(self._polynomials(ciphertext)[:count])
        return np.concatenate(batches) if len(batches) > 1 else batches[0]

    def transformed(self, polynomials: Residues) -> Any:
        """The ciphertext (2, N), in NTT form, of two polynomials. The second must not be zero."""
        ciphertext = restore(api.Ciphertext(), self.context, self._ciphertext_file(polynomials, ntt_form=False))
        self.evaluator.transform_to_ntt_inplace(ciphertext)
        return ciphertext

    @cached_property
    def coefficient_context(self) -> Any:
        """A context over the same ring and moduli whose fresh ciphertexts are in coefficient form. Creating it takes 14
        ms.

        SEAL encrypts in the scheme's form, which for BFV is this one. An encryption of zero is the same in all schemes,
        -(a s + e) beside a: the plaintext modulus is not used.
        """
        parameters = api.EncryptionParameters(api.SCHEME_TYPE.BFV)
        parameters.set_poly_modulus_degree(self.degree)
        parameters.set_coeff_modulus(api.CoeffModulus.Create(self.degree, list(self.profile.prime_bits)))
        parameters.set_plain_modulus(2)
        return api.SEALContext(parameters, True, api.SEC_LEVEL_TYPE.TC128)

    def seeded(self, zero: bytes | memoryview, polynomial: NDArray[np.int64]) -> bytes:
        """The file of a seeded encryption, in coefficient form, of a polynomial (N,) with coefficients of magnitude
        below q/2. `zero`: the file of an encryption of zero.

        `zero` must be used once only: two results would reveal the difference of their polynomials. Raises ValueError
        if it is not such a file.
        """
        start, stop = _CIPHERTEXT.size + _HEADER.size + 8, len(zero) - SEED_BYTES
        if stop - start != 8 * self.degree or _CIPHERTEXT.unpack_from(zero)[4:7] != (False, 2, self.degree):
            raise ValueError("not a seeded ciphertext of this ring")
        modulus = np.uint64(self.modulus)
        total = polynomial.view(np.uint64) + np.frombuffer(zero, np.uint64, self.degree, start)
        # if a sum or difference wraps, the other value is smaller: the sum is between -q/2 and 3q/2
        np.minimum(total, total + modulus, out=total)
        np.minimum(total, total - modulus, out=total)
        head = _CIPHERTEXT.pack(*self._parms_id, False, 2, self.degree, 1, 1.0, 1)
        return wrapped(head, zero[_CIPHERTEXT.size : start], total.data.cast("B"), zero[stop:])

    def constant_key(self, key: T, value: int) -> T:
        """`key` loaded with the constant polynomial `value`. It is no secret: it serves to read values by
        decryption.
        """
        primes = len(self.profile.prime_bits)
        head = PLAINTEXT.pack(*self.context.key_parms_id(), primes * self.degree, 1.0)
        values = np.full(primes * self.degree, value, np.uint64)  # constants are their own transform
        return restore(key, self.context, wrapped(head, array_file(values)))

    def plaintext(self, residues: NDArray[np.uint64]) -> Any:
        """A SEAL plaintext of scale 1 from N residues in NTT form."""
        head = PLAINTEXT.pack(*self._parms_id, self.degree, 1.0)
        return restore(api.Plaintext(), self.context, wrapped(head, array_file(residues)))

    def plaintexts(self, polynomials: Sequence[Polynomial]) -> list[Any]:
        """SEAL plaintexts of scale 1 from signed integer polynomials, exact."""
        return [self.plaintext(values) for values in self.ntt(self.residues(np.stack(polynomials)))]

    def ciphertext(self, blob: bytes | memoryview) -> Any:
        """A ciphertext from a client or a service. Raises WireError if it is none of this profile."""
        try:
            ciphertext = restore(api.Ciphertext(), self.context, blob)
        except (RuntimeError, ValueError, IndexError):
            # the binding's text may name a path
            raise WireError(f"not a ciphertext of profile {self.profile.name}") from None
        if ciphertext.size() != 2 or list(ciphertext.parms_id()) != list(self._parms_id) or ciphertext.scale != 1.0:
            raise WireError(f"not a fresh ciphertext or a result of profile {self.profile.name}")
        if ciphertext.is_transparent():
            raise WireError("a ciphertext is transparent: its second polynomial is zero, and anyone can read it")
        return ciphertext

    def truncated(self, ciphertext: Any, coefficients: int) -> bytes:
        """A result's file, with a phase that is right at the first `coefficients` coefficients only: half the bytes."""
        if coefficients == 1 and ciphertext.is_ntt_form():
            first, second = self._polynomials(ciphertext)
            constant = np.full(self.degree, self.constant(first), np.uint64)  # the transform of a constant is constant
            return self._ciphertext_file(np.stack([constant, second]), ntt_form=True, compress=True)
        if ciphertext.is_ntt_form():
            self.evaluator.transform_from_ntt_inplace(ciphertext)
        polynomials = self._polynomials(ciphertext).copy()
        polynomials[0, coefficients:] = 0
        return self._ciphertext_file(polynomials, ntt_form=False, compress=True)

    def constant(self, transformed: Residues) -> int:
        """Coefficient 0 of a polynomial in NTT form (N,), modulo q.

        It is the mean of the transform's values, which are at all roots of X^N + 1: over the roots every power of X
        except X^0 sums to 0.
        """
        high, low = transformed >> np.uint64(32), transformed & np.uint64((1 << 32) - 1)
        total = (int(high.sum()) << 32) + int(low.sum())
        return total * pow(self.degree, -1, self.modulus) % self.modulus

    def _ciphertext_file(self, polynomials: Residues, *, ntt_form: bool, compress: bool = False) -> bytes:
        head = _CIPHERTEXT.pack(*self._parms_id, ntt_form, len(polynomials), self.degree, 1, 1.0, 1)
        return wrapped(head, array_file(polynomials), compress=compress)

    def _polynomials(self, ciphertext: Any) -> Residues:
        count = ciphertext.size() * self.degree
        head = _CIPHERTEXT.size + _HEADER.size + 8  # the array's own header and length
        file = save_short(ciphertext) if 16 * count <= _PIPE_BYTES else save(ciphertext)
        inside = _unwrap(file, head + 8 * count)
        return np.frombuffer(inside, np.uint64, count, head).reshape(-1, self.degree)


@lru_cache(maxsize=len(PROFILES))
def ring(profile: str) -> Ring:
    """The ring of a named profile. Raises WireError for an unknown name."""
    if profile not in PROFILES:
        raise WireError(f"unknown profile; this service has {', '.join(PROFILES)}")
    return Ring(PROFILES[profile])


class _OfOneKind:
    """Translates SEAL's refusals: a result whose second polynomial is zero, and a result's file among fresh
    ciphertexts.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, RuntimeError):
            raise WireError("ciphertexts cancel: anyone could read their sum") from None
        if isinstance(error, ValueError):
            raise WireError("ciphertexts have different forms: fresh ones and results cannot be mixed") from None


of_one_kind = _OfOneKind()  # 2 us faster than a generator, around a call of 13 us


class SealEvaluator:
    """Evaluates over CKKS ciphertexts. cleave_shared.moments defines how rows are placed in them."""

    def __init__(self, of: Ring) -> None:
        self._ring = of
        self._evaluator = of.evaluator
        self.degree = of.degree

    def __reduce__(self) -> Any:
        return seal_evaluator, (self._ring.profile.name,)

    def load(self, blob: bytes | memoryview) -> Any:
        return self._ring.ciphertext(blob)

    def masks(self, polynomials: Sequence[Polynomial]) -> list[Any]:
        return self._ring.plaintexts(polynomials)

    def multiply(self, ciphertext: Any, mask: Any) -> Any:
        product = api.Ciphertext()
        with of_one_kind:
            self._evaluator.multiply_plain(ciphertext, mask, product)
        return product

    def add(self, total: Any, ciphertext: Any) -> Any:
        with of_one_kind:
            self._evaluator.add_inplace(total, ciphertext)
        return total

    def dump(self, ciphertext: Any, coefficients: int) -> bytes:
        return save(ciphertext) if coefficients == self.degree else self._ring.truncated(ciphertext, coefficients)


def seal_evaluator(profile: str) -> SealEvaluator:
    """Raises WireError for an unknown profile."""
    return SealEvaluator(ring(profile))
