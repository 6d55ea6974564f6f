"""Suggest the name that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like `name`, whatever the case of either; None where none is like it."""
    spelled = {each.lower(): each for each in known}
    found = difflib.get_close_matches(name.lower(), spelled, n=1)
    return spelled[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question that names the nearest of `known`, or ""."""
    near = nearest(name, known)
    return f"did you mean {near!r}?" if near else ""
