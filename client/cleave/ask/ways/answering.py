"""Answer a divided question: ask all parts, and join their answers by group."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from cleave.ask.plan import AnswerPlan
from cleave.ask.question import GroupFigures, GroupSums
from cleave.ask.way import Way, WayContext
from cleave.sql.rejoin import places_of
from cleave_shared.errors import CheckFailed, InputError, QueryRefused


def answered(plan: AnswerPlan, context: WayContext[Any]) -> GroupSums:
    """Answer all parts. Rows are read first and the other parts then run at once, so that nothing forks while threads
    run.

    Raises CheckFailed if two ways report different groups.
    """
    clock = context.question.clock
    answers: list[tuple[Way[Any], GroupSums]] = []
    failure: InputError | QueryRefused | None = None
    for way in plan.ways:
        if way.stage == "rows":
            with clock.stage("rows"):
                try:
                    answers.append((way, way.answer(context)))
                except (InputError, QueryRefused) as error:  # which may depend on values: what is asked does not
                    failure = error
    others = [way for way in plan.ways if way.stage != "rows"]
    with clock.stage("ask"):
        answers += zip(others, _at_once(others, context), strict=True)
    if failure is not None:
        raise failure
    return _together(answers)


def _at_once(ways: Sequence[Way[Any]], context: WayContext[Any]) -> list[GroupSums]:
    """Ask several ways at once, and judge the answers only when all are in."""
    if len(ways) < 2:
        return [each.answer(context) for each in ways]
    with ThreadPoolExecutor(len(ways) - 1, "ways") as pool:
        others = [pool.submit(each.answer, context) for each in ways[1:]]
        try:
            first = ways[0].answer(context)
        except CheckFailed:
            raise
        except BaseException:
            context.stop()  # else the others would be waited for
            raise
        return [first, *(each.result() for each in others)]


def _together(answers: Sequence[tuple[Way[Any], GroupSums]]) -> GroupSums:
    """Join the answers. The first that knows the groups decides; all others must report the same groups."""
    together: GroupSums | None = None
    for way, part in sorted(answers, key=lambda of: of[1].keys is None):
        if together is None:
            together = part
            continue
        figures = together.figures
        if part.keys is not None and together.keys is not None:
            places = places_of(part.cut.key_types, together.keys, part.keys)
            same = sorted(places) == list(range(len(part.keys)))
            if not same or [part.counts[place] for place in places] != together.counts:
                raise CheckFailed(way.check, "the rows that were read are not those that were summed")
            figures = _placed(part.figures, places)
        together = replace(
            together,
            responses=[*together.responses, *part.responses],
            figures=figures,
            scanned=together.scanned or part.scanned,
        )
    assert together is not None  # noqa: S101 - each plan has a way
    return together


def _placed(figures: GroupFigures, places: Sequence[int]) -> GroupFigures:
    """Return `figures` for groups in another order."""
    return lambda members, counts: figures([tuple(places[group] for group in of) for of in members], counts)
