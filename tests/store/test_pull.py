"""A pulled file has the rows that were put, in their order, whole or not at all."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
import pytest

from cleave.ckks.owner_key import OwnerKey
from cleave.maintain import pull as pulling
from cleave.maintain.pull import pull_into
from cleave.objects.locate import Folder
from cleave.sums.stored import Stored
from cleave.table.lazy import of_files
from cleave.table.progress import Silent
from cleave.table.schema import Schema
from cleave.table.stream import open_table
from cleave_shared.errors import CheckFailed, InputError
from tests.store.made import filled
from tests.store.trial import World
from tests.unit.test_stream import ROWS, TYPES, schema_of, texts, write


class Place(World):
    def __init__(self, root: Path, key: OwnerKey) -> None:
        super().__init__(Folder(root / "s"), key, root, Folder(root / "p"), name="t")
        self.schema = schema_of(root, {name: (type_, kind) for name, (type_, kind) in TYPES.items() if name != "real"})
        rows = [",".join(part for at, part in enumerate(row.split(",")) if at != 3) for row in PLAIN]
        self.file = write(root / "a.csv", rows * 5, ",".join(each.name for each in self.schema.columns))

    def filled(self) -> Stored:
        """Stored in segments of six and seven rows, which is done once."""

        def fill(folder: Path) -> None:
            place = Place(folder, self.key)
            rows = of_files([place.file], place.schema, "t")
            place.write(rows, "flag", segment_rows=6)
            place.write(rows, append=True, segment_rows=7)

        made = filled(("pull", self.key.key_id), fill)
        for half in ("s", "p"):
            shutil.copytree(made / half, self.root / half)
        return self.stored()


PLAIN = [row for row in ROWS if '"' not in row]  # whose fields commas alone keep apart


@pytest.fixture
def place(tmp_path: Path, key: OwnerKey) -> Place:
    return Place(tmp_path, key)


def rows_of(files: list[Path], schema: Schema) -> list[tuple[object, ...]]:
    with open_table(files, schema) as table:
        return table.connection.execute(f"SELECT {texts(schema)} FROM {table.relation}").fetchall()


@pytest.mark.parametrize(
    ("ending", "together"),
    [
        ("csv", 128),
        ("parquet", 2),
        *(pytest.param(*it, marks=pytest.mark.slow) for it in (("csv", 2), ("parquet", 128))),
    ],
)
def test_rows_come_back_in_their_order(
    place: Place, ending: str, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulling, "_TOGETHER", together)
    stored = place.filled()
    assert len(stored.manifest.segments) > 4
    output = place.root / f"back.{ending}"
    pull_into(stored, output, Silent())
    assert rows_of([output], place.schema) == rows_of([place.file, place.file], place.schema)
    assert output.stat().st_mode & 0o077 == 0
    if ending == "parquet":
        ((found,),) = duckdb.sql(f"SELECT count(*) FROM '{output}'").fetchall()
        assert found == stored.manifest.rows


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_nothing_is_left_of_a_pull_that_fails(place: Place, ending: str) -> None:
    stored = place.filled()
    last = stored.manifest.segments[-1].columns[-1].object
    place.stores.sensitive.delete([last.name])
    before = sorted(place.root.iterdir())
    with pytest.raises(CheckFailed):
        pull_into(stored, place.root / f"back.{ending}", Silent())
    assert sorted(place.root.iterdir()) == before


def test_what_is_there_stays(place: Place) -> None:
    stored = place.filled()
    (place.root / "back.csv").write_text("mine")
    with pytest.raises(InputError, match="already exists"):
        pull_into(stored, place.root / "back.csv", Silent())
    with pytest.raises(InputError, match="neither CSV nor Parquet"):
        pull_into(stored, place.root / "back.txt", Silent())
    assert (place.root / "back.csv").read_text() == "mine"
