"""Every value a ciphertext of its own, columns added up one value at a time: `SCHEME CSV ROWS`, a process of its own.

CKKS and BFV through TenSEAL, BGV through seal-python. Each total is kept as it grows: 48,000 ciphertexts would take
16 GB. Keys are made before the clock starts. Prints JSON: the figures scaled to all rows, and the sums found.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.thesis import table
from benchmarks.thesis.measured import measured

DEGREE, MODULUS = 8192, 1_032_193  # TenSEAL's own examples


def tenseal(scheme: str) -> tuple[Callable[[int], Any], Callable[[Any, Any], Any], Callable[[Any], float]]:
    import tenseal as ts  # noqa: PLC0415 - is not in the environment of BGV

    if scheme == "ckks":
        context = ts.context(ts.SCHEME_TYPE.CKKS, DEGREE, coeff_mod_bit_sizes=[60, 40, 40, 60], n_threads=1)
        context.global_scale = 2.0**40
        vector = ts.ckks_vector
    else:
        context = ts.context(ts.SCHEME_TYPE.BFV, DEGREE, MODULUS, n_threads=1)
        vector = ts.bfv_vector

    def add(total: Any, value: Any) -> Any:
        total += value
        return total

    return lambda value: vector(context, [value]), add, lambda total: float(total.decrypt()[0])


def seal_bgv() -> tuple[Callable[[int], Any], Callable[[Any, Any], Any], Callable[[Any], float]]:
    import numpy as np  # noqa: PLC0415 - these two are in the environment of BGV
    import seal  # noqa: PLC0415

    parameters = seal.EncryptionParameters(seal.scheme_type.bgv)
    parameters.set_poly_modulus_degree(DEGREE)
    parameters.set_coeff_modulus(seal.CoeffModulus.BFVDefault(DEGREE))
    parameters.set_plain_modulus(MODULUS)
    context = seal.SEALContext(parameters)
    generator = seal.KeyGenerator(context)
    encoder, evaluator = seal.BatchEncoder(context), seal.Evaluator(context)
    encryptor = seal.Encryptor(context, generator.create_public_key())
    decryptor = seal.Decryptor(context, generator.secret_key())

    def add(total: Any, value: Any) -> Any:
        evaluator.add_inplace(total, value)
        return total

    return (
        lambda value: encryptor.encrypt(encoder.encode(np.array([value], np.int64))),
        add,
        lambda total: float(encoder.decode(decryptor.decrypt(total))[0]),
    )


def main() -> None:
    scheme, path, rows = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    encrypt, add, decrypt = seal_bgv() if scheme == "bgv" else tenseal(scheme)

    def pipeline() -> dict[str, float]:
        sums = {}
        for name, values in table.read(path, rows).items():
            total = encrypt(values[0])
            for value in values[1:]:
                total = add(total, encrypt(value))
            sums[name] = decrypt(total)
        return sums

    print(json.dumps(measured(pipeline, table.ROWS / rows)))


if __name__ == "__main__":
    main()
