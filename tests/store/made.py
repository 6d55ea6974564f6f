"""What a process makes once for each set of arguments: folders, of which tests use copies, and loaded tables."""

from __future__ import annotations

import tempfile
import tomllib
from collections.abc import Callable, Hashable
from decimal import Decimal
from functools import lru_cache
from pathlib import Path

from cleave.table.schema import read_schema
from cleave.table.stream import open_table
from cleave.table.table import Table

root: Path | None = None  # tests/store/conftest.py sets it; a script fills folders where the system keeps such
_FILLED: dict[Hashable, Path] = {}


def filled(arguments: Hashable, fill: Callable[[Path], object]) -> Path:
    """Folder that `fill` filled when it was first wanted for these arguments. Nothing may change it."""
    if arguments not in _FILLED:
        folder = Path(tempfile.mkdtemp(dir=root))
        fill(folder)
        _FILLED[arguments] = folder
    return _FILLED[arguments]


@lru_cache(6)  # each has a DuckDB of nine threads, which forks copy
def loaded(rows: str, schema: str) -> Table:
    """Rows (CSV) under a schema (TOML), shared by those that load the same: nothing may close it."""
    with tempfile.TemporaryDirectory() as folder:
        (path := Path(folder) / "rows.csv").write_text(rows)
        return open_table([path], read_schema(tomllib.loads(schema, parse_float=Decimal), "the schema"))
