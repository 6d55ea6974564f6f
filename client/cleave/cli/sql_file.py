"""SQL from a file or stdin, for what should not stand on a command line.

That stands in `ps`, the shell's history and audit logs; SQL may name what nobody else should read there.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from cleave_shared.errors import InputError

_LONGEST = 1_000_000  # bytes; the services take far less

SqlFile = Annotated[
    Path | None,
    typer.Option("--sql-file", metavar="FILE", help="Read the SQL from this file, or from stdin if it is -."),
]


def read_sql(path: Path) -> str:
    """Raises InputError for what cannot be read or holds no SQL."""
    name = "standard input" if str(path) == "-" else str(path)
    try:
        if str(path) == "-":
            content = sys.stdin.buffer.read(_LONGEST + 1)
        else:
            with path.open("rb") as file:
                content = file.read(_LONGEST + 1)
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{name}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise InputError(f"{name}: is not UTF-8 text", hint="SQL is expected there") from None
    if len(content) > _LONGEST:
        raise InputError(f"{name}: holds more than {_LONGEST // 1_000_000} MB", hint="SQL is expected there, not data")
    if not text.strip():
        raise InputError(f"{name}: holds no SQL")
    return text
