"""Rows that a session keeps: the same at every read, of every type; what is kept follows from queries and sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import pytest

import cleave
from cleave.ckks.owner_key import OwnerKey
from cleave.deadline import Deadline
from cleave.objects.locate import Folder
from cleave.store import reading as of_reading
from cleave.store import rows as of_rows
from cleave.store import sealed
from cleave.store.rows import ResidentTables, Rows
from cleave.table import table as of_table
from cleave.table.table import Table, no_table
from cleave_shared.errors import CheckFailed, QueryRefused
from tests.store.trial import World

ROWS, BLOCK, SEGMENTS = 1_500, 128, 2
WHOLE = ["TINYINT", "SMALLINT", "INTEGER", "BIGINT"]
VALUES = {
    "BOOLEAN": "i % 2 = 0",
    **dict.fromkeys(WHOLE, "i % 100"),
    **{f"DECIMAL({digits},2)": "(i * 7 % 99) / 4" for digits in (4, 9, 18, 38)},
    "FLOAT": "CASE i % 7 WHEN 0 THEN 'nan' WHEN 1 THEN '-inf' WHEN 2 THEN '-0' ELSE (i / 7)::VARCHAR END",
    "DOUBLE": "CASE i % 7 WHEN 0 THEN 'nan' WHEN 1 THEN 'inf' WHEN 2 THEN '-0' ELSE sqrt(i)::VARCHAR END",
    "DATE": "CASE WHEN i % 9 = 1 THEN '-infinity' ELSE DATE '2024-02-27' + i::INT END",
    "TIME": "TIME '00:00:01' + to_seconds(i)",
    "TIMESTAMP": "CASE WHEN i % 9 = 1 THEN 'infinity' ELSE TIMESTAMP '2024-02-27 01:02:03.000004' + to_minutes(i) END",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMP WITH TIME ZONE '2024-02-27 01:02:03+01' + to_hours(i)",
    "VARCHAR": "'text ' || repeat('é', i % 9)",
    "INTERVAL": "to_months(i) + to_milliseconds(7 * i)",
}
NAMES = [f"c{place}" for place in range(len(VALUES))]
ALL = [*NAMES, "s"]


def summed(names: Sequence[str], relation: str) -> str:
    hashes = ", ".join(f"sum(hash(CAST({each} AS VARCHAR)))" for each in names)
    return f"SELECT count(*), {hashes} FROM {relation}"


class EveryType(World):
    def __init__(self, key: OwnerKey, folder: Path) -> None:
        super().__init__(Folder(folder / "store"), key, folder, name="t")
        columns = [
            f"CASE WHEN i % {place + 3} THEN ({value})::{type_} END AS c{place}"
            for place, (type_, value) in enumerate(VALUES.items())
        ]
        kinds = [
            *(
                (name, "sealed" if type_ == "INTERVAL" else "plain", type_)
                for name, type_ in zip(NAMES, VALUES, strict=True)
            ),
            ("s", "sealed", "BIGINT"),
        ]
        text = "".join(f'[columns.{name}]\nkind = "{kind}"\ntype = "{type_}"\n' for name, kind, type_ in kinds)
        made = self.make(f"SELECT {', '.join(columns)}, i AS s FROM range({ROWS}) r(i)", text)
        for number in range(SEGMENTS):
            self.opened = self.write(made, append=number > 0)
        self.truths = SEGMENTS

    def wanted(self, names: Sequence[str]) -> list[tuple[object, ...]]:
        return self.oracle.execute(summed(names, f"({' UNION ALL '.join(['FROM t'] * self.truths)})")).fetchall()


class Session:
    """Rows that are read as queries of one session read them."""

    def __init__(self, world: EveryType, most: int) -> None:
        self.world, self.kept = world, ResidentTables(1 << 28, most)
        self.rows = Rows(world.tables, world.opened, self.kept)

    def read(self, names: Sequence[str], segments: int = SEGMENTS) -> int:
        """The requests that reading the columns made; their values are checked."""
        tables = self.world.tables
        before, those = tables.objects_read, self.world.opened.manifest.segments[:segments]
        reading = self.rows.reading(names, segments=those, deadline=Deadline(600), once=True)
        with self.rows.open(reading) as table:
            assert table.connection.execute(summed(names, table.relation)).fetchall() == self.world.wanted(names)
        reading.finish()
        return tables.objects_read - before

    def close(self) -> None:
        self.rows.close()
        assert self.kept.bytes == 0
        self.kept.close()


@pytest.fixture(scope="module")
def world(key: OwnerKey, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EveryType]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (of_reading, of_rows, sealed):
            patch.setattr(module, "BLOCK_ROWS", BLOCK)
        yield EveryType(key, tmp_path_factory.mktemp("kept"))


@pytest.fixture
def session(world: EveryType) -> Iterator[Session]:
    session = Session(world, 1 << 28)
    yield session
    session.close()


def test_every_read_has_the_same_rows(session: Session) -> None:
    """Streamed, kept, of more columns than before, of fewer, in another order."""
    for names in (ALL[:3], ALL[:3], ALL[1:5], ALL, ALL, ALL[::-1], ["s"], ALL[4:], ALL):
        session.read(names)


def test_the_second_query_over_columns_keeps_them(session: Session) -> None:
    first = session.read(["c0", "c3", "s"])
    assert session.read(["c0", "c3", "s"]) == first > 0
    assert session.read(["s", "c0"]) == 0
    assert session.read(["c3"]) == 0
    assert session.read(["c1"]) > 0, "it was not read before"
    assert session.read(["c1", "c0"]) > 0, "now all four are kept"
    assert session.read(["c1", "c3"]) == session.read(["c1", "c0", "s"]) == 0


def test_a_part_of_the_rows_keeps_nothing(session: Session) -> None:
    session.world.truths = 1
    for _ in range(3):
        assert session.read(["c0", "s"], segments=1) > 0
    session.world.truths = SEGMENTS


@pytest.mark.parametrize("most", [0, 20_000, 60_000])
def test_there_is_no_more_than_there_is_room_for(world: EveryType, most: int) -> None:
    session = Session(world, most)
    for names in (ALL, ["s"], ["s"], ALL, ["c1", "c2"], ["c1", "c2"]):
        session.read(names)
        assert session.kept.bytes <= most
    assert (session.read(["s"]) == 0) == (most > 20_000)
    session.close()


def test_texts_that_unpack_to_more_than_was_reckoned_with_are_streamed(world: EveryType) -> None:
    session = Session(world, 60_000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Rows, "_opened_bytes", lambda *_: 60_000)
        for _ in range(3):
            assert session.read(ALL) > 0
            assert session.kept.bytes == 0
    assert session.read(["s"]) > 0
    session.close()


def test_what_does_not_fit_although_it_should_is_streamed(world: EveryType) -> None:
    """Texts that unpack to more than was reckoned with: the memory is DuckDB's to limit."""
    session = Session(world, 1 << 28)
    session.read(ALL)

    def refused(*_: object) -> None:
        raise QueryRefused("too much")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Table, "write", refused)
        assert session.read(ALL) > 0
    assert session.kept.bytes == 0
    assert session.read(ALL) > 0
    assert session.read(ALL) > 0
    session.close()


def test_what_is_kept_is_there_once_for_every_set_of_tables(world: EveryType) -> None:
    """Read alone, and beside another table, whose DuckDB is another one."""
    session, other = Session(world, 1 << 28), Rows(world.tables, world.opened)
    for _ in range(2):
        session.read(["s", "c1"])
    kept, before = session.kept.bytes, world.tables.objects_read
    for number in range(25):
        with other.new_table(other.schema.only(["c0"])) as table:
            reading = session.rows.reading(["s"], deadline=Deadline(600), once=True)
            joined = session.rows.open(reading, f"t{number}", table)
            assert table.connection.execute(summed(["s"], joined.relation)).fetchall() == world.wanted(["s"])
            reading.finish()
    assert world.tables.objects_read == before
    assert session.kept.bytes == kept > 0
    assert session.read(["s"]) == 0
    session.close()
    other.close()


def test_a_duckdb_reads_what_is_kept_of_its_table_alone(session: Session) -> None:
    for _ in range(2):
        session.read(["s"])
    resident = session.kept.get(session.rows)
    assert resident is not None
    with no_table("other", session.rows.schema.only(["s"])) as other:
        reading = session.rows.reading(["s"], deadline=Deadline(600), once=True)
        with session.rows.open(reading) as table:
            held = [
                f"/proc/self/fd/{number}" for number in table.engine.held if Path(f"/proc/self/fd/{number}").exists()
            ]
            assert len(held) == 1
            count = f"SELECT count(*) FROM read_parquet('{held[0]}')"
            assert table.connection.execute(count).fetchall() == [(SEGMENTS * ROWS,)]
            for each in (*held, f"/proc/self/fd/{resident.file.number}"):
                with pytest.raises(duckdb.PermissionException):
                    other.connection.execute(f"SELECT count(*) FROM read_parquet('{each}')")
            with pytest.raises(duckdb.PermissionException):
                table.connection.execute(f"FROM read_parquet('/proc/self/fd/{resident.file.number}')")
        reading.finish()
        assert not Path(held[0]).exists()


def test_rows_that_may_not_be_held_are_streamed(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        session.read(["s"])
    with monkeypatch.context() as patch:
        patch.setattr(of_table, "_MOST_HELD", 0)
        assert session.read(["s"]) > 0
    assert session.read(["s"]) == 0


def test_damage_is_told_and_nothing_of_it_kept(world: EveryType) -> None:
    session = Session(world, 1 << 28)
    session.read(["s"])
    path = world.root / "store" / world.opened.manifest.segments[-1].columns[-1].object.name
    content = path.read_bytes()
    try:
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(CheckFailed):
            session.read(["s"])
    finally:
        path.write_bytes(content)
    assert session.kept.bytes == 0
    assert session.read(["s"]) > 0
    session.close()


def test_queries_of_a_session_over_kept_tables(world: EveryType, key_file: Path) -> None:
    """A join, a window, the order of rows."""
    place = str(world.root / "store")
    sql = "SELECT a.s, count(*), first(b.c3) FROM t a JOIN t b ON a.s = b.s GROUP BY ALL ORDER BY 1 LIMIT 3"
    listed = "SELECT s, row_number() OVER () FROM t LIMIT 5"
    with cleave.connect(store=place, key=key_file) as connection:
        cursor = connection.cursor()
        answers = []
        for each in (sql, listed, sql, listed, sql, listed):
            cursor.execute(each)
            answers.append(cursor.fetchall())
        assert answers[:2] * 2 == answers[2:]
        assert answers[1] == [(at, at + 1) for at in range(5)]
