"""Makes `client/cleave/__init__.pyi` from the table of public names: `make stub`."""

from __future__ import annotations

from pathlib import Path

import cleave
from cleave.names import HOMES

STUB = Path(__file__).parents[2] / "client" / "cleave" / "__init__.pyi"
_WIDTH = 120
_HEAD = "# Public names, for type checkers. Made by `make stub` from client/cleave/names.py."
_WARNING = "from {} import Warning as Warning  # noqa: A004 - PEP 249 names it so; `import *` leaves it out"
_OWN = "apilevel: str\nthreadsafety: int\nparamstyle: str"


def stub() -> str:
    """The text of the stub, in the order and form that ruff wants."""
    imports = []
    for home in sorted(set(HOMES.values())):
        names = sorted((name for name, its in HOMES.items() if its == home and name != "Warning"), key=_in_imports)
        line = f"from {home} import {', '.join(names)}"
        imports.append(line if len(line) <= _WIDTH else f"from {home} import (\n{_listed(names, '{}')})")
        if HOMES.get("Warning") == home:
            imports.append(_WARNING.format(home))
    listed = _listed(sorted(cleave.__all__, key=lambda name: (_kind(name), name)), '"{}"')
    return "\n".join([_HEAD, *imports, "", _OWN, "", f"__all__ = [\n{listed}]"]) + "\n"


def _listed(names: list[str], form: str) -> str:
    return "".join(f"    {form.format(name)},\n" for name in names)


def _kind(name: str) -> int:
    """Constants, then classes, then functions."""
    return 0 if name.isupper() else 1 if name[0].isupper() else 2


def _in_imports(name: str) -> tuple[int, str]:
    return _kind(name), name.lower()


if __name__ == "__main__":
    STUB.write_text(stub(), "utf-8")
