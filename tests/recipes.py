"""The blocks of docs/recipes.md: files, which name their path in the first line, and commands by heading."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).parents[1] / "docs" / "recipes.md"
FEED: Final = "/srv/feed"
REPORTS: Final = "/srv/reports"
BY_WARD: Final = "SELECT ward, avg(bill) AS bill FROM patients GROUP BY ward ORDER BY ward"
_BLOCK: Final = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def files(*languages: str) -> dict[str, str]:
    """Text by path."""
    found = {}
    for language, text in _BLOCK.findall(PAGE.read_text()):
        if language != "sh" and (not languages or language in languages):
            first, _, rest = text.partition("\n")
            found[first.removeprefix("-- ").removeprefix("# ")] = rest
    return found


def commands(heading: str) -> str:
    """The commands of a section, or of what precedes all sections, as one script."""
    (section,) = (each for each in PAGE.read_text().split("\n## ") if each.startswith(heading))
    return "".join(text for language, text in _BLOCK.findall(section) if language == "sh")


def write(folder: Path, text: str, path: str, changes: Mapping[str, object] | None = None) -> Path:
    """Write a file of the page, with places of a machine replaced by those of the test."""
    for old, new in ({FEED: folder / "feed", REPORTS: folder / "reports"} | dict(changes or {})).items():
        text = text.replace(old, str(new))
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(text)
    return folder / path
