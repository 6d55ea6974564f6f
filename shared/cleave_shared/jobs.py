"""A job: a question with more calls than a client makes itself.

Its questions and answers are in the store under results/{set}/. A state machine passes steps to the function, each with
presigned links to what it reads and writes. It passes on their answers: numbers and digests.

  CallStep     the frames of a ScanRequest             -> those of its ScanResponse
  ReduceStep   answers of calls, or of other reduces   -> those of a Reduced

A link can be written once. A step gets several, so that it can be repeated if its answer was lost.
"""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from cleave_shared import limits
from cleave_shared.messages import Blob, Each, Item, Rules
from cleave_shared.requests import Linked, Sha256, Url
from cleave_shared.wire import BoundedCount, Envelope, Hex

_Links = Annotated[Each[Url], Rules(min_length=1, max_length=limits.MAX_STEP_ATTEMPTS)]
_StepNumber = Annotated[int, Rules(ge=0, lt=limits.MAX_REDUCED, strict=True)]


@dataclass(frozen=True, kw_only=True)
class Answered(Item):
    """A step's answer to the state machine: which step, and which of its links has the answer."""

    number: _StepNumber
    attempt: Annotated[int, Rules(ge=0, lt=limits.MAX_STEP_ATTEMPTS, strict=True)]
    bytes: Annotated[int, Rules(ge=1, le=limits.MAX_RESULT_BYTES, strict=True)]
    sha256: Sha256


@dataclass(frozen=True, kw_only=True)
class CallStep(Item):
    """A step that makes one call. `results`: presigned PUTs for its answer."""

    step: Literal["call"]
    set: Hex
    number: _StepNumber
    question: Linked
    results: _Links


@dataclass(frozen=True, kw_only=True)
class ReduceStep(Item):
    """A step that adds up answers; `parts` must have one answer of each step. `question`: a ReduceRequest."""

    step: Literal["reduce"]
    set: Hex
    number: _StepNumber
    question: Linked
    results: _Links
    # a state machine passes null for a failed item
    parts: Annotated[Each[Answered | None], Rules(max_length=limits.MAX_REDUCED)]


@dataclass(frozen=True, kw_only=True)
class ReduceRequest(Envelope):
    """`answers[i]`: presigned GETs of step i's answer, one per link. `kind`: of these answers.

    `sums[j]`: the ciphertexts in sum j, as (step, index among all ciphertexts of its answer). Each is a term at most
    once, so a request needs no more work than its answers contain.
    """

    profile: Annotated[str, Rules(max_length=32)]
    key_id: Hex
    answers: Annotated[Each[_Links], Rules(min_length=1, max_length=limits.MAX_REDUCED)]
    kind: Literal["scan", "reduced"]
    sums: Annotated[
        Each[Each[tuple[_StepNumber, BoundedCount]]], Rules(min_length=1, max_length=limits.MAX_STORED_SUMS)
    ]

    def __post_init__(self) -> None:
        if any(not terms for terms in self.sums):
            raise ValueError("sums: one has no terms")
        if any(step >= len(self.answers) for terms in self.sums for step, _ in terms):
            raise ValueError("sums: one has a term of a step that is not there")
        most = limits.MAX_SCAN_RESULTS if self.kind == "scan" else limits.MAX_STORED_SUMS
        if any(place >= most for terms in self.sums for _, place in terms):
            raise ValueError(f"sums: one has a term beyond the {most} ciphertexts of an answer")
        if len({term for terms in self.sums for term in terms}) != sum(map(len, self.sums)):
            raise ValueError("sums: a ciphertext is added more than once")


@dataclass(frozen=True, kw_only=True)
class Reduced(Envelope):
    profile: str
    key_id: Hex
    totals: Each[Each[Blob]] = field(metadata={"description": "the sums, in one list"})
