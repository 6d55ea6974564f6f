"""Rows that a session keeps: the same at every read, of every type; what is kept follows from queries and sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import cleave
from cleave.ckks.owner_key import OwnerKey
from cleave.objects.locate import Folder
from cleave.processes.deadline import Deadline
from cleave.store import reading as of_reading
from cleave.store import rows as of_rows
from cleave.store import sealed
from cleave.store.rows import ResidentTables, Rows
from cleave.table.table import Table
from cleave_shared.errors import CheckFailed, QueryRefused
from tests.store.trial import World

ROWS, BLOCK, SEGMENTS = 1_500, 128, 2
WHOLE = ["TINYINT", "SMALLINT", "INTEGER", "BIGINT"]
VALUES = {
    "BOOLEAN": "i % 2 = 0",
    **dict.fromkeys(WHOLE, "i % 100"),
    **{f"DECIMAL({digits},2)": "(i * 7 % 99) / 4" for digits in (4, 9, 18, 38)},
    "FLOAT": "i / 7",
    "DOUBLE": "sqrt(i)",
    "DATE": "DATE '2024-02-27' + i::INT",
    "TIME": "TIME '00:00:01' + to_seconds(i)",
    "TIMESTAMP": "TIMESTAMP '2024-02-27 01:02:03.000004' + to_minutes(i)",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMP WITH TIME ZONE '2024-02-27 01:02:03+01' + to_hours(i)",
    "VARCHAR": "'text ' || repeat('é', i % 9)",
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
            *((name, "plain", type_) for name, type_ in zip(NAMES, VALUES, strict=True)),
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


def test_what_does_not_fit_although_it_should_is_streamed(world: EveryType) -> None:
    """Texts that unpack to more than was reckoned with: the memory is DuckDB's to limit."""
    session = Session(world, 1 << 28)
    session.read(ALL)

    def refused(*_: object) -> None:
        raise QueryRefused("too much")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Table, "fill", refused)
        assert session.read(ALL) > 0
    assert session.kept.bytes == 0
    assert session.read(ALL) > 0
    assert session.read(ALL) > 0
    session.close()


def test_what_is_kept_stays_while_all_questions_of_tpch_are_asked(world: EveryType) -> None:
    session = Session(world, 1 << 28)
    for _ in range(2):
        session.read(["s"])
    for number in range(21):
        session.kept.home([str(number)])
    assert session.read(["s"]) == 0
    session.close()


def test_each_set_of_tables_has_a_duckdb_and_the_least_used_one_is_given_up(
    world: EveryType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_rows, "_MOST_HOMES", 4)
    session = Session(world, 1 << 28)
    for _ in range(2):
        session.read(["s"])
    (first, kept) = session.kept.home(["t"]), session.kept.bytes
    assert first.resident(session.rows)[1] == kept > 0
    others = [session.kept.home(["t", str(number)]) for number in range(3)]
    assert len({id(each.engine) for each in (first, *others)}) == 4
    assert session.kept.home(["t"]) is first
    session.kept.home(["t", "another"])
    assert session.kept.home(["t"]) is first
    assert session.kept.bytes == kept
    for number in range(4):
        session.kept.home([str(number)])
    assert session.kept.bytes == 0
    assert first.resident(session.rows) == (None, 0)  # nor does DuckDB have them
    assert session.read(["s"]) > 0
    assert session.read(["s"]) == 0
    session.close()


def test_damage_is_told_and_nothing_of_it_kept(world: EveryType) -> None:
    session = Session(world, 1 << 28)
    session.read(["s"])
    path = world.root / "store" / world.opened.manifest.segments[-1].columns[0].object.name
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
