"""Aggregate questions over a table whose sensitive columns the cloud never sees in the clear.

>>> import cleave
>>> key = cleave.open_key(Path("key.json"), b"my passphrase")  # doctest: +SKIP
>>> question = cleave.Question(key, {"age": [61, 47, 33]}, "mean")  # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cleave.ckks.key_file import create_key, open_key
    from cleave.simple import Question

__all__ = ["Question", "create_key", "open_key"]

_HOMES = {"Question": "cleave.simple", "create_key": "cleave.ckks.key_file", "open_key": "cleave.ckks.key_file"}


def __getattr__(name: str) -> object:
    """Public names are loaded when first used: the command line needs few of them, and each costs start-up time."""
    if name not in _HOMES:
        raise AttributeError(f"module 'cleave' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
