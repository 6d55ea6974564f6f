"""Sums of columns by seal-python: FILE ROWS COLUMNS SLOTS PROCESSES, SLOTS being real or complex.

N = 4096 and one prime, encrypted under the secret key; what is sent is saved, uncompressed, and loaded. Its binding
gives no seeded form. With several processes each encrypts and adds its share of a column. Prints JSON.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import sys
import time
from typing import Any

import numpy as np
import seal

DEGREE, BITS, SCALE = 4096, 60, 2.0**38

values: np.ndarray[Any, Any]
complex_slots = False
context: Any
encryptor: Any


def saved(ciphertext: Any, file: int) -> bytes:
    ciphertext.save(f"/proc/self/fd/{file}", seal.compr_mode_type.none)
    return os.pread(file, os.fstat(file).st_size, 0)


def share(task: tuple[int, int, int]) -> tuple[bytes, int]:
    """Column, first ciphertext, step: the total of these, saved, and the bytes that were sent for it."""
    column, first, step = task
    encoder, evaluator, file = seal.CKKSEncoder(context), seal.Evaluator(context), os.memfd_create("sent")
    count, sent, total = DEGREE if complex_slots else DEGREE // 2, 0, None
    for start in range(first * count, values.shape[1], step * count):
        part = values[column, start : start + count]
        if complex_slots:
            if len(part) % 2:
                part = np.append(part, 0.0)
            plaintext = encoder.encode_complex(part.view(np.complex128), SCALE)
        else:
            plaintext = encoder.encode(part, SCALE)
        upload = saved(encryptor.encrypt_symmetric(plaintext), file)
        sent += len(upload)
        received = seal.Ciphertext()
        received.load_bytes(context, upload)
        if total is None:
            total = received
        else:
            evaluator.add_inplace(total, received)
    answer = saved(total, file)
    os.close(file)
    return answer, sent


def cpu_seconds() -> float:
    """Of this process and of those that have ended."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def main() -> None:
    global values, complex_slots, context, encryptor  # noqa: PLW0603 - forked processes inherit them
    name, rows, columns, slots, processes = sys.argv[1], *map(int, sys.argv[2:4]), sys.argv[4], int(sys.argv[5])
    values, complex_slots = np.fromfile(name).reshape(columns, rows), slots == "complex"
    parameters = seal.EncryptionParameters(seal.scheme_type.ckks)
    parameters.set_poly_modulus_degree(DEGREE)
    parameters.set_coeff_modulus(seal.CoeffModulus.Create(DEGREE, [BITS]))
    context = seal.SEALContext(parameters)
    secret = seal.KeyGenerator(context).secret_key()
    encryptor, decryptor, encoder = (
        seal.Encryptor(context, secret),
        seal.Decryptor(context, secret),
        seal.CKKSEncoder(context),
    )
    started, before = time.perf_counter(), cpu_seconds()
    tasks = [(column, first, processes) for column in range(columns) for first in range(processes)]
    if processes > 1:
        with multiprocessing.get_context("fork").Pool(processes) as pool:
            answers = pool.map(share, tasks, chunksize=1)
            pool.close()
            pool.join()  # what its processes took counts once they have ended
    else:
        answers = [share(task) for task in tasks]
    sums = [0.0] * columns
    for (column, _, _), (answer, _) in zip(tasks, answers, strict=True):
        received = seal.Ciphertext()
        received.load_bytes(context, answer)
        found = encoder.decode_complex(decryptor.decrypt(received))
        sums[column] += float(found.real.sum() + (found.imag.sum() if complex_slots else 0.0))
    seconds = time.perf_counter() - started
    cpu = cpu_seconds() - before
    print(json.dumps({"seconds": seconds, "cpu": cpu, "up": sum(sent for _, sent in answers), "sums": sums}))


if __name__ == "__main__":
    main()
