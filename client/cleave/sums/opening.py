"""Stored ciphertexts back into integers: decrypted, and each recognised by its sentinels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cleave.ckks.cipher import Cipher
from cleave.ckks.layout import noise
from cleave.store.encrypting import sentinels
from cleave.store.lanes import Lanes
from cleave_shared.errors import CheckFailed, WireError
from cleave_shared.moments import SENTINELS


def open_lane(cipher: Cipher, lanes: Lanes, label: bytes, lane: int, files: Sequence[bytes]) -> NDArray[np.int64]:
    """The coefficients (entries,) of all ciphertexts of a lane, in order. `label` makes their sentinels.

    Raises CheckFailed for one that is another.
    """
    try:
        coefficients = cipher.decrypt(files)
    except WireError:
        raise CheckFailed("stored", "an object of the table holds no ciphertext") from None
    wanted = np.stack([sentinels(cipher, label, lane, number) for number in range(len(files))])
    if (np.abs(coefficients[:, -SENTINELS:] - wanted) > noise(1)).any():
        raise CheckFailed("sentinel", "a stored ciphertext is another's, or was encrypted under another key")
    return coefficients[:, : lanes.capacity].reshape(-1)
