"""Noisy releases: numbers with noise, drawn once.

One commit stores the numbers and, in the head of the table, the epsilon that is spent. If the table has not changed, a
repeated release publishes the same numbers. After a new analyst, a revocation or a rotation the same numbers are sealed
again. Every other noisy release draws all its numbers anew, and spends again.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from cleave.ckks.public_key import PublicKey
from cleave.disclosure.noise import MOST_TABLE_ROWS
from cleave.releases.analysts import joined
from cleave.releases.kind import Reason, ReleaseDraft, ReleaseFacts, Releases, excluded
from cleave.releases.noising import drawn
from cleave.releases.noisy_choices import NoisyChoices, noisy_choices
from cleave.releases.noisy_page import plan_lines
from cleave.releases.noisy_plan import NoisyPlan, planned
from cleave.releases.noisy_totals import NoisyTotals
from cleave.releases.publishing import committed, is_published, stored
from cleave.releases.release import KEY_BYTES
from cleave.store.manifest import NoisyRelease
from cleave.store.padding import padded
from cleave.store.reader import Opened
from cleave.store.schemas import load_stored_schema
from cleave.table.privacy import MICRO, epsilon_text
from cleave.text.quantities import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyReleaseFacts(ReleaseFacts):
    """A noisy release that was published.

    `epsilon` is this release's, `spent` that of all the table's releases, `budget` the most that they may spend: all
    are text. `left_out`: by columns without declared values. It spent something only if `publishes`.
    """

    epsilon: str
    spent: str
    budget: str | None
    most_rows: int
    left_out: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        yield from ReleaseFacts.lines(self)
        if self.publishes:
            yield f"drawn: epsilon {self.epsilon}, up to {counted(self.most_rows, 'row')} of each person"
        else:
            yield "drawn: nothing new; the numbers that were drawn are published, and cost nothing more"
        yield f"spent: epsilon {self.spent}" + (f" of {self.budget}" if self.budget else "")
        if self.left_out:
            yield f"not in the cells: {', '.join(self.left_out)}: no values are declared"


class NoisyReleases(Releases[NoisyChoices]):
    """Noisy releases of a table."""

    NAME = "noisy"
    OPTION = "epsilon"
    TOTALS = NoisyTotals

    @staticmethod
    def chosen(given: Mapping[str, Any]) -> NoisyChoices:
        return noisy_choices(given)

    def drafted(self, to: Mapping[str, PublicKey], choices: NoisyChoices) -> NoisyDraft:
        manifest, past = self.manifest, self.manifest.noisy
        analysts, revoked = joined(manifest, to)
        plan = planned(load_stored_schema(manifest), manifest.by, choices)
        request = plan.request(each.box for each in analysts)
        repeats = past is not None and past.request == request
        if past is not None and repeats and past.drawn != manifest.version:  # the table changed since it was committed
            repeats = not is_published(self.tables, self.opened)
        return NoisyDraft(kind=self, analysts=analysts, revoked=revoked, plan=plan, request=request, repeats=repeats)

    def unasked(self, to: Mapping[str, PublicKey]) -> ReleaseDraft:
        return self.sealed_again("release", *joined(self.manifest, to))

    @property
    def newest(self) -> NoisyRelease:
        assert self.manifest.noisy is not None  # noqa: S101 - the callers have looked
        return self.manifest.noisy

    @property
    def described(self) -> str:
        return f"noisy, epsilon {epsilon_text(self.newest.epsilon)}"

    @property
    def figures(self) -> dict[str, str | int | bool]:
        return {"epsilon": epsilon_text(self.newest.epsilon)}

    @property
    def budget(self) -> int | None:
        """The most that all noisy releases may spend, in millionths."""
        budget = load_stored_schema(self.manifest).privacy.budget
        return None if budget is None else int(budget * MICRO)

    def drawn(self) -> NoisyTotals:
        """The numbers of the newest release."""
        return NoisyTotals.model_validate_json(json.loads(self.ledger_content())["noisy"])

    def content(self) -> bytes:
        return self.drawn().dump()

    def facts(self) -> NoisyReleaseFacts:
        drawn_before, budget = self.drawn(), self.budget
        return NoisyReleaseFacts(
            **self.common_facts(drawn_before.cells),
            epsilon=epsilon_text(drawn_before.epsilon),
            spent=epsilon_text(self.tables.spent(self.opened)),
            budget=None if budget is None else epsilon_text(budget),
            most_rows=drawn_before.most_rows,
        )


# why one is refused


def _no_entity(draft: NoisyDraft) -> str:
    if draft.plan.schema.privacy.entity:
        return ""
    return f"table {draft.table!r} names no entity: noise hides what one person adds to the totals"


def _too_long(draft: NoisyDraft) -> str:
    if draft.opened.manifest.rows <= MOST_TABLE_ROWS:
        return ""
    return f"a noisy release is of a table of at most {MOST_TABLE_ROWS:,} rows"


def _over_budget(draft: NoisyDraft) -> str:
    budget, needed = draft.kind.budget, draft.spent + draft.plan.choices.epsilon
    if draft.is_done or budget is None or needed <= budget:
        return ""
    return (
        f"the budget of table {draft.table!r} is epsilon {epsilon_text(budget)}, {epsilon_text(draft.spent)} of it is "
        f"spent, and this release takes {epsilon_text(draft.plan.choices.epsilon)}"
    )


def _after_exact(draft: NoisyDraft) -> str:
    if draft.repeats or not draft.had_exact:
        return ""
    return excluded(draft.opened.manifest, "exact", "a noisy one")


def _spends_again(draft: NoisyDraft) -> str:
    if draft.repeats or not draft.spent:
        return ""
    more = draft.plan.choices.epsilon
    spent, more_text, needed = map(epsilon_text, (draft.spent, more, draft.spent + more))
    return (
        f"table {draft.table!r} has spent epsilon {spent}: this release has other choices, or the table changed, so it "
        f"draws anew and spends {more_text} more, {needed} in all"
    )


def _losing(draft: NoisyDraft) -> str:
    lost = draft.lost
    return f"analysts would lose what release {draft.number - 1} shows them: {', '.join(lost)}" if lost else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyDraft(ReleaseDraft):
    """Numbers before they are drawn: what follows from choices and schema.

    `request`: digest of all choices and analysts. `repeats`: the newest release has the same, and either the table has
    not changed since or not all analysts can read it yet.
    """

    REASONS: ClassVar = (
        Reason("no entity", _no_entity, "`cleave alter NAME --entity patient_id` names the columns, once for all"),
        Reason("too many rows", _too_long, "put fewer rows as a table of its own"),
        Reason(
            "over budget",
            _over_budget,
            "earlier releases still answer all questions; a smaller --epsilon may fit",
        ),
        Reason("after exact", _after_exact, "analysts can then subtract what exact releases show", by_yes=True),
        Reason(
            "spends again",
            _spends_again,
            "if the newest release is noisy, `release new NAME --to FILE` gives new analysts its numbers, for nothing",
            by_yes=True,
        ),
        Reason("loses", _losing, "name these too: analysts query only the newest release", by_yes=True),
    )

    kind: NoisyReleases
    plan: NoisyPlan
    request: str
    repeats: bool

    @property
    def table(self) -> str:
        return self.opened.manifest.table

    @property
    def title(self) -> str:
        return f"Noisy release {self.number} of table {self.table}"

    @property
    def is_done(self) -> bool:
        return self.repeats and not self.plan.choices.again

    @property
    def is_retry(self) -> bool:
        return self.is_done

    @property
    def spent(self) -> int:
        """Epsilon of earlier releases, in millionths."""
        return self.tables.spent(self.opened)

    @property
    def had_exact(self) -> bool:
        return self.tables.had_exact(self.opened)

    @property
    def lost(self) -> tuple[str, ...]:
        """What analysts read in the newest release and would not find in this one, such as "cells by ward"."""
        past = self.opened.manifest.noisy
        return tuple(self.plan.missing(self.kind.drawn())) if past is not None and past.analysts else ()

    def lines(self) -> Iterator[str]:
        choices, budget = self.plan.choices, self.kind.budget
        most = "no budget is set" if budget is None else f"budget {epsilon_text(budget)}"
        yield f"- SHA-256 of all choices: {self.request}"
        if self.had_exact:
            yield "- the table has, or had, exact releases: with them the promise of this release is void"
        yield f"- people: rows with equal {', '.join(self.plan.reading.entity)} are about one person"
        yield f"- of each person: at most {counted(choices.most_rows, 'row')}, drawn at random"
        spent = f"spent before: {epsilon_text(self.spent)}; {most}"
        yield f"- epsilon: {epsilon_text(choices.epsilon)}, spent when the release is made ({spent})"
        yield from plan_lines(self.plan)

    def make(self) -> Opened:
        tables, opened, epsilon = self.tables, self.opened, self.plan.choices.epsilon
        totals = drawn(tables, opened, self.plan)
        key, content = secrets.token_bytes(KEY_BYTES), totals.dump()
        # within a text each character of the numbers takes two bytes at most
        ledger = json.dumps(
            {"format": 3, "key": key.hex(), "noisy": totals.model_dump_json()}, ensure_ascii=False
        ).encode()
        written = stored(
            tables,
            opened,
            "release",
            self.analysts,
            self.revoked,
            key,
            ledger.ljust(padded(2 * len(content))),
            content,
            at=totals.at,
            least=0,
        )
        version = opened.manifest.version + 1
        released = NoisyRelease(**written, epsilon=epsilon, request=self.request, drawn=version)
        return committed(tables, opened, released, "release", key, draws=True, epsilon=epsilon_text(epsilon))

    def figures(self) -> dict[str, Any]:
        return {"left_out": self.plan.left_out}
