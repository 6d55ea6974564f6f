"""Survival curves of a table with contributors: none finds few others in a step by taking its own rows away."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

from cleave.ask.options import Asking, complete
from cleave.models.sums import ModelSums
from cleave.models.survival import survive
from tests.store.contributing import World, kept_as

LEAST = 5  # of a table with contributors
SIZES = {"owner": 90, "north": 70, "south": 12}


class Trial(World):
    schema_text = """
[columns.arm]
kind = "plain"
type = "VARCHAR"
[columns.days]
kind = "encrypted"
type = "BIGINT"
lower = 0
upper = 400
[columns.died]
kind = "encrypted"
type = "BOOLEAN"
"""
    header = "arm,days,died\n"


def rows_of(party: str) -> list[tuple[str, int, bool]]:
    draw = random.Random(party)
    return [(draw.choice("ab"), draw.randrange(360), draw.random() < 0.5) for _ in range(SIZES[party])]


def text_of(party: str) -> str:
    return "".join(f"{arm},{days},{str(died).lower()}\n" for arm, days, died in rows_of(party))


def collected(world: Trial) -> None:
    world.put(text_of("owner"), ("arm",))
    for party in ("north", "south"):
        world.register(party)
        world.contribute(party, text_of(party))
    world.collect()


def test_each_count_is_of_enough_others_of_each_party(tmp_path: Path, key_file: Path) -> None:
    world = kept_as(Trial, tmp_path / "world", key_file, collected)
    asking = complete(Asking, {})
    with world.session() as session, session.snapshot():
        found = survive(ModelSums(session, asking), "days", "died", "arm", 30)
    assert (found.n, found.min_group, found.merged) == (sum(SIZES.values()), LEAST, True)
    ends = sorted({step.time for each in found.curves for step in each.steps})
    assert len(ends) > 1
    classes: Counter[tuple[str, float, bool]] = Counter()
    own: Counter[tuple[str, tuple[str, float, bool]]] = Counter()
    for party in SIZES:
        for arm, days, died in rows_of(party):
            group = arm, next(end for end in ends if days < end), died
            classes[group] += 1
            own[party, group] += 1
    shown = {
        (each.group, step.time, died): count
        for each in found.curves
        for step in each.steps
        for died, count in ((True, step.events), (False, step.censored))
        if count
    }
    assert shown == dict(classes)
    for (_, group), rows in own.items():
        others = classes[group] - rows
        assert classes[group] >= LEAST
        assert others == 0 or others >= LEAST
