"""docs/design.md has a map of the rooms, made from what this folder's tests enforce.

    python -m tests.architecture.test_map

writes it again.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.architecture.test_imports import FLOORS, PACKAGES, ROOMS, ROOT

PAGE = ROOT / "docs" / "design.md"
MAP = re.compile(r"(?<=<!-- map -->\n).*?(?=<!-- end of map -->)", re.DOTALL)


def floors() -> dict[str, int]:
    """The floor of each room: one above the highest that it imports."""
    found: dict[str, int] = {}
    while len(found) < len(ROOMS):
        found |= {
            room: 1 + max((found[other] for other in below), default=0)
            for room, below in ROOMS.items()
            if room not in found and below <= found.keys()
        }
    return found


def described(room: str) -> str:
    """The first sentence of a room's docstring."""
    folder = ROOT / PACKAGES["cleave"] / "cleave"
    source = folder / room / "__init__.py" if (folder / room).is_dir() else folder / f"{room}.py"
    text = ast.get_docstring(ast.parse(source.read_text("utf-8"))) or ""
    return re.split(r"(?<=\.)\s", " ".join(text.split()))[0].replace("|", "\\|")


def drawn() -> str:
    """The map: rooms from the top floor down, then what stands inside those that have folders."""
    found = floors()
    lines = ["| floor | room | what it does | imports |", "|---|---|---|---|"]
    for room in sorted(ROOMS, key=lambda room: (-found[room], room)):
        lines.append(f"| {found[room]} | {room} | {described(room)} | {', '.join(sorted(ROOMS[room])) or '-'} |")
    lines += ["", "| package with folders | its floors, from the top |", "|---|---|"]
    for package, inside in FLOORS.items():
        stack = " / ".join(", ".join(floor.split()) for floor in reversed(inside))
        lines.append(f"| {package} | {stack} |")
    return "\n".join(lines) + "\n"


def test_the_page_has_the_map_of_the_rooms() -> None:
    found = MAP.search(PAGE.read_text("utf-8"))
    assert found is not None
    assert found[0] == drawn(), "run: python -m tests.architecture.test_map"


def write(page: Path = PAGE) -> None:
    page.write_text(MAP.sub(lambda _: drawn(), page.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    write()
