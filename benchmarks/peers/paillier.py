"""Sums of columns by python-paillier (phe, with gmpy2): FILE ROWS COLUMNS SHARE, of the first 1/SHARE, scaled up.

A key of 3,072 bits, 128-bit secure as the others; every value a ciphertext of its own. Prints JSON.
"""

from __future__ import annotations

import json
import sys
import time
from array import array
from pathlib import Path

from phe import paillier

BITS = 3072


def main() -> None:
    rows, columns, share = map(int, sys.argv[2:5])
    values = array("d", Path(sys.argv[1]).read_bytes())
    public, private = paillier.generate_paillier_keypair(n_length=BITS)
    started, before = time.perf_counter(), time.process_time()
    sums = []
    for column in range(columns):
        total = public.encrypt(values[column * rows])
        for value in values[column * rows + 1 : column * rows + rows // share]:
            total += public.encrypt(value)
        sums.append(private.decrypt(total))
    seconds, cpu = time.perf_counter() - started, time.process_time() - before
    print(
        json.dumps({"seconds": seconds * share, "cpu": cpu * share, "up": rows * columns * 2 * BITS // 8, "sums": sums})
    )


if __name__ == "__main__":
    main()
