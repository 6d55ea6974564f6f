"""Show where in a statement an error is."""

from __future__ import annotations

import re
from collections.abc import Iterable

import duckdb

from cleave.text.nearest import did_you_mean
from cleave.text.printable import printable
from cleave_shared.errors import QueryRefused

_ABOUT = re.compile(r"there is no |syntax error |DuckDB refuses the query")
_PLACE = re.compile(r"at line (\d+), column (\d+)")
_NAME = re.compile(r"""["']([^"']+)["']|\bfunction (\w+)$|\bname (\w+) does|\bfor ([\w.]+)$""", re.IGNORECASE)
_WIDTH = 100  # characters of a line that are shown


def point(error: QueryRefused, sql: str, names: Iterable[str]) -> None:
    """Add to a refusal an excerpt of `sql` and, if it has no hint, the nearest of `names`, which a question
    may name.
    """
    if not _ABOUT.match(error.message):
        return
    named = _name(error.message)
    start = _start(error.message, named, sql)
    if start is not None:
        error.excerpt = _excerpt(sql, start)
    if error.hint is None and named is not None:
        error.hint = did_you_mean(named, names) or None


def _name(message: str) -> str | None:
    matches = _NAME.findall(re.split(r"!? Did you mean| not found| in [^ ]+$", message)[0])
    return next(filter(None, matches[-1]), None) if matches else None


def _start(message: str, name: str | None, sql: str) -> int | None:
    """Return the position of the first character that the message is about."""
    if place := _PLACE.search(message):
        before = "".join(sql.splitlines(keepends=True)[: int(place[1]) - 1])
        return min(len(before) + int(place[2]) - 1, len(sql))
    if name is None:
        return None
    content, tokens = sql.encode(), duckdb.tokenize(sql)
    ends = [*(start for start, _ in tokens[1:]), len(content)]
    for (start, kind), end in zip(tokens, ends, strict=True):
        word = content[start:end].decode().rstrip().strip('"')
        if kind != duckdb.token_type.string_const and word.lower() == name.rpartition(".")[2].lower():
            return len(content[:start].decode())
    return None


def _excerpt(sql: str, start: int) -> str:
    """Return the line at position `start`, with a caret below it."""
    before, after = sql[:start].rpartition("\n")[2], sql[start:].partition("\n")[0]
    shown = printable(before)[-_WIDTH // 2 :]
    return f"{shown}{printable(after)[: _WIDTH - len(shown)]}\n{' ' * len(shown)}^"
