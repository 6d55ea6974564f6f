"""What a way to answer a question takes: bytes, requests, seconds, dollars and memory.

Seconds of this machine's and the services' processors are counts of operations times their timings (see
`benchmarks.lab.model.operations` and `.timings`). What the network takes is assumed. Prices are those of
docs/deploy.md, S3's GET beside them: list prices of us-east-1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from benchmarks.lab.model.costs import Cost
from benchmarks.lab.model.operations import Counts, Operation, added
from benchmarks.lab.model.timings import Timings
from cleave_shared.dataclass import dataclass

NETWORK_BYTES = 12.5e6  # a second, between here and a bucket: 100 Mbit/s, assumed
DISK_BYTES = 2e9  # a second, of a store that is a folder, most of which is in memory; checked by SHA-256
ROUND_TRIP = 0.04  # seconds of a request to another place, assumed
SIDE_BY_SIDE = 8  # requests under way at once, about: more for rows, fewer for totals
SERVICE_SECONDS = 0.1  # a call of a warm function, links and all
SERVICE_BYTES = 60e6  # a second, that a function reads from its own region's bucket, assumed

PROGRAM_BYTES = 139_000_000  # of this process and those it forks, with the services in it, before there is a row

GET_DOLLARS = 0.40e-6
OUT_DOLLARS = 0.09e-9  # a byte that leaves the region
CALL_DOLLARS = 3.70e-6  # of the REST API and of Lambda
SECOND_DOLLARS = 1.7275 * 16.6667e-6  # of a function of 1769 MB


@dataclass(frozen=True, slots=True)
class Work:
    """All that a way takes. `reads`: bytes of each object, or range of one, that is read here.

    `here`, `there`: operations of this machine, and of services in `calls` calls, which read `linked` bytes of
    `objects` objects, are sent `sent` bytes and answer `answered`. `memory`: bytes of this machine's at once, beside
    what the program has.
    """

    here: Counts = field(default_factory=dict)
    reads: Sequence[int] = ()
    there: Counts = field(default_factory=dict)
    calls: int = 0
    linked: int = 0
    objects: int = 0
    answered: int = 0
    sent: int = 0
    memory: int = 0
    at_once: int = 0  # of the services' processes; 0: as many as there are cores

    def __add__(self, other: Work) -> Work:
        return Work(
            added(self.here, other.here),
            (*self.reads, *other.reads),
            added(self.there, other.there),
            self.calls + other.calls,
            self.linked + other.linked,
            self.objects + other.objects,
            self.answered + other.answered,
            self.sent + other.sent,
            self.memory + other.memory,
            max(self.at_once, other.at_once),
        )

    @property
    def counts(self) -> Counts:
        return added(self.here, self.there)


NOTHING = Work()


@dataclass(frozen=True, slots=True)
class Prices:
    """`bucket`: the store is one, and no folder. `elsewhere`: the services are not in this process."""

    bucket: bool
    elsewhere: bool
    timings: Timings

    def of(self, work: Work) -> Cost:
        asked = work.answered if self.elsewhere else 0
        came = sum(work.reads) + asked
        seconds = self._here(work) + self._there(work)
        return Cost(came, len(work.reads) + work.calls, seconds, self._dollars(work), PROGRAM_BYTES + work.memory)

    def _here(self, work: Work) -> float:
        """All cores decrypt while more is read."""
        total = sum(work.reads)
        decrypting: Counts = {Operation.DECRYPT: work.here.get(Operation.DECRYPT, 0)}
        waiting = total / DISK_BYTES
        if self.bucket:
            waiting = -(-len(work.reads) // SIDE_BY_SIDE) * ROUND_TRIP + total / NETWORK_BYTES
        rest: Counts = {each: count for each, count in work.here.items() if each is not Operation.DECRYPT}
        return max(waiting, self.timings.of(decrypting)) + self.timings.of(rest)

    def _there(self, work: Work) -> float:
        """What services of this process do side by side takes as long as one after the other: all cores are at work."""
        if not work.calls:
            return 0.0
        if not self.elsewhere:
            cores = min(self.timings.cores(), work.at_once or self.timings.cores())
            return self.timings.of(work.there, cores) + work.linked / (NETWORK_BYTES if self.bucket else DISK_BYTES)
        return (
            self._busy(work) / min(work.calls, SIDE_BY_SIDE) + ROUND_TRIP + (work.answered + work.sent) / NETWORK_BYTES
        )

    def _busy(self, work: Work) -> float:
        """Seconds of functions, of one processor each."""
        return work.calls * SERVICE_SECONDS + work.linked / SERVICE_BYTES + self.timings.of(work.there, cores=1)

    def _dollars(self, work: Work) -> float:
        dollars = 0.0
        if self.bucket:
            dollars += (len(work.reads) + work.objects) * GET_DOLLARS + sum(work.reads) * OUT_DOLLARS
        if self.elsewhere:
            dollars += work.calls * CALL_DOLLARS + self._busy(work) * SECOND_DOLLARS + work.answered * OUT_DOLLARS
        return dollars
