"""Answer an analyst's questions over releases: totals of cells that an owner sealed for the analyst.

A release is read as a whole when a question first names its table, and kept until a question finds a newer one. The
owner's fingerprint and the newest release number are remembered from the first release on. A release from another
owner, or an older one, is refused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import closing
from dataclasses import replace
from typing import Any, Final

from cleave.ask.describe import UNASKED, Description, Leakage, Requests, description
from cleave.ask.owners import Owner, tag_of
from cleave.ask.plan import AnswerPlan, Considered
from cleave.ask.question import GroupSums, Loaded, Options, RunningQuestion, Usage
from cleave.ask.threshold import Threshold
from cleave.ask.versioned import VersionedSource
from cleave.ask.way import WayContext
from cleave.ask.ways.answering import answered
from cleave.ask.ways.choosing import not_by_totals
from cleave.ask.ways.noisy import OpenedNoisy
from cleave.ask.ways.opened_release import OpenedRelease
from cleave.ask.ways.release import TOTALS_ALONE, OpenedExact
from cleave.ckks.public_key import public_side
from cleave.objects.locate import Stores
from cleave.objects.storage import NotStoredError, read_twice, require_place
from cleave.releases.exact_totals import ExactTotals
from cleave.releases.noisy_totals import NoisyTotals
from cleave.releases.release import MOST_TOTALS, ReleasedTotals, ReleaseHead
from cleave.releases.releases import open_totals
from cleave.share.addressed import MOST_HEAD, place_of, read_head
from cleave.sql.planner import Planner
from cleave.sql.read import Statement
from cleave.sql.refusals import Uncut
from cleave.store.changed import on_newest
from cleave.store.identity import Identity
from cleave.store.manifest import Object, is_content
from cleave.store.reader import LostError
from cleave.store.seen_versions import SeenVersions
from cleave.table.progress import Bars, Progress
from cleave.table.schema import Schema
from cleave_shared.errors import CheckFailed, InputError, QueryRefused

_RENEW = "its owner makes a new one with `cleave release new`"


OPENED: Final[Mapping[type[ReleasedTotals], Callable[[ReleaseHead, Any], OpenedRelease]]] = {
    ExactTotals: OpenedExact,
    NoisyTotals: OpenedNoisy,
}
"""How the totals of each kind are opened, also those of classes derived from these."""


class ReleaseSource(VersionedSource[OpenedRelease]):
    """The tables of a store that were released to one analyst."""

    has_rows = False

    def __init__(
        self,
        name: str | None,
        stores: Stores,
        identity: Identity,
        fingerprint: str | None = None,
        memory: SeenVersions | None = None,
        seconds: float | None = None,
        accepts: int | None = None,
    ) -> None:
        """Open the releases of `identity`.

        `fingerprint` is the owner's. If it is None, the owner must be the one seen before, or may be anyone the first
        time. A fingerprint ending in "@N" refuses releases before number N. Raises InputError if N is not a number.
        `accepts`: open only the release of this number, whatever was seen here, and go on with it.
        """
        super().__init__(name, stores, seconds)
        self._identity = identity
        self._analyst = public_side(identity)
        self._owner = Owner.parse(fingerprint)
        self._accepts = accepts
        self._memory = memory or SeenVersions()
        self._heads_read: dict[str, tuple[bytes, str]] = {}  # by name, as they were read last
        self._read: list[int] = []  # bytes of each object that was read since the last question

    @property
    def schemas(self) -> Mapping[str, Schema]:
        """Return the newest schemas of the tables that questions have named. A store does not list the others."""
        names = {each.lower(): each for each in (*self._held, self.name) if each}
        opened = [self._release(name) for name in names.values()]
        return self._shown({self.name or each.table_name: each.schema for each in opened})

    def open(self) -> None:
        if self.name:
            self._release(self.name)

    def rows(self, name: str, progress: Progress) -> int | None:  # noqa: ARG002 - the release has them
        release = self._held.get(name.lower())
        return release.rows if release else None

    def _release(self, name: str) -> OpenedRelease:
        """Return the newest release of a table, or the one of the snapshot. Tables other than `name` are read when they
        are named.
        """
        release = self._find(name)
        assert release is not None  # noqa: S101 - `_newest` raises
        return release

    def _fix(self) -> None:
        """Fix the versions of the tables that were named before."""
        _ = self.schemas

    def _names_of(self, named: Sequence[str]) -> list[str]:
        names = [each for each in named if each.lower() != self.name.lower()]
        if len(names) + bool(self.name) != 1:
            raise QueryRefused(
                "a query over releases may name only one table", hint="query one released table at a time"
            )
        return [self.name or names[0]]

    def _planned(
        self,
        statement: Statement,
        names: Sequence[str],
        named: Set[str],  # noqa: ARG002 - all there are
        options: Options,
        *,
        cloud_only: bool,  # noqa: ARG002 - nothing else is possible
    ) -> AnswerPlan:
        """Plan the question. Raises QueryRefused if the totals do not answer it, and for a threshold over a noisy
        release, which shows the number of rows of no group.
        """
        (name,) = names
        release = self._release(name)
        sums = release.sums
        with closing(Planner(statement, self._showing(name, release.schema), name, {})) as planner:
            try:
                cut = planner.cut(sums, cloud_only=True)
            except Uncut as error:
                raise not_by_totals(error, release.by, sums.answers, sums.more) from None
        cut = release.shown(cut)
        threshold = Threshold.of(options, {})
        if threshold.least and release.no_threshold:
            raise QueryRefused(release.no_threshold)
        return AnswerPlan(cut, (release.way(sums, cut),), threshold=threshold)

    def _assumed_of(self, version: OpenedRelease) -> str:
        return version.head.release

    def _of(self, plan: AnswerPlan) -> OpenedRelease:
        self._require_same(plan)
        return self._held[plan.table.lower()]

    def _newest(self, name: str, held: OpenedRelease | None) -> OpenedRelease:
        """Return the newest release. Raises InputError if there is none, CheckFailed if it is another owner's or an
        older one.
        """

        def read() -> tuple[ReleaseHead, bytes | None]:
            head = self._head(name)
            if held is not None and head.release == held.head.release:
                return head, None
            return head, self._content(name, head.totals)

        head, content = on_newest(read)
        if content is None:
            assert held is not None  # noqa: S101 - its totals were read before
            return held
        self._read.append(len(content))
        totals = open_totals(self._identity, self._analyst, head, content)
        if totals.table.lower() != name.lower():
            raise CheckFailed("stored", "a release is another table's")
        try:
            release = next(opened for of, opened in OPENED.items() if isinstance(totals, of))(head, totals)
        except ValueError:  # its schema is no TOML, or its measures are not the schema's
            raise _damaged() from None
        self._memory.remember(self._tag("owner", name), head.owner.fingerprint, 1)
        self._memory.remember(self._tag("release", name), head.release, head.number)
        return release

    def _head(self, name: str) -> ReleaseHead:
        place, location = place_of(ReleaseHead, self._analyst, name), self._stores.sensitive.location
        seen = self._memory.newest(self._tag("release", name))

        def stored() -> tuple[bytes, str] | None:
            earlier = self._heads_read.pop(name.lower(), None)
            return self._stores.sensitive.read_versioned(f"{place}/head", MOST_HEAD, earlier)

        def read(content: tuple[bytes, str] | None) -> ReleaseHead | None:
            if content is None:
                return None
            head = read_head(ReleaseHead, content[0], self._analyst, name)
            self._heads_read[name.lower()] = content
            return head

        head = read_twice(stored, read)
        if head is None and seen:
            raise CheckFailed(
                "stored",
                f"{location}: a release of {name!r} was here and is gone",
                hint="the owner revoked it, or it was deleted: ask the owner",
            )
        if head is None:
            require_place(self._stores.sensitive)
            raise InputError(
                f"{location}: there is no release of table {name!r} for this analyst",
                hint="the owner makes one with: cleave release new NAME --to FILE.pub",
            )
        what, noted = f"releases of {name!r}", self._tag("owner", name)
        self._owner.require(what, noted, self._memory, head.owner.fingerprint, head.number)
        if self._accepts is not None:
            if head.number != self._accepts:
                raise InputError(
                    f"{location}: table {name!r} has release {head.number}, not {self._accepts}",
                    hint="accept only the release that the table's owner names",
                )
            seen = None
        newest = max(self._owner.floor, seen[1] if seen else 0)
        if head.number < newest or (seen and head.number == seen[1] and head.release != seen[0]):
            raise CheckFailed(
                "stored",
                f"{location}: shows release {head.number} of {name!r}, older than or different from release {newest}",
                hint="an old state of the store may have been restored: ask the owner. If it is right, `cleave analyst "
                f"accept {name} --release {head.number} --analyst FILE` goes on with it here",
            )
        return head

    def _tag(self, what: str, name: str) -> str:
        """Return the name under which a release of this store is remembered."""
        return tag_of(what, place_of(ReleaseHead, self._analyst, name), self._stores.where)

    def _content(self, name: str, which: Object) -> bytes:
        """The totals of a release of table `name`. Raises LostError, CheckFailed."""
        if which.bytes > MOST_TOTALS:
            raise CheckFailed("stored", f"a release is larger than {MOST_TOTALS:,} bytes")
        store = self._stores.sensitive
        try:
            return read_twice(lambda: store.read(which.name, 0, None, which.bytes), lambda it: _whole(it, which))
        except NotStoredError:  # perhaps a newer release has taken its place
            message = f"{store.location}: the totals of a release of {name!r} are gone"
            raise LostError(message, which.name, lambda: self._head(name).totals == which, _RENEW) from None

    def describe(self, plan: AnswerPlan, progress: Progress) -> Description:  # noqa: ARG002 - it reads nothing
        release = self._of(plan)
        work = plan.work(release)
        return description(
            release.table_name,
            release.rows or 0,
            release.schema.columns,
            plan.cut,
            {column: use for way in plan.ways for (_, column), use in way.uses(release).items()},
            "not read",
            profile=None,
            sensitive=Requests(len(work.reads), 0, work.bytes),
            leakage=Leakage(
                (UNASKED,),
                tuple(text for way in plan.ways for text in way.disclosures(release, pad=False).sensitive),
            ),
            places=(self._stores.sensitive.location, self._stores.sensitive.location),
            ways=(Considered(plan.name, None, True, "the owner has released totals of cells, and nothing else"),),
        )

    def prepare(self, bars: Bars, *, sends: bool) -> None:
        """Do nothing: a release is read when a question is planned."""

    def load(self, plan: AnswerPlan, question: RunningQuestion) -> contextlib.AbstractContextManager[Loaded]:  # noqa: ARG002
        raise QueryRefused(TOTALS_ALONE)

    @contextlib.contextmanager
    def sums(self, plan: AnswerPlan, question: RunningQuestion) -> Iterator[GroupSums]:
        release = self._of(plan)
        sums = answered(plan, WayContext(release, question))
        read, self._read = self._read, []
        usage = Usage(rows=release.rows, objects_read=len(read), bytes_read=sum(read))
        yield replace(sums, usage=usage, checks={"signature": "passed", "stored": "passed"})

    def stop(self) -> None:
        """Do nothing: a question over cells takes no time."""

    def close(self) -> None:
        super().close()
        self._stores.close()


def _whole(content: bytes, which: Object) -> bytes:
    """Return `content` if it is the expected object. Raises CheckFailed."""
    if not is_content(content, which):
        raise _damaged()
    return content


def _damaged() -> CheckFailed:
    return CheckFailed("stored", "a release is damaged", hint=_RENEW)
