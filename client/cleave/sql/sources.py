"""sqlglot's sources, also where its compiled modules (the package sqlglotc) are installed beside them.

Compiled classes cannot be inherited from, and our dialect is made of classes that inherit from sqlglot's. Its sources
are always there: whatever imports sqlglot in this process after `cleave` gets those.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import lru_cache
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from types import ModuleType

from cleave_shared.errors import QueryRefused


class _Sources:
    """Finds what is in sqlglot's folders, and nothing else."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, _target: ModuleType | None = None) -> ModuleSpec | None:
        if path is None or not name.startswith("sqlglot."):
            return None
        return next(filter(None, (_finder(folder).find_spec(name) for folder in path)), None)


@lru_cache
def _finder(folder: str) -> FileFinder:
    return FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES))


def prefer() -> None:
    """From now on sqlglot's modules are imported from their sources."""
    if _Sources not in sys.meta_path:
        sys.meta_path.insert(0, _Sources)


def require(module: ModuleType) -> None:
    """Raises QueryRefused for a `module` of sqlglot's that was imported as a compiled one before `prefer`."""
    if not (module.__file__ or "").endswith(tuple(SOURCE_SUFFIXES)):
        raise QueryRefused(
            "sqlglot is compiled in this Python (sqlglotc), and no question can be planned with that",
            hint="pip uninstall sqlglotc; or `import cleave` before whatever imports sqlglot",
        )
