"""A change that stops at any write and is repeated: the table is the one of a change that did not stop.

Nothing is lost or doubled, what was stored is not stored again, and nothing is left over.
"""

from __future__ import annotations

import random
import shutil
import warnings
from pathlib import Path

from cleave.objects.storage import StoreError
from cleave_shared.errors import CleaveWarning, InputError
from tests.campaign import FULL
from tests.store.every_change import EVERY_CHANGE, Change, Place, Writes
from tests.store.faulty import KilledError

WAYS = ({"made": False}, {"made": True}, {"full": True})  # it is killed before a write or after it, or a disk is full


def writes_of(change: Change, place: Place) -> list[str]:
    """Kinds of the writes of `change` where nothing stops it."""
    writes = Writes()
    change.work(place, place.watched(writes))
    change.finish(place)
    assert place.check(change.after) == change.after
    change.also(place)
    return writes.kinds


def one_of_each(kinds: list[str], rng: random.Random) -> list[int]:
    """The number of one write of every kind, where there are any of those before the last head is written."""
    until = len(kinds) - 1 - kinds[::-1].index("head") if "head" in kinds else len(kinds)
    before = {kind: [at for at in range(until) if kinds[at] == kind] for kind in kinds}
    every = {kind: [at for at, other in enumerate(kinds) if other == kind] for kind in kinds}
    return sorted(rng.choice(before[kind] or every[kind]) for kind in every)


def stops(change: Change, place: Place, at: int, **how: bool) -> bool:
    """`change` stops at write `at` and is repeated. Whether it had stored segments, which stay."""
    version = place.version()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CleaveWarning)  # cleaning up after a head warns
            change.work(place, place.watched(Writes(at, **how)))
    except (KilledError, StoreError):
        pass
    draft, done = place.draft(), place.version() != version
    rows = place.check(change.before, change.after)
    assert not done or rows in (change.after, change.before if change.before == change.after else change.after)
    try:
        change.work(place, place.stores())
    except InputError:  # it was done before it stopped: there is a table, a column, none to drop
        assert rows == change.after
    resumed = draft is not None and bool(draft.segments) and (not done or change.name == "reader revoke")
    if draft is not None and resumed and change.name != "merge":  # which merges these segments at once
        assert draft.objects() <= place.objects().keys()
    change.finish(place)
    assert place.check(change.after) == change.after
    change.also(place)
    assert place.verified()
    place.settle(contributes=change.contributes)
    assert place.left_over() == []
    return resumed


@EVERY_CHANGE
def test_a_change_that_stops_and_is_repeated_is_done_once(tmp_path: Path, key_file: Path, change: Change) -> None:
    """At a write of two kinds, the draft's among these; in a campaign at all writes, in every way."""
    rng = random.Random(change.name)
    kinds, resumed = writes_of(change, change.begin(tmp_path / "whole", key_file)), False
    chosen = list(range(len(kinds))) if FULL else one_of_each(kinds, rng)
    if not FULL:
        chosen = sorted(chosen, key=lambda at: (kinds[at] != "draft", rng.random()))[:2]
    for turn, at in enumerate(chosen):
        way = WAYS[turn % len(WAYS)] if kinds[at] != "draft" else {"made": True}  # which then has a segment
        for how in WAYS if FULL else [way]:
            place = change.begin(tmp_path / "place", key_file)
            try:
                resumed |= stops(change, place, at, **how)
            except AssertionError as error:
                error.add_note(f"{change.name} stopped at {at}, {kinds[at]}, {how}")
                raise
            shutil.rmtree(place.root)
    assert resumed == ("draft" in kinds and change.writes_segments)
