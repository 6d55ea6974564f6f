"""The threshold of a plan: its answer leaves out groups, and figures, of fewer people or rows (docs/disclosure.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cleave_shared.errors import QueryRefused

if TYPE_CHECKING:
    from cleave.ask.question import Options


@dataclass(frozen=True, slots=True)
class Threshold:
    """`least` is the number of people, or rows, that a shown group has at least; 0 leaves out none.

    `overridden` holds the stored tables whose own minimum is larger: their logs record each answer.
    """

    least: int = 0
    overridden: tuple[str, ...] = ()

    @classmethod
    def of(cls, options: Options, minimums: Mapping[str, int]) -> Threshold:
        """Return the threshold in effect: the caller's, or else the largest of `minimums`, the tables' own by name.

        Raises QueryRefused for a smaller one than a table's without `yes`.
        """
        own = max(minimums.values(), default=0)
        chosen = options.min_group or own
        if chosen < own and not options.yes:
            raise QueryRefused(
                f"groups of fewer than {own} are left out of answers from this table, and --min-group is {chosen} "
                "(rule P2)",
                hint="--yes (yes=True in Python) shows smaller ones; the table's log says so",
            )
        smaller = () if options.logged else tuple(name for name, each in minimums.items() if each > chosen)
        return cls(chosen if chosen > 1 else 0, smaller)  # 1 hides no one, but would hide a COUNT(*) of 0


NO_THRESHOLD = Threshold()
