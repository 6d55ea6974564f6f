"""Answer a question over a file or frame: group its rows here, send them plain or encrypted, and add up the answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cleave.ask.question import GroupSums, RunningQuestion, Usage
from cleave.ask.way import READ_HERE, Disclosures, Use, Uses, Way, WayContext, Work
from cleave.sql.plan import Cut, QueryPlan
from cleave.table.running import limited, within

if TYPE_CHECKING:
    from cleave.ask.ways.packed import Packed
    from cleave.ckks.secret_key import SecretKey
    from cleave.deadline import Deadline
    from cleave.sql.split import Halves
    from cleave.table.table import Table
    from cleave.transport.base import Transport


@dataclass(frozen=True, slots=True)
class FilePlace:
    """A table that was read.

    `secret` and `connect` return its CKKS key and the services when they are needed. `packed` is what would be sent, if
    the question is only described.
    """

    table: Table
    secret: Callable[[], SecretKey]
    connect: Callable[[Deadline], Transport]
    packed: Packed | None = None


@dataclass(frozen=True)
class FileWay(Way[FilePlace]):
    cut: Cut

    name = "file"

    def work(self, place: FilePlace, *, pad: bool) -> Work:  # noqa: ARG002 - it was packed so
        return place.packed.work() if place.packed else Work()

    def uses(self, place: FilePlace) -> Uses:
        if place.packed:
            return place.packed.uses()
        return {(place.table.name, name): Use(READ_HERE) for name in self.cut.rows()[self.cut.table]}

    def disclosures(self, place: FilePlace, *, pad: bool) -> Disclosures:  # noqa: ARG002 - as above
        return place.packed.disclosures() if place.packed else Disclosures()

    def answer(self, context: WayContext[FilePlace]) -> GroupSums:
        place, question = context.place, context.question
        if (sums := self.cut.sums()) is None:
            raise TypeError("DuckDB answers the question as a whole")
        cut, halves = split_in_time(place.table, sums, question)
        if cut.sends_nothing:
            return local_sums(cut, halves)
        from cleave.ask.ways.encrypted import encrypted_sums  # noqa: PLC0415 - TenSEAL takes 60 ms

        key = place.secret()
        transport = place.connect(question.deadline).begin(question.deadline)
        try:
            return encrypted_sums(halves, cut, key, transport, question)
        finally:
            transport.stop()


def split_in_time(table: Table, cut: QueryPlan, question: RunningQuestion) -> tuple[QueryPlan, Halves]:
    """Split the table by `cut`. Raises OutOfTime, Stopped."""
    from cleave.sql.split import split  # noqa: PLC0415

    def halves() -> tuple[QueryPlan, Halves]:
        with limited(table.connection, question.deadline.left):  # its thread has ended before anything forks
            return split(table, cut)

    with question.clock.stage("split"):
        return within(question.deadline, halves)


def local_sums(cut: QueryPlan, halves: Halves) -> GroupSums:
    """Return the groups of a question that asks no service, with what is computed here for each group."""
    return GroupSums(
        cut,
        halves.keys,
        halves.counts.tolist(),
        local=halves.local,
        tally=halves.tally,
        usage=Usage(rows=halves.rows),
        checks=unasked(),
        release=halves.close,
    )


def unasked() -> dict[str, str]:
    """Return the checks of services that were not asked."""
    from cleave.ckks.checks import CHECKS  # noqa: PLC0415

    return dict.fromkeys(("plain groups", *CHECKS), "not needed")
