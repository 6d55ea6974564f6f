"""`store=` takes a path wherever it takes text, and refuses what is neither."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import cleave
from cleave.objects.locate import open_stores
from cleave_shared.errors import InputError
from tests.samples import write_table

pytestmark = pytest.mark.usefixtures("own_key")


def test_every_call_takes_a_path(tmp_path: Path) -> None:
    file = write_table(tmp_path / "t.csv", "g,n\na,1\nb,2\n", g="plain VARCHAR", n="encrypted BIGINT")
    store = tmp_path / "one, folder"  # as text it would be two places
    assert cleave.put(file, "t", store=store, by=["g"]).rows == 2
    assert cleave.append(file, "t", store=store).rows == 4
    assert cleave.query("t", "SELECT SUM(n) FROM t", store=store).rows == [(6,)]
    with cleave.connect("t", store=store) as connection:
        assert connection.cursor().execute("SELECT COUNT(*) FROM t").fetchall() == [(4,)]
    assert len(cleave.pull("t", store=store)) == 4
    assert cleave.collect("t", store=store).rows == 4
    assert store.is_dir()


@pytest.mark.parametrize("place", [Path("s3://bucket/prefix"), b"folder", 5, ["a", "b"]])
def test_what_is_no_place_is_refused(place: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="store"):
        open_stores(place, lambda: pytest.fail("no session is opened"))
    assert not list(tmp_path.iterdir())
