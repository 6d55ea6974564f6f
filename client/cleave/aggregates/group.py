"""An aggregate over encrypted columns: its names, moments and types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cleave.aggregates.base import Estimate, Facts, Figure, Moment, null


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`names`: in SQL, in upper case; DuckDB's spelling first, then synonyms. `moments`: besides the number of counted
    rows, which every aggregate has. `least`: minimum rows of a group; with fewer the result is NULL.

    `type`: DuckDB's type of the result, or a function of the argument's type.
    """

    names: tuple[str, ...]
    moments: tuple[Moment, ...]
    least: int = 1
    arity: int = 1
    type: str | Callable[[str], str] = "DOUBLE"

    def result_type(self, argument: str, *_others: str) -> str:
        """DuckDB's type of the result, for arguments of these types."""
        return self.type if isinstance(self.type, str) else self.type(argument)

    def finish(self, count: int, moments: Mapping[Moment, Estimate], arguments: Sequence[Facts]) -> Figure:
        """The figure of one group. In `count` rows no argument is NULL."""
        if count < self.least:
            return null()
        from cleave.aggregates import formulas  # noqa: PLC0415 - imports flint (20 ms), which plans do not need

        return formulas.figure(self.names[0], formulas.Group(count, moments, arguments))


@dataclass(frozen=True, slots=True)
class EncryptedAggregate:
    """An aggregate over arguments, which are given by number. `type`: DuckDB's type of the result."""

    aggregate: Aggregate
    arguments: tuple[int, ...]
    type: str = ""
