"""tests/vectors/plain-bombs.toml on the plain service: a clean answer in time, nothing left, and then as before."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from cleave_shared import limits
from tests.fuzz import bombs


@pytest.fixture(scope="module")
def table() -> bytes:
    return bombs.ids()


@pytest.fixture(scope="module")
def outcome(printed_figures: list[str]) -> Iterator[bombs.Outcome]:
    """Of the bombs tried so far, shown at the end."""
    yield (found := bombs.Outcome())
    if found.ended:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(limits, "PLAIN_SECONDS", 0.3)
            printed_figures.append(str(found))


def test_there_are_enough_bombs() -> None:
    assert len(bombs.BOMBS) >= 44
    assert len({bomb["sql"] for bomb in bombs.BOMBS}) == len(bombs.BOMBS) == len({b["name"] for b in bombs.BOMBS})


@pytest.mark.usefixtures("expected_crashes")
@pytest.mark.parametrize("bomb", bombs.BOMBS, ids=lambda bomb: bomb["name"])
@pytest.mark.sampled(5)
def test_a_bomb_ends_without_a_fault(
    bomb: dict[str, str], table: bytes, outcome: bombs.Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PLAIN_SECONDS", 0.3)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcome.ended.append(bombs.tried(bomb, table))
    assert outcome.ended[-1].fault is None
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 50_000  # KB
    monkeypatch.undo()
    assert bombs.ask("keys", "id", table).json()["counts"] == [1, 1, 1]


def test_a_child_that_dies_or_is_late_is_told_apart(table: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PLAIN_SECONDS", 0.3)
    late = bombs.ask("keys", "list_sum(list_transform(range(1000000000), lambda x: x % 7))", table)
    assert (late.status_code, late.json()["error"]) in [
        (422, "stopped after 0.3 s"),
        (413, "needs more memory than the service has"),
    ]
