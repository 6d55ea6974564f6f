"""The primitives of CKKS as its textbooks have it, values in slots, at three ring degrees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.lab.primitive import Family, Primitive
from benchmarks.lab.scheme import Scheme, context_of, expanded, in_place, into
from cleave_shared import seal

# Degree, bits of the primes with the special one last, log2 of the scale. Each is 128-bit secure with published keys
# (cleave_shared.params) and leaves room for one product that is rescaled.
RINGS = ((4096, (35, 35, 36), 30), (8192, (60, 40, 40, 60), 40), (16384, (60, 40, 40, 40, 40, 40, 60), 40))
_TOLERANCE = 1e-3  # of values below 1; fresh noise at the smallest scale is a thousandth of that
_SEED = 13


def slots(degree: int, prime_bits: tuple[int, ...], scale_bits: int) -> Family:
    context = context_of(degree, prime_bits)
    scheme, encoder, evaluator = Scheme(context), seal.api.CKKSEncoder(context), seal.api.Evaluator(context)
    scale, count = 2.0**scale_bits, degree // 2
    random = np.random.default_rng(_SEED)
    x, y = random.uniform(-1, 1, count), random.uniform(-1, 1, count)
    mask = (random.random(count) < 0.3).astype(float)
    x_list, mask_list = x.tolist(), mask.tolist()
    galois = scheme.galois([3])  # SEAL's rotation by one

    def encoded(values: list[float]) -> Any:
        plaintext = seal.api.Plaintext()
        encoder.encode(values, scale, plaintext)
        return plaintext

    def is_plain(wanted: Any) -> Callable[[Any], bool]:
        return lambda plaintext: bool(np.allclose(encoder.decode_double(plaintext), wanted, rtol=0, atol=_TOLERANCE))

    def holds(wanted: Any) -> Callable[[Any], bool]:
        return lambda ciphertext: is_plain(wanted)(scheme.decrypted(ciphertext))

    p, m = encoded(x_list), encoded(mask_list)
    a, b = scheme.encrypted(p), scheme.encrypted(encoded(y.tolist()))
    product = into(evaluator.multiply, a, b)
    size_three = expanded(product)
    size_two = expanded(into(evaluator.relinearize, product, scheme.relinearisation))
    seeded, whole, opened = seal.save(scheme.seeded(p)), expanded(a), scheme.decrypted(a)
    total = scheme.loaded(whole)  # grows for as long as "add" is timed

    def add(ciphertext: Any) -> Any:
        return in_place(evaluator.add_inplace, ciphertext, b)

    def is_file(blob: bytes) -> bool:
        return holds(x)(scheme.loaded(blob))

    primitives = (
        Primitive("encode", lambda: x_list, encoded, is_plain(x)),
        Primitive("encrypt, public key", lambda: p, scheme.publicly_encrypted, holds(x)),
        Primitive("encrypt, symmetric", lambda: p, scheme.encrypted, holds(x)),
        Primitive("encrypt, seeded", lambda: p, scheme.seeded, lambda made: is_file(seal.save(made))),
        Primitive("load, seeded", lambda: seeded, scheme.loaded, holds(x)),
        Primitive("load, expanded", lambda: whole, scheme.loaded, holds(x)),
        Primitive("add", lambda: total, add, lambda _: holds(x + y)(add(scheme.loaded(whole)))),
        Primitive("mask encode", lambda: mask_list, encoded, is_plain(mask)),
        Primitive("multiply by plaintext", lambda: a, lambda c: into(evaluator.multiply_plain, c, m), holds(x * mask)),
        Primitive("multiply", lambda: a, lambda c: into(evaluator.multiply, c, b), holds(x * y)),
        Primitive(
            "relinearise",
            lambda: scheme.loaded(size_three),
            lambda c: in_place(evaluator.relinearize_inplace, c, scheme.relinearisation),
            holds(x * y),
        ),
        Primitive(
            "rescale",
            lambda: scheme.loaded(size_two),
            lambda c: in_place(evaluator.rescale_to_next_inplace, c),
            lambda c: c.size() == 2 and c.scale < scale * scale and holds(x * y)(c),
        ),
        Primitive("rotate", lambda: a, lambda c: into(evaluator.rotate_vector, c, 1, galois), holds(np.roll(x, -1))),
        Primitive("decrypt", lambda: a, scheme.decrypted, is_plain(x)),
        Primitive(
            "decode", lambda: opened, encoder.decode_double, lambda got: bool(np.allclose(got, x, 0, _TOLERANCE))
        ),
        Primitive("save", lambda: a, seal.save, is_file),
        Primitive("save, seeded", lambda: scheme.seeded(p), seal.save, is_file),
    )
    return Family(f"slots, N = {degree}", degree, prime_bits, primitives)
