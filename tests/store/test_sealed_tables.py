"""Sizes, orders and requests of sealed rows follow from the schema and the plain columns, not from sealed values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cleave.ask.files import FileSource
from cleave.ask.options import Access
from cleave.ask.question import DEFAULTS, Options
from cleave.ask.session import Session
from cleave.ckks.owner_key import OwnerKey
from cleave.local.embedded import embedded_services
from cleave.maintain.pull import pull_into
from cleave.objects.locate import Folder
from cleave.store import cells as of_cells
from cleave.store import reading, rows, sealed, segment
from cleave.store.columns import read_columns
from cleave.store.manifest import Manifest, SealedColumn
from cleave.sums.stored import Stored
from cleave.table.lazy import of_files
from cleave.table.progress import Silent
from tests.campaign import sampled
from tests.conftest import no_passphrase
from tests.store.trial import World

ROWS, BLOCK = 1200, 64
TYPES = {
    "p": ("plain", "VARCHAR"),
    "g": ("sealed", "VARCHAR"),
    "weight": ("encrypted", "DOUBLE"),
    "n": ("encrypted", "INTEGER"),
    "bill": ("sealed", "DECIMAL(20,2)"),
    "x": ("sealed", "DOUBLE"),
    "f": ("sealed", "FLOAT"),
    "day": ("sealed", "DATE"),
    "note": ("sealed", "VARCHAR"),
}
SQL = """SELECT 'p' || i // 7 % 3 AS p, 'g' || i % 4 AS g, (i * 7 % 391 / 10)::DOUBLE AS weight,
    CASE WHEN i % 9 THEN i END::INTEGER AS n, (i / 100)::DECIMAL(20,2) AS bill, sqrt(i) AS x, sqrt(i)::FLOAT AS f,
    DATE '2024-01-01' + i::INTEGER AS day, CASE WHEN i % 5 THEN 'note ' || i END AS note"""


class Place(World):
    """A table made by SQL over the rows i, in stores of a folder."""

    def __init__(self, root: Path, key: OwnerKey) -> None:
        super().__init__(Folder(root / "s"), key, root, Folder(root / "p"), name="t")
        self.file = root / "t.parquet"
        self.schema = root / "t.schema.toml"
        root.mkdir(exist_ok=True)
        self.schema.write_text("".join(f'[columns.{n}]\nkind = "{k}"\ntype = "{t}"\n' for n, (k, t) in TYPES.items()))

    def fill(self, made: str | pa.Table, *by: str) -> Stored:
        if isinstance(made, str):
            made = duckdb.sql(f"{made} FROM range({ROWS}) r(i)").to_arrow_table()
        pq.write_table(made, self.file)
        self.write(of_files([self.file], self.schema, "t"), *by, segment_rows=800)
        return self.stored()


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (of_cells, reading, rows, sealed):
        monkeypatch.setattr(module, "BLOCK_ROWS", BLOCK)


def sizes(manifest: Manifest) -> list[object]:
    """Of every object, by what it is."""
    return [
        manifest.secret.bytes,
        [each.bytes for each in manifest.cells],
        [
            (
                len(segment.index),
                [(each.object.bytes, each.lengths) for each in segment.columns],
                [[lane.bytes for lane in each.lanes] for each in segment.totals],
                segment.plain.bytes if segment.plain else 0,
            )
            for segment in manifest.segments
        ],
    ]


class Requests:
    """What is read of both places: which part of how large an object, how often."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: Counter[tuple[str, int, int | None, int]] = Counter()
        real = Folder.read

        def read(store: Folder, name: str, start: int = 0, stop: int | None = None, most: int | None = None) -> bytes:
            content = real(store, name, start, stop, *([] if most is None else [most]))
            self.seen[Path(store.location).name, start, stop, len(content)] += 1
            return content

        monkeypatch.setattr(Folder, "read", read)

    def of(self, work: Callable[[], object]) -> Counter[tuple[str, int, int | None, int]]:
        self.seen = Counter()
        work()
        return Counter(self.seen)


QUESTIONS = [
    "SELECT MEDIAN(weight) FROM t WHERE g = 'g1'",
    "SELECT g, MEDIAN(x) FROM t WHERE p = 'p1' GROUP BY g ORDER BY g",
    "SELECT SUM(n) FROM t WHERE g = 'g2'",
    "SELECT note FROM t WHERE g < 'g2' AND p <> 'p0' ORDER BY note LIMIT 3",
]


@pytest.mark.parametrize("step", sampled(4, 2, 1))
def test_permuted_values_of_a_sealed_by_column_change_nothing_that_a_place_sees(
    tmp_path: Path, key: OwnerKey, key_file: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    requests = Requests(monkeypatch)
    seen = []
    for number, g in enumerate(("i % 4", "3 - i % 4", "hash(i) % 4", "(i + i // 4) % 4")[::step]):
        place = Place(tmp_path / str(number), key)
        stored = place.fill(SQL.replace("i % 4 AS g", f"({g}) AS g"), "p", "g")
        manifest = stored.manifest
        with place.session(key_file) as session:
            asked = [requests.of(lambda sql=sql: session.ask(session.plan(sql))) for sql in QUESTIONS]  # type: ignore[misc]
        plain = [place.stores.plain.read(each.plain.name) for each in manifest.segments if each.plain]
        seen.append((sizes(manifest), plain, asked))
        assert all(asked)
    for other in seen[1:]:
        assert other[:2] == seen[0][:2]
        for sql, one, two in zip(QUESTIONS, other[2], seen[0][2], strict=True):
            assert one == two, sql


def bytes_of(session: Session, where: str, options: Options = DEFAULTS) -> int:
    described = session.describe(session.plan(f"SELECT MEDIAN(weight) FROM t {where}", options))
    return described.sensitive.bytes_down


@pytest.mark.sampled(4)
@pytest.mark.parametrize("by", [("p", "g"), ("g", "p")])
def test_only_plain_by_columns_choose_ranges(tmp_path: Path, key: OwnerKey, key_file: Path, by: Sequence[str]) -> None:
    place = Place(tmp_path / "place", key)
    place.fill(SQL, *by)
    with place.session(key_file) as session:
        for g in ("", "g = 'g1' AND ", "g < 'z' AND ", "g = 'none' AND "):
            whole, part = (bytes_of(session, f"WHERE {g}p {p}") for p in ("< 'z'", "= 'p1'"))
            assert part < 0.6 * whole
            read = {bytes_of(session, f"WHERE {each}p = 'p1'") for each in ("g = 'g2' AND ", g)}
            assert (len(read) == 1) == bool(g), "g itself is read"
            for p in ("< 'z'", "= 'p1'"):
                assert bytes_of(session, f"WHERE {g}p {p}", Options(pad=True)) == whole


NUMERIC = ("weight", "n", "bill", "x", "f", "day")


@pytest.fixture
def of_one_shape(tmp_path: Path, key: OwnerKey) -> list[Manifest]:
    made = []
    for number, i in enumerate(("1", "hash(i) % 1000000", "i")):
        values = SQL.replace("'p' || i // 7 % 3", "'p'").replace("'g' || i % 4", "'g'").replace(" i", f" ({i})")
        values = values.replace("(i ", f"(({i}) ").replace("sqrt(i)", f"sqrt({i})")
        made.append(Place(tmp_path / str(number), key).fill(values).manifest)
    return made


@pytest.mark.slow  # quick: test_padding.py, of all objects
def test_numbers_have_sizes_of_the_schema_alone(of_one_shape: list[Manifest]) -> None:
    """Constant, random and sorted values."""
    found = [
        [
            [each.object.bytes for column, each in zip(manifest.sealed, segment.columns, strict=True) if column.width]
            + [lane.bytes for totals in segment.totals for lane in totals.lanes]
            for segment in manifest.segments
        ]
        for manifest in of_one_shape
    ]
    assert {column.name for column in of_one_shape[0].sealed if column.width} == set(NUMERIC)
    assert found[0] == found[1] == found[2]


BITS = "SELECT p, g, weight, n, bill, hex(x::BIT::BLOB), hex(f::BIT::BLOB), day, note FROM '{}'"


def test_what_is_pulled_is_what_was_put_bit_for_bit(tmp_path: Path, key: OwnerKey) -> None:
    place = Place(tmp_path / "place", key)
    odd = (
        "CASE i % 6 WHEN 0 THEN '-0.0'::DOUBLE WHEN 1 THEN 'nan' WHEN 2 THEN '-inf' WHEN 3 THEN 5e-324 ELSE sqrt(i) END"
    )
    made = duckdb.sql(f"{SQL.replace('sqrt(i) AS x', f'{odd} AS x')} FROM range({ROWS}) r(i)").to_arrow_table()
    stored = place.fill(made, "p", "g")
    pull_into(stored, tmp_path / "back.parquet", Silent())
    found, wanted = (duckdb.sql(BITS.format(each)).fetchall() for each in (tmp_path / "back.parquet", place.file))
    assert found == wanted


def test_the_same_rows_are_selected_as_over_the_file(tmp_path: Path, key: OwnerKey, key_file: Path) -> None:
    """A double that is equal in the file is equal in the store."""
    place = Place(tmp_path / "place", key)
    place.fill(SQL, "p")
    sql = "SELECT note, weight FROM t WHERE weight = 39.1 - 0.1 OR weight = 0.7 ORDER BY ALL"
    with Session(
        FileSource(of_files([place.file], place.schema, "t"), Access(key_file, no_passphrase), embedded_services)
    ) as file:
        over_file = file.ask(file.plan(sql)).result.rows
    with place.session(key_file) as session:
        assert session.ask(session.plan(sql)).result.rows == over_file
    wanted = duckdb.sql(sql.replace("FROM t", f"FROM '{place.file}'")).fetchall()
    assert len(wanted) > 3
    assert [tuple(row) for row in over_file] == wanted


@pytest.mark.slow  # quick: test_ways.py says what is read
def test_columns_of_few_rows_are_read_together(tmp_path: Path, key: OwnerKey, monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement for each would take time in the square of their number: minutes for a thousand."""
    statements: list[int] = []

    def read(connection: duckdb.DuckDBPyConnection, columns: Sequence[SealedColumn], relation: str) -> object:
        statements.append(len(columns))
        return read_columns(connection, columns, relation)

    monkeypatch.setattr(segment, "read_columns", read)
    Place(tmp_path / "one", key).fill(f"{SQL} FROM range(5) r(i) --")
    assert sum(statements) == len(TYPES) - 1  # all but the plain one
    assert len(statements) == segment.THREADS
    statements.clear()
    monkeypatch.setattr(segment, "_VALUES_TOGETHER", 5)
    Place(tmp_path / "other", key).fill(f"{SQL} FROM range(5) r(i) --")
    assert statements == [1] * (len(TYPES) - 1)
