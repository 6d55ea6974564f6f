"""Stored ciphertexts back into integers: decrypted, and each known by its sentinels to be in its place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cleave.ckks.cipher import Cipher, Sentinels
from cleave.ckks.layout import noise
from cleave.store.encrypting import sentinels
from cleave.store.lanes import Lanes
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import CheckFailed, WireError
from cleave_shared.moments import SENTINELS

_AT_ONCE = 8  # ciphertexts whose coefficients, 0.5 MB, stay in a processor's cache between two steps


def open_lane(
    cipher: Cipher,
    lanes: Lanes,
    label: bytes,
    lane: int,
    start: int,
    files: Sequence[bytes],
    marks: Sentinels | None = None,
) -> NDArray[np.int64]:
    """The coefficients (entries,) of ciphertexts `start`.. of a lane. Raises CheckFailed for any that is another.

    `marks`: whose sentinels they bear, where it is not the owner who encrypted them (`manifest.marks_of`).
    """
    place = Place(label, lanes, marks or cipher)
    return place.coefficients(cipher, lane, range(start, start + len(files)), files)


@dataclass(frozen=True, slots=True)
class Place:
    """What a segment's ciphertexts are known by: `label` and `marks` make its sentinels, `lanes` say what is in it."""

    label: bytes
    lanes: Lanes
    marks: Sentinels

    def fields(self, lane: int) -> tuple[int, ...]:
        """The numbers of the fields in `lane`, in the order `Opener.open` gives them."""
        return tuple(number for number, field in enumerate(self.lanes.layout.fields) if field.lane == lane)

    def coefficients(
        self, cipher: Cipher, lane: int, numbers: Sequence[int], files: Sequence[bytes]
    ) -> NDArray[np.int64]:
        try:
            coefficients = cipher.decrypt(files)
        except WireError:
            raise CheckFailed("stored", "an object of the table holds no ciphertext") from None
        wanted = np.stack([sentinels(self.marks, self.label, lane, number) for number in numbers])
        if (np.abs(coefficients[:, -SENTINELS:] - wanted) > noise(1, self.lanes.layout.variance)).any():
            raise CheckFailed("sentinel", "a stored ciphertext is another's, or was encrypted under another key")
        return coefficients[:, : self.lanes.capacity].reshape(-1)


class Opener:
    """Opens ciphertexts of rows of several segments, in this process or in one that was forked from it."""

    def __init__(self, cipher: Cipher, places: Sequence[Place]) -> None:
        self._cipher = cipher
        self.places = places

    def open(self, place: int, lane: int, numbers: Sequence[int], files: Sequence[bytes]) -> NDArray[np.int64]:
        """The fields (fields, entries) of ciphertexts `numbers` of a lane of segment `place`.

        Raises CheckFailed for a ciphertext that is another's, or does not hold integers within their bounds.
        """
        of = self.places[place]
        capacity = of.lanes.capacity
        found = np.empty((len(of.fields(lane)), len(files) * capacity), np.int64)
        for start in range(0, len(files), _AT_ONCE):
            stop = min(start + _AT_ONCE, len(files))
            coefficients = of.coefficients(self._cipher, lane, numbers[start:stop], files[start:stop])
            for row, (_, values) in zip(found, of.lanes.fields(lane, coefficients, 1), strict=True):
                row[start * capacity : stop * capacity] = values
        return found
