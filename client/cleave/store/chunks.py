"""The ciphertext files of one object, as the client reads them."""

from __future__ import annotations

from cleave_shared import chunks
from cleave_shared.chunks import joined
from cleave_shared.errors import CheckFailed

__all__ = ["joined", "split"]


def split(content: bytes) -> list[bytes]:
    """Raises CheckFailed for what `joined` did not make."""
    try:
        return chunks.split(content)
    except ValueError:
        raise CheckFailed("stored", "an object does not hold what the table's manifest says") from None
