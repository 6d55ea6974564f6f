"""The questions in tests/conformance/queries: SQL under a line that says what it is asked of and expected to come from.

    -- numbers: key, encrypted, local
    SELECT g, SUM(mid), MAX(mid) FROM numbers GROUP BY g ORDER BY g;

`numbers + regions` names a further table that is there by --with; `local x 19` is nineteen outputs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "queries"
_HEAD = re.compile(r"-- (\w+)(?: \+ (\w+))?: (.+)\n")
_SOURCES = ("key", "plain", "encrypted", "local")


@dataclass(frozen=True)
class Query:
    name: str
    table: str
    other: str | None
    sources: tuple[str, ...]
    sql: str


def _sources(text: str) -> tuple[str, ...]:
    sources: list[str] = []
    for part in text.split(", "):
        source, _, times = part.partition(" x ")
        assert source in _SOURCES, text
        sources += [source] * int(times or 1)
    return tuple(sources)


def read(path: Path) -> list[Query]:
    """The file's own heading is its first paragraph."""
    _, text = path.read_text(encoding="utf-8").split("\n\n", 1)
    found = []
    for block in text.removesuffix(";\n").split(";\n\n"):
        head = _HEAD.match(block)
        assert head, f"{path.name}: {block[:80]}"
        name = f"{path.stem}-{len(found) + 1:02}"
        found.append(Query(name, head[1], head[2], _sources(head[3]), block[head.end() :]))
    return found


QUERIES = [query for path in sorted(FOLDER.glob("*.sql")) for query in read(path)]
