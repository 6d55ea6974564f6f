"""Plain English: how docstrings begin, and words that no message uses."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOT_FIRST = {"of", "what", "whether", "that", "who", "whom", "whose"}
NOT_IN_MESSAGES = re.compile(
    r"\b(told|tells|asked|asker|anew|whoever|nobody|none but|of which|is to be|are to be|taken to be|as it lies|goes by"
    r"|stands for|meanwhile|somebody)\b",
    re.IGNORECASE,
)
NO_NAMES = {"told", "asked", "found", "kept", "made", "known", "whoever", "anew"}
_SAY = {"say", "_say", "out", "option", "flag", "argument", "Flag", "warn", "report_error", "BadParameter"}


def sources() -> list[Path]:
    return sorted(path for half in ("client", "functions", "shared") for path in (ROOT / half).rglob("*.py"))


@cache
def texts_of(path: Path) -> tuple[list[str], list[str], list[str]]:
    """Docstrings, messages and names of a file."""
    nodes = [*ast.walk(ast.parse(path.read_text()))]
    return [*docstrings(nodes)], [*messages(nodes)], [*named(nodes)]


def docstrings(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield text


def messages(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Texts of errors, hints, help and lines that are printed; what a command says of itself."""
    for node in nodes:
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in _SAY or name.endswith(("Error", "Refused", "Failed", "Uncut", "OnlyLocal", "no_service")):
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.value


def test_docstrings_begin_with_a_verb_or_a_noun_and_messages_are_plain() -> None:
    found = []
    for path in sources():
        texts, said, _ = texts_of(path)
        found += [(path, each) for each in texts if each.split(maxsplit=1)[0].strip(",.:;").lower() in NOT_FIRST]
        shown = [*said, *(texts if "cli" in path.relative_to(ROOT).parts else ())]
        found += [(path, each) for each in shown if NOT_IN_MESSAGES.search(each)]
    assert not found


def named(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Names that a file gives to variables, attributes, parameters, functions and classes."""
    for node in nodes:
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.id if isinstance(node, ast.Name) else node.attr
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def test_names_are_nouns_and_verbs_of_the_field() -> None:
    assert not [(path, name) for path in sources() for name in texts_of(path)[2] if name.lower().strip("_") in NO_NAMES]
