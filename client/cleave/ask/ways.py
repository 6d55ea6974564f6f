"""A way to answer a question, and what it reads and costs: exact numbers, no estimates."""

from __future__ import annotations

from collections.abc import Sequence

from cleave_shared.dataclass import dataclass

# List prices of us-east-1 (docs/deploy.md). The time of Lambda functions is not foreseen and not included.
GET_DOLLARS = 0.40e-6  # of a read from S3
OUT_DOLLARS = 0.09e-9  # of a byte that leaves the region
CALL_DOLLARS = 3.70e-6  # of a request to the REST API and to Lambda


@dataclass(frozen=True, slots=True)
class Work:
    """What a way takes. `reads`: bytes of each object, or range of one, that is read here. Services read `linked` bytes
    of `objects` objects in `calls` calls, and answer `answered` bytes at most.
    """

    reads: Sequence[int] = ()
    calls: int = 0
    linked: int = 0
    objects: int = 0
    answered: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(
            (*self.reads, *other.reads),
            self.calls + other.calls,
            self.linked + other.linked,
            self.objects + other.objects,
            self.answered + other.answered,
        )

    @property
    def bytes(self) -> int:
        """Bytes of stored objects that are read, here or by a service."""
        return sum(self.reads) + self.linked


@dataclass(frozen=True, slots=True)
class Cost:
    """`bytes` come to this machine in `requests` requests. `dollars`: of reads, calls and transfer at list price."""

    bytes: int
    requests: int
    dollars: float


def cost_of(work: Work, *, bucket: bool, elsewhere: bool) -> Cost:
    """`bucket`: the store is one, and no folder. `elsewhere`: the services are not in this process."""
    read, answered = sum(work.reads), work.answered if elsewhere else work.linked
    dollars = 0.0
    if bucket:
        dollars += (len(work.reads) + work.objects) * GET_DOLLARS + read * OUT_DOLLARS
    if elsewhere:
        dollars += work.calls * CALL_DOLLARS
    if bucket or elsewhere:
        dollars += answered * OUT_DOLLARS
    return Cost(read + answered, len(work.reads) + work.calls, dollars)


@dataclass(frozen=True, slots=True)
class Way:
    """`cost` None: the question cannot be answered so, and `reason` says why; else why it is `taken` or not."""

    name: str
    cost: Cost | None
    taken: bool
    reason: str
