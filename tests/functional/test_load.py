"""The load benchmark in small: every answer is right, and of one version of a table that grows meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks import load
from tests.functional.serving import served


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[load.Place]:
    monkeypatch.setenv("XDG_STATE_HOME", "")  # as it was, when place() is over
    with load.place() as where:
        yield where


@pytest.mark.slow
def test_askers_at_once_see_one_version_each(place: load.Place) -> None:
    with served(*place.serving) as (url, _):
        for seconds in (6, 60, 300):  # a busy machine needs longer for as much
            found = load.over_stored(place, url, askers=4, seconds=seconds)
            assert found.errors == {}
            if found.appends > 0 and len(found.asked) >= 4:
                return
    pytest.fail(f"{found.appends} appends and {len(found.asked)} answers")


@pytest.mark.slow
def test_askers_at_once_of_the_emulator(place: load.Place) -> None:
    with load.emulated(1) as url:
        for seconds in (3, 30, 300):
            found = load.over_files(place, "emulator", url, askers=3, seconds=seconds)
            assert found.errors == {}
            if len(found.asked) >= 3:
                return
    pytest.fail(f"{len(found.asked)} answers")


def test_an_answer_of_another_version_is_told() -> None:
    begun, done = [1.0, 5.0, 9.0], [2.0, 6.0, 10.0]  # of the first copy and two appends
    right = [load.Asked(3, 4, None, 1), load.Asked(5.5, 5.6, None, 2), load.Asked(5.5, 5.6, None, 1)]
    wrong = [load.Asked(3, 4, None, 2), load.Asked(7, 8, None, 1), load.Asked(11, 12, None, 4)]
    assert [load._of_one_version(each, begun, done).error for each in right] == [None] * 3
    assert all(load._of_one_version(each, begun, done).error for each in wrong)
