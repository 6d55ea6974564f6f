"""The stored tables of tests/vectors/store-3 open by docs/format.md alone, and by Cleave, with the same values."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidTag

import cleave
from tests.store.second_reader import Table

FOLDER = Path(__file__).parents[1] / "vectors" / "store-3"
READER = Path(__file__).with_name("second_reader.py")
SCALES = {"price": "100", "wide": "10000"}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy: Cleave locks what it reads, and opens no bare key that others may read."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("CLEAVE_KEY", str(tmp_path / "owner.json"))
    shutil.copyfile(FOLDER / "owner.json", tmp_path / "owner.json")
    (tmp_path / "owner.json").chmod(0o600)
    return Path(shutil.copytree(FOLDER / "store", tmp_path / "store"))


def opened(store: Path, name: str) -> Table:
    return Table(store, store.with_name("owner.json"), name)


def second(store: Path, name: str) -> dict[str, list[Any]]:
    """Every sealed column, over all segments in the order of the file."""
    table = opened(store, name)
    found: dict[str, list[Any]] = {each["name"]: [] for each in table.manifest["sealed"]}
    for segment in table.segments:
        columns = [table.column(segment, number) for number in range(len(found))]
        order = range(segment["rows"])
        if "row of the segment" in found:
            places = [int.from_bytes(each or b"", "little") for each in columns[-1]]
            order = sorted(order, key=places.__getitem__)
        for column, values in zip(table.manifest["sealed"], columns, strict=True):
            found[column["name"]] += [value_of(column["type"], values[row]) for row in order]
    found.pop("row of the segment", None)
    return found


def value_of(type_: str, stored: bytes | None) -> Any:
    if stored is None:
        return None
    if type_ in ("VARCHAR", "INTERVAL"):
        return stored.decode()
    if type_ in ("DOUBLE", "FLOAT"):
        return struct.unpack("<d" if type_ == "DOUBLE" else "<f", stored)[0]
    return int.from_bytes(stored, "little", signed=type_ != "BOOLEAN")


def comparable(name: str, type_: str) -> str:
    """SQL of a pulled column as docs/format.md counts it."""
    if type_.startswith("DECIMAL"):
        return f"CAST({name} * {SCALES[name]} AS HUGEINT)"
    if type_ == "INTERVAL":
        return f"CAST({name} AS VARCHAR)"
    if type_ == "DATE":
        return f"{name} - DATE '1970-01-01'"
    return f"epoch_us({name})" if type_.startswith("TIME") else name


@pytest.mark.parametrize("name", ["trial", "blocks"])
def test_both_readers_find_the_same_values(name: str, store: Path) -> None:
    found = second(store, name)
    types = {each["name"]: each["type"] for each in opened(store, name).manifest["sealed"]}
    selected = ", ".join(f"{comparable(each, types[each])} AS {each}" for each in found)
    answer = cleave.query(name, f"SELECT {selected} FROM {name}", store=store)
    assert dict(zip(answer.columns, map(list, zip(*answer.rows, strict=True)), strict=True)) == found


def test_the_totals_of_the_vectors_are_those_of_their_rows(store: Path) -> None:
    answer = cleave.query("trial", "SELECT SUM(age) FROM trial", store=store, cloud_only=True)
    assert answer.sources == ("encrypted",)
    assert answer.rows == [(sum(second(store, "trial")["age"]),)]


def test_a_block_opens_nowhere_else(store: Path) -> None:
    table = opened(store, "blocks")
    (segment,) = table.segments
    table.manifest["sealed"][1]["nullable"] = True
    with pytest.raises(InvalidTag):
        table.column(segment, 1)
    (store / segment["columns"][0]["object"]["name"]).write_bytes(bytes(600))
    with pytest.raises(InvalidTag):
        table.column(segment, 0)


def test_the_second_reader_is_short_and_stands_alone() -> None:
    text = READER.read_text("utf-8")
    assert len(text.splitlines()) <= 72
    assert "cleave." not in "".join(line for line in text.splitlines() if "import" in line)
