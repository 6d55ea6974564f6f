"""What takes long is shown with its unit, from which follow rate and time left, and comes to its end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cleave.contributions.collect import collect
from cleave.maintain.derive import derive_expression as derive
from cleave.maintain.pull import find_damage as verify
from cleave.store.dropping import drop
from cleave.sums.stored import Stored
from tests.store.contributing import World
from tests.store.test_contributors import NORTH, OWN


class Shown:
    """Stages by name: their unit, their total and how far they came."""

    def __init__(self) -> None:
        self.stages: dict[str, tuple[str, int, list[int]]] = {}

    def stage(self, name: str, total: int, unit: str = "") -> Callable[[int], None]:
        done: list[int] = []
        self.stages[name] = (unit, total, done)
        return done.append


def test_stages_have_units_and_end(tmp_path: Path, key_file: Path) -> None:
    world = World(tmp_path / "world", key_file)
    world.put(OWN)
    world.register("north")
    world.contribute("north", NORTH)
    tables, stores = world.tables()
    shown = Shown()
    collect(tables, "trial", shown)
    opened = derive(tables, "trial", "bill * age", "weighted", shown)
    assert verify(Stored(tables, opened), shown) == []
    held = sum(1 for store in stores.distinct() for _ in store.names(tables.folder("trial")))
    assert held
    drop(tables, "trial", shown)
    assert {name: unit for name, (unit, _, _) in shown.stages.items()} == {
        "collect north": "rows",
        "derive": "rows",
        "verify": "bytes",
        "delete": "objects",
    }
    assert all(sum(done) == total > 0 for _, total, done in shown.stages.values())
    assert shown.stages["verify"][1] == opened.manifest.bytes
