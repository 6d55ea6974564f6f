"""Any object of either store lost, altered, swapped, cut or replayed, before a change or after it.

What is then asked, or changed, is right or ends with a clear error: no figure is wrong, and no error holds a value.
"""

from __future__ import annotations

import random
import shutil
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from cleave_shared.errors import CleaveError, CleaveWarning
from tests.campaign import FULL
from tests.store.every_change import EVERY_CHANGE, VALUES, Change, Place, Writes
from tests.store.faulty import DAMAGES, KilledError, damage
from tests.store.test_kills import one_of_each

KINDS = (*DAMAGES, "replayed")
History = dict[str, list[bytes]]  # what each object that changes held before, by name


def versions(place: Place, history: History) -> None:
    """Add to `history` what heads and drafts hold now."""
    for name, store in place.objects().items():
        if not name[-32:].isalnum():
            history.setdefault(name, []).append(store.read(name))


def harm(place: Place, name: str, kind: str, rng: random.Random, history: History) -> None:
    """Harm an object of the place. One that never changed is not replayed but swapped."""
    objects = place.objects()
    older = [each for each in history.get(name, []) if each != objects[name].read(name)]
    if kind == "replayed" and older:
        objects[name].delete([name])
        objects[name].write(name, rng.choice(older))
        return
    others = [each for each, store in objects.items() if store.location == objects[name].location and each != name]
    damage(objects[name], name, "swapped" if kind == "replayed" else kind, rng, others)


def right_or_refused(work: Callable[[], object]) -> bool:
    """Whether `work` came to its end. An error says what is wrong, and holds no value."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CleaveWarning)
            work()
    except CleaveError as failure:
        text = f"{failure.message} {failure.hint}"
    else:
        return True
    assert not any(each in text for each in VALUES)
    return False


def chosen(names: Sequence[str], rng: random.Random) -> list[tuple[str, str]]:
    """An object to harm, and how; in a campaign all, in every way."""
    if FULL:
        return [(name, kind) for name in sorted(names) for kind in KINDS]
    return [(rng.choice(sorted(names)), rng.choice(KINDS))]


@pytest.mark.sampled(32)
@EVERY_CHANGE
def test_a_change_of_what_was_harmed_is_right_or_refused(tmp_path: Path, key_file: Path, change: Change) -> None:
    """The change was stopped before, so its draft is among the objects."""
    rng, history = random.Random(change.name), History()
    start, writes = change.begin(tmp_path / "start", key_file), Writes()
    versions(start, history)
    change.work(whole := change.begin(tmp_path / "whole", key_file), whole.watched(writes))
    at = next((at for at in one_of_each(writes.kinds, rng) if writes.kinds[at] == "draft"), 0)
    with suppress(KilledError):
        change.work(start, start.watched(Writes(at, made=True)))
    for name, kind in chosen([*start.objects()], rng):
        place = start.copy(tmp_path / "harmed")
        harm(place, name, kind, rng, history)
        right_or_refused(lambda: change.work(place, place.stores()))  # noqa: B023 - now
        finished = right_or_refused(lambda: change.finish(place))  # noqa: B023
        rows = [change.after, change.before, None if name.endswith("/head") else change.after]
        if change.refused and not finished:
            rows.append(change.refused)
        right_or_refused(lambda: place.check(*rows))  # noqa: B023
        shutil.rmtree(place.root)


@pytest.mark.sampled(32)
@EVERY_CHANGE
def test_what_a_change_made_is_harmed(tmp_path: Path, key_file: Path, change: Change) -> None:
    """`verify` names each object of the table that is harmed."""
    rng, history = random.Random(change.name), History()
    start = change.begin(tmp_path / "start", key_file)
    versions(start, history)
    change.work(start, start.stores())
    change.finish(start)
    current = start.current()
    if current is None:
        assert change.after is None
        return
    manifest = current[1].manifest
    named = manifest.objects() - {each.name for each in (manifest.release.parts() if manifest.release else ())}
    for name, kind in chosen([*start.objects()], rng):
        place = start.copy(tmp_path / "harmed")
        harm(place, name, kind, rng, history)
        rows = [change.after, *([change.before, None] if name.endswith("/head") else [])]
        right_or_refused(lambda: place.check(*rows))  # noqa: B023 - now
        right_or_refused(lambda: change.also(place))  # noqa: B023
        whole = False
        with suppress(CleaveError):
            whole = place.verified()
        assert not (whole and name in named), "verify names what is harmed"
        shutil.rmtree(place.root)
