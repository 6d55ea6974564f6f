"""Tables into a store and out of it, from Python."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from boto3.session import Session

import cleave
from cleave.ckks.key_file import open_key
from cleave.ckks.public_key import export_public, public_side
from cleave.contributions.invitation import invite, register
from cleave.objects.locate import open_stores
from cleave.store.identity import create_identity
from cleave.store.seen_versions import SeenVersions
from cleave.store.tables import Tables

FRAME = pd.DataFrame(
    {
        "ward": pd.Categorical(["A", "B", "A"]),
        "age": pd.array([61, None, 33], dtype="Int64"),
        "bill": [Decimal("12.50"), Decimal("99.00"), None],
        "weight": [70.25, None, 55.5],
        "born": [datetime.date(1960, 1, 2), None, datetime.date(1991, 12, 31)],
        "name": ["Ada", None, "Cy"],
        "notes": ["x", "y", "z"],
    }
)
KINDS = {
    "ward": "plain",
    "age": "encrypted",
    "bill": "encrypted",
    "weight": "encrypted",
    "born": "encrypted",
    "name": "sealed",
    "notes": "local",
}


pytestmark = pytest.mark.usefixtures("own_folder")


def test_a_frame_comes_back_as_it_was() -> None:
    stored = cleave.put(FRAME, "t", store="s,p", by=["ward"], schema=KINDS)
    assert (stored.name, stored.version, stored.rows, stored.segments, stored.by) == ("t", 1, 3, 1, ("ward",))
    there = [each for folder in "sp" for each in Path(folder).rglob("*") if each.is_file() and each.suffix != ".lock"]
    objects = [each for each in there if len(each.name) == 32]
    assert stored.bytes == sum(each.stat().st_size for each in objects) - manifest_bytes()
    pulled = cleave.pull("t", store="s,p")
    assert pulled is not None
    frame = pulled.df()
    assert list(frame.columns) == [name for name in FRAME.columns if name != "notes"] == list(pulled.columns)
    assert frame["age"].dtype == "Int64"
    assert frame["bill"].tolist() == [Decimal("12.50"), Decimal("99.00"), None]
    assert frame["weight"].tolist()[::2] == [70.25, 55.5]
    assert frame["born"].tolist()[::2] == [datetime.date(1960, 1, 2), datetime.date(1991, 12, 31)]
    assert frame["name"].tolist()[0] == "Ada"
    assert isinstance(pulled.arrow(), pa.Table)
    assert len(pulled) == 3
    assert cleave.query("t", "SELECT SUM(age) FROM t WHERE ward = 'A'", store="s,p").rows == [(94,)]


def manifest_bytes() -> int:
    """Of the sealed manifest and the newest page of the log, which the head names and no table counts."""
    (head,) = Path("s").rglob("head")
    told = json.loads(head.read_bytes())
    return int(told["manifest"]["bytes"] + told["log"]["page"]["bytes"])


def test_rows_are_appended_and_replaced() -> None:
    cleave.put(FRAME, "t", store="s", schema=KINDS)
    with pytest.raises(cleave.InputError, match="already exists"):
        cleave.put(FRAME, "t", store="s", schema=KINDS)
    assert cleave.append(FRAME, "t", store="s", schema=KINDS).rows == 6
    with pytest.warns(cleave.CleaveWarning, match="version 2 added the same rows: nothing is added") as caught:
        assert cleave.append(FRAME, "t", store="s", schema=KINDS).rows == 6
    assert [each.filename for each in caught] == [__file__]
    assert cleave.append(FRAME, "t", store="s", schema=KINDS, again=True).rows == 9
    with pytest.raises(cleave.InputError, match="the schema is not that"):
        cleave.append(FRAME, "t", store="s", schema={**KINDS, "name": "local"})
    assert cleave.put(FRAME.head(1), "t", store="s", schema=KINDS, replace=True, by=[]).by == ()
    pulled = cleave.pull("t", store="s")
    assert pulled is not None
    assert len(pulled) == 1


def test_a_file_and_back(tmp_path: Path) -> None:
    cleave.put(FRAME, "t", store="s", schema=KINDS)
    assert cleave.pull("t", "back.parquet", store="s") is None
    assert pa.table(pd.read_parquet("back.parquet")).num_rows == 3
    with pytest.raises(cleave.InputError, match="already exists"):
        cleave.pull("t", "back.parquet", store="s")
    with pytest.raises(cleave.InputError, match="neither CSV nor Parquet"):
        cleave.pull("t", tmp_path / "back.xlsx", store="s")
    with pytest.raises(cleave.InputError, match="there is no table"):
        cleave.pull("u", store="s")


def test_what_cannot_be_put() -> None:
    with pytest.raises(cleave.InputError, match="needs a schema"):
        cleave.put(FRAME, "t", store="s")
    with pytest.raises(cleave.InputError, match="equal values of it are no cell"):
        cleave.put(FRAME, "t", store="s", schema=KINDS, by=["weight"])
    with pytest.raises(cleave.InputError, match="not a store"):
        cleave.put(FRAME, "t", store="gs://x", schema=KINDS)
    with pytest.raises(cleave.InputError, match="row 2, column 'age'"):
        cleave.put(FRAME, "t", store="s", schema={**KINDS, "age": {"kind": "encrypted", "nullable": False}})
    with pytest.raises(cleave.KeyFileError):
        cleave.put(FRAME, "t", store="s", schema=KINDS, key="nowhere.json")
    assert not Path("s").exists()


@pytest.mark.slow  # quick: tests/cli/test_contributors.py
def test_contributors_put_rows_by_python(key_file: Path, tmp_path: Path) -> None:
    """What each party says in Python; keys and registrations are made as the commands make them."""
    kinds = {"ward": "plain", "age": "encrypted"}
    mine, theirs = ({"ward": ["A"] * n, "age": [age] * n} for n, age in ((5, 40), (6, 50)))
    cleave.put(pd.DataFrame(mine), "t", store="s", by=["ward"], schema=kinds)
    identity, _ = create_identity(tmp_path / "north.pem")
    stores = open_stores("s", Session)
    key = open_key(key_file, None)
    tables = Tables(stores, key, SeenVersions())
    register(tables, "t", "north", identity.public)
    invitation = invite(tables.open("t").manifest).model_dump_json()
    public = public_side(key, invitation)
    export_public(key, public, tmp_path / "pub.json")
    stores.close()

    def give(**more: str) -> cleave.Contribution:
        return cleave.contribute(
            pd.DataFrame(theirs), "t", store="s", public_key="pub.json", identity="north.pem", schema=kinds, **more
        )

    with pytest.raises(cleave.KeyFileError, match="is another owner's key"):
        give(fingerprint="SHA256:another")
    put = give(fingerprint=public.fingerprint)
    assert (put.name, put.contributor, put.version, put.rows) == ("t", identity.public, 1, 6)
    assert cleave.collect("t", store="s").rows == 11
    assert cleave.collect("t", "north", store="s").rows == 11
    sql = "SELECT SUM(age) FROM t"
    assert cleave.query("t", sql, store="s").rows == [(500,)]
    assert cleave.query("t", f"{sql} WHERE contributor = 'north'", store="s").rows == [(300,)]
    with cleave.connect("t", store="s") as connection:
        found = connection.execute("SELECT contributor, SUM(age) FROM t GROUP BY contributor ORDER BY 1").fetchall()
        assert found == [("north", 300), ("owner", 200)]
    pulled = cleave.pull("t", store="s", contributor="north")
    assert pulled is not None
    assert pulled.df()["age"].tolist() == [50] * 6
    with pytest.raises(cleave.InputError, match="no contributor 'south'"):
        cleave.pull("t", store="s", contributor="south")
    with pytest.raises(cleave.InputError, match="needs a stored table"):
        cleave.query(pd.DataFrame(mine), "SELECT SUM(age) FROM frame", schema=kinds, memory="1GB")
    with pytest.raises(cleave.InputError, match=r"would lose .*north \(6 rows\)"):
        cleave.put(pd.DataFrame(mine), "t", store="s", by=[], schema=kinds, replace=True)
    assert (
        cleave.put(pd.DataFrame(mine), "t", store="s", by=[], schema=kinds, replace=True, drop_contributors=True).rows
        == 5
    )


def test_everything_that_commands_do(tmp_path: Path) -> None:
    said: list[str] = []
    schema = cleave.schema(FRAME, {"ward": "plain", "notes": "local"})
    assert {each.name: str(each.kind) for each in schema.columns}["notes"] == "local"
    cleave.put(FRAME, "t", store="s", by=["ward"], schema=KINDS, say=said.append)
    assert any("not stored: notes" in each for each in said)
    derived = cleave.derive("t", "age * weight", "weighted", store="s")
    assert cleave.ls(store="s") == [derived]
    shown = cleave.show("t", store="s")
    assert "weighted" in repr(shown)
    assert shown.facts["cells"] == 2
    assert cleave.verify("t", store="s") == []
    cleave.create_key(tmp_path / "new.json", None)
    rotated = cleave.rotate("t", tmp_path / "new.json", store="s")
    assert cleave.ls(store="s", key=tmp_path / "new.json") == [rotated]
    cleave.drop("t", store="s", key=tmp_path / "new.json")
    assert cleave.ls(store="s", key=tmp_path / "new.json") == []
    with pytest.raises(TypeError, match="no argument 'stroe'; did you mean 'store'"):
        cleave.ls(stroe="s")  # type: ignore[call-arg]
    with pytest.raises(cleave.InputError, match="there is no kind 'plane'"):
        cleave.schema(FRAME, {"ward": "plane"})
