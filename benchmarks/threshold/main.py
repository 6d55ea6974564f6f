"""`make bench-threshold`: sums of 8,192 values of each party that all parties decrypt together, and additive shares.

Processor time of one thread and bytes, of one party where not said otherwise. Additive secret sharing gives the same
totals with the same promise: no n - 1 parties learn more than the total. Its parties send each other a share of each
value, over private channels that are not counted, and publish the sum of what they received.
"""

from __future__ import annotations

import argparse
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from benchmarks.tables import figure, machine, markdown
from benchmarks.threshold.scheme import DEGREE, Party, Setup, added, combine, encrypt, joint_key
from cleave_shared import seal

PARTIES = (2, 5, 20, 50)
VALUE_BITS = 36

T = TypeVar("T")
Words = NDArray[np.uint64]


@dataclass
class Laps:
    """Milliseconds of each step, all its runs together."""

    steps: dict[str, float] = field(default_factory=dict)

    def timed(self, step: str, work: Callable[[], T]) -> T:
        started = time.process_time()
        result = work()
        self.steps[step] = self.steps.get(step, 0.0) + 1e3 * (time.process_time() - started)
        return result


@dataclass(frozen=True, slots=True)
class Cost:
    """Milliseconds of a party, of the service and of who reads the totals; bytes that a party sends."""

    party: float
    service: float
    reader: float
    sent: int


def threshold(values: NDArray[np.int64]) -> Cost:
    """`values`: (parties, N). Raises SystemExit if a total is wrong."""
    count, laps = len(values), Laps()
    setup = Setup(count, count)
    setup.shared, setup.data, setup.context  # noqa: B018 - once for all totals
    parties = [laps.timed("party", lambda number=number: Party(setup, number)) for number in range(count)]
    commitments = [each.commitment for each in parties]
    openings = [each.opening(commitments) for each in parties]
    key = laps.timed("service", lambda: joint_key(setup, commitments, openings))
    sent = [laps.timed("party", lambda row=row: encrypt(setup, key, row)) for row in values.tolist()]
    total = laps.timed("service", lambda: added(setup, sent))
    shares = [laps.timed("party", lambda party=party: party.share(total)) for party in parties]
    if laps.timed("reader", lambda: combine(setup, total, shares)) != values.sum(axis=0).tolist():
        raise SystemExit("a total is wrong")
    size = len(commitments[0]) + openings[0].key.nbytes + len(seal.save(sent[0])) + shares[0].nbytes
    return Cost(laps.steps["party"] / count, laps.steps["service"], laps.steps["reader"], size)


def additive(values: NDArray[np.int64]) -> Cost:
    """The same by additive shares modulo 2^64."""
    count, laps = len(values), Laps()
    sent = [laps.timed("party", lambda row=row: split(row.view(np.uint64), count)) for row in values]
    sums = [laps.timed("party", lambda to=to: summed([each[to] for each in sent])) for to in range(count)]
    if laps.timed("reader", lambda: summed(sums).view(np.int64)).tolist() != values.sum(axis=0).tolist():
        raise SystemExit("a total is wrong")
    return Cost(laps.steps["party"] / count, 0.0, laps.steps["reader"], sums[0].nbytes * count)


def split(words: Words, parties: int) -> list[Words]:
    """Shares that add up to `words` modulo 2^64; any parties - 1 of them are uniform."""
    drawn = [np.frombuffer(secrets.token_bytes(words.nbytes), np.uint64) for _ in range(parties - 1)]
    return [*drawn, words - summed(drawn)]


def summed(words: Sequence[Words]) -> Words:
    total = words[0].copy()
    for each in words[1:]:
        total += each
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--parties", type=int, nargs="+", default=PARTIES)
    given = parser.parse_args()
    print(f"{machine()}; {DEGREE:,} values of {VALUE_BITS} bits each\n")
    rows = []
    for parties in given.parties:
        random = np.random.default_rng(parties)
        values = random.integers(-1 << VALUE_BITS, 1 << VALUE_BITS, (parties, DEGREE))
        by_keys, by_shares = threshold(values), additive(values)
        setup = Setup(parties, parties)
        rows.append(
            [
                str(parties),
                *(figure(each) for each in (by_keys.party, by_keys.service, by_keys.reader, by_keys.sent / 1e3)),
                str(setup.value_bits),
                *(figure(each) for each in (by_shares.party, by_shares.reader, by_shares.sent / 1e3)),
            ]
        )
    head = ["parties", "ms", "service, ms", "reader, ms", "KB sent", "bits of a total"]
    print(markdown([*head, "additive: ms", "reader, ms", "KB sent"], rows))


if __name__ == "__main__":
    main()
