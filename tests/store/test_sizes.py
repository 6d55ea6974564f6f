"""No store reads more of an object than its reader allows."""

from __future__ import annotations

import pytest

from cleave.objects.storage import ForeignError, Storage
from cleave_shared import limits

CONTENT = bytes(5000)


def test_an_object_that_is_larger_than_its_reader_allows(storage: Storage) -> None:
    storage.write("t/o/one", CONTENT)
    assert storage.read("t/o/one", most=5000) == CONTENT
    assert storage.read("t/o/one", 4990, 5010) == CONTENT[4990:]
    found = storage.read_versioned("t/o/one", 5000)
    assert found is not None
    assert found[0] == CONTENT
    for read in (storage.read, storage.read_versioned):
        with pytest.raises(ForeignError, match="t/o/one has more than the 4,999 bytes"):
            read("t/o/one", most=4999)


def test_a_head_has_a_limit(storage: Storage) -> None:
    storage.write("t/head", bytes(limits.MAX_HEAD_BYTES + 1))
    with pytest.raises(ForeignError, match="t/head has more than the 1,048,576 bytes"):
        storage.read_versioned("t/head")
