"""Completion by Tab: the table's columns and name, DuckDB's functions and words, and the shell's own commands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from cleave.cli.answer import Format
from cleave.cli.shell.commands import COMMANDS
from cleave.table.duck import identifier, private
from cleave.table.schema import Schema
from cleave.text.printable import printable

_WORD = re.compile(r'"[^"]*$|[^\W\d]\w*$|$')
# Within one of these nothing is a name: a text, a comment to the end of its line, and one that is still open.
_DEAD = re.compile(r"""'(?:[^']|'')*$|--[^\n]*$|/\*(?:(?!\*/).)*$""", re.DOTALL)
_CLOSED = re.compile(r"""'(?:[^']|'')*'|"[^"]*"|--[^\n]*\n|/\*.*?\*/""", re.DOTALL)
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")


class Sql(Completer):
    """Columns come first, then functions, then words of SQL; a name that needs quotes gets them."""

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        functions, words = _words()
        reserved = set(words)
        columns = [
            (_spelled(each.name, reserved), each.name, f"{each.kind} {each.type}")
            for schema in schemas.values()
            for each in schema.columns
        ]
        names = [(_spelled(name, reserved), name, "table") for name in schemas]
        self._names = [*columns, *names]
        self._words = [*((name, "function") for name in functions), *((word, "") for word in words)]

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:  # noqa: ARG002
        before = document.text_before_cursor
        command, _, rest = before.lstrip().partition(" ")
        if command.startswith("."):
            if not rest and not before.endswith(" "):
                yield from _matching(command, [(name, name, about) for name, (about, _) in COMMANDS.items()])
                return
            if command != ".plan":
                yield from _matching(rest, [(each, each, "") for each in _arguments(command)])
                return
            before = rest
        open_ = _CLOSED.sub(" ", before)
        if _DEAD.search(open_):
            return
        found = _WORD.search(open_)
        word = found[0] if found else ""
        if not word:
            return
        if word.startswith('"'):
            quoted = [(identifier(name), identifier(name), about) for _, name, about in self._names]
            yield from _matching(word, quoted)
            return
        yield from _matching(word, self._names)
        written = str.upper if word[0].isupper() else str.lower
        yield from _matching(word, [(written(name), written(name), about) for name, about in self._words])


def _matching(word: str, offered: Iterable[tuple[str, str, str]]) -> Iterable[Completion]:
    """Completions of `word` among texts to insert, names to compare and notes; case does not matter."""
    lower = word.lower()
    for text, name, about in offered:
        if name.lower().startswith(lower):
            yield Completion(text, -len(word), display=printable(name), display_meta=printable(about))


def _arguments(command: str) -> list[str]:
    match command:
        case ".format":
            return [each for each in Format if each not in (Format.PARQUET, Format.XLSX)]
        case ".timer":
            return ["on", "off"]
    return []


def _spelled(name: str, reserved: set[str]) -> str:
    return name if _PLAIN.fullmatch(name) and name not in reserved else identifier(name)


@cache
def _words() -> tuple[list[str], list[str]]:
    """DuckDB's functions that are called by a name, and the words it reserves or gives a meaning to."""
    with private() as connection:
        functions = connection.execute(
            "SELECT DISTINCT function_name FROM duckdb_functions() "
            "WHERE function_type IN ('aggregate', 'scalar', 'macro') "
            "AND regexp_full_match(function_name, '[a-z][a-z0-9_]*') ORDER BY 1"
        ).fetchall()
        words = connection.execute(
            "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category = 'reserved' "
            "OR keyword_name IN ('by', 'over', 'partition', 'rows', 'range', 'filter', 'within', 'between', 'exists', "
            "'cast', 'extract', 'interval', 'join', 'left', 'inner', 'coalesce', 'rollup', 'cube', 'grouping', 'sets') "
            "ORDER BY 1"
        ).fetchall()
    return [name for (name,) in functions], [name for (name,) in words]
