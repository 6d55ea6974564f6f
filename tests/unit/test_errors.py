"""Codes of errors: each has its readers, and each is given by something."""

from __future__ import annotations

import ast
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

import cleave
import cleave_services
import cleave_shared
from cleave.api import errors as pep249
from cleave.gateway.states import NOT_PUBLIC, STATES
from cleave.objects.storage import ConflictError
from cleave_services import bodies
from cleave_shared import duckdb_errors, errors
from cleave_shared.errors import EXIT_CODES, CheckFailed, CleaveError, Code, InputError, QueryRefused, UsageError

CODES = frozenset(get_args(Code))
DOCS = Path(__file__).parents[2] / "docs" / "output.md"


Trees = dict[Path, ast.AST]


@pytest.fixture(scope="module")
def trees() -> Trees:
    """Every program text, parsed once: not longer than for these tests, since it is large."""
    paths = [
        path
        for package in (cleave, cleave_shared, cleave_services)
        for path in Path(next(iter(package.__path__))).rglob("*.py")
    ]
    return {path: ast.parse(path.read_text()) for path in paths}


def given(trees: Trees) -> set[str]:
    """Codes of classes, of raises and of the table of DuckDB's errors."""
    found = {fault.code for fault in duckdb_errors.FAILED.values()} | {row[1] for row in duckdb_errors.PLANNED}
    for tree in trees.values():
        for node in ast.walk(tree):
            value = node.value if isinstance(node, ast.keyword) and node.arg == "code" else None
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == "code":
                value = node.value
            if isinstance(value, ast.Constant) and value.value in CODES:
                found.add(value.value)
    return found


def test_every_code_is_given_and_has_an_exit_code(trees: Trees) -> None:
    assert given(trees) == CODES
    assert EXIT_CODES.keys() == CODES


NO_OPTION = (  # usage that is about several options, columns or none
    *("derive takes an expression", "time, event and group are different", "principal components"),
    *("there is a snapshot already", "a name cannot be read", "there are no services in this process"),
    *("--profile, --region and --sign are about", "--epsilon needs --most-rows"),
)


def usage(trees: Trees) -> Iterator[tuple[str, str]]:
    """Message and option ("" for none) of every UsageError that is raised. What is formatted in is an underscore."""
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "UsageError":
                said, names = node.args[0], [ast.unparse(each.value) for each in node.keywords if each.arg == "name"]
                parts = said.values if isinstance(said, ast.JoinedStr) else [said]
                text = "".join(str(each.value) if isinstance(each, ast.Constant) else "_" for each in parts)
                yield text, "".join(names)


def test_errors_of_usage_name_their_option(trees: Trees) -> None:
    every = list(usage(trees))
    assert len(every) >= 40, "raises of UsageError are no longer found"
    assert [message for message, option in every if not (option or message.startswith(NO_OPTION))] == []


def test_every_code_that_a_client_of_the_gateway_may_see_has_a_state() -> None:
    refusals = {code for code, number in EXIT_CODES.items() if number == 4}
    assert STATES.keys() == refusals | {"conversion", "out_of_range", "not_computable", "exhausted"}
    assert NOT_PUBLIC not in STATES.values()
    assert bodies._STATUSES.keys() <= CODES


def parsings(tree: ast.AST) -> Iterator[int]:
    """Lines where a program looks into the message of an error."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and not isinstance(node.ops[0], ast.Is | ast.IsNot):
            looked = [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            is_pattern = node.func.attr in ("search", "match", "fullmatch", "findall", "split", "sub")
            looked = [*node.args] if is_pattern else []
            looked += [node.func.value] if node.func.attr in TEXT_METHODS else []
        else:
            continue
        for each in looked:
            is_said = isinstance(each, ast.Attribute) and each.attr in ("message", "hint")
            if is_said and re.search("error|failure|refus", ast.unparse(each)):
                yield node.lineno


TEXT_METHODS = {name for name in dir(str) if not name.startswith("_")}


def test_no_program_text_is_parsed_out_of_a_message(trees: Trees) -> None:
    assert [f"{path}:{line}" for path, tree in trees.items() for line in parsings(tree)] == []


@pytest.mark.parametrize(
    "text",
    [
        '"a" in error.message',
        're.search("a", error.message)',
        'error.message.startswith("a")',
        'error.hint.partition(" ")',
        "PATTERN.match(error.message)",
        "error.message == DAMAGED",
    ],
)
def test_a_planted_parsing_is_found(text: str) -> None:
    assert list(parsings(ast.parse(text))) == [1]


def test_docs_list_every_code() -> None:
    section = DOCS.read_text().split("\n## Codes of errors\n")[1].split("\n## ")[0]
    rows = [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("| `")]
    listed = {cells[0].strip().strip("`"): [each.strip() for each in cells[1:]] for cells in rows}
    assert listed.keys() == CODES
    for code, exit_code in EXIT_CODES.items():
        *numbers, meaning = listed[code]
        assert numbers == [str(exit_code), STATES.get(code, "")], code
        assert meaning


@pytest.mark.parametrize(
    ("error", "code", "number", "pep"),
    [
        (CleaveError("a"), "failed", 1, pep249.DatabaseError),
        (UsageError("a"), "usage", 2, pep249.DataError),
        (InputError("a"), "input", 3, pep249.DataError),
        (QueryRefused("a"), "refused", 4, pep249.ProgrammingError),
        (QueryRefused("a", code="no_column"), "no_column", 4, pep249.ProgrammingError),
        (errors.KeyFileError("a"), "key", 5, pep249.OperationalError),
        (errors.WireError("a", code="too_large"), "too_large", 6, pep249.OperationalError),
        (ConflictError("a"), "conflict", 6, pep249.OperationalError),
        (CheckFailed("total", "a"), "check", 7, pep249.IntegrityError),
        (errors.Undecided("a"), "undecided", 8, pep249.DataError),
    ],
)
def test_readers_go_by_the_code(error: CleaveError, code: str, number: int, pep: type[Exception]) -> None:
    assert (error.code, error.exit_code) == (code, number)
    with pytest.raises(pep) as caught, pep249.translated():
        raise error
    assert isinstance(caught.value, type(error))
    assert vars(caught.value) == vars(error)


def test_an_error_says_what_it_is_about() -> None:
    error = QueryRefused("there is no column 'a'", code="no_column", name="a", at=7)
    assert (error.name, error.at, error.message) == ("a", 7, "there is no column 'a'")
    assert (InputError("a").name, InputError("a").at) == (None, None)
    assert pickle.loads(pickle.dumps(error)).code == "no_column"  # noqa: S301 - our own bytes
