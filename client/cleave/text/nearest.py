"""Suggest the name that was probably meant."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The most similar of `names`, ignoring case; None if none is similar."""
    import difflib  # noqa: PLC0415 - few names are misspelled

    spelled = {each.lower(): each for each in names}
    matches = difflib.get_close_matches(name.lower(), spelled, n=1)
    return spelled[matches[0]] if matches else None


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The text "did you mean ...?" with the most similar of `names`, or ""."""
    near = nearest(name, names)
    return f"did you mean {near!r}?" if near else ""
