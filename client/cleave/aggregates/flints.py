"""What is used of python-flint, which takes 30 ms to import: imported when the first ball is made, not before."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flint import arb, ctx, fmpq

    __all__ = ["arb", "ctx", "fmpq"]
else:

    def __getattr__(name: str) -> object:
        import flint  # noqa: PLC0415 - see above

        found = getattr(flint, name)
        globals()[name] = found  # asked for once
        return found
