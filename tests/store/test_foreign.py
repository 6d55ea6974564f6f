"""Objects and heads put where they do not belong: an older state's, another table's, another store's, of one key."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from cleave.ckks.owner_key import OwnerKey
from cleave.maintain.pull import find_damage as verify
from cleave.store import put as putting
from cleave.sums.stored import Stored
from cleave.table.progress import Silent
from cleave.table.schema import load_schema
from cleave.table.stream import open_table
from cleave_shared.errors import CheckFailed, InputError
from tests.campaign import FACTOR, FULL, sampled
from tests.store.made import filled, loaded
from tests.store.test_faults import CSV, SCHEMA, SUM, Place, add_it, append_it, derive_it, put_it

SWAPS = sampled(3, 6, 6 * FACTOR)  # of each kind; CLEAVE_CAMPAIGN has more
KINDS = ("older", "another table", "another store", "doubled")


class Elsewhere:
    """`place` has version 3 of the table and another table; `old` the first as it was at version 1; `twin` is a store
    of the same rows under the same key.
    """

    def __init__(self, root: Path, key: OwnerKey) -> None:
        self.place, self.twin, self.old = (Place(root / name, key) for name in ("place", "twin", "old"))
        tables, _ = self.place.tables()
        self.folder = tables.folder("trial")
        self.other = tables.folder("other")

    def foreign(self, kind: str, half: str) -> list[bytes]:
        """What objects of `kind` hold in one half."""
        place = {"older": self.old, "another table": self.place}.get(kind, self.twin)
        folder = self.other if kind == "another table" else self.folder
        return [
            path.read_bytes()
            for path in (place.root / half / folder).iterdir()
            if not path.name.startswith(("head", ".", "draft"))
        ]

    def head(self, place: Place) -> Path:
        return place.root / "s" / self.folder / "head"


@pytest.fixture
def world(tmp_path: Path, key: OwnerKey) -> Elsewhere:
    def fill(root: Path) -> None:
        table = loaded(CSV, SCHEMA)
        place, twin = Place(root / "place", key), Place(root / "twin", key)
        for each in (place, twin):
            put_it(each.tables()[0], table)
        place.copy(root / "old")
        append_it(place.tables()[0], table)
        derive_it(place.tables()[0], table)
        putting.put(place.tables()[0], table, "other", ["ward"], Silent())
        for each in (place, twin):
            (each.root / "tables.json").unlink()  # it is of these folders

    shutil.copytree(filled(("foreign", key.key_id), fill), tmp_path, dirs_exist_ok=True)
    world = Elsewhere(tmp_path, key)
    for each in (world.place, world.twin):
        each.tables()[0].open("trial")  # so that it is remembered
    return world


@pytest.mark.sampled(4)
@pytest.mark.parametrize("swaps", SWAPS)
@pytest.mark.parametrize("kind", KINDS)
def test_an_object_of_elsewhere_is_told(world: Elsewhere, key: OwnerKey, kind: str, tmp_path: Path, swaps: int) -> None:
    rng = random.Random(kind)
    tables, _ = world.place.tables()
    named = sorted(tables.open("trial").manifest.objects())
    told = 0
    for number in range(swaps):
        place = world.place.copy(tmp_path / f"harmed-{number}")
        name = rng.choice(named)
        half = "s" if (place.root / "s" / name).exists() else "p"
        path = place.root / half / name
        before = path.read_bytes()
        choices = [before * 2] if kind == "doubled" else world.foreign(kind, half)
        alike = [each for each in choices if len(each) == len(before) and each != before]
        content = rng.choice(alike or [each for each in choices if each != before] or [before[::-1]])
        path.write_bytes(content)
        try:
            assert [str(value) for value in place.answer(SUM)[0]] == ["6", "237.50"]
        except CheckFailed:
            told += 1
        tables, _ = place.tables()
        opened = tables.open("trial")
        assert len(verify(Stored(tables, opened), Silent())) == 1, name
        shutil.rmtree(place.root)
    assert told or not FULL  # most objects are read by other questions


@pytest.mark.parametrize("kind", ["older", "another store"])
def test_a_head_of_elsewhere_is_told(world: Elsewhere, key: OwnerKey, kind: str) -> None:
    """With all that it stands on, as a store would show it that plays its own past or another's state."""
    source = world.old if kind == "older" else world.twin
    for half in ("s", "p"):
        shutil.copytree(source.root / half / world.folder, world.place.root / half / world.folder, dirs_exist_ok=True)
    with pytest.raises(CheckFailed, match="shows an older state" if kind == "older" else "not the one seen"):
        world.place.answer(SUM)
    (world.place.root / "tables.json").unlink()  # a machine that knows nothing believes it, as SECURITY.md says
    assert [str(value) for value in world.place.answer(SUM)[0]] == ["3", "118.75"]


def test_a_head_without_what_it_stands_on_is_told(world: Elsewhere) -> None:
    shutil.copy(world.head(world.twin), world.head(world.place))
    (world.place.root / "tables.json").unlink()
    with pytest.raises(CheckFailed, match="lost"):
        world.place.answer(SUM)


def test_a_memory_that_is_lost_changes_no_answer(world: Elsewhere) -> None:
    (world.place.root / "tables.json").unlink()
    assert [str(value) for value in world.place.answer(SUM)[0]] == ["6", "237.50"]


def test_rows_of_another_schema_are_not_appended(world: Elsewhere, key: OwnerKey, tmp_path: Path) -> None:
    changes = {
        "upper = 127": "upper = 500",
        "lower = 0": "lower = -1",
        '"DECIMAL(9,2)"': '"DECIMAL(9,3)"',
        'kind = "sealed"': 'kind = "plain"',
    }
    (tmp_path / "trial.csv").write_text(CSV)
    for old, new in changes.items():
        assert old in SCHEMA
        (tmp_path / "changed.toml").write_text(SCHEMA.replace(old, new))
        with (
            open_table([tmp_path / "trial.csv"], load_schema(tmp_path / "changed.toml")) as changed,
            pytest.raises(InputError, match=r"is not that of|are wider than"),
        ):
            append_it(world.place.tables()[0], changed)
    assert [str(value) for value in world.place.answer(SUM)[0]] == ["6", "237.50"]


def test_rows_of_narrower_bounds_are_appended(world: Elsewhere, key: OwnerKey, tmp_path: Path) -> None:
    (tmp_path / "trial.csv").write_text(CSV)
    (tmp_path / "narrower.toml").write_text(
        SCHEMA.replace("upper = 127", "upper = 100").replace("lower = 0", "lower = 1")
    )
    with open_table([tmp_path / "trial.csv"], load_schema(tmp_path / "narrower.toml")) as narrower:
        add_it(world.place.tables()[0], narrower)
    assert [str(value) for value in world.place.answer(SUM)[0]] == ["9", "356.25"]
