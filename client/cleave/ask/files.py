"""Answer questions over a file or frame on this machine: its rows are grouped and encrypted for each question.

The table and the services are opened when the first question needs them, and stay open. The source makes its own CKKS
secret key, so no key file is needed.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from cleave.ask.options import Access
from cleave.ask.plan import AnswerPlan
from cleave.ask.question import GroupSums, Loaded, Options, RunningQuestion, Usage
from cleave.ask.source import Source
from cleave.ask.threshold import Threshold
from cleave.ask.way import Cost, WayContext
from cleave.ask.ways.file import FilePlace, FileWay, unasked
from cleave.deadline import Deadline, Stopped
from cleave.files import names_file
from cleave.table.functions import TODAY
from cleave.table.inputs import check_there
from cleave.table.lazy import LazyTable, of_files
from cleave.table.schema import Kind, Schema, schema_path
from cleave_shared.errors import CheckFailed, InputError
from cleave_shared.params import DEFAULT_PROFILE, SUM60_PACK, Profile

if TYPE_CHECKING:
    from cleave.ask.describe import Description
    from cleave.ckks.secret_key import SecretKey
    from cleave.sql.plan import Cut
    from cleave.sql.read import Statement
    from cleave.table.progress import Bars, Progress
    from cleave.table.table import Table
    from cleave.transport.base import Transport

_MOST_PLANS = 32
_UNREAD = "not read, stays here"


class FileSource(Source):
    """Questions over one table; `others` are further tables that they may name, which never leave this machine."""

    def __init__(
        self,
        table: LazyTable,
        access: Access | None = None,
        embedded: Callable[[], Transport] | None = None,
        others: Sequence[LazyTable] = (),
    ) -> None:
        self.name = table.name
        self._lazy = table
        self._others = unlike(table.name, others)
        self._access = access
        self.asks_embedded = access is None or not access.remote
        self._embedded = embedded
        self._open = contextlib.ExitStack()
        self._table: Table | None = None
        self._key: SecretKey | None = None
        self._services: Transport | None = None
        self._plans: dict[tuple[str, str, Options, bool], AnswerPlan] = {}  # the one asked for last comes last

    @property
    def schemas(self) -> dict[str, Schema]:
        return {self.name: self._lazy.schema} | {each.name: each.schema for each in self._others}

    def rows(self, name: str, progress: Progress) -> int | None:
        return self.read(progress).rows if name == self.name else None

    def plan(self, statement: Statement, options: Options, *, cloud_only: bool) -> AnswerPlan:
        """Plan a question, or reuse the plan of an earlier identical one unless it reads the clock."""
        tree = json.dumps(statement.tree)  # which holds the values of parameters
        query = (statement.text, tree, options, cloud_only)
        plan = self._plans.pop(query, None) or self._planned(statement, options, cloud_only=cloud_only)
        if not any(name in tree.lower() for name in TODAY):
            self._plans[query] = plan
            while len(self._plans) > _MOST_PLANS:
                del self._plans[next(iter(self._plans))]
        return plan

    def _planned(self, statement: Statement, options: Options, *, cloud_only: bool) -> AnswerPlan:
        threshold = Threshold.of(options, {})
        others = {each.name: each.schema for each in self._others}
        from cleave.sql.planner import Planner  # noqa: PLC0415 - DuckDB, numpy and aggregates take 50 ms

        with contextlib.closing(Planner(statement, self._lazy.schema, self.name, others)) as planner:
            cut: Cut = planner.plan(cloud_only=cloud_only)
        if threshold.least:
            cut = self._counted(cut)
        return AnswerPlan(cut, (FileWay(cut),), cloud_only=cloud_only, threshold=threshold, pad=options.pad)

    def _counted(self, cut: Cut) -> Cut:
        """Return `cut` with its people, or rows, counted for a threshold. Raises QueryRefused."""
        if (whole := cut.whole()) is not None:
            from cleave.ask.joining import Joinable, counted_join  # noqa: PLC0415 - few questions need it

            return counted_join(whole, {name.lower(): Joinable(schema) for name, schema in self.schemas.items()})
        sums = cut.sums()
        assert sums is not None  # noqa: S101 - or it is whole
        from cleave.disclosure.counting import counting_of  # noqa: PLC0415 - as above

        counting = counting_of(sums, self._lazy.schema)
        return sums if counting is None else sums.counted_by(counting)

    def describe(self, plan: AnswerPlan, progress: Progress) -> Description:
        return describe_file(self._place(progress), plan)

    def prepare(self, bars: Bars, *, sends: bool) -> None:
        """Read the table."""
        if self._lazy.prefetched and sends:
            from cleave.ask.ways.encrypted import import_finish  # noqa: PLC0415 - instead of waiting for the table

            import_finish()
        if self._table is None:
            with bars() as progress:
                self.read(progress)

    @contextlib.contextmanager
    def load(self, plan: AnswerPlan, question: RunningQuestion) -> Iterator[Loaded]:
        table = self.read(question.progress)
        yield Loaded(table, plan.table, lambda: Usage(rows=table.rows), unasked())

    @contextlib.contextmanager
    def sums(self, plan: AnswerPlan, question: RunningQuestion) -> Iterator[GroupSums]:
        """Compute the sums. After an answer that fails a check, the source makes a new key."""
        (way,) = plan.ways
        try:
            yield way.answer(WayContext(self._place(question.progress), question))
        except CheckFailed:
            self._key = None  # an answer that is wrong on purpose may have taught its maker something of the key
            raise
        except duckdb.InterruptException:
            question.deadline.check()
            raise Stopped("the query was stopped") from None

    def stop(self) -> None:
        if self._table is not None:
            self._table.connection.interrupt()

    def close(self) -> None:
        self._table = self._key = self._services = None
        self._open.close()

    def read(self, progress: Progress) -> Table:
        """Return the table, with the other tables beside it; they are read only once."""
        if self._table is None:
            table = self._open.enter_context(self._lazy.read(progress))
            for each in self._others:
                with each.read(progress) as other:
                    table.add(each.name, other)
            self._table = table
        return self._table

    def _place(self, progress: Progress) -> FilePlace:
        return FilePlace(self.read(progress), self._secret, self._connected)

    def _secret(self) -> SecretKey:
        """Return the source's CKKS key."""
        from cleave.ckks.secret_key import fresh_key  # noqa: PLC0415 - TenSEAL takes 60 ms

        if self._key is None:
            self._key = fresh_key(DEFAULT_PROFILE)
        return self._key

    def _connected(self, deadline: Deadline) -> Transport:
        from cleave.transport.connect import Target, connect  # noqa: PLC0415

        if self._services is None:
            # may run a program for credentials
            target = (self._access and self._access.target) or Target()
            services = deadline.call(lambda: connect(target, self._embedded))
            self._open.callback(services.close)
            self._services = services
        return self._services


def describe_file(place: FilePlace, plan: AnswerPlan, profile: Profile = SUM60_PACK) -> Description:
    """Describe the plan.

    Raises what the query itself would raise before it sends anything: QueryRefused, InputError.
    """
    from cleave.ask.describe import Leakage, Requests, description  # noqa: PLC0415 - an answer does not need it
    from cleave.ask.ways.packed import Packed  # noqa: PLC0415 - as above

    (way,) = plan.ways
    table = place.table
    if (cut := plan.cut.sums()) is None:
        uses = {column: use for (_, column), use in way.uses(place).items()}
        return description(table.name, table.rows, table.schema.columns, plan.cut, uses, _UNREAD, profile=None)
    with contextlib.closing(Packed(table, cut, profile, pad=plan.pad, hides_rows=plan.threshold.least > 0)) as packed:
        place = replace(place, packed=packed)
        disclosed = way.disclosures(place, pad=plan.pad)
        cost: Cost = way.work(place, pad=plan.pad).cost(bucket=False, remote=True)
        return description(
            *(table.name, table.rows, table.schema.columns, packed.cut),
            {column: use for (_, column), use in way.uses(place).items()},
            _UNREAD,
            profile=None if packed.cut.sends_nothing else profile,
            lanes=packed.packing.lanes,
            selected_rows=packed.packing.rows,
            groups=len(packed.halves.keys),
            encrypted=tuple(packed.encrypted()),
            plain=Requests(len(packed.plain), sum(packed.plain)),
            sensitive=Requests(len(packed.ranges), packed.bytes_up, packed.bytes_down),
            leakage=Leakage(tuple(disclosed.plain), tuple(disclosed.sensitive)),
            dollars=cost.dollars,
        )


def unlike(name: str, others: Sequence[LazyTable]) -> tuple[LazyTable, ...]:
    """Raise InputError if two tables have the same name, ignoring case as DuckDB does."""
    taken = {name.lower()}
    for other in others:
        if other.name.lower() in taken:
            raise InputError(
                f"two tables have the name {other.name!r}", hint="--table NAME gives the first another name"
            )
        taken.add(other.name.lower())
    return tuple(others)


def further_of(word: str) -> LazyTable:
    """Read a further table, given as FILE[=SCHEMA]. Either name may contain an equals sign. Raises InputError."""
    cuts = [place for place, char in enumerate(word) if char == "=" and names_file(word[:place])]
    name, schema = (word[: cuts[0]], word[cuts[0] + 1 :]) if cuts and not names_file(word) else (word, "")
    return further(name, Path(schema) if schema else None)


def further(file: str | Path, schema: Schema | Path | None = None, name: str | None = None) -> LazyTable:
    """Read a further table by `schema`, else by NAME.schema.toml beside it, else by guessed types.

    It is never sent anywhere, so its types may be guessed. Raises InputError.
    """
    if schema is not None:
        return of_files([file], schema, name)
    check_there([file])
    if names_file(schema_path([file])):
        return of_files([file], None, name)
    from cleave.propose.propose import propose  # noqa: PLC0415 - only for a file without a schema

    guessed = propose([file])
    columns = tuple(replace(each, kind=Kind.LOCAL) for each in guessed.columns)
    return of_files([file], Schema(columns, guessed.dialect), name)
