"""Which command the words of a command line name, known before the command line is made."""

from __future__ import annotations

from collections.abc import Sequence

ANYWHERE = ("--debug", "--quiet")  # options that may stand anywhere


def named(words: Sequence[str]) -> str:
    """The first word that is not one of those options, "" where there is none. It need not be a command."""
    return next((word for word in words if word not in ANYWHERE), "")
