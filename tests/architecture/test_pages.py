"""Our pages for readers: short sentences, and no change to the changelog of a release."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import duckdb
import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / f"{name}.md" for name in ("README", "SECURITY", "CONTRIBUTING")),
    *sorted((ROOT / "docs").glob("*.md")),
]
CODE = re.compile(r"^```.*?^```$|^    .*?$|`[^`\n]+`|\]\([^)]*\)", re.MULTILINE | re.DOTALL)
LONGEST = 25  # words, each code span as one


def prose(page: Path) -> str:
    return CODE.sub(" Code ", page.read_text("utf-8"))


def sentences(page: Path) -> list[str]:
    """Sentences of paragraphs and lists; cells of tables are no sentences."""
    lines = [line for line in prose(page).splitlines() if not line.startswith(("|", "#"))]
    paragraphs = re.split(r"\n\s*\n|\n\s*(?=- |\d+\. )", "\n".join(lines))
    return [each for paragraph in paragraphs for each in re.split(r"(?<=[.:;?!])\s+", paragraph.strip())]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sentences_are_short(page: Path) -> None:
    assert [each for each in sentences(page) if len(each.split()) > LONGEST] == []


def test_aggregates_are_named_by_their_whole_names() -> None:
    """VAR and COVAR are no functions: VAR_POP, VARIANCE and COVAR_SAMP are. COVAR_* stands for several."""
    with duckdb.connect() as connection:
        listed = "SELECT DISTINCT upper(function_name), function_type = 'aggregate' FROM duckdb_functions()"
        functions = dict(connection.execute(listed).fetchall())
        words = "SELECT upper(keyword_name) FROM duckdb_keywords() UNION SELECT upper(type_name) FROM duckdb_types()"
        known = {*functions, *(word for (word,) in connection.execute(words).fetchall())}
    cut = {name.partition("_")[0] for name, aggregates in functions.items() if aggregates and "_" in name} - known
    files = [*PAGES, *sorted((ROOT / "client/cleave").rglob("*.py"))]
    found = [(file.name, word) for file in files for word in re.findall(r"\b[A-Z]{3,}\b", file.read_text("utf-8"))]
    assert "VAR" in cut
    assert sorted({each for each in found if each[1] in cut}) == []


def test_nothing_but_noise_is_called_differentially_private() -> None:
    """Rule N8: a line that says so names noise, or denies it."""
    called = [line for page in PAGES for line in page.read_text("utf-8").splitlines() if "ifferential" in line]
    called = [line for line in called if re.search(r"ifferential(ly)? priva", line)]
    assert len(called) >= 4
    assert [line for line in called if not re.search(r"[Nn]ois|Nothing else", line)] == []


def test_no_page_installs_the_name_from_an_index() -> None:
    """Until the package is on PyPI, somebody else may take the name there."""
    installs = re.compile(r"pip\s+install\s+(?:-\S+\s+)*[\"']?cleave(?!_sql-\*\.whl)\S*")
    found = {page.name: installs.findall(page.read_text("utf-8")) for page in PAGES}
    assert {name: commands for name, commands in found.items() if commands} == {}


def test_the_changelog_of_a_release_stays() -> None:
    """What changed since belongs to the unreleased section. A correction of an older one changes the digest too."""
    text = (ROOT / "CHANGELOG.md").read_text()
    released = text[text.index("## [1.0.0]") :]
    assert hashlib.sha256(released.encode()).hexdigest() == (
        "9efdc7ec42e96bf013646cf3d1945bf9f1be64d9c0dc7f8a3e1418d0d347e250"
    )
