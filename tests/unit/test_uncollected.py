"""Work during which no garbage is collected."""

from __future__ import annotations

import gc

import pytest

from cleave.finish.finish import uncollected


def test_nothing_is_collected_in_it_and_again_afterwards_whatever_happens() -> None:
    assert gc.isenabled()
    with uncollected():
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(KeyError), uncollected():
        raise KeyError
    assert gc.isenabled()


def test_who_has_it_off_keeps_it_off() -> None:
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
