"""The envelopes of scans of stored tables: which rows are in which group, and sums of the rows of each.

    POST /v1/plain/tables/{set}/aggregate    StoredPlainRequest with `members`  -> StoredPlainResponse
    POST /v1/sensitive/tables/{set}/scan     ScanRequest                        -> ScanResponse

The plain service numbers rows of its half by group. The sender alone knows where each stands among the ciphertexts,
and asks the sensitive service for sums of positions.
"""

from __future__ import annotations

import itertools
from typing import Annotated

from pydantic import Field, model_validator

from cleave_shared import limits
from cleave_shared.stored import Linked, Place, require_bounded
from cleave_shared.wire import Blob, Each, Envelope, Hex

Weight = Annotated[int, Field(ge=1, lt=1 << 15, strict=True)]


class ScanObject(Linked):
    """Some of a lane's ciphertexts."""

    first: Place = Field(description="number of the first of them in the lane")


class ScanRequest(Envelope):
    """Ask for sums of the rows of each group, of lanes that lie alike.

    A row is one coefficient of a ciphertext of each lane; a chunk has N - 16 of them. A group's partial sum begins at
    each of its `cuts`, places in `chunks`, and goes on to the next.
    """

    profile: str = Field(max_length=32)
    key_id: Hex
    label: Hex = Field(description="makes the weights of the sentinels this request's own")
    lanes: Each[Annotated[Each[ScanObject], Field(min_length=1, max_length=limits.MAX_SCAN_CHUNKS)]] = Field(
        min_length=1, max_length=limits.MAX_SCAN_RESULTS
    )
    chunks: Each[Place] = Field(
        min_length=1, max_length=limits.MAX_SCAN_CHUNKS, description="numbers of chunks, rising; no others are read"
    )
    numbers: Blob = Field(description="chunk after chunk, its rows' groups in bit planes: 0 for a row of none")
    cuts: Each[Annotated[Each[Place], Field(min_length=1)]] = Field(
        min_length=1, max_length=limits.MAX_SCAN_RESULTS, description="of each group"
    )
    weights: Each[Weight] = Field(description="of each group in its lane's check result")

    @property
    def results(self) -> int:
        """Return the results of one lane."""
        return 1 + sum(map(len, self.cuts))

    @model_validator(mode="after")
    def _consistent(self) -> ScanRequest:
        if not _rises(self.chunks):
            raise ValueError("chunks: their numbers must rise")
        if len(self.weights) != len(self.cuts):
            raise ValueError(f"weights: {len(self.weights)} for {len(self.cuts)} groups")
        if any(not _rises(each) or each[-1] >= len(self.chunks) for each in self.cuts):
            raise ValueError("cuts: places in chunks must rise")
        most = limits.MAX_SCAN_RESULTS
        if len(self.lanes) * self.results > most:
            raise ValueError(f"asks for {len(self.lanes) * self.results} results, at most {most} in one request")
        require_bounded([each for lane in self.lanes for each in lane])
        return self


class ScanResponse(Envelope):
    profile: str
    key_id: Hex
    label: Hex
    totals: Each[Each[Blob]] = Field(
        max_length=limits.MAX_SCAN_RESULTS,
        description="of each lane CKKS ciphertexts: the check result, then each group's partial sums",
    )
    timings: dict[str, float] = Field(default_factory=dict, description="seconds by stage")


def _rises(numbers: list[int]) -> bool:
    return all(one < other for one, other in itertools.pairwise(numbers))
