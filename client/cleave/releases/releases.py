"""Make, open and revoke the releases of a table, of whatever kind."""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from pydantic import ValidationError

from cleave.ckks.public_key import PublicKey
from cleave.releases.exact import ExactReleases
from cleave.releases.kind import Choices, ReleaseDraft, ReleaseFacts, Releases, made, require
from cleave.releases.noisy import NoisyReleases
from cleave.releases.publishing import finish
from cleave.releases.release import KEY_BYTES, ReleasedTotals, ReleaseHead, open_content
from cleave.share.addressed import SUITE, public_of
from cleave.store.identity import Identity
from cleave.store.manifest import Analyst, AnyRelease
from cleave.store.reader import Opened
from cleave.store.tables import Tables
from cleave_shared.errors import CheckFailed, InputError

KINDS: Final[Mapping[str, type[Releases[Any]]]] = {each.NAME: each for each in (ExactReleases, NoisyReleases)}


def newest_of(tables: Tables, opened: Opened) -> Releases[Any] | None:
    """The newest release of a table; None if it has none."""
    newest = opened.manifest.release
    return None if newest is None else KINDS[newest.kind](tables, opened)


def drafted(
    tables: Tables, table: str, to: Mapping[str, PublicKey], choices: Choices | None = None, *, yes: bool = False
) -> ReleaseDraft:
    """The next release, for current analysts and those in `to`.

    Without `choices` new analysts get the numbers of the newest release, also with `yes`. Without new analysts it is an
    exact release. `yes`: confirms reasons against it. Raises InputError for all others, and for choices that do not fit
    the table.
    """
    opened = tables.open(table)
    newest = newest_of(tables, opened)
    if choices is not None:
        draft = KINDS[choices.KIND](tables, opened).drafted(to, choices)
    elif newest is not None and to:
        draft = newest.unasked(to)
    else:
        draft = ExactReleases(tables, opened).unasked(to)
    return draft.prepared(require(draft, yes=yes))


def release(
    tables: Tables, table: str, to: Mapping[str, PublicKey], choices: Choices | None = None, *, yes: bool = False
) -> ReleaseFacts:
    """Make the release that `drafted` says. Raises also ConflictError if others changed the table meanwhile."""
    return made(drafted(tables, table, to, choices, yes=yes))


def revoke(tables: Tables, table: str, analyst: str) -> ReleaseFacts | None:
    """Seal the numbers of the newest release again under a new key, for all analysts but one.

    `analyst` is a name or a fingerprint. Returns None if it was revoked before; then this finishes what a stopped
    command left. Raises InputError if the table has no such analyst.
    """
    opened = tables.open(table)
    kind = newest_of(tables, opened)
    analysts, revoked = (kind.newest.analysts, kind.newest.revoked) if kind else ((), ())

    def is_named(each: Analyst) -> bool:
        return analyst in (each.name, public_of(each).fingerprint)

    gone = [*filter(is_named, analysts)]
    if kind is None or not gone:
        if any(map(is_named, revoked)):
            finish(tables, opened)
            return None
        names = ", ".join(each.name for each in analysts)
        raise InputError(f"there is no analyst {analyst!r}", hint=f"analysts of this table: {names or 'none'}")
    left = tuple(each for each in analysts if each not in gone)
    return made(kind.sealed_again("revoke", left, (*revoked, *gone)))


def reseal(tables: Tables, table: str) -> None:
    """Seal the newest release for its analysts again, after the table moved to the key of `tables`."""
    kind = newest_of(tables, tables.open(table))
    if kind is not None and kind.newest.totals is None and kind.newest.analysts:
        made(kind.sealed_again("release", kind.newest.analysts, kind.newest.revoked))


def renamed(tables: Tables, opened: Opened, news: Mapping[str, str], dropped: Set[str]) -> AnyRelease | None:
    """The release of a table after columns are renamed or `dropped`. `news`: old name in lower case -> new name."""
    kind = newest_of(tables, opened)
    return None if kind is None else kind.renamed(news, dropped)


def open_totals(identity: Identity, analyst: PublicKey, head: ReleaseHead, sealed: bytes) -> ReleasedTotals:
    """The content of a release, for the analyst to whom it is sealed. Raises CheckFailed."""
    failed = CheckFailed(
        "stored", "a release is damaged, or another's", hint="the owner makes it again with `cleave release new`"
    )
    key = head.open(identity, analyst, KEY_BYTES)
    if head.suite != SUITE:
        raise failed
    try:
        totals = read_totals(open_content(key, head, sealed))
    except (InvalidTag, ValueError, ValidationError):
        raise failed from None
    if not totals.is_consistent():
        raise failed
    return totals


def read_totals(content: bytes) -> ReleasedTotals:
    """Read the content of a release by its kind. Raises ValueError."""
    try:
        kind = KINDS[json.loads(content)["kind"]]
    except (RecursionError, TypeError, KeyError) as error:
        raise ValueError from error
    return kind.TOTALS.model_validate_json(content)
