"""Which releases may read and write an object: members in the clear that it begins with (docs/format.md, Releases).

Heads, key files and public files have them. They are compared before anything else is opened. The signature or MAC of
the object covers them. Their names and meaning are the same in every later format.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from cleave_shared.errors import Code, InputError
from cleave_shared.version import VERSION as RELEASE

FORMAT = 3
LOWEST_READER = "3.0.0"  # of what this release writes
LOWEST_WRITER = "3.0.0"
MEMBERS = ("written_by", "lowest_reader", "lowest_writer")
_RELEASE = re.compile(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})[0-9A-Za-z.+-]{0,20}")


class AnotherRelease(InputError):  # noqa: N818 - named for what happened
    """An object that this release may not read, or may not change."""

    code: Code = "another_release"


def header(kind: str) -> dict[str, Any]:
    """The members of an object that this release writes. `kind`: name of its format number, such as cleave_table."""
    return {kind: FORMAT, "written_by": RELEASE, "lowest_reader": LOWEST_READER, "lowest_writer": LOWEST_WRITER}


def require_readable(members: Mapping[str, Any], kind: str, what: str) -> None:
    """Raise AnotherRelease if this release may not read the object `what`, ValueError if its members are damaged."""
    number = members[kind]
    if type(number) is not int:
        raise ValueError(f"{kind} is no number")
    if number < FORMAT:
        raise AnotherRelease(
            f"{what} was written by a release before 3.0, which was never published: it is not read",
            hint="make it again with this release",
        )
    try:
        _, lowest, _ = map(_numbers, map(members.__getitem__, MEMBERS))
    except (KeyError, ValueError):
        if number == FORMAT:
            raise ValueError("it does not say which releases may read and write it") from None
        raise AnotherRelease(
            f"{what} was written by a later release, and release {RELEASE} cannot read it", hint="upgrade Cleave"
        ) from None
    if number > FORMAT or lowest > _numbers(RELEASE):
        at_least = members["lowest_reader"] if lowest > _numbers(RELEASE) else members["written_by"]
        raise AnotherRelease(
            f"{what} was written by release {members['written_by']}, and release {RELEASE} cannot read it",
            hint=f"upgrade Cleave to release {at_least} or later",
        )


def require_writable(written_by: str, lowest_writer: str, what: str) -> None:
    """Raise AnotherRelease if this release may read the object `what`, but not change it."""
    if _numbers(lowest_writer) > _numbers(RELEASE):
        raise AnotherRelease(
            f"{what} was written by release {written_by}, and release {RELEASE} can read it but not change it",
            hint=f"upgrade Cleave to release {lowest_writer} or later",
        )


def is_later(written_by: str) -> bool:
    """True if a later release wrote the object: it may have members that this one does not know."""
    return _numbers(written_by) > _numbers(RELEASE)


def _numbers(release: object) -> tuple[int, ...]:
    """A release as numbers to compare. Raises ValueError."""
    match = _RELEASE.fullmatch(release) if isinstance(release, str) else None
    if match is None:
        raise ValueError("not a release")
    return tuple(map(int, match.groups()))
