"""What code and documents refer to exists: files, sections of docs/, modules and what they define."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.budgets import budgets

ROOT = Path(__file__).parents[2]
SOURCES = {"cleave": "client", "cleave_shared": "shared", "cleave_services": "functions"}
FOLDERS = ("aws", "benchmarks", "client", "docs", "events", "functions", "shared", "tests")
TEXTS = (".in", ".md", ".mk", ".py", ".sh", ".toml", ".yaml", ".yml")

PATH = re.compile(rf"(?<![\w/.~*-])(?:{'|'.join(FOLDERS)})/[\w./*{{}}-]*[\w/*}}]")
SECTION = re.compile(r"(docs/[\w-]+\.md) sections? (\d+(?:(?:, | and |-)\d+)*)")
MODULE = re.compile(r"(?<![\w./-])(?:cleave|cleave_shared|cleave_services)(?:\.[A-Za-z]\w*)+(?![\w/-])")
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#([\w-]+))?\)")
# Names like those of modules: a logger, a host, what a test needs to be missing.
NO_MODULE = {"cleave.service", "cleave.example", "cleave_services.nowhere.app", "cleave_services.plain.app.nothing"}


def files() -> list[Path]:
    """Every text of ours: not what the history keeps (CHANGELOG), not what is made (locks, OpenAPI documents)."""
    top = [path for path in ROOT.iterdir() if path.is_file() and path.name != "CHANGELOG.md"]
    below = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    return sorted(
        path
        for path in top + below
        if (path.suffix in TEXTS or path.name == "Makefile") and ".egg-info" not in str(path) and path.is_file()
    )


def found(pattern: re.Pattern[str], path: Path) -> Iterator[re.Match[str]]:
    return pattern.finditer(path.read_text("utf-8"))


@cache
def exists(reference: str) -> bool:
    return any(ROOT.glob(reference.rstrip("/")))


@cache
def headings(document: Path) -> list[str]:
    return re.findall(r"^#+ (.+)$", document.read_text("utf-8"), re.MULTILINE)


def expanded(reference: str) -> list[str]:
    """`a/{b,c}.py` as both files."""
    if not (braces := re.search(r"\{([^{}]*)\}", reference)):
        return [reference]
    return [
        each
        for part in braces[1].split(",")
        for each in expanded(reference[: braces.start()] + part.strip() + reference[braces.end() :])
    ]


def test_files_that_are_named_exist() -> None:
    named = [(path, reference) for path in files() for match in found(PATH, path) for reference in expanded(match[0])]
    assert len(named) >= 100, "the pattern no longer finds the references"
    assert [f"{path}: {reference}" for path, reference in named if not exists(reference)] == []


def test_every_folder_of_tests_has_a_budget() -> None:
    folders = {path.parent.relative_to(ROOT).as_posix() for path in ROOT.glob("*/*/test_*.py")}
    assert {each for each in folders if each.startswith(("tests/", "benchmarks/"))} == budgets().keys()


def test_sections_that_are_cited_exist() -> None:
    cited = [(path, match) for path in files() for match in found(SECTION, path)]
    assert len(cited) >= 10, "the pattern no longer finds the code's citations"
    for path, match in cited:
        numbered = {heading.split(".")[0] for heading in headings(ROOT / match[1]) if re.match(r"\d+\. ", heading)}
        assert set(re.findall(r"\d+", match[2])) <= numbered, f"{path}: {match[0]}"


def test_modules_that_are_named_exist() -> None:
    for path in files():
        for match in found(MODULE, path):
            if match[0] not in NO_MODULE and not match[0].endswith((".py", ".toml", ".md")):
                assert resolves(match[0]), f"{path}: {match[0]}"


def test_links_between_documents_lead_somewhere() -> None:
    for path in (each for each in files() if each.suffix == ".md"):
        for match in found(LINK, path):
            target = (path.parent / match[1]).resolve()
            assert target.exists(), f"{path}: {match[1]}"
            if match[2]:
                assert match[2] in map(anchor, headings(target)), f"{path}: {match[1]}#{match[2]}"


def anchor(heading: str) -> str:
    """GitHub's name of a heading's anchor."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


@cache
def resolves(name: str) -> bool:
    """Whether `name` is a module, or a name or attribute that a module defines at its top."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        stem = (ROOT / SOURCES[parts[0]]).joinpath(*parts[:length])
        module = stem / "__init__.py" if stem.is_dir() else stem.with_suffix(".py")
        stub = module.with_suffix(".pyi")  # of the package, whose names are loaded when they are used
        if module.is_file():
            return length == len(parts) or parts[length] in defined(stub if stub.is_file() else module)
    return False


def defined(module: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.parse(module.read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.If):  # names for type checkers
            names |= {
                alias.asname or alias.name
                for inner in node.body
                if isinstance(inner, ast.ImportFrom)
                for alias in inner.names
            }
    return names


def test_what_is_not_there_is_found_missing() -> None:
    for missing in ("nowhere", "pipeline.nothing"):
        assert not resolves(f"cleave.{missing}")
    assert resolves("cleave.ask.finishing.finished")
    assert resolves("cleave.open_key")
    assert expanded("a/{b,c}/{d,e}") == ["a/b/d", "a/b/e", "a/c/d", "a/c/e"]
