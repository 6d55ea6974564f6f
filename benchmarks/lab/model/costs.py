"""A way to answer a question, and what it would take: by this the ways of one question are compared, and shown."""

from __future__ import annotations

from cleave_shared.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Cost:
    """An estimate. `bytes` come here, in `requests`; `seconds` from the first request to the answer. `memory`: bytes
    that all processes of this machine have at once, at most.
    """

    bytes: int
    requests: int
    seconds: float
    dollars: float
    memory: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.bytes + other.bytes,
            self.requests + other.requests,
            self.seconds + other.seconds,
            self.dollars + other.dollars,
            max(self.memory, other.memory),
        )


@dataclass(frozen=True, slots=True)
class Way:
    """`cost` None: the question cannot be answered so, and `reason` says why; else why it is `taken` or not."""

    name: str
    cost: Cost | None
    taken: bool
    reason: str
