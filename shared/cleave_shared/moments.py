"""Masks of scans: integer polynomials that move a sum of rows, or of sentinels, to coefficient 0.

A chunk is one ciphertext of N coefficients, with a row at each of the first N - SENTINELS. The last SENTINELS
coefficients hold values that only the key's owner knows. Rows are summed by one multiplication with the polynomial

  M = m_0 - sum_{r>=1} m_r X^(N - r)

Its product has the total at coefficient 0 (X^N = -1 turns X^(N-i) into -X^-i).
Source: HERMES (coefficients-encoding); tested in docs/ckks.md section 1.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

SENTINELS = 16
Polynomial = NDArray[np.int64]  # N signed coefficients


def sentinel_weights(label: str) -> NDArray[np.int64]:
    """SENTINELS public weights of +-1 for `label`, so that swapped chunks are detected."""
    bits = np.unpackbits(np.frombuffer(hashlib.sha256(label.encode()).digest()[: SENTINELS // 8], np.uint8))
    return 1 - 2 * bits.astype(np.int64)


def sentinel_mask(degree: int, label: str) -> Polynomial:
    """The mask that moves the weighted sum of a chunk's sentinels to coefficient 0."""
    mask = np.zeros(degree, np.int64)
    # -X^j moves the sentinel at coefficient N-j to 0 (j = SENTINELS .. 1)
    mask[np.arange(SENTINELS, 0, -1)] = -sentinel_weights(label)
    return mask


def scan_label(label: str, number: int) -> str:
    """Label of the sentinel weights in chunk `number` of a scan with `label`."""
    return f"cleave/1/scan/{label}/{number}"
