"""One job's encrypted half, after its packing: values into plaintexts, requests out, checked totals back."""

from __future__ import annotations

import copy
import secrets
from collections.abc import Iterable, Sequence

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

LEAST_TO_ADD = 12  # chunks: for fewer the other form is as quick, which takes no second context


class Job:
    def __init__(self, packing: Packing, encoded: Encoded, cipher: Cipher) -> None:
        self.packing = packing
        self._plaintexts = encoded.plaintexts
        self._cipher = cipher
        self._scales = encoded.scales
        self._begin()
        name = secrets.token_bytes(16)  # makes every job's sentinels its own
        for index, plaintext in enumerate(self._plaintexts):
            plaintext[-SENTINELS:] = cipher.sentinels(name, index) << SENTINEL_SHIFT
        if packing.chunks >= LEAST_TO_ADD:
            cipher.prepare_to_add()

    def _begin(self) -> None:
        self._totals = Totals(self.packing, self._scales)
        self._drift = GroupDrift(self.packing)
        self._accepted: set[int] = set()  # chunks

    def unanswered(self) -> Job:
        """The same job, of which no answer has been accepted."""
        job = copy.copy(self)
        job._begin()
        return job

    def encrypt(self, part: Part) -> Iterable[bytes]:
        polynomials = self._plaintexts[part.start : part.stop]
        if self.packing.chunks < LEAST_TO_ADD:
            return self._cipher.encrypt(polynomials)
        return self._cipher.each_to_add(polynomials)

    def request(
        self, part: Part, key_id: str, schema_hash: str, chunks: Sequence[bytes | memoryview]
    ) -> MomentsRequest:
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
        if not self._accepted.isdisjoint(range(part.start, part.stop)):
            raise CheckFailed("envelope", "an answer about the same chunks has been accepted before")
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
        self._accepted.update(range(part.start, part.stop))

    def _expected(self, part: Part) -> NDArray[np.int64]:
        """The sum of each piece's plaintexts (pieces, N)."""
        return np.stack([self._plaintexts[piece.start : piece.stop].sum(axis=0) for piece in part.pieces])

    @property
    def totals(self) -> Totals:
        """Raises CheckFailed unless every answer was accepted."""
        if len(self._accepted) != self.packing.chunks:
            raise CheckFailed("envelope", "not every chunk has been answered")
        return self._totals

    def estimates(self, group: int) -> list[Estimate]:
        """The total of every encrypted column over one group. Raises CheckFailed unless every answer was accepted."""
        return self.totals.estimates(group)
