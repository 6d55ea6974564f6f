"""Interface of the sums a stored table has besides its rows, for cutting a query (see cleave.sums.kept)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from cleave.aggregates.group import Aggregate
from cleave.sql.plan import Argument, Source

Types = Callable[[Sequence[str]], Sequence[str]]  # DuckDB's types of some SQL expressions


class HasSums(Protocol):
    """Each of its answers is "" where no row has to be fetched, and else the reason why rows have to be."""

    @property
    def counts(self) -> Source:
        """Where numbers of rows come from, if not from rows that are fetched."""
        ...

    def groups(self, selecting: Sequence[str]) -> str:
        """Return the source of groups and their numbers of rows, where WHERE and the keys read `selecting`."""
        ...

    def aggregate(self, aggregate: Aggregate, arguments: Sequence[Argument], types: Types) -> str:
        """Return the source of an aggregate over such groups. Arguments stand for all columns that are not plain,
        sealed ones too.
        """
        ...

    def plain(self, selecting: Sequence[str]) -> str:
        """Return the source of an aggregate over plain columns in groups that plain columns make."""
        ...

    def is_kept(self, column: str) -> bool:
        """Return whether single values of a column are known without its rows."""
        ...
