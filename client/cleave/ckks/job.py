"""One job's encrypted half, after its packing: values into plaintexts, requests out, checked totals back."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cleave.aggregates.base import Estimate
from cleave.ckks.checks import GroupDrift, check_envelope, check_sentinels, check_totals
from cleave.ckks.cipher import Cipher
from cleave.ckks.encode import SENTINEL_SHIFT, Encoded
from cleave.ckks.packing import Packing, Part
from cleave.ckks.totals import Totals
from cleave_shared.errors import CheckFailed, WireError
from cleave_shared.moments import SENTINELS
from cleave_shared.wire import MomentsRequest, MomentsResponse


class Job:
    def __init__(self, packing: Packing, encoded: Encoded, cipher: Cipher) -> None:
        self.packing = packing
        self._plaintexts = encoded.plaintexts
        self._cipher = cipher
        self._totals = Totals(packing, encoded.scales)
        self._drift = GroupDrift(packing)
        name = secrets.token_bytes(16)  # makes every job's sentinels its own
        for index, plaintext in enumerate(self._plaintexts):
            plaintext[-SENTINELS:] = cipher.sentinels(name, index) << SENTINEL_SHIFT

    def encrypt(self, part: Part) -> list[bytes]:
        return self._cipher.encrypt(self._plaintexts[part.start : part.stop])

    def request(self, part: Part, key_id: str, schema_hash: str, chunks: Sequence[bytes]) -> MomentsRequest:
        return MomentsRequest(
            profile=self.packing.profile.name,
            key_id=key_id,
            schema_hash=schema_hash,
            chunk_range=(part.start, part.stop),
            blocks=[piece.chunks for piece in part.pieces],
            chunks=list(chunks),
        )

    def accept(self, part: Part, request: MomentsRequest, response: MomentsResponse) -> None:
        """Decrypt, check and add one answer, whole or not at all.

        Raises CheckFailed, and then nothing of the job may be used. Not for several threads at once.
        """
        check_envelope(request, response)
        try:
            results = self._cipher.decrypt(response.totals)
        except WireError as error:
            raise CheckFailed("envelope", f"a result of the answer is {error.message}") from None
        expected = self._expected(part)
        check_sentinels(part, results, expected)
        decoded = [self._totals.decode(piece, result) for piece, result in zip(part.pieces, results, strict=True)]
        check_totals(part, results, expected)
        self._drift.check(part, results, expected)
        for piece, positions in zip(part.pieces, decoded, strict=True):
            self._totals.add(piece, positions)

    def _expected(self, part: Part) -> NDArray[np.int64]:
        """The sum of each piece's plaintexts (pieces, N)."""
        return np.stack([self._plaintexts[piece.start : piece.stop].sum(axis=0) for piece in part.pieces])

    def estimates(self, group: int) -> list[Estimate]:
        """The total of every encrypted column over one group."""
        return self._totals.estimates(group)
