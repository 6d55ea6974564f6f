"""Finish a question: the answers of its parts become one, or DuckDB on this machine answers all of it."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from cleave.ask.plan import AnswerPlan
from cleave.ask.question import Answer, GroupSums, RunningQuestion
from cleave.ask.source import Source
from cleave.finish import ResultTable, finish
from cleave.finish.finish import uncollected
from cleave.sql.plan import LocalPlan
from cleave.sql.rejoin import merge, regroup, rejoin
from cleave.sql.tally import tally_of_rows
from cleave.table.running import limited, run_select, within
from cleave.table.types import has_floats

if TYPE_CHECKING:
    from cleave.sql.join import JoinPlan
    from cleave.sql.split import Halves

_PATIENCE = 2.0  # seconds for DuckDB to notice that it is interrupted


def finished(sums: GroupSums, question: RunningQuestion) -> Answer:
    """Finish the answer to a question that was divided. Raises CheckFailed if two sources report different groups."""
    cut, least = sums.cut, question.least
    with question.clock.stage("finish"), uncollected():
        if sums.keys is None:
            groups = merge(cut, sums.responses)
        else:
            groups = rejoin(cut, sums.responses, sums.keys, sums.counts)
        sums.release()
        every, of = regroup(cut, groups, sums.responses)
        every = replace(every, local=sums.local)
        shown, people = None, None
        if least:
            from cleave.disclosure.crowds import seen_with_values  # noqa: PLC0415 - few questions need it
            from cleave.disclosure.suppress import suppress_small  # noqa: PLC0415 - as above

            tally, arguments = sums.tally or tally_of_rows(groups.counts), len(cut.maybe_null) if sums.tally else 0
            shown = suppress_small(every, of, tally, least, arguments)
            every, of = shown.groups, shown.of
            if question.sized:
                people = seen_with_values(tally, arguments)
        result = finish(cut, every, sums.figures(of, groups.counts), shown.hidden if shown else ())
        warnings = [*sums.warnings, *result.warnings]
        result = replace(result, scanned=sums.scanned, note=sums.note, warnings=warnings)
    usage = sums.usage
    if shown is not None:  # with the counts that are shown these could tell the size of a suppressed group
        usage = replace(
            usage,
            rows=None,
            min_group=least,
            suppressed_groups=shown.small,
            withheld_groups=shown.withheld,
            hidden_figures=sum(map(sum, result.hidden)),
            counted=tally.counted,
            printing=cut.printing,
        )
    else:
        selected = None if usage.rows is None else sum(groups.counts)  # of a noisy release nobody knows
        usage = replace(usage, selected_rows=selected, groups=len(groups.keys))
    return Answer(result, sums.checks, usage, question.clock.seconds, people)


def finished_whole(source: Source, plan: AnswerPlan, whole: LocalPlan, question: RunningQuestion) -> Answer:
    """Let DuckDB on this machine answer a whole question over the rows that `source` loads.

    Raises InputError if the rows do not allow the computation, OutOfTime when the question's time is over.
    """
    if question.least:
        from cleave.sql.join import JoinPlan  # noqa: PLC0415 - few questions need it

        if not isinstance(whole, JoinPlan):
            raise TypeError("a plan under a threshold that counts nobody")
        return _finished_join(source, plan, whole, question)
    deadline = question.deadline
    with source.load(plan, question) as loaded:

        def run() -> list[list[object]]:
            return run_select(loaded.table, loaded.name, whole.runs, whole.types, deadline.left, ordered=whole.ordered)

        with question.clock.stage("local"):
            # in a thread of its own: some of DuckDB's functions do not look whether they are interrupted
            rows = within(deadline, lambda: deadline.call(run, _PATIENCE))
        exact = [whole.has_bounds and not has_floats(type_) for type_ in whole.types]
        result = ResultTable(
            columns=list(whole.outputs),
            types=list(whole.types),
            rows=rows,
            bounds=[[0.0 if each else None for each in exact] for _ in rows],
            exact=[[True if each else None for each in exact] for _ in rows],
        )
        return Answer(result, loaded.checks, loaded.usage(), question.clock.seconds)


def _finished_join(source: Source, plan: AnswerPlan, whole: JoinPlan, question: RunningQuestion) -> Answer:
    """Answer a question over a join in which a minimum group size counts the people."""
    with source.load(plan, question) as loaded, ExitStack() as stack:
        stack.callback(whole.join.drop, loaded.table)

        def grouped() -> Halves:
            with limited(loaded.table.connection, question.deadline.left):
                return whole.join.halves(loaded.table, loaded.name, whole.cut, whole.reads)

        with question.clock.stage("local"):
            halves = within(question.deadline, grouped)
        stack.callback(halves.close)
        sums = GroupSums(
            whole.cut,
            halves.keys,
            halves.counts.tolist(),
            local=halves.local,
            tally=halves.tally,
            usage=loaded.usage(),
            checks=loaded.checks,
        )
    return finished(sums, question)
