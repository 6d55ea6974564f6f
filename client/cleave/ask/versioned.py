"""Keep one version of each table for a source: the newest when a question was planned, or the snapshot's."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Generic, Protocol, TypeVar

from cleave.ask.plan import AnswerPlan
from cleave.ask.question import Options
from cleave.ask.source import Source
from cleave.ask.way import Showing, shows_all
from cleave.deadline import Deadline
from cleave.objects.locate import Stores
from cleave.sql.planner import names_in
from cleave.sql.read import Statement
from cleave.store.changed import ReplacedError, on_newest
from cleave.table.schema import Schema
from cleave_shared import limits
from cleave_shared.errors import QueryRefused, UsageError

T = TypeVar("T")


class _Version(Protocol):
    def close(self) -> None: ...


Version = TypeVar("Version", bound=_Version)


class VersionedSource(Source, Generic[Version]):
    """A source of tables that have versions. What a session keeps of a version is closed when it opens a newer one."""

    def __init__(self, name: str | None, stores: Stores, seconds: float | None) -> None:
        """Keep tables of `stores`.

        `name` is the table that questions are over; None means those that each question names. `seconds` limits a step
        that has no limit of its own.
        """
        self.name = name or ""
        self.seconds = seconds or limits.QUERY_SECONDS
        self._stores = stores
        self._held: dict[str, Version] = {}  # by name in lower case
        self._is_fixed = False  # no newer ones are looked for
        self._showing: Showing = shows_all

    @abstractmethod
    def _newest(self, name: str, held: Version | None) -> Version | None:
        """Open the newest version of a table. Return `held` if it is the newest already, None if there is no such
        table.
        """

    @abstractmethod
    def _fix(self) -> None:
        """Open everything that a snapshot covers."""

    @abstractmethod
    def _names_of(self, named: Sequence[str]) -> list[str]:
        """Open the tables that a question is over, out of those it has `named`. Raises QueryRefused."""

    @abstractmethod
    def _planned(
        self, statement: Statement, names: Sequence[str], named: Set[str], options: Options, *, cloud_only: bool
    ) -> AnswerPlan:
        """Plan a question over the tables `names`, which mentions the columns `named`."""

    @abstractmethod
    def _assumed_of(self, version: Version) -> str:
        """Return a digest of the facts that plans assume about a version."""

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Fix the versions of the tables."""
        if self._is_fixed:
            raise UsageError("there is a snapshot already", hint="end it before the next")
        self.run(self._fix, Deadline(self.seconds))
        self._is_fixed = True
        try:
            yield
        finally:
            self._is_fixed = False

    @contextlib.contextmanager
    def showing(self, showing: Showing) -> Iterator[None]:
        """Let questions of a block name only the columns that `showing` leaves in each table's schema."""
        before, self._showing = self._showing, showing
        try:
            yield
        finally:
            self._showing = before

    def _shown(self, schemas: Mapping[str, Schema]) -> dict[str, Schema]:
        return {name: self._showing(name, schema) for name, schema in schemas.items()}

    def plan(self, statement: Statement, options: Options, *, cloud_only: bool) -> AnswerPlan:
        names, named = self._over(statement)
        return self._assuming(self._planned(statement, names, named, options, cloud_only=cloud_only), names, options)

    def run(self, work: Callable[[], T], deadline: Deadline) -> T:
        self._stores.limit(deadline)
        try:
            return work()
        finally:
            self._stores.limit(None)

    def on_newest(self, work: Callable[[], T]) -> T:
        return on_newest(work)

    def close(self) -> None:
        held, self._held = self._held, {}
        for each in held.values():
            each.close()

    def _over(self, statement: Statement) -> tuple[list[str], Set[str]]:
        """Open the tables that a question is over, and return them with the columns that it names."""
        try:
            tables, named = names_in(statement)
        except QueryRefused:
            if not self.name:
                raise
            tables, named = (), frozenset()  # planning it gives a better error
        return self._names_of(list({each.lower(): each for each in tables}.values())), named

    def _find(self, name: str) -> Version | None:
        """Return a table in its newest version, or the snapshot's; None if there is no such table."""
        held = self._held.get(name.lower())
        if self._is_fixed and held is not None:
            return held
        return self._keep(name.lower(), self._newest(name, held))

    def _keep(self, lower: str, newest: Version | None) -> Version | None:
        """Hold `newest` under a name, and close another version."""
        held = self._held.get(lower)
        if held is not None and held is not newest:
            self._held.pop(lower).close()
        if newest is not None:
            self._held[lower] = newest
        return newest

    def _assuming(self, plan: AnswerPlan, names: Sequence[str], options: Options) -> AnswerPlan:
        assumed = tuple((name.lower(), self._assumed_of(self._held[name.lower()])) for name in names)
        return replace(plan, assumed=assumed, pad=options.pad)

    def _require_same(self, plan: AnswerPlan) -> None:
        """Raise ReplacedError if `plan` does not fit the versions in use."""
        for lower, assumed in plan.assumed:
            if lower not in self._held or self._assumed_of(self._held[lower]) != assumed:
                raise ReplacedError
