"""Facts in docstrings and comments: a name in backticks exists in scope, and a docstring adds to its function's name.

Backticks are for names of this project. A value, a user's column and a name of another program have double quotes or
none. No test demands a docstring: a signature that says everything has none.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from tests.architecture.test_references import FOLDERS, MODULE

ROOT = Path(__file__).parents[2]
SOURCES = sorted(path for half in ("client", "functions", "shared") for path in (ROOT / half).rglob("*.py"))
COMMANDS = sorted(
    (
        ROOT / "client/cleave/names.py",
        *(path for room in ("ask", "cli", "local") for path in (ROOT / "client/cleave" / room).rglob("*.py")),
    )
)

QUOTED = re.compile(r"`([^`]+)`")
NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?:\(\))?")
OPTION = re.compile(r"(?<!\S)--[a-z][a-z-]*")
COMMAND = re.compile(r"^cleave ([a-z]+)")
FILE = re.compile(r"[\w./-]+\.(?:md|py|toml|pyi|yaml|csv|sql|css|js|html)")
LITTLE = {
    *("a", "an", "and", "any", "are", "as", "at", "be", "by", "for", "from", "in", "into", "is", "it", "its", "of"),
    *("on", "one", "or", "that", "the", "this", "to", "what", "which", "with"),
}

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Text(NamedTuple):
    """A docstring, or comments on consecutive lines. `around`: the definitions that contain it, outermost first."""

    path: Path
    line: int
    text: str
    around: tuple[Definition, ...]


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


@cache
def definitions(path: Path) -> list[tuple[Definition, ...]]:
    """Each class and function of a file, below those that contain it."""
    found = []

    def walk(node: ast.AST, around: tuple[Definition, ...]) -> None:
        for child in ast.iter_child_nodes(node):
            inner = (*around, child) if isinstance(child, Definition) else around
            if inner is not around:
                found.append(inner)
            walk(child, inner)

    walk(tree(path), ())
    return found


def docstrings(path: Path) -> Iterator[Text]:
    for around in ((), *definitions(path)):
        node = around[-1] if around else tree(path)
        if text := ast.get_docstring(node):
            yield Text(path, node.body[0].lineno, text, around)


def comments(path: Path) -> Iterator[Text]:
    """Those of a file in which one quotes something."""
    source = path.read_text("utf-8")
    if not re.search("#.*`", source):
        return
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    lines = [(each.start[0], each.string.lstrip("# ")) for each in tokens if each.type == tokenize.COMMENT]
    for _, block in groupby(enumerate(lines), key=lambda each: each[1][0] - each[0]):
        found = [line for _, line in block]
        number = found[0][0]
        around = [each for each in definitions(path) if each[-1].lineno <= number <= (each[-1].end_lineno or 0)]
        yield Text(path, number, " ".join(text for _, text in found), max(around, key=len, default=()))


def parts(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes below `node`, except docstrings."""
    left = [node]
    while left:
        for child in ast.iter_child_nodes(left.pop()):
            if not (isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)):
                yield child
                left.append(child)


@cache
def words(node: ast.AST) -> frozenset[str]:
    """Identifiers in the code of `node`, and words of its strings."""
    found: set[str] = set()
    for each in (node, *parts(node)):
        match each:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                found.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.alias(name=name, asname=other):
                found |= {*name.split("."), other or name}
            case ast.ImportFrom(module=str(name)):
                found |= {*name.split(".")}
            case ast.Constant(value=value):
                found |= {*re.findall(r"\w+", str(value))}
    return frozenset(found)


@cache
def top(path: Path) -> frozenset[str]:
    """Names that a module defines or imports at its top, and its own."""
    found = {*path.relative_to(ROOT).with_suffix("").parts}
    for node in tree(path).body:
        if isinstance(node, Definition):
            found.add(node.name)
        elif not isinstance(node, ast.Expr):
            found |= words(node)
    return frozenset(found)


@cache
def classes() -> dict[str, list[tuple[frozenset[str], tuple[str, ...]]]]:
    """By name, each class of the project: its attributes and its bases."""
    found = defaultdict(list)
    for path in SOURCES:
        for node in (around[-1] for around in definitions(path)):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(
                    (attributes(node), tuple(word for base in node.bases for word in words(base) - {node.name}))
                )
    return found


def attributes(node: ast.ClassDef) -> frozenset[str]:
    """Fields, methods, and what methods set on `self`."""
    found = {each.name for each in node.body if isinstance(each, Definition)}
    for each in parts(node):
        if isinstance(each, ast.Name | ast.Attribute) and isinstance(each.ctx, ast.Store):
            found.add(each.id if isinstance(each, ast.Name) else each.attr)
    return frozenset(found)


@cache
def members(name: str) -> frozenset[str]:
    """Attributes of the project's classes of this name, inherited ones included."""
    return frozenset().union(*(own.union(*map(members, bases)) for own, bases in classes().get(name, ())))


@cache
def scope(path: Path, around: tuple[Definition, ...]) -> frozenset[str]:
    """Names that a text there can quote: of its own code, its classes, the types of its signature, and its module."""
    found = set(top(path))
    if not around:
        return frozenset(found | words(tree(path)))
    for node in around:
        if isinstance(node, ast.ClassDef):
            found |= {node.name, *members(node.name)}
        else:
            found |= words(node.args) | {node.name}
            for word in words(node.args) | (words(node.returns) if node.returns else set()):
                found |= members(word)
    return frozenset(found | words(around[-1]))


@cache
def everywhere() -> frozenset[str]:
    """Every attribute of a class of the project, for the end of a dotted name."""
    return frozenset().union(*map(members, classes()))


@cache
def strings() -> tuple[str, ...]:
    """Those of the command line and of the options that it shares with Python."""
    constants = [each for path in COMMANDS for each in parts(tree(path)) if isinstance(each, ast.Constant)]
    return tuple(each.value for each in constants if isinstance(each.value, str))


@cache
def commands() -> frozenset[str]:
    return frozenset(match[1] for text in strings() if (match := re.fullmatch(r"(?:[\w.]+:)?([a-z]+)", text)))


@cache
def options() -> frozenset[str]:
    return frozenset(option for text in strings() for option in OPTION.findall(text))


@cache
def files() -> frozenset[str]:
    return frozenset(path.name for folder in FOLDERS for path in (ROOT / folder).rglob("*.*"))


@cache
def modules() -> frozenset[str]:
    return frozenset(path.stem for path in SOURCES)


def missing(text: Text) -> list[str]:
    """Quotations of `text` that look like a name, an option, a command or a file, and are none."""
    found: list[str] = []
    every = QUOTED.findall(text.text)
    known = scope(text.path, text.around) | commands() | modules() if every else set()
    for quoted in every:
        if FILE.fullmatch(quoted):
            fails = Path(quoted).name not in files()
        elif quoted.startswith("cleave ") or OPTION.match(quoted):
            fails = not {*OPTION.findall(quoted)} <= options() or not {*COMMAND.findall(quoted)} <= commands()
        elif NAME.fullmatch(quoted) and not MODULE.fullmatch(quoted):
            first, *rest = quoted.removesuffix("()").split(".")
            fails = first not in known or not {*rest} <= known | everywhere()
        else:  # SQL, a formula
            fails = False
        if fails:
            found.append(quoted)
    return found


def test_quoted_names_exist() -> None:
    texts = [each for path in SOURCES for each in (*docstrings(path), *comments(path))]
    assert len(texts) >= 1000, "docstrings and comments are no longer found"
    assert [f"{each.path}:{each.line}: {name}" for each in texts for name in missing(each)] == []


def stems(text: str) -> set[str]:
    """Content words without their endings."""
    found = re.findall(r"[a-z]+", re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", text).lower())
    return {re.sub(r"(?<=...)(?:ies|ing|ed|es|s|e|y)$", "", word) for word in found} - LITTLE


def repeats(text: Text) -> bool:
    node = text.around[-1]
    named = " ".join(each.name for each in text.around)
    if not isinstance(node, ast.ClassDef):
        named += " " + " ".join(words(node.args) | (words(node.returns) if node.returns else set()))
    return stems(text.text) <= stems(named.replace("_", " "))


def test_docstrings_do_not_repeat_names() -> None:
    texts = [each for path in SOURCES for each in docstrings(path) if each.around]
    assert [f"{each.path}:{each.line}: {each.text}" for each in texts if repeats(each)] == []


def text_of(source: str) -> Text:
    """The docstring of the function that `source` defines, as if it stood in a module that has a class Session."""
    node = ast.parse(source).body[0]
    assert isinstance(node, Definition)
    return Text(ROOT / "client/cleave/ask/session.py", 1, ast.get_docstring(node) or "", (node,))


def test_what_is_not_there_is_found_missing() -> None:
    quoted = "`gone`, `asking`, `local.vanished`, `--gone`, `cleave gone`, `cleave query --gone`, `gone.py`"
    known = "`asked`, `local`, `Session`, `--store`, `cleave query`, `session.py`, `SELECT 1`, `(a, b)`"
    text = text_of(f'def answer(asked):\n    """{quoted} {known}"""\n    local = asked\n    return local')
    assert missing(text) == [each.strip("`") for each in quoted.split(", ")]


def test_what_repeats_a_name_is_found() -> None:
    assert repeats(text_of('def read_rows(path: Path) -> list[Row]:\n    """Reads the rows of a path."""'))
    assert not repeats(text_of('def read_rows(path: Path) -> list[Row]:\n    """Reads the rows in random order."""'))
