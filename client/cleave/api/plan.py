"""What a question would send where, before anything is sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cleave.ask.describe import Description


@dataclass(frozen=True, slots=True, repr=False)
class Plan:
    """`description` holds the facts; printed, it is what `cleave plan` says."""

    description: Description

    def __repr__(self) -> str:
        from cleave.cli.plan import plan_lines  # noqa: PLC0415

        return plan_lines(self.description)
