"""Masks of scans: integer polynomials that bring a sum of rows, or of sentinels, to coefficient 0.

A chunk is one ciphertext of N coefficients, a row at each of the first N - SENTINELS. The last SENTINELS coefficients
hold values that only the key's holder knows. Summing rows is one multiplication by the integer polynomial

    M = m_0 - sum_{r>=1} m_r X^(N - r)

whose product has the total at coefficient 0 (X^N = -1 turns X^(N-i) into -X^-i).
Source: HERMES (coefficients-encoding); tried out in docs/ckks.md section 1.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

SENTINELS = 16
Polynomial = NDArray[np.int64]  # N signed integer coefficients


def sentinel_weights(label: str) -> NDArray[np.int64]:
    """SENTINELS public weights of +-1 for `label`, so that two chunks cannot change places unseen."""
    bits = np.unpackbits(np.frombuffer(hashlib.sha256(label.encode()).digest()[: SENTINELS // 8], np.uint8))
    return 1 - 2 * bits.astype(np.int64)


def sentinel_mask(degree: int, label: str) -> Polynomial:
    """The mask whose product has the weighted sum of a chunk's sentinels at coefficient 0."""
    mask = np.zeros(degree, np.int64)
    # the sentinel at coefficient N-j is brought to 0 by -X^j (j = SENTINELS .. 1)
    mask[np.arange(SENTINELS, 0, -1)] = -sentinel_weights(label)
    return mask


def scan_label(label: str, number: int) -> str:
    """Label of the sentinels' weights in chunk `number` of a scan with `label`."""
    return f"cleave/1/scan/{label}/{number}"
