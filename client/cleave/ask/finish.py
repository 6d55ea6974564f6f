"""Make an answer of what a source gives: rejoin groups, leave out small ones, finish figures, count the usage."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from cleave.ask.result import Result
from cleave.ask.source import GroupSums, Loaded, Question
from cleave.ask.suppress import suppress_small
from cleave.processes.deadline import Deadline, OutOfTime, Stopped
from cleave.sql.plan import LocalPlan
from cleave.sql.rejoin import merge, rejoin
from cleave.sql.sets import regroup
from cleave.table.asked import run_select
from cleave_shared import duckdb
from cleave_shared.errors import CleaveError, QueryRefused

T = TypeVar("T")


def finished(sums: GroupSums, question: Question) -> Result:
    """The answer to a plan that was cut. Raises CheckFailed where two sources report different groups."""
    from cleave.finish import finish  # noqa: PLC0415 - see import_finish
    from cleave.finish.uncollected import uncollected  # noqa: PLC0415

    plan, least = sums.plan, question.options.min_group
    with question.clock.stage("finish"), uncollected():
        if sums.keys is None:
            groups = merge(plan, sums.responses)
        else:
            groups = rejoin(plan, sums.responses, sums.keys, sums.counts)
        sums.release()
        answered = regroup(plan, groups, sums.responses)
        answered = replace(answered, groups=replace(answered.groups, local=sums.local))
        shown, members, suppressed = suppress_small(answered, answered.members, groups.counts, least)
        result = replace(finish(plan, shown, sums.figures(members, groups)), scanned=sums.scanned)
    usage = sums.usage
    if least:  # with the counts that are shown these could tell the size of a suppressed group
        usage = replace(
            usage,
            rows=None,
            min_group=least,
            suppressed_groups=suppressed.small,
            withheld_groups=suppressed.withheld,
        )
    else:
        usage = replace(usage, selected_rows=sum(groups.counts), groups=len(groups.keys))
    return Result(result, sums.checks, usage, question.clock.seconds)


def finished_whole(loaded: Loaded, plan: LocalPlan, question: Question) -> Result:
    """The answer of DuckDB on this machine to a question as a whole.

    Raises InputError where it cannot be computed on these rows, OutOfTime once the question's time is over.
    """
    deadline = question.deadline

    def run() -> list[list[object]]:
        return run_select(loaded.table, loaded.name, plan.run or plan.sql, plan.types, deadline.left)

    with question.clock.stage("local"):
        # in a thread of its own: some of DuckDB's functions do not look whether they are interrupted
        rows = within(deadline, lambda: deadline.call(run))
    from cleave.finish import ResultTable  # noqa: PLC0415 - see import_finish

    exact = [type_ not in ("FLOAT", "DOUBLE") for type_ in plan.types]
    result = ResultTable(
        columns=list(plan.outputs),
        types=list(plan.types),
        rows=rows,
        bounds=[[0.0 if each else None for each in exact] for _ in rows],
        exact=[[True if each else None for each in exact] for _ in rows],
    )
    return Result(result, loaded.checks, loaded.usage(), question.clock.seconds)


def require_no_min_group(plan: LocalPlan, min_group: int) -> None:
    """Raises QueryRefused for a least size of groups where whole rows are asked for."""
    if min_group > 1:  # of one row every group is
        raise QueryRefused(
            f"a minimum group size cannot be kept: {plan.reason}, and DuckDB answers the question as a whole",
            hint=plan.hint or "ask for aggregates over groups",
        )


def within(deadline: Deadline, work: Callable[[], T]) -> T:
    """`work` of DuckDB's on this machine, which is interrupted once `deadline` is over. Raises OutOfTime, Stopped."""
    try:
        return work()
    except (duckdb.InterruptException, OutOfTime):
        pass
    except CleaveError:
        raise  # DuckDB has ended, and a store may be asked why
    except BaseException:
        deadline.stop()
        raise
    with contextlib.suppress(OutOfTime):
        deadline.check()
        raise Stopped("the query was stopped")
    raise OutOfTime(
        f"the query was not answered within the {deadline.seconds:g} seconds it was given",
        hint="give it more with --timeout SECONDS; DuckDB on this machine was at work",
    )


def import_finish() -> None:
    """Import what only an answer needs: it takes 40 ms."""
    from cleave import finish  # noqa: F401, PLC0415
    from cleave.ckks import figures  # noqa: F401, PLC0415
