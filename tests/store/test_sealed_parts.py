"""Parts of contributors that are replayed or forged: refused before anything of them is written to the table.

A refused contributor stops no other, and sees the same in its folder as one whose rows were taken in.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from cleave.ckks.key_file import create_key
from cleave.ckks.public_key import export_public
from cleave.contributions.collect import collect
from cleave.contributions.contribute import read_invited
from cleave.contributions.invitation import invitation_of, invite, register, remove
from cleave.store import put as putting
from cleave.store.contribution import Entry, folder_of
from cleave.store.manifest import new_id
from cleave.store.seen_versions import SeenVersions
from cleave.store.segment import SegmentWriter
from cleave.table.progress import Silent
from cleave_shared.errors import CheckFailed, InputError, KeyFileError
from tests.store.contributing import Forger, World, refuses

SCHEMA = """
[columns.ward]
kind = "plain"
type = "VARCHAR"
[columns.insured]
kind = "sealed"
type = "BOOLEAN"
[columns.age]
kind = "encrypted"
type = "BIGINT"
lower = 0
upper = 120
[columns.weight]
kind = "encrypted"
type = "DOUBLE"
lower = 0
upper = 400
[columns.stay]
kind = "sealed"
type = "INTERVAL"
[columns.name]
kind = "sealed"
type = "VARCHAR"
"""
OWN = "A,true,61,70.25,1 day,Ada\n"
NORTH = "A,true,50,60.125,2 days,Di\nC,false,20,,,Ed\n"
SOUTH = "C,false,30,65.0,3 days,Flo\n"
BOTH = b"\x03"  # the bitmap of two rows, neither NULL
FIRST = b"\x01"  # of two rows, the second NULL


class Small(World):
    schema_text, header = SCHEMA, "ward,insured,age,weight,stay,name\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, key_file: Path) -> World:
    world = Small(tmp_path_factory.mktemp("sealed") / "world", key_file)
    world.put(OWN, ("ward",))
    for name, rows in (("north", NORTH), ("south", SOUTH)):
        world.register(name)
        world.contribute(name, rows)
    return world


@pytest.fixture
def world(made: World, tmp_path: Path) -> World:
    return made.copy(tmp_path / "world")


@pytest.fixture
def alone(world: World) -> World:
    """The world where south has put nothing."""
    world.sensitive().delete([f"{world.folder_of('south')}/head"])
    return world


@pytest.fixture
def no_writes(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """Whose segments were written."""
    begun: list[str | None] = []
    real = SegmentWriter.begin

    def begin(self: SegmentWriter, *given: Any, **named: Any) -> Any:
        begun.append(named.get("contributor"))
        return real(self, *given, **named)

    monkeypatch.setattr(SegmentWriter, "begin", begin)
    return begun


def variable(lengths: tuple[int, ...], data: bytes, bitmap: bytes = BOTH) -> bytes:
    content = bitmap + struct.pack(f"<{len(lengths)}I", *lengths) + data
    return struct.pack("<Q", len(content)) + content


FORGED: dict[str, tuple[str, bytes, str]] = {
    "a value beyond its bound": ("age", BOTH + bytes([50, 121]), "beyond its column's bounds"),
    "a value below its bound": ("age", BOTH + bytes([50, 255]), "beyond its column's bounds"),
    "a float beyond its bound": ("weight", BOTH + struct.pack("<2d", 60, 400.5), "beyond its column's bounds"),
    "an infinite float": ("weight", BOTH + struct.pack("<2d", 60, float("inf")), "beyond its column's bounds"),
    "bytes under NULL": ("weight", FIRST + struct.pack("<2d", 60, 1), "under NULL is not zero"),
    "minus zero under NULL": ("weight", FIRST + struct.pack("<2d", 60, -0.0), "under NULL is not zero"),
    "a text under NULL": ("name", variable((2, 2), b"DiEd", FIRST), "under NULL is not empty"),
    "bits beyond the rows": ("age", b"\x07" + bytes([50, 20]), "bits beyond its rows"),
    "a boolean of 2": ("insured", BOTH + bytes([1, 2]), "beyond its column's bounds"),
    "text that is not UTF-8": ("name", variable((2, 1), b"Di\xff"), "not UTF-8"),
    "a text that begins within a character": ("name", variable((1, 1), "é".encode()), "not UTF-8"),
    "an interval that is none": ("stay", variable((5, 6), b"1 daysomeda"), "no interval"),
    "an interval in another form": ("stay", variable((5, 7), b"1 day24 hour"), "no interval"),
    "lengths beyond the bytes": ("name", variable((2, 3), b"DiEd"), "damaged"),
    "lengths that overflow": ("name", variable((2**32 - 1, 5), b"DiEd"), "damaged"),
    "a length that is cut": ("name", struct.pack("<Q", 6) + BOTH + bytes(5), "damaged"),
    "no content": ("name", b"", "damaged"),
    "content without end": ("name", struct.pack("<Q", 1 << 60) + BOTH + bytes(12), "take more than 268,435,456 bytes"),
    "a row more": ("age", BOTH + bytes([50, 20, 20]), "not as large as its rows"),
    "a row less": ("age", BOTH + bytes([50]), "not as large as its rows"),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", FORGED)
def test_values_that_a_column_cannot_have_are_refused(alone: World, kind: str, no_writes: list[str | None]) -> None:
    column, content, match = FORGED[kind]
    forger = Forger(alone, "north")
    part = forger.part()
    forger.block(part, column, content)
    forger.show(part)
    error = refuses(alone, match, others=0)
    assert no_writes == []
    assert all(word not in f"{error.message} {error.hint}" for word in ("Di", "60.125", "121", "400.5", "someda"))


def test_a_forged_part_that_is_right_is_taken_in(world: World) -> None:
    """So it is the content of the others that is refused, and not how they were forged."""
    forger = Forger(world, "north")
    part = forger.part()
    forger.block(part, "age", BOTH + bytes([50, 120]))
    forger.block(part, "name", variable((0, 2), b"Ed"))
    forger.block(part, "insured", BOTH + bytes([0, 1]))
    forger.show(part)
    assert [len(each.added) for each in world.collect()] == [1, 1]
    assert world.open().manifest.rows == 4


STATED: dict[str, tuple[Callable[[dict[str, Any], dict[str, Any]], object], str]] = {
    "more rows": (lambda _, s: s.update(rows=3), "not as large as its rows"),
    "fewer rows": (lambda _, s: s.update(rows=1), "not as large as its rows"),
    "no rows": (lambda _, s: s.update(rows=0), "rows or columns of a segment"),
    "rows without end": (lambda _, s: s.update(rows=1 << 60), "rows or columns of a segment"),
    "a larger object": (lambda _, s: s["columns"][2]["object"].update(bytes=1 << 40), "not as large as its rows"),
    "a larger text": (
        lambda _, s: s["columns"][5].update(lengths=[1 << 40]) or s["columns"][5]["object"].update(bytes=1 << 40),
        "take more than 1,073,741,824 bytes",
    ),
    "a block more": (lambda _, s: s["columns"][5]["lengths"].append(0), "damaged"),
    "a column less": (lambda _, s: s["columns"].pop(), "rows or columns of a segment"),
    "columns exchanged": (lambda _, s: s["columns"].reverse(), "not as large as its rows|damaged"),
    "an object twice": (lambda _, s: s["columns"].__setitem__(1, s["columns"][2]), "not its own"),
    "a segment twice": (lambda p, s: p["segments"].append(s), "not its own"),
    "another width": (lambda p, _: p["columns"][2].update(width=8), "not the columns of the table"),
    "another type": (lambda p, _: p["columns"][2].update(type="DOUBLE"), "not the columns of the table"),
    "no NULL": (lambda p, _: p["columns"][2].update(nullable=False), "not the columns of the table"),
    "other columns": (lambda p, _: p["columns"].reverse(), "not the columns of the table"),
    "a column fewer": (lambda p, _: p["columns"].pop(), "not the columns of the table"),
    "another key": (lambda p, _: p.update(key="0" * 64), "damaged"),
    "another segment": (lambda _, s: s.update(id="0" * 32), "damaged"),
    "a column's other id": (lambda p, _: p["columns"][2].update(id="0" * 32), "damaged"),
    "a member more": (lambda p, _: p.update(more=1), "not of this release"),
    "a path": (lambda _, s: s["columns"][2]["object"].update(name="tables/../../passwd"), "not of this release"),
    "another's part": (lambda p, _: p.update(contributor="0" * 64), "another contributor's"),
    "other terms": (lambda p, _: p.update(terms="0" * 64), "another contributor's"),
    "another registration": (lambda p, _: p.update(registration="0" * 32), "another contributor's"),
    "another table": (lambda p, _: p.update(table_id="0" * 32), "another contributor's"),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", STATED)
def test_a_part_that_states_what_it_is_not_is_refused(alone: World, kind: str, no_writes: list[str | None]) -> None:
    change, match = STATED[kind]
    forger = Forger(alone, "north")
    part = forger.part()
    change(part, part["segments"][0])
    forger.show(part)
    refuses(alone, match, others=0)
    assert no_writes == []


def test_objects_of_others_are_not_read(world: World) -> None:
    """Neither the owner's nor another contributor's."""
    theirs = Forger(world, "south").part()["segments"][0]["columns"][2]
    owners = json.loads(world.open().manifest.segments[0].columns[1].model_dump_json())
    for number, each in enumerate((theirs, owners)):
        copy = world.copy(world.root.parent / str(number))
        forger = Forger(copy, "north")
        part = forger.part()
        part["segments"][0]["columns"][2] = each
        forger.show(part)
        refuses(copy, "not its own")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("stated", ["in the block", "in the frame"])
def test_content_that_claims_to_be_huge_takes_no_memory(
    world: World, monkeypatch: pytest.MonkeyPatch, stated: str
) -> None:
    world.contribute("north", NORTH * 500, replace=True)
    forger = Forger(world, "north")
    part = forger.part()
    frame = bytearray(zstandard.ZstdCompressor().compress(bytes(1 << 20)))
    size = zstandard.frame_content_size(bytes(frame))
    frame[5:9] = struct.pack("<I", 0xFFFFFFFF)  # after magic and descriptor: a field of 4 bytes
    claimed = zstandard.frame_content_size(bytes(frame))
    assert claimed > 1 << 31
    forger.block(part, "name", struct.pack("<Q", claimed if stated == "in the block" else size) + bytes(frame))
    forger.show(part)
    monkeypatch.setattr(zstandard, "ZstdDecompressor", OfSmallOnly)
    refuses(world, "take more than 268,435,456 bytes" if stated == "in the block" else "damaged")


REAL = zstandard.ZstdDecompressor


class OfSmallOnly:
    """Decompresses no frame that states more than a MiB."""

    def decompress(self, data: Any, *given: Any, **named: Any) -> bytes:
        assert zstandard.frame_content_size(bytes(data)) <= 1 << 20
        return REAL().decompress(data, *given, **named)


def test_a_later_segment_is_checked_before_the_first_is_written(world: World, no_writes: list[str | None]) -> None:
    world.contribute("north", NORTH * 2, replace=True, segment_rows=2)
    forger = Forger(world, "north")
    part = forger.part()
    assert len(part["segments"]) == 2
    part["segments"].reverse()
    forger.block(part, "age", BOTH + bytes([50, 121]))
    part["segments"].reverse()
    forger.show(part)
    refuses(world, "beyond its column's bounds")
    assert no_writes == ["south"]


def test_a_contributor_cannot_see_whether_it_was_refused(world: World) -> None:
    """Its folder afterwards: the head as it was, its draft, and nothing else; as that of one taken in."""
    forger = Forger(world, "north")
    part = forger.part()
    forger.block(part, "age", BOTH + bytes([50, 121]))
    forger.show(part)
    stores = world.stores()
    before = {name: stores.sensitive.read(f"{world.folder_of(name)}/head") for name in ("north", "south")}
    refuses(world, "bounds")
    for name, head in before.items():
        place = world.folder_of(name)
        assert {each.rpartition("/")[2] for each in stores.sensitive.names(place)} == {"head", "draft"}
        assert stores.sensitive.read(f"{place}/head") == head
        assert list(stores.plain.names(place)) == []


def moved(world: World, entry: Entry, to: str) -> Entry:
    """An entry whose objects are copied to the folder `to`, as all of their folder is."""
    for name in list(world.sensitive().names(entry.manifest.name.rpartition("/")[0])):
        if len(last := name.rpartition("/")[2]) == 32:
            world.sensitive().write(f"{to}/{last}", world.sensitive().read(name))
    update = {
        of: which.model_copy(update={"name": f"{to}/{which.name[-32:]}"})
        for of, which in (("manifest", entry.manifest), ("names", entry.names))
    }
    return entry.model_copy(update=update)


CANNOT = "is damaged, or not sealed for this key"


def test_a_part_of_another_contributor_is_not_replayed(world: World) -> None:
    """South's, with all of its objects, as the part of north."""
    theirs = Forger(world, "south").head.parts[0]
    Forger(world, "north").sign((moved(world, theirs, world.folder_of("north")),))
    refuses(world, CANNOT)


def test_a_part_is_not_replayed_as_another_part(world: World) -> None:
    """The same rows, to count twice."""
    forger = Forger(world, "north")
    (first,) = forger.head.parts
    forger.sign((first.model_copy(update={"id": new_id()}),))
    refuses(world, CANNOT)


@pytest.mark.slow  # quick: the test above
def test_a_part_is_not_replayed_as_another_object(world: World) -> None:
    forger = Forger(world, "north")
    (first,) = forger.head.parts
    name = f"{forger.folder}/{new_id()}"
    world.sensitive().write(name, world.sensitive().read(first.manifest.name))
    forger.sign((first.model_copy(update={"manifest": first.manifest.model_copy(update={"name": name})}),))
    refuses(world, CANNOT)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("field", ["owner", "table_id", "contributor", "registration", "terms", "part", "name"])
def test_what_a_part_is_sealed_for_is_all_that_it_opens_for(alone: World, field: str) -> None:
    """Its content is right: only what it was sealed for is another's."""
    forger = Forger(alone, "north")
    forger.show(forger.part(), {field: "0" * 32})
    refuses(alone, CANNOT, others=0)


@pytest.mark.slow  # quick: the tests above
def test_a_part_for_another_table_is_not_replayed(world: World) -> None:
    """Of the same owner, schema and contributor."""
    tables, _stores = world.tables()
    putting.put(tables, world.table(OWN), "other", ("ward",), Silent())
    register(tables, "other", "north", world.identity("north").public)
    other = invite(tables.open("other").manifest)
    place = folder_of(other.table_id, world.identity("north").public)
    forger = Forger(world, "north")
    forger.sign((moved(world, forger.head.parts[0], place),), place, table_id=other.table_id)
    with pytest.raises(CheckFailed, match=f"contributor 'north': .*{CANNOT}"):
        collect(tables, "other", Silent())
    assert tables.open("other").manifest.rows == 1


@pytest.mark.slow  # quick: the tests above
def test_a_part_from_before_a_removal_is_not_replayed(world: World) -> None:
    """Removed and added again, a contributor is somebody new."""
    old = world.public()
    remove(world.tables()[0], "trial", "north")
    world.register("north")
    refuses(world, CANNOT)
    with pytest.raises(InputError, match="does not name this identity"):
        invitation_of(old, "trial").registration_of("0" * 64)
    world.contribute("north", NORTH, public=old, replace=True)
    with pytest.raises(CheckFailed, match=CANNOT):
        world.collect()
    world.contribute("north", NORTH, replace=True)
    assert len(world.collect()) == 1
    assert world.open().manifest.rows == 4


def test_a_part_for_another_owner_is_not_opened(world: World, tmp_path: Path) -> None:
    create_key(tmp_path / "other.json", None)
    other = Small(tmp_path / "other", tmp_path / "other.json")
    other.put(OWN, ("ward",))
    forger = Forger(world, "north")
    part = forger.part()
    forger._public = other.public()
    forger.show(part)
    refuses(world, CANNOT)


def test_a_fingerprint_is_required_the_first_time_a_key_is_used(world: World) -> None:
    public, memory = world.public(), SeenVersions(world.root / "north.json")
    export_public(world.key, public, path := world.root / "pub.json")
    mine = ("trial", path, world.root / "north.pem")
    with pytest.raises(KeyFileError, match=rf"first time: its fingerprint is {public.fingerprint[:7]}") as first:
        read_invited(*mine, None, memory)
    assert "--fingerprint" in (first.value.hint or "")
    with pytest.raises(KeyFileError, match="another owner's key"):
        read_invited(*mine, "SHA256:" + "A" * 43, memory)
    with pytest.raises(KeyFileError, match="first time"):
        read_invited(*mine, None, memory)
    assert read_invited(*mine, public.fingerprint, memory).public == public
    assert read_invited(*mine, None, memory).public == public
