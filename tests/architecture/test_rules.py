"""docs/rules.md states each rule of disclosure with its counterexample; what code, tests and pages cite stands there.

A citation is "rule G1", "rules P2 and P3" or "rules P2 to P4". A message ends in it: it says first what to do.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.architecture.test_references import ROOT, files

PAGE = ROOT / "docs" / "rules.md"
LINKING = ("README.md", "SECURITY.md", "docs/disclosure.md", "docs/gateway.md")
NUMBERS = {"P": 4, "A": 3, "G": 4, "R": 8, "N": 8}

ONE = rf"[{''.join(NUMBERS)}]\d"
SEVERAL = rf"{ONE}(?:(?:,| and| to) {ONE})*"
CITED = re.compile(rf"\b[Rr]ules?(?:\]\(\S+\))? ({SEVERAL})\b")  # also a link: [rules](page) G1 to G4
LAST = re.compile(rf"\S.* \(rules? {SEVERAL}\)[.;]?(?: .*)?")
SENTENCE = re.compile(r"[A-Z`](?:[^.]|\.(?! ))*\.")


@cache
def rules() -> dict[str, list[str]]:
    """By number: the rule, and its counterexample."""
    lines = re.findall(r"^\| (\w+) \| (.*) \| (.*) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    return {number: texts for number, *texts in lines}


def cited(text: str) -> set[str]:
    """The rules that a text cites; "P2 to P4" are three."""
    found = set()
    for match in CITED.finditer(re.sub(r"[\s#]*\n[\s#]*", " ", text)):
        found.update(re.findall(ONE, match[1]))
        for first, last in re.findall(rf"({ONE}) to ({ONE})", match[1]):
            found.update(f"{first[0]}{number}" for number in range(int(first[1]), int(last[1])))
    return found


@cache
def citations() -> dict[Path, set[str]]:
    return {path: cited(path.read_text("utf-8")) for path in files() if path not in (PAGE, Path(__file__))}


def messages(path: Path) -> Iterator[str]:
    """Texts in a file's code, without docstrings. What is formatted into one is an underscore."""
    tree = ast.parse(path.read_text("utf-8"))
    formatted = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    skipped = {part for node in formatted for part in ast.walk(node) if part is not node}
    skipped |= {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(each.value) if isinstance(each, ast.Constant) else "_" for each in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in skipped:
            yield node.value


def test_rules_are_numbered_and_have_a_sentence_and_a_counterexample() -> None:
    assert list(rules()) == [f"{letter}{number}" for letter, most in NUMBERS.items() for number in range(1, most + 1)]
    assert [(number, text) for number, texts in rules().items() for text in texts if not SENTENCE.fullmatch(text)] == []


@pytest.mark.parametrize("page", LINKING)
def test_pages_on_disclosure_link_the_rules(page: str) -> None:
    assert re.search(r"\]\((?:docs/)?rules\.md[#)]", (ROOT / page).read_text("utf-8"))


def test_rules_that_are_cited_exist() -> None:
    assert [f"{path}: {each}" for path, found in citations().items() for each in found - rules().keys()] == []


def test_every_rule_is_cited_by_code_or_a_test() -> None:
    known = {each for path, found in citations().items() if path.suffix == ".py" for each in found}
    assert sorted(rules().keys() - known) == []


def test_messages_end_in_their_rule() -> None:
    """What follows in the same text is another sentence, as in a note of several."""
    texts = [text for path in (ROOT / "client").rglob("*.py") for text in messages(path) if CITED.search(text)]
    assert len(texts) >= 10, "messages that cite a rule are no longer found"
    assert [text for text in texts if not LAST.fullmatch(text)] == []


def test_what_is_not_there_is_found_missing() -> None:
    assert cited("(rules P2 to P4), and rule\n    # G1; [rules](rules.md#people) R1, R2 and R8") == {
        *("P2", "P3", "P4", "G1", "R1", "R2", "R8")
    }
    assert cited("the rule G12, rule g1, P1") == set()
    assert not LAST.fullmatch("rule G1: ask for less")
    assert not LAST.fullmatch("(rule G1)")
    assert LAST.fullmatch("ask for less (rule G1).")
    assert not SENTENCE.fullmatch("One. Two.")
