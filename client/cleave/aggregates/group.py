"""An aggregate over encrypted columns: what it is called, and which sums its figures follow from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cleave.aggregates.base import Estimate, Facts, Figure, Moment, null


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`names`: in SQL, in upper case, DuckDB's spelling and its synonyms. `moments`: besides the number of rows
    that count, which all have. `least`: rows of a group; NULL for fewer. `type`: DuckDB's type of the result, or how it
    follows from the argument's.
    """

    names: tuple[str, ...]
    moments: tuple[Moment, ...]
    least: int = 1
    arity: int = 1
    type: str | Callable[[str], str] = "DOUBLE"

    def result_type(self, argument: str, *_others: str) -> str:
        """DuckDB's type of the result for arguments of these types."""
        return self.type if isinstance(self.type, str) else self.type(argument)

    def finish(self, count: int, moments: Mapping[Moment, Estimate], arguments: Sequence[Facts]) -> Figure:
        """The figure of one group in which `count` rows have no NULL among the arguments."""
        if count < self.least:
            return null()
        from cleave.aggregates import formulas  # noqa: PLC0415 - flint, which takes 20 ms: plans do without

        return formulas.figure(self.names[0], formulas.Group(count, moments, arguments))


@dataclass(frozen=True, slots=True)
class EncryptedAggregate:
    """An aggregate over arguments, given by their numbers. `type`: DuckDB's type of the result."""

    aggregate: Aggregate
    arguments: tuple[int, ...]
    type: str = ""
