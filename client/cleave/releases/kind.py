"""The interface of all kinds of releases.

Choices        what the owner chose
Releases       the newest release of a table: content, facts, its numbers sealed again; and drafts of the next
ReleaseDraft   a release before it is made: why it is refused, its page, and `make`
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Self, TypeVar

from cleave.ckks.public_key import PublicKey, public_side
from cleave.releases.publishing import committed, finish, old_content, rekeyed, stored
from cleave.releases.release import KEY_BYTES, ReleasedTotals
from cleave.store.manifest import Analyst, AnyRelease, Manifest
from cleave.store.reader import Opened
from cleave.store.tables import Tables
from cleave_shared.errors import InputError

C = TypeVar("C", bound="Choices")
D = TypeVar("D", bound="ReleaseDraft")


@dataclass(frozen=True, slots=True)
class Reason(Generic[D]):
    """Why a release is refused.

    `text`: of a draft that it holds for, else "". `way_on`: what the owner can do. `by_yes`: `--yes` confirms it.
    """

    name: str
    text: Callable[[D], str]
    way_on: str
    by_yes: bool = False


def require(draft: ReleaseDraft, *, yes: bool) -> tuple[str, ...]:
    """What `yes` confirms. Raises InputError for reasons that it does not confirm, else without it for all others."""
    holding = [(each, text) for each in draft.REASONS if (text := each.text(draft))]
    for reason, text in holding:
        if not reason.by_yes:
            raise InputError(text, hint=reason.way_on)
    texts = tuple(text for _, text in holding)
    if texts and not yes:
        ways = "; ".join(reason.way_on for reason, _ in holding)
        raise InputError("; ".join(texts), hint=f"confirm with --yes (yes=True in Python): {ways}")
    return texts


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseFacts:
    """A release that was made, or the newest one if there was nothing new (`made` is False).

    `publishes`: it has new numbers; else those of earlier releases were sealed again. `confirmed`: what `yes`
    confirmed. `place`: where it is stored. `fingerprint` is the owner's, with @ and the release's number: an analyst's
    machine that knows it refuses older releases.
    """

    table: str
    number: int
    analysts: tuple[str, ...]
    cells: int
    place: str
    fingerprint: str
    made: bool = True
    publishes: bool = False
    confirmed: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        """What the owner should know of it, besides its cells."""
        yield from (f"confirmed: {each}" for each in self.confirmed)


class Choices:
    """The owner's choices for a release. `KIND`: name of its kind."""

    KIND: ClassVar[str]


class Releases(ABC, Generic[C]):
    """Releases of one kind, of an opened table.

    `OPTION`: name of the option that chooses this kind; "" for the kind without one.
    """

    NAME: ClassVar[str]
    OPTION: ClassVar[str] = ""
    TOTALS: ClassVar[type[ReleasedTotals]]

    def __init__(self, tables: Tables, opened: Opened) -> None:
        self.tables = tables
        self.opened = opened

    @property
    def manifest(self) -> Manifest:
        return self.opened.manifest

    @property
    def newest(self) -> AnyRelease:
        """The newest release of the table, if it is of this kind."""
        assert self.manifest.release is not None  # noqa: S101 - the callers have looked
        return self.manifest.release

    @staticmethod
    @abstractmethod
    def chosen(given: Mapping[str, Any]) -> C:
        """The choices that options make. Raises UsageError, InputError."""

    @abstractmethod
    def drafted(self, to: Mapping[str, PublicKey], choices: C) -> ReleaseDraft:
        """The draft for current analysts and those in `to`. Reads no rows. Raises InputError for what does not fit."""

    @abstractmethod
    def unasked(self, to: Mapping[str, PublicKey]) -> ReleaseDraft:
        """The draft of a command without choices."""

    # of the newest release

    @property
    @abstractmethod
    def described(self) -> str:
        """The newest release in words."""

    @property
    @abstractmethod
    def figures(self) -> dict[str, str | int | bool]:
        """The same for programs."""

    @abstractmethod
    def content(self) -> bytes | None:
        """What analysts read, from the ledger; None if nothing can be shown."""

    @abstractmethod
    def facts(self) -> ReleaseFacts: ...

    def renamed(self, news: Mapping[str, str], dropped: Set[str]) -> AnyRelease:  # noqa: ARG002 - it names no column
        """The release after columns are renamed or `dropped`. `news`: old name in lower case -> new name."""
        return self.newest

    def sealed_again(
        self,
        what: str,
        analysts: tuple[Analyst, ...],
        revoked: tuple[Analyst, ...],
        update: Mapping[str, Any] | None = None,
    ) -> SealedAgain:
        """The draft that seals the same numbers for these analysts. `what`: for the log. `update`: other fields."""
        return SealedAgain(kind=self, analysts=analysts, revoked=revoked, what=what, update=update or {})

    def common_facts(self, cells: int) -> dict[str, Any]:
        newest = self.newest
        return {
            "table": self.manifest.table,
            "number": newest.number,
            "analysts": tuple(each.name for each in newest.analysts),
            "cells": cells,
            "place": self.tables.places[0],
            "fingerprint": f"{public_side(self.tables.key).fingerprint}@{newest.number}",
        }

    def ledger_content(self) -> bytes:
        return self.tables.unseal(self.opened.vault, "release", self.newest.ledger)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseDraft(ABC):
    """A release before it is made: `kind` of the version that it is made of, and whom it is for.

    `confirmed`: what `yes` confirmed.
    """

    REASONS: ClassVar[Sequence[Reason[Any]]] = ()
    publishes: ClassVar[bool] = True  # new numbers

    kind: Releases[Any]
    analysts: tuple[Analyst, ...]
    revoked: tuple[Analyst, ...]
    confirmed: tuple[str, ...] = ()

    @property
    def tables(self) -> Tables:
        return self.kind.tables

    @property
    def opened(self) -> Opened:
        return self.kind.opened

    @property
    def number(self) -> int:
        return self.opened.manifest.next_release

    @property
    def title(self) -> str:
        return f"Release {self.number} of table {self.opened.manifest.table}"

    @property
    @abstractmethod
    def is_done(self) -> bool:
        """True if the newest release is this one already."""

    @property
    def is_retry(self) -> bool:
        """True if an earlier command committed it, which may have been stopped: no page is asked for again."""
        return False

    def prepared(self, confirmed: tuple[str, ...]) -> Self:
        """This draft with all that its page says. May read rows."""
        return replace(self, confirmed=confirmed)

    @abstractmethod
    def lines(self) -> Iterator[str]:
        """Its page, after what pages of all kinds say."""

    @abstractmethod
    def make(self) -> Opened:
        """Store and publish it. Raises InputError; ConflictError if others changed the table meanwhile."""

    def figures(self) -> dict[str, Any]:
        """Fields of its facts that the release does not state."""
        return {}


def made(draft: ReleaseDraft) -> ReleaseFacts:
    """Make a release; if the newest one is it already, publish that once more, in case a command was stopped."""
    if draft.is_done:
        finish(draft.tables, draft.opened)
        return replace(draft.kind.facts(), **draft.figures(), made=False)
    done = type(draft.kind)(draft.tables, draft.make())
    return replace(done.facts(), **draft.figures(), publishes=draft.publishes, confirmed=draft.confirmed)


def excluded(manifest: Manifest, there: str, other: str) -> str:
    """Say that the table has releases of another kind, `there`, or had them before it was dropped or restored."""
    if manifest.release is None:
        has = "was dropped or restored, and had"
    else:
        has = "has" if manifest.release.kind == there else "had"
    return (
        f"table {manifest.table!r} {has} {there} releases: with {other} besides, the promise of the noisy one is void"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedAgain(ReleaseDraft):
    """The numbers of the newest release under a new key, for other analysts or after a rotation.

    `what`: for the log. `update`: fields that change.
    """

    publishes: ClassVar = False

    what: str
    update: Mapping[str, Any]

    @property
    def is_done(self) -> bool:
        newest = self.kind.newest
        return newest.totals is not None and self.analysts == newest.analysts and not self.update

    def lines(self) -> Iterator[str]:
        yield "- nothing new: the numbers that were released before are sealed again"

    def make(self) -> Opened:
        kind, newest, key = self.kind, self.kind.newest, secrets.token_bytes(KEY_BYTES)
        content = (old_content(self.tables, self.opened) or kind.content()) if self.analysts else None
        ledger = rekeyed(kind.ledger_content(), key)
        written = stored(self.tables, self.opened, self.what, self.analysts, self.revoked, key, ledger, content)
        released = newest.model_copy(update={**written, **self.update})
        return committed(self.tables, self.opened, released, self.what, key)
