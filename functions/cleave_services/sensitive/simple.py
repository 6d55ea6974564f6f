"""The simplest call: columns as lists of base64 ciphertexts. The ciphertexts of each column are added up."""

from dataclasses import dataclass
from typing import Annotated

from cleave_services.bodies import Note
from cleave_services.sensitive import workers
from cleave_services.sensitive.evaluate import BlockSums, Chunk, Evaluator
from cleave_shared import limits
from cleave_shared.errors import WireError
from cleave_shared.messages import Blob, Each, Item, Message, Rules
from cleave_shared.params import SimpleOperation
from cleave_shared.seal import seal_evaluator
from cleave_shared.wire import BoundedCount


@dataclass(frozen=True, kw_only=True)
class SimpleSensitiveRequest(Item):
    """`data` holds seeded ciphertexts of `profile`.

    The chunks of a column are added up, wherever its values lie in them. For var, stddev and product the caller
    encrypts squares or logarithms as further lanes. `operation` and `rows` are echoed, so that the caller can finish
    what only the key's holder can.
    """

    data: Annotated[
        dict[str, Annotated[Each[Blob], Rules(min_length=1)]], Rules(min_length=1, max_length=limits.MAX_LANES)
    ]
    operation: SimpleOperation
    profile: Annotated[str, Rules(max_length=32)]
    rows: Annotated[int, Rules(ge=1, le=limits.MAX_SIMPLE_ROWS, strict=True)]

    def __post_init__(self) -> None:
        if (chunks := sum(map(len, self.data.values()))) > limits.MAX_REQUEST_CHUNKS:
            raise ValueError(f"data: {chunks} chunks, at most {limits.MAX_REQUEST_CHUNKS} in one request")


@dataclass(frozen=True, kw_only=True)
class SimpleSensitiveResponse(Message):
    """`result` holds one ciphertext per column."""

    operation: str
    profile: str
    rows: BoundedCount
    result: dict[str, Blob]


def answer_simple(request: SimpleSensitiveRequest, note: Note, _links: None = None) -> SimpleSensitiveResponse:
    """The sum of the ciphertexts of each column."""
    response = answer(request, seal_evaluator(request.profile))
    note(rows=response.rows, chunks=sum(map(len, request.data.values())))
    return response


def answer(request: SimpleSensitiveRequest, evaluator: Evaluator) -> SimpleSensitiveResponse:
    """Raises WireError: 413 if the answer would be too large, 422 for chunks that are no ciphertexts."""
    most = limits.MAX_BODY_BYTES // limits.RESULT_BYTES
    if len(request.data) > most:  # before any work
        raise WireError(
            f"an answer of {len(request.data)} ciphertexts, at most {most} fit",
            hint="send fewer columns per request",
            code="too_large",
        )
    return SimpleSensitiveResponse(
        operation=request.operation,
        profile=request.profile,
        rows=request.rows,
        result={name: _sum(evaluator, blobs) for name, blobs in request.data.items()},
    )


def _sum(evaluator: Evaluator, blobs: list[bytes]) -> bytes:
    with workers.fair_share() as share:
        return workers.evaluate(BlockSums(evaluator), [Chunk(0, blob) for blob in blobs], share).files[0]
