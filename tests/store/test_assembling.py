"""Files of plain and opened columns that DuckDB reads by itself: all values, and no more memory than lent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path

import duckdb
import pytest

from cleave.ckks.owner_key import OwnerKey
from cleave.objects.locate import Folder
from cleave.processes.deadline import Deadline
from cleave.store import assembling, pages, reading, rows, sealed
from cleave.store.assembling import Assembly
from cleave.store.columns import read_columns, sealed_column
from cleave.store.manifest import SealedColumn
from cleave.store.parquet import Footer, read_footer
from cleave.store.rows import ResidentTables, Rows
from cleave.table.schema import Column, Kind
from cleave.table.table import Engine, HeldFile, MemoryFile, read_parquet
from tests.store.trial import World

BLOCK = 128
ROWS = 1_000
GROUPS = (1, 127, 200, 3, 640, 29)  # their ends lie at, before and within those of blocks
# type, least and largest value if they are declared, and SQL of the value of row i
VALUES = [
    ("BOOLEAN", None, "i % 3 = 0"),
    ("TINYINT", None, "i % 256 - 128"),
    ("SMALLINT", None, "i * 65 - 32768"),
    ("INTEGER", None, "i * 4294967 - 2147483648"),
    ("INTEGER", (-100, 100), "i % 201 - 100"),
    ("BIGINT", None, "CASE i WHEN 1 THEN -9223372036854775808 WHEN 2 THEN 9223372036854775807 ELSE i END"),
    ("BIGINT", (0, 30_000), "i * 30"),
    ("BIGINT", (-1 << 31, (1 << 31) - 1), "i * 4294967 - 2147483648"),
    ("DECIMAL(4,1)", None, "(i * 19 - 9999) / 10"),
    ("DECIMAL(9,2)", None, "(i * 1999999 - 999999999) / 100"),
    ("DECIMAL(15,2)", (0, 1), "(i % 101) / 100"),
    ("DECIMAL(15,2)", (-21_474_836, 21_474_836), "(i * 4294967 - 2147483600) / 100"),  # ten digits in four bytes
    ("DECIMAL(18,12)", (0, 0.001), "i / 1000000"),
    ("DECIMAL(30,2)", (0, 1 << 40), "i * 1099511627 "),
    ("DECIMAL(38,20)", (0, 0.01), "i / 100000"),
    ("DECIMAL(38,2)", None, "('-' || repeat('9', 30) || i::VARCHAR || '.01')"),
    ("FLOAT", None, "CASE i % 5 WHEN 0 THEN 'nan' WHEN 1 THEN '-inf' WHEN 2 THEN '-0' ELSE (i / 7)::VARCHAR END"),
    ("DOUBLE", None, "CASE i % 5 WHEN 0 THEN 'nan' WHEN 1 THEN 'inf' WHEN 2 THEN '-0' ELSE sqrt(i)::VARCHAR END"),
    ("DATE", None, "CASE i % 9 WHEN 1 THEN '-infinity' WHEN 2 THEN 'infinity' ELSE DATE '1969-02-27' + i::INT END"),
    ("TIME", None, "TIME '00:00:00.000001' + to_seconds(i)"),
    ("TIMESTAMP", None, "CASE i % 9 WHEN 1 THEN 'infinity' ELSE TIMESTAMP '1969-02-27 01:02:03.04' + to_hours(i) END"),
    ("TIMESTAMP WITH TIME ZONE", None, "CASE i % 9 WHEN 1 THEN '-infinity' ELSE '2024-02-27 01:02:03+01' END"),
    ("VARCHAR", None, "repeat('é', i % 9) || repeat('x', i * 13 % 300)"),
    ("VARCHAR", None, "''"),
    ("INTERVAL", None, "to_months(i) + to_milliseconds(-7 * i)"),
]


@pytest.fixture(scope="module", autouse=True)
def small_blocks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (assembling, pages, reading, rows, sealed):
            patch.setattr(module, "BLOCK_ROWS", BLOCK)
        yield


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine.idle()
    yield engine
    engine.end()


def columns_of(*, nullable: bool) -> list[SealedColumn]:
    return [
        sealed_column(
            Column(
                f"c{place}",
                Kind.SEALED,
                type_,
                lower=None if bounds is None else bounds[0],
                upper=None if bounds is None else bounds[1],
                nullable=nullable,
            )
        )
        for place, (type_, bounds, _) in enumerate(VALUES)
    ]


@pytest.mark.parametrize("nulls", ["none that may be", "none", "some", "all"])
def test_every_value_is_read_as_it_was(engine: Engine, nulls: str) -> None:
    columns = columns_of(nullable=nulls != "none that may be")
    condition = {"some": "i % 3 = 1 OR i BETWEEN 300 AND 500", "all": "true"}.get(nulls, "false")
    values = [
        f"CASE WHEN NOT ({condition}) THEN ({sql})::{type_} END AS c{place}"
        for place, (type_, _, sql) in enumerate(VALUES)
    ]
    shown = ", ".join(f"hash(c{place}::VARCHAR)" for place in range(len(VALUES)))
    with duckdb.connect() as truth:
        truth.execute("SET TimeZone = 'UTC'")
        truth.execute(f"CREATE TABLE t AS SELECT {', '.join(values)} FROM range({ROWS}) r(i)")
        wanted = truth.execute(f"SELECT {shown} FROM t").fetchall()
        read = read_columns(truth, columns, "t")
    content = MemoryFile.empty()
    file = HeldFile(engine, content)
    assembly = Assembly(content, Footer({}, []), columns)
    parts = [assembly.add(place, each.blocks(range(-(-ROWS // BLOCK))), GROUPS) for place, each in enumerate(read)]
    assembly.join(GROUPS, [[] for _ in GROUPS], parts)
    assembly.finish()
    cast = ", ".join(f"CAST({each.name} AS {each.type}) AS {each.name}" for each in columns)
    found = engine.connection.execute(f"SELECT {shown} FROM (SELECT {cast} FROM {read_parquet([file])})").fetchall()
    for place, column in enumerate(columns):
        assert [row[place] for row in found] == [row[place] for row in wanted], column.type
    ends = [*accumulate(GROUPS, initial=0)]
    for start, stop in pairwise(ends):
        picked = f"SELECT count(*), {shown} FROM (SELECT {cast} FROM {read_parquet([file])} WHERE file_row_number = "
        for row in {start, stop - 1}:
            (line,) = engine.connection.execute(f"{picked}{row}) GROUP BY ALL").fetchall()
            assert line == (1, *wanted[row])
    file.close()


def test_conditions_find_the_least_and_the_largest_number(engine: Engine) -> None:
    columns = [each for each in columns_of(nullable=True) if each.type.startswith(("DECIMAL", "BIGINT", "DATE"))]
    values = {f"c{place}": f"({sql})::{type_}" for place, (type_, _, sql) in enumerate(VALUES)}
    named = ", ".join(f"{values[each.name]} AS {each.name}" for each in columns)
    with duckdb.connect() as truth:
        truth.execute(f"CREATE TABLE t AS SELECT {named} FROM range({ROWS}) r(i)")
        read = read_columns(truth, columns, "t")
        content = MemoryFile.empty()
        file = HeldFile(engine, content)
        assembly = Assembly(content, Footer({}, []), columns)
        parts = [assembly.add(place, each.blocks(range(-(-ROWS // BLOCK))), GROUPS) for place, each in enumerate(read)]
        assembly.join(GROUPS, [[] for _ in GROUPS], parts)
        assembly.finish()
        cast = ", ".join(f"CAST({each.name} AS {each.type}) AS {each.name}" for each in columns)
        source = f"(SELECT {cast} FROM {read_parquet([file])})"
        for each in columns:
            for end in ("min", "max"):
                (value,) = truth.execute(f"SELECT {end}({each.name})::VARCHAR FROM t").fetchall()[0]
                for how in ("=", "<", ">"):
                    condition = f"{each.name} {how} CAST('{value}' AS {each.type})"
                    wanted = truth.execute(f"SELECT count(*) FROM t WHERE {condition}").fetchall()
                    got = engine.connection.execute(f"SELECT count(*) FROM {source} WHERE {condition}").fetchall()
                    assert got == wanted, (each.type, condition)
    file.close()


def test_a_footer_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT range AS p, [range] AS l FROM range(3000)) TO '{path}'")
    whole = path.read_bytes()
    with pytest.raises(ValueError, match="columns within columns"):
        read_footer(whole, ["p"])
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT range AS p, 'a' AS t FROM range(3000)) TO '{path}' (ROW_GROUP_SIZE 2048)")
    whole = path.read_bytes()
    assert [each.rows for each in read_footer(whole, ["t", "p"]).groups] == [2048, 952]
    with pytest.raises(ValueError, match="other columns"):
        read_footer(whole, ["p", "q"])
    size = int.from_bytes(whole[-8:-4], "little") + 8
    for cut in range(len(whole)):
        with pytest.raises(ValueError, match="Parquet"):
            read_footer(whole[:cut], ["p"])
    for place in range(len(whole) - size, len(whole)):
        for change in (1, 0x0F, 0x80, 0xFF):
            changed = bytearray(whole)
            changed[place] ^= change
            try:
                footer = read_footer(bytes(changed), ["p", "t"])
            except ValueError:
                continue
            for each in (chunk for group in footer.groups for chunk in group.chunks.values()):
                assert 4 <= each.start <= each.start + each.data < each.start + each.bytes <= len(whole)


class Numbers(World):
    def __init__(self, key: OwnerKey, folder: Path) -> None:
        super().__init__(Folder(folder / "store"), key, folder, name="t")
        schema = "".join(
            f'[columns.{name}]\nkind = "{kind}"\ntype = "{type_}"\n'
            for name, kind, type_ in (("p", "plain", "BIGINT"), ("s", "sealed", "BIGINT"), ("t", "sealed", "VARCHAR"))
        )
        made = self.make(f"SELECT i AS p, i AS s, repeat('x', 90) AS t FROM range({ROWS}) r(i)", schema)
        for number in range(2):
            self.opened = self.write(made, append=bool(number))


@pytest.fixture(scope="module")
def world(small_blocks: None, key: OwnerKey, tmp_path_factory: pytest.TempPathFactory) -> Numbers:
    return Numbers(key, tmp_path_factory.mktemp("numbers"))


def streamed(world: Numbers, names: Sequence[str], kept: ResidentTables, *, ordered: bool = False) -> bool:
    """Read columns as the first query of a session does; whether they were streamed."""
    found = Rows(world.tables, world.opened, kept)
    before = kept.free
    made = found.reading(names, deadline=Deadline(600), once=True, ordered=ordered)
    with found.open(made) as table:
        assert table.connection.execute(f"SELECT count({names[-1]}) FROM {table.relation}").fetchall() == [(2 * ROWS,)]
        used = before - kept.free
        assert used == (made.file_bytes if made.file_bytes <= before and not table._streams else 0)
        streams = bool(table._streams)
    made.finish()
    assert kept.free == before
    found.close()
    return streams


def test_a_file_is_made_where_there_is_room_for_it(world: Numbers, monkeypatch: pytest.MonkeyPatch) -> None:
    roomy, narrow = ResidentTables(1 << 28, 1 << 20), ResidentTables(1 << 28, 1 << 10)
    assert not streamed(world, ["p", "s"], roomy)
    assert not streamed(world, ["s"], roomy)
    assert streamed(world, ["p", "s"], narrow)
    assert not streamed(world, ["p"], narrow), "nothing of it is opened"
    assert streamed(world, ["p", "s"], roomy, ordered=True), "DuckDB may read a few rows alone"
    assert not streamed(world, ["p", "s", "t"], roomy)
    monkeypatch.setattr(reading, "_STREAMED_BYTES", 0)
    assert streamed(world, ["p", "s", "t"], roomy), "mostly texts"


def test_what_is_lent_is_not_there_for_another_table(world: Numbers) -> None:
    found = Rows(world.tables, world.opened)
    size = found.reading(["p", "s"], once=True).file_bytes
    kept = ResidentTables(1 << 28, 2 * size - 1)
    first, second = (Rows(world.tables, world.opened, kept) for _ in range(2))
    readings = [each.reading(["p", "s"], deadline=Deadline(600), once=True) for each in (first, second)]
    with first.open(readings[0]) as table:
        assert not table._streams
        assert kept.room(second) == kept.free == size - 1
        with second.open(readings[1]) as other:
            assert other._streams
            assert other.connection.execute(f"SELECT sum(s) FROM {other.relation}").fetchall() == [(ROWS * (ROWS - 1),)]
    for each in readings:
        each.finish()
    assert kept.free == 2 * size - 1
    for rows_of in (first, second, found):
        rows_of.close()
