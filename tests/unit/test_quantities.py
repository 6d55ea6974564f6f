"""Sizes that people write."""

from __future__ import annotations

import pytest

from cleave.text.quantities import size_of
from cleave_shared.errors import InputError


@pytest.mark.parametrize(
    ("text", "size"),
    [("1GB", 10**9), ("500 mb", 5 * 10**8), ("1.5GiB", 3 << 29), ("0", 0), ("12", 12), (12, 12), ("7 B", 7)],
)
def test_sizes(text: str | int, size: int) -> None:
    assert size_of(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1", "1 GBs", "1e9", "1,000", "one", "٣GB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="not a size"):
        size_of(text)
