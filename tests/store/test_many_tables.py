"""Questions over several stored tables: which they name, what is read of each, and that answers are DuckDB's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest

import cleave
from cleave.ask.choice import FETCH_LIMIT
from cleave.ask.question import Options
from cleave.ask.session import Session
from cleave.ask.ways.totals import TotalsWay
from cleave.objects.locate import Folder
from cleave.shown.plan import plan_lines
from cleave.sql.plan import LocalPlan
from cleave.store import put as putting
from cleave.store.columns import RecordBatches
from cleave.table.lazy import LazyTable, of_files
from cleave.table.progress import Silent
from cleave.table.schema import Column, CsvDialect, Kind, Schema
from cleave.table.table import LEAST_MEMORY, Engine, Table, no_table
from cleave_shared.errors import CheckFailed, InputError, QueryRefused
from tests.cli.runner import Cli
from tests.store.made import filled
from tests.store.trial import World, check, copied

KINDS = {
    "visits": {
        "id": ("plain", "INTEGER"),
        "ward": ("plain", "VARCHAR"),
        "doctor": ("sealed", "INTEGER"),
        "bill": ("encrypted", "DECIMAL(9,2)"),
        "note": ("sealed", "VARCHAR"),
    },
    "wards": {"ward": ("plain", "VARCHAR"), "region": ("sealed", "VARCHAR"), "beds": ("encrypted", "INTEGER")},
    "doctors": {"doctor": ("sealed", "INTEGER"), "name": ("sealed", "VARCHAR"), "chief": ("sealed", "INTEGER")},
}
MADE = {
    "visits": "SELECT i::INTEGER AS id, 'w' || i % 7 AS ward, (i * 31) % 11 AS doctor, "
    "((i * 7919) % 90000 / 100)::DECIMAL(9,2) AS bill, 'note ' || i % 13 AS note FROM range(500) r(i)",
    "wards": "SELECT 'w' || i AS ward, CASE WHEN i % 2 = 0 THEN 'north' ELSE 'south' END AS region, "
    "(i * 5 + 3)::INTEGER AS beds FROM range(6) r(i)",
    "doctors": "SELECT i::INTEGER AS doctor, 'Dr ' || i AS name, nullif(i // 3, 0)::INTEGER AS chief "
    "FROM range(11) r(i)",
}
BY = {"visits": ["ward"], "wards": [], "doctors": []}


@cache
def _oracle() -> duckdb.DuckDBPyConnection:
    """One for all: no test changes its tables."""
    connection = duckdb.connect()
    for name, sql in MADE.items():
        connection.execute(f"CREATE TABLE {name} AS {sql}")
    return connection


class Place:
    """Three stored tables, the files they were made of, and the tables in DuckDB."""

    def __init__(self, world: World, folder: Path, key_file: Path) -> None:
        self.world, self.folder, self.key_file = world, folder, key_file
        self.oracle = _oracle()

    def put(self) -> None:
        for name in MADE:
            with self.file(name).read(None) as table:
                putting.put(self.world.tables, table, name, BY[name], Silent())

    def file(self, name: str, of: str | None = None) -> LazyTable:
        path = self.folder / f"{name}.csv"
        self.oracle.execute(f"COPY {of or name} TO '{path}' (HEADER)")
        path.with_suffix(".schema.toml").write_text(
            "".join(
                f'[columns.{column}]\nkind = "{kind}"\ntype = "{type_}"\nlower = 0\nupper = 1000\nnullable = true\n'
                if "CHAR" not in type_
                else f'[columns.{column}]\nkind = "{kind}"\ntype = "{type_}"\n'
                for column, (kind, type_) in KINDS[of or name].items()
            )
        )
        return of_files([path], name=name)

    def session(self, name: str | None = None, *others: LazyTable, limit: int = FETCH_LIMIT) -> Session:
        return self.world.session(self.key_file, *others, name=name, fetch_limit=limit)


@pytest.fixture
def kind() -> str:
    """A folder: where rows come from makes no difference here."""
    return "folder"


@pytest.fixture
def totals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Totals are read however few rows there are."""
    monkeypatch.setattr(TotalsWay, "worth", 10**9)


@pytest.fixture
def cli(key_file: Path, tmp_path: Path) -> Cli:
    return Cli(environment={"CLEAVE_KEY": str(key_file), "XDG_STATE_HOME": str(tmp_path / "state")})


@pytest.fixture
def place(world: World, tmp_path: Path, key_file: Path) -> Place:
    def fill(folder: Path) -> None:
        Place(World(Folder(folder / "store"), world.key, folder), folder, key_file).put()

    copied(filled(("many tables", world.key.key_id), fill) / "store", world.stores.sensitive)
    for name in MADE:
        world.tables.open(name)  # so that it is remembered
    return Place(world, tmp_path, key_file)


@pytest.fixture
def ask(place: Place) -> Iterator[Callable[[str], None]]:
    """Ask stored tables that the question names, and compare with DuckDB."""
    with place.session() as session:

        def compared(sql: str) -> None:
            found = session.ask(session.plan(sql)).result
            check(found.rows, found.bounds, place.oracle.execute(sql).fetchall())

        yield compared


JOINS = [
    "SELECT region, SUM(bill), COUNT(*) FROM visits JOIN wards USING (ward) GROUP BY region ORDER BY region",
    "SELECT region, MEDIAN(bill) FROM visits NATURAL JOIN wards GROUP BY region ORDER BY region",
    "SELECT v.id, w.beds FROM visits v LEFT JOIN wards w ON w.ward = v.ward WHERE v.bill > 850 ORDER BY v.id",
    "SELECT d.name, c.name FROM doctors d LEFT JOIN doctors c ON c.doctor = d.chief ORDER BY d.doctor",
    "WITH most AS (SELECT doctor, MAX(bill) AS bill FROM visits GROUP BY doctor), far AS (SELECT * FROM wards) "
    "SELECT name, bill, (SELECT SUM(beds) FROM far) FROM most JOIN doctors USING (doctor) ORDER BY name",
    "SELECT name, region, SUM(bill) FROM visits JOIN wards USING (ward) JOIN doctors USING (doctor) "
    "GROUP BY ALL ORDER BY ALL",
    "SELECT ward FROM visits UNION SELECT ward FROM wards ORDER BY 1",
    "SELECT COUNT(*) FROM visits WHERE doctor IN (SELECT doctor FROM doctors WHERE chief = 2)",
    "SELECT COUNT(w) FROM wards w, doctors",
    "SELECT COUNT(DISTINCT v) FROM visits v JOIN wards USING (ward)",
    "SELECT a, MAX(q) FROM visits AS v(a0, a, a2, q) JOIN wards ON a = ward GROUP BY a ORDER BY a",
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("part", [slice(0, None, 2), slice(1, None, 2)], ids=["even", "odd"])
def test_joins_are_answered_as_duckdb_answers(ask: Callable[[str], None], part: slice) -> None:
    for sql in JOINS[part]:
        ask(sql)


def test_only_the_columns_that_are_named_are_read(place: Place) -> None:
    sql = "SELECT region, SUM(bill) FROM visits JOIN wards USING (ward) GROUP BY region"
    with place.session() as session:
        plan = session.plan(sql)
        assert isinstance(plan.cut, LocalPlan)
        assert plan.cut.reads == {"visits": ("ward", "bill"), "wards": ("ward", "region")}
        described = session.describe(plan)
        assert {each.name for each in described.columns if each.fate.startswith("fetched")} == {
            *("visits.ward", "visits.bill", "wards.ward", "wards.region")
        }
        assert described.rows == 506
        assert len(plan_lines(described).splitlines()) == 9
        session.ask(session.plan("SELECT MEDIAN(chief) FROM doctors"))  # whose count has what opening a table read
        usage = session.ask(plan).usage
        assert (usage.objects_read, usage.bytes_read) == (
            described.sensitive.count + described.plain.count,
            (described.sensitive.bytes_down or 0) + (described.plain.bytes_down or 0),
        )


READS = {
    "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT * FROM wards WHERE ward = v.ward)": "visits.ward wards.ward",
    "SELECT id FROM visits WHERE EXISTS (SELECT * REPLACE (beds + 1 AS beds) FROM wards)": "visits.id wards.*",
    "SELECT v.id, w.* FROM visits v JOIN wards w USING (ward)": "visits.id visits.ward wards.*",
    "SELECT COUNT(*) FROM (SELECT * FROM wards) JOIN visits ON id = beds": "visits.id wards.*",
    "SELECT * FROM (SELECT id FROM visits), (SELECT beds FROM wards)": "visits.id wards.beds",
    "SELECT id FROM visits UNION ALL SELECT COLUMNS(*)::INTEGER FROM (SELECT beds FROM wards)": "visits.id wards.beds",
    "SELECT wards FROM (SELECT region AS wards FROM wards), visits WHERE id = 1": "visits.id wards.*",
    "SELECT COUNT(*) FROM wards NATURAL JOIN (SELECT id, ward FROM visits)": "visits.id visits.ward wards.*",
    "SELECT COUNT(DISTINCT w) FROM wards w, visits WHERE id = 2": "visits.id wards.*",
    "SELECT id, (SELECT COUNT(*) FROM wards x WHERE x.ward = v.ward) FROM visits v": "visits.id visits.ward wards.ward",
    "WITH w AS (FROM wards) SELECT id FROM visits JOIN w USING (ward)": "visits.id visits.ward wards.*",
}


@pytest.mark.slow  # quick: the test above
def test_a_star_reads_the_tables_it_is_over(place: Place) -> None:
    with place.session() as session:
        for sql, wanted in READS.items():
            plan = session.plan(sql)
            assert isinstance(plan.cut, LocalPlan)
            read = {
                f"{table}.{column}" if len(columns) < len(KINDS[table]) else f"{table}.*"
                for table, columns in plan.cut.reads.items()
                for column in columns
            }
            assert read == set(wanted.split()), sql
            found = session.ask(plan).result
            assert sorted(map(str, found.rows)) == sorted(str([*row]) for row in place.oracle.execute(sql).fetchall())


@pytest.mark.usefixtures("totals")
def test_totals_answer_a_question_over_one_of_the_tables(place: Place) -> None:
    with place.session() as session:
        answer = session.ask(session.plan("SELECT ward, SUM(bill) FROM visits GROUP BY ward ORDER BY ward"))
        assert [each.source for each in answer.result.columns] == ["key", "encrypted"]
        expected = place.oracle.execute("SELECT ward, SUM(bill) FROM visits GROUP BY ward ORDER BY ward").fetchall()
        check(answer.result.rows, answer.result.bounds, expected)


INNER = [
    "WITH a AS (SELECT ward, SUM(bill) AS s FROM visits GROUP BY ward) "
    "SELECT region, SUM(s) FROM a JOIN wards USING (ward) GROUP BY region ORDER BY region",
    "SELECT region, beds / (SELECT SUM(bill) FROM visits WHERE ward > 'w2') AS share FROM wards ORDER BY ward",
    "SELECT ward, SUM(bill) AS s FROM visits GROUP BY ward UNION ALL SELECT 'all', SUM(bill) FROM visits ORDER BY 1",
    "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward UNION SELECT ward, beds FROM wards ORDER BY ALL",
    "SELECT ward FROM wards WHERE ward IN (SELECT ward FROM visits GROUP BY ward HAVING SUM(bill) > 30000) ORDER BY 1",
    "SELECT ward, SUM(c) FROM (SELECT ward, SUM(bill), SUM(bill * 2) AS ward FROM visits GROUP BY 1) AS t(ward, b, c) "
    "GROUP BY ward ORDER BY ward",
    "WITH a AS (SELECT ward, SUM(bill) AS s FROM visits GROUP BY 1), b AS (SELECT MAX(s) AS s FROM a) "
    "SELECT ward, s FROM a JOIN b USING (s)",
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("part", [slice(0, None, 2), slice(1, None, 2)], ids=["even", "odd"])
@pytest.mark.usefixtures("totals")
def test_aggregates_inside_a_statement_are_answered_from_totals(place: Place, part: slice) -> None:
    """No row of `visits` is fetched for them."""
    with place.session() as session:
        for sql in INNER[part]:
            plan = session.plan(sql)
            assert isinstance(plan.cut, LocalPlan), sql
            assert plan.cut.inner, sql
            assert not plan.cut.reads.get("visits"), sql
            fates = {each.name: each.fate for each in session.describe(plan).columns}
            assert "answered from its totals" in fates.values(), sql
            assert not {"visits.bill", "bill"} & {name for name, fate in fates.items() if "fetched" in fate}, sql
            if sql == INNER[0]:
                assert plan.cut.reads == {"visits": (), "wards": ("ward", "region")}
            answer = session.ask(plan)
            check(answer.result.rows, answer.result.bounds, place.oracle.execute(sql).fetchall())
            rows = next(each for each in session.ways(sql) if each.name == "rows")
            assert session.ask(rows).result.rows == answer.result.rows, sql
            with pytest.raises(QueryRefused, match="a minimum group size"):
                session.plan(sql, Options(min_group=5))


NOT_TAKEN_OUT = [
    "SELECT ward, (SELECT SUM(bill) FROM visits v WHERE v.ward = w.ward) FROM wards w",
    "SELECT ward, (SELECT SUM(bill) FROM visits WHERE ward > region) FROM wards w",
    "SELECT (SELECT COUNT(*) FROM visits), x FROM "
    "(WITH visits AS (SELECT 1 AS bill) SELECT (SELECT COUNT(bill) FROM visits) AS x), wards",
    "SELECT ward, a FROM wards JOIN (SELECT ward, AVG(bill) AS a FROM visits GROUP BY ward) USING (ward)",
    "SELECT COUNT(*) FROM (SELECT doctor, SUM(bill) AS s FROM visits GROUP BY doctor), wards",
]


def test_what_is_not_exact_or_not_by_itself_is_not_taken_out(place: Place) -> None:
    with place.session() as session:
        for sql in NOT_TAKEN_OUT:
            cuts = [each.cut for each in session.ways(sql)]
            assert [each.inner for each in cuts if isinstance(each, LocalPlan)] == [{}], sql


def test_files_join_stored_tables(place: Place) -> None:
    place.oracle.execute("CREATE OR REPLACE TABLE people AS FROM doctors")
    with place.session(None, place.file("people", of="doctors")) as session:
        joined = "visits JOIN people USING (doctor) JOIN wards USING (ward)"
        sql = f"SELECT people.name, COUNT(*) FROM {joined} GROUP BY 1 ORDER BY 1"
        answer = session.ask(session.plan(sql)).result
        check(answer.rows, answer.bounds, place.oracle.execute(sql).fetchall())


def test_a_table_that_was_named_joins_others_of_the_store(place: Place) -> None:
    with place.session("visits") as session:
        sql = "SELECT region, COUNT(*) FROM visits JOIN wards USING (ward) GROUP BY region ORDER BY region"
        answer = session.ask(session.plan(sql)).result
        check(answer.rows, answer.bounds, place.oracle.execute(sql).fetchall())


def test_a_name_of_a_table_and_a_file_is_refused(place: Place) -> None:
    sql = "SELECT COUNT(*) FROM visits JOIN wards USING (ward)"
    for name in (None, "visits"):
        with place.session(name, place.file("wards")) as session, pytest.raises(InputError, match="'wards'") as refused:
            session.plan(sql)
        assert "rename the file" in str(refused.value.hint)


def test_tables_that_there_are_not_are_refused(place: Place) -> None:
    with place.session() as session:
        with pytest.raises(QueryRefused, match="no table 'nowhere'"):
            session.plan("SELECT * FROM visits JOIN nowhere USING (ward)")
        with pytest.raises(QueryRefused, match="names no stored table"):
            session.plan("SELECT 1")
        with pytest.raises(QueryRefused, match=r"no table 'visits\.csv'"):
            session.plan("SELECT * FROM 'visits.csv'")


def test_rows_of_all_tables_count_towards_the_limit(place: Place) -> None:
    sql = "SELECT region, SUM(bill) FROM visits JOIN wards USING (ward) GROUP BY region"
    with place.session() as session:
        way = session.describe(session.plan(sql)).ways[0]
        assert way.cost is not None
        most = way.cost.bytes
    with place.session(limit=most) as session:
        session.ask(session.plan(sql))
    with place.session(limit=most - 1) as session, pytest.raises(QueryRefused, match="it would fetch"):
        session.plan(sql)
    with place.session() as session, pytest.raises(QueryRefused):
        session.plan(sql, cloud_only=True)


def test_one_version_of_each_table_answers_a_statement(place: Place) -> None:
    """Where one was replaced and swept since, the whole statement is answered over the newer versions."""
    sql = "SELECT COUNT(*), SUM(beds) FROM visits JOIN wards USING (ward)"
    world = place.world
    with place.session() as session:
        plan = session.plan(sql)
        with place.file("visits").read(None) as rows:
            putting.append(world.tables, rows, "visits", Silent(), again=True)
        before = session.ask(plan).result.rows
        assert before == [list(place.oracle.execute(sql).fetchone() or ())]  # the version it was opened at
        with place.file("wards").read(None) as rows:
            putting.put(world.tables, rows, "wards", [], Silent(), replace=True)
        assert session.ask(plan).result.rows == [[2 * int(value) for value in before[0]]]


@pytest.mark.usefixtures("totals")
def test_commands_name_no_table(place: Place, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    world = place.world
    store = f"{world.stores.sensitive.location},{world.stores.plain.location}"
    sql = "SELECT region, COUNT(*) AS n FROM visits JOIN wards USING (ward) GROUP BY region ORDER BY region"
    expected = "region,n\n" + "".join(f"{a},{b}\n" for a, b in place.oracle.execute(sql).fetchall())
    asked = cli.run("query", sql, "--store", store, "--format", "csv")
    assert asked.stdout == expected, asked.output
    (place.folder / "question.sql").write_text(sql)
    cli.environment["CLEAVE_STORE"] = store
    assert cli.run("query", sql, "--format", "csv").stdout == expected
    assert cli.run("query", "--sql-file", place.folder / "question.sql", "--format", "csv").stdout == expected
    assert "visits, wards" in cli.run("plan", sql).stdout
    assert "encrypted" in cli.run("query", "visits", "SELECT SUM(bill) FROM visits").stdout
    place.file("visits")
    file = cli.run("query", place.folder / "visits.csv", "SELECT COUNT(*) AS n FROM visits", "--format", "csv")
    assert (file.stdout, "nothing" in file.stderr.lower() or "request" in file.stderr) == ("n\n500\n", True)
    typed = cli.run("shell", typed=f"SHOW TABLES;\nDESCRIBE wards;\n{sql};\n").stdout
    assert all(word in typed for word in ("visits", "doctors", "500", "beds", "north"))
    monkeypatch.chdir(place.folder)
    Path("visits").mkdir()  # the folder of its files, which no query reads
    assert "encrypted" in cli.run("query", "visits", "SELECT SUM(bill) FROM visits").stdout
    assert "visits: is a directory" in cli.fails(3, "query", "visits/", "SELECT SUM(bill) FROM visits")
    Path("visits").rmdir()
    Path("visits").write_text("")
    assert "'visits' is a file here" in cli.fails(3, "query", "visits", "SELECT SUM(bill) FROM visits")


@pytest.mark.slow  # quick: the test above
@pytest.mark.usefixtures("totals")
def test_python_names_no_table(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    world = place.world
    store = f"{world.stores.sensitive.location},{world.stores.plain.location}"
    monkeypatch.setenv("XDG_STATE_HOME", str(place.folder / "state"))
    sql = "SELECT region, SUM(bill) AS bill FROM visits JOIN wards USING (ward) GROUP BY region ORDER BY region"
    with ExitStack() as stack:
        connection = stack.enter_context(cleave.connect(store=store, key=place.key_file))
        assert connection.execute(sql).fetchall() == place.oracle.execute(sql).fetchall()
        assert connection.execute("SELECT SUM(beds) FROM wards").sources == ("encrypted",)
    assert cleave.query(None, sql, store=store, key=place.key_file).rows == place.oracle.execute(sql).fetchall()
    with pytest.raises(InputError, match="no table to query"):
        cleave.query(None, sql)
    with pytest.raises(TypeError, match="no argument 'tabel'"):
        cleave.query("visits", sql, tabel="t")  # type: ignore[call-arg]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("harmed", ["visits", "wards"])
def test_rows_that_are_damaged_are_told_of_any_table(place: Place, harmed: str) -> None:
    """They are read while DuckDB answers, which reports what is wrong in words of its own."""
    with place.session() as session:
        plan = session.plan("SELECT MAX(note), MAX(region) FROM visits JOIN wards USING (ward)")
        sealed = place.world.tables.open(harmed).manifest
        column = [each.name for each in sealed.sealed].index("note" if harmed == "visits" else "region")
        (name,) = (each.columns[column].object.name for each in sealed.segments)
        path = Path(place.world.stores.sensitive.location) / name
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        with pytest.raises(CheckFailed, match="a sealed column of the table is damaged"):
            session.ask(plan)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("sql", "times"),
    [
        ("SELECT COUNT(w.region || d.name) FROM wards w JOIN doctors d ON d.doctor = w.beds % 11", 0),
        (
            "SELECT COUNT(w.region || d.name || c.name) FROM wards w JOIN doctors d ON d.doctor = w.beds % 11 "
            "JOIN doctors c ON c.doctor = d.chief",
            1,
        ),
        (
            "SELECT COUNT(w.region || d.name) FROM wards w JOIN doctors d ON d.doctor = w.beds % 11 JOIN doctors c "
            "ON c.doctor = d.chief, (SELECT MAX(id) FROM visits WHERE false)",
            1,
        ),
        (
            "WITH RECURSIVE over AS (SELECT doctor, chief FROM doctors WHERE doctor = 9 UNION "
            "SELECT d.doctor, d.chief FROM over, doctors d WHERE d.doctor = over.chief) SELECT COUNT(*) FROM over",
            1,
        ),
    ],
    ids=["read once", "one of them twice", "one of them twice and one never", "one of them in every step"],
)
def test_rows_are_held_where_a_table_is_read_twice(
    place: Place, monkeypatch: pytest.MonkeyPatch, sql: str, times: int
) -> None:
    held: list[int | None] = []
    hold = RecordBatches.hold

    def counted(opened: RecordBatches, most: int | None) -> int | None:
        held.append(hold(opened, most))
        return held[-1]

    monkeypatch.setattr(RecordBatches, "hold", counted)
    with place.session() as session:
        plan = session.plan(sql)
        described = session.describe(plan)
        session.ask(session.plan("SELECT MEDIAN(chief) FROM doctors"))  # whose count has what opening a table read
        answer = session.ask(plan)
        check(answer.result.rows, answer.result.bounds, place.oracle.execute(sql).fetchall())
        assert len(held) == times
        assert answer.usage.objects_read == described.sensitive.count + described.plain.count  # nothing is read twice
        if times:
            most = sum(each or 0 for each in held) - 1
            hold_repeated = Table.hold_repeated

            def in_less(table: Table, *asked: Any) -> None:
                table.engine.memory = 2 * most
                hold_repeated(table, *asked)

            monkeypatch.setattr(Table, "hold_repeated", in_less)
            monkeypatch.setattr(Engine, "limit", lambda *_: None)  # DuckDB itself needs more
            with place.session() as another, pytest.raises(QueryRefused, match="more memory"):  # nothing is kept yet
                another.ask(another.plan(sql))


def test_a_table_that_does_not_fit_beside_another_is_refused() -> None:
    text = Schema((Column("c", Kind.SEALED, "VARCHAR"),), CsvDialect())
    with no_table("other", text) as other, Engine.idle(LEAST_MEMORY).table("t", text) as table:
        words = "repeat('x', 99) || i"
        other.connection.execute(f"CREATE TABLE {other.relation} AS SELECT {words} AS c FROM range(400_000) r(i)")
        with pytest.raises(QueryRefused, match="more memory"):
            table.add("other", other)
