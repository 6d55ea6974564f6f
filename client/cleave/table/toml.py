"""Reader of a TOML table, with errors that name the place of a mistake."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def only_keys(table: Mapping[str, Any], known: tuple[str, ...], place: str) -> None:
    for key in table:
        if key not in known:
            raise ValueError(f"{place}: does not know the key {key!r}, only {', '.join(known)}")


def inner(value: object, place: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{place}: must be a table")
    return value


def text(table: Mapping[str, Any], key: str, place: str) -> str:
    value = table.get(key)
    if not isinstance(value, str):
        raise ValueError(f"{place} {key}: is missing" if value is None else f"{place} {key}: must be text in quotes")
    return value
