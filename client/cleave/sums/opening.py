"""Stored ciphertexts back into integers: decrypted, and each recognised by its sentinels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cleave.ckks.checks import require_sentinels
from cleave.ckks.cipher import Cipher
from cleave.store.encrypting import sentinels
from cleave.store.lanes import Lanes
from cleave_shared.errors import CheckFailed, WireError


def open_lane(cipher: Cipher, lanes: Lanes, label: bytes, lane: int, files: Sequence[bytes]) -> NDArray[np.int64]:
    """The coefficients (entries,) of all ciphertexts of a lane, in order. `label` makes their sentinels.

    Raises CheckFailed for one that is another.
    """
    try:
        coefficients = cipher.decrypt(files)
    except WireError:
        raise CheckFailed("stored", "an object of the table holds no ciphertext") from None
    wanted = np.stack([sentinels(cipher, label, lane, number) for number in range(len(files))])
    require_sentinels(coefficients, wanted, 1, "a stored ciphertext is another's, or was encrypted under another key")
    return coefficients[:, : lanes.capacity].reshape(-1)
