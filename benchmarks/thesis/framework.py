"""The thesis's framework as built here: `CSV ROWS`, a process of its own.

The client splits the table by sensitivity. Processes of the client encrypt the four sensitive columns by CKKS, every
value a ciphertext of its own; worker processes of the sensitive service load and add them, without the secret key; a
process of the plain service sums the others; the client decrypts the totals and rejoins both halves. TenSEAL at its
usual parameters (N = 8192 [60, 40, 40, 60]), what is sent serialised. Keys are made, and processes started, before the
clock is.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
from pathlib import Path
from typing import Any

import tenseal as ts

from benchmarks.thesis import table
from benchmarks.thesis.measured import measured

PART = 25  # values to a task
WORKERS = len(os.sched_getaffinity(0))
_context: Any = None


def _open(serialised: bytes) -> None:
    global _context  # noqa: PLW0603 - a pool hands its initialiser's work on in no other way
    _context = ts.context_from(serialised, n_threads=1)


def _encrypt(values: list[int]) -> list[bytes]:
    return [ts.ckks_vector(_context, [value]).serialize() for value in values]


def _add(uploads: list[bytes]) -> bytes:
    total = ts.ckks_vector_from(_context, uploads[0])
    for upload in uploads[1:]:
        total += ts.ckks_vector_from(_context, upload)
    return bytes(total.serialize())


def _add_one(value: int) -> bytes:
    return _add(_encrypt([value]))


def main() -> None:
    path, rows = Path(sys.argv[1]), int(sys.argv[2])
    context = ts.context(ts.SCHEME_TYPE.CKKS, 8192, coeff_mod_bit_sizes=[60, 40, 40, 60], n_threads=1)
    context.global_scale = 2.0**40
    public = context.serialize(save_public_key=True, save_secret_key=False)

    with (
        multiprocessing.Pool(WORKERS, _open, [public]) as client,
        multiprocessing.Pool(WORKERS, _open, [public]) as sensitive,
        multiprocessing.Pool(1) as plain,
    ):
        for pool in (client, sensitive):  # their start is no share of a row's: it is not scaled up
            pool.map(_add_one, range(8 * WORKERS), chunksize=1)

        def pipeline() -> dict[str, float]:
            columns = table.read(path, rows)
            asked = [plain.apply_async(sum, [columns[name]]) for name in table.PLAIN]
            sums: dict[str, float] = {}
            for name in table.SENSITIVE:
                values = columns[name]
                parts = [values[start : start + PART] for start in range(0, len(values), PART)]
                answers = [
                    ts.ckks_vector_from(context, answer)
                    for answer in sensitive.imap(_add, client.imap(_encrypt, parts))
                ]
                total = answers[0]
                for answer in answers[1:]:
                    total += answer
                sums[name] = float(total.decrypt()[0])
            return sums | {name: float(each.get()) for name, each in zip(table.PLAIN, asked, strict=True)}

        print(json.dumps(measured(pipeline, table.ROWS / rows)))


if __name__ == "__main__":
    main()
