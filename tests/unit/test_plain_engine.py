"""The plain engine against DuckDB on the same table, and everything it must refuse."""

from __future__ import annotations

import math
import os
import re
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cleave_services.plain import contained, engine
from cleave_services.plain import database as database_module
from cleave_services.plain.database import Database, _translated
from cleave_shared import fork_server, limits, wire
from cleave_shared.crew import Crew
from cleave_shared.errors import ServiceError, WireError
from cleave_shared.fork_server import ForkServer
from cleave_shared.plain_functions import ALLOWED_FUNCTIONS
from cleave_shared.requests import PlainRequest, PlainResponse, TypedColumn
from tests.unit import forked_duckdb

CANARY = "canary-4711-secret"

# one column a type that Parquet keeps; NULLs, -0.0, NaN and text that looks like SQL among the values
PATIENTS = f"""
SELECT
    i AS id,
    CASE WHEN i % 7 <> 3 THEN 'w' || i % 4 END AS ward,
    (i * 37 % 90)::TINYINT AS age,
    CASE i % 5 WHEN 0 THEN 'nan'::DOUBLE WHEN 1 THEN -0.0 WHEN 2 THEN 0.0 WHEN 3 THEN NULL ELSE i / 3 END AS score,
    (i * 1.01)::DECIMAL(18, 2) AS bill,
    DATE '2020-01-01' + (i % 400)::INTEGER AS admitted,
    CASE WHEN i % 11 = 5 THEN '{CANARY}' ELSE (i % 13)::VARCHAR END AS code,
    i % 3 = 0 AS insured,
    [i % 2, NULL] AS flags,
    i AS "odd ""name"" -- ; FROM"
FROM range(200) AS source(i)
"""


def parquet(tmp_path: Path, select: str) -> bytes:
    path = tmp_path / "table.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({select}) TO '{path}' (FORMAT parquet)")
    return path.read_bytes()


@pytest.fixture(scope="module")
def database(patients: bytes) -> Iterator[Database]:
    """One open table for many looks at expressions, without the watchdog."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(limits, "PLAIN_SECONDS", 3600.0)
        with Database() as opened:
            opened.load_objects([patients], [200], None)
            yield opened


@pytest.fixture(scope="module")
def patients(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return parquet(tmp_path_factory.mktemp("patients"), PATIENTS)


def ask(table: bytes | None, rows: int, **asked: Any) -> PlainResponse:
    return engine.aggregate(PlainRequest(rows=[rows], **asked), [] if table is None else [table], limits.MAX_JSON_BYTES)


def oracle(table: bytes | None, rows: int, tmp_path: Path) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET disabled_optimizers = 'compressed_materialization'")  # see cleave_services.plain.database
    path = tmp_path / "oracle.parquet"
    path.write_bytes(table or b"")
    source = f"FROM read_parquet('{path}')" if table else f"SELECT true AS nothing FROM range({rows})"
    connection.execute(f"CREATE TABLE rows AS {source}")
    return connection


def same(connection: duckdb.DuckDBPyConnection, column: TypedColumn, expected: str, kind: str) -> list[bool]:
    """For each value: does it cast back to that of `expected` (SQL of a column), down to the sign of zero?"""
    assert column.type == kind
    rows = connection.execute(
        f"SELECT got IS NOT DISTINCT FROM want AND got::VARCHAR IS NOT DISTINCT FROM want::VARCHAR "
        f"FROM (SELECT CAST(value AS {kind}) AS got FROM (SELECT unnest(?::VARCHAR[]) AS value)) "
        f"POSITIONAL JOIN (SELECT CAST(value AS {kind}) AS want FROM ({expected}) AS expected(value))",
        [column.values],
    ).fetchall()
    return [found for (found,) in rows]


def check_against_duckdb(
    table: bytes | None, rows: int, tmp_path: Path, where: str | None, keys: Sequence[str], aggregates: Sequence[str]
) -> PlainResponse:
    """Groups in order of first appearance, every figure and every row's number as DuckDB has them."""
    got = ask(table, rows, where=where, keys=keys, aggregates=aggregates)
    with oracle(table, rows, tmp_path) as connection:
        named = [f"k{i}" for i in range(len(keys))] + [f"a{i}" for i in range(len(aggregates))]
        figures = ", ".join(f"({sql}\n) AS {name}" for sql, name in zip([*keys, *aggregates], named, strict=True))
        connection.execute(
            f"CREATE TABLE expected AS SELECT {figures + ', ' if figures else ''}count(*) AS size, "
            f"min(rowid) AS first FROM rows WHERE ({where or 'true'}) "
            + ("GROUP BY " + ", ".join(f"({sql}\n)" for sql in keys) if keys else "")
            + " ORDER BY first"
        )
        sizes = connection.execute("SELECT size FROM expected ORDER BY first").fetchall()
        assert got.counts == [size for (size,) in sizes]
        kinds = dict(row[:2] for row in connection.execute("DESCRIBE expected").fetchall())
        for column, name in zip([*got.keys, *got.aggregates], named, strict=True):
            assert len(column.values) == len(got.counts)
            expected = f"SELECT {name} FROM expected ORDER BY first"
            assert same(connection, column, expected, kinds[name]) == [True] * len(got.counts), name
    return got


FIGURES = ["count(*)", "count(score)", "sum(bill)", "avg(age)", "stddev_samp(bill)", "max(admitted)"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("where", "keys", "aggregates"),
    [
        (None, [], []),
        (None, [], FIGURES),
        (None, ["ward"], FIGURES),
        (None, ["score"], ["count(*)"]),  # NULL, NaN, and -0.0 with 0.0
        (None, ["flags", "insured"], ["list(id)"]),
        (None, ["{'w': ward, 'y': year(admitted)}"], ["min(code)"]),
        (None, ["bill", "admitted", "id"], []),
        (None, ["rows.ward"], ["sum(rows.bill)"]),
        (None, ['"odd ""name"" -- ; FROM" % 2'], ['sum("odd ""name"" -- ; FROM")']),
        (None, ["NULL", "1", "'x'"], ["NULL", "42", "string_agg(ward, ',' ORDER BY id)"]),
        (None, ["age // 10 -- decades"], ["sum(id) /* ids */"]),
        ("age >= 40", ["ward", "insured"], FIGURES),
        ("score > 1", ["ward"], ["sum(score)"]),  # NULL is not selected, NaN is greater
        ("age % 2", [], ["sum(bill) FILTER (WHERE insured)", "count(DISTINCT ward)"]),  # an integer, as WHERE takes it
        ("age > 100", [], FIGURES),  # nothing selected: one group
        ("age > 100", ["ward"], FIGURES),  # nothing selected: none
        ("ward IN ('w1', 'w2') AND admitted BETWEEN DATE '2020-02-01' AND DATE '2020-05-01'", ["ward"], ["sum(id)"]),
        ("NULL", ["ward"], []),
        ("list_contains(list_transform(flags, lambda x: x + 1), 1)", ["CASE WHEN insured THEN ward END"], ["count(*)"]),
        ("code ~ '^[0-9]+$'", ["CAST(code AS INTEGER)"], ["sum(CAST(code AS INTEGER))"]),  # an error elsewhere
    ],
)
def test_answers_are_duckdbs(
    patients: bytes, tmp_path: Path, where: str | None, keys: list[str], aggregates: list[str]
) -> None:
    check_against_duckdb(patients, 200, tmp_path, where, keys, aggregates)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    values=st.lists(
        st.tuples(
            st.none() | st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, 5e-324]) | st.floats(),
            st.none() | st.sampled_from(["", "a", "NULL", "'", '"', "\0", "é", "é"]) | st.text(max_size=3),
            st.none() | st.integers(-3, 3),
        ),
        max_size=30,
    ),
    keys=st.lists(st.sampled_from(["f", "t", "i", "i > 0", "-f", "f + i", "upper(t)"]), max_size=3, unique=True),
    where=st.none() | st.sampled_from(["i > 0", "f = f", "t IS NULL", "f < 1 OR i IS NULL"]),
)
@pytest.mark.slow
def test_any_values_come_back(
    tmp_path: Path, values: list[tuple[float | None, str | None, int | None]], keys: list[str], where: str | None
) -> None:
    path = tmp_path / "any.parquet"
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (f DOUBLE, t VARCHAR, i INTEGER)")
        if values:
            connection.executemany("INSERT INTO t VALUES (?, ?, ?)", values)
        connection.execute(f"COPY t TO '{path}' (FORMAT parquet)")
    aggregates = ["min(f)", "max(t)", "sum(i)"]
    check_against_duckdb(path.read_bytes(), len(values), tmp_path, where, keys, aggregates)


TYPED = [
    "(-128)::TINYINT",
    "170141183460469231731687303715884105727::HUGEINT",
    "340282366920938463463374607431768211455::UHUGEINT",
    "123.4567::DECIMAL(38, 10)",
    *(
        f"'{text}'::DOUBLE"
        for text in ("nan", "-nan", "inf", "-inf", "-0.0", "0.1", "1e-320", "1.7976931348623157e308")
    ),
    "0.1::FLOAT",
    "1e300::DOUBLE / 3",
    "DATE '0044-03-15 (BC)'",
    "'infinity'::TIMESTAMP",
    "TIMESTAMP '2024-01-02 03:04:05.123456'",
    "TIMESTAMPTZ '2024-01-02 03:04:05.123456+05:30'",
    "'2024-01-02 03:04:05.123456789'::TIMESTAMP_NS",
    "TIME '12:34:56.789'",
    "'12:34:56.789+02'::TIMETZ",
    "true",
    "'ünï\U0001f600''\"\\\n\t'",
    "chr(0) || 'a'",
    "''",
    "'NULL'",
    "'\\xAA\\x00b''\"'::BLOB",
    "'59d030df-7f71-43e3-98d5-5c4dfabadc61'::UUID",
    "INTERVAL '-13 months 2 days -1 microseconds'",
    "'10110'::BIT",
    "'a'::ENUM('a', 'b''c')",
    "NULL",
    "[1, NULL, 3]",
    "['a,b', 'c''d', '[e]', '', 'NULL', NULL, ' lead', 'back\\slash', '\"q\"', '{x}', 'k: v', 'k=v']",
    "['nan'::DOUBLE, 'inf', '5e-324']",  # DuckDB drops the sign of a zero in a list that is a key
    "{'a': 1, 'b': 'x, y: {z}', 'c d': NULL}",
    "MAP {'k,1': 1, 'k=2': 2}",
    "[[1], [], NULL]",
    "array_value(1.5::DOUBLE, 2.5)",
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("sql", TYPED)
def test_values_cast_back_exactly(sql: str) -> None:
    got = ask(None, 2, keys=[sql], aggregates=[f"any_value({sql})"])
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        kind = connection.execute(f"DESCRIBE SELECT ({sql})").fetchall()[0][1]
        for column in (got.keys[0], got.aggregates[0]):
            assert same(connection, column, f"SELECT ({sql})", kind) == [True]


def test_a_type_without_an_exact_text_is_refused() -> None:
    with pytest.raises(WireError, match=r"does not fit its type|no exact text"):
        ask(None, 1, keys=["union_value(k := 1)"])


@pytest.mark.parametrize("rows", [0, 1, 1000])
def test_rows_without_columns_can_be_counted(rows: int) -> None:
    got = ask(None, rows, aggregates=["COUNT(*)"])
    assert got.counts == [rows]
    assert got.aggregates == [TypedColumn(type="BIGINT", values=[str(rows)])]


def test_a_table_without_rows(tmp_path: Path) -> None:
    empty = parquet(tmp_path, "SELECT 1 AS x WHERE false")
    assert ask(empty, 0, aggregates=["sum(x)"]).aggregates[0].values == [None]
    grouped = ask(empty, 0, keys=["x"], aggregates=["sum(x)"])
    assert (grouped.counts, grouped.keys[0].type) == ([], "INTEGER")


ESCAPES = tomllib.loads((Path(__file__).parents[1] / "vectors" / "plain-escapes.toml").read_text("utf-8"))["escape"]


def spelled(escape: dict[str, Any]) -> str:
    times = escape.get("times", 1)
    return str(
        escape.get("start", "") + escape["sql"] * times + escape.get("close", "") + escape.get("end", "") * times
    )


TRICKS = [spelled(escape) for escape in ESCAPES]


def test_there_are_enough_escapes() -> None:
    assert len(set(TRICKS)) == len(TRICKS) >= 95


def refusal(database: Database, **asked: Any) -> tuple[object, ...] | None:
    """Code, place and cause; None where nothing is refused."""
    try:
        engine.verify(database, PlainRequest(rows=[200], **asked))
    except WireError as refused:
        return refused.code, refused.message.partition(": ")[0], refused.__cause__
    return None


@pytest.mark.parametrize(("part", "place"), [("where", "where"), ("keys", "keys[1]"), ("aggregates", "aggregates[1]")])
def test_tricks_are_refused(database: Database, part: str, place: str) -> None:
    found = {sql: refusal(database, **{part: sql if part == "where" else ["1", sql]}) for sql in TRICKS}
    assert {sql: said for sql, said in found.items() if said != ("wire", place, None)} == {}


@pytest.mark.parametrize("sql", ["id", "no_such(id)", "sum(id), 1", "sum("])
def test_of_several_the_refused_one_is_named(database: Database, sql: str) -> None:
    asked = ["sum(id)", "max(ward)", sql, "count(*)"]
    with pytest.raises(WireError, match=r"^aggregates\[2\]: "):
        engine.verify(database, PlainRequest(rows=[200], aggregates=asked))


@pytest.mark.parametrize("sql", ["sum(id)", "count(*)", "sum(id) > 3", "max(id) FILTER (WHERE insured)"])
def test_where_and_keys_hold_no_aggregate(patients: bytes, sql: str) -> None:
    with pytest.raises(WireError, match=r"^where: "):
        ask(patients, 200, where=sql)
    with pytest.raises(WireError, match=r"^keys\[0\]: "):
        ask(patients, 200, keys=[sql])


@pytest.mark.parametrize("sql", ["id", "id + count(*)", "upper(ward)"])
def test_aggregates_hold_no_bare_column(patients: bytes, sql: str) -> None:
    with pytest.raises(WireError, match=r"^aggregates\[0\]: "):
        ask(patients, 200, keys=["id"], aggregates=[sql])


def test_a_column_may_be_called_like_a_row_number(tmp_path: Path) -> None:
    odd = parquet(tmp_path, 'SELECT * FROM (VALUES (7, 1), (7, 2), (8, 3)) AS t(rowid, "rows")')
    got = ask(odd, 3, keys=["RowId"], aggregates=['sum("rows")', "sum(rowid)"])
    assert (got.keys[0].values, got.counts) == (["7", "8"], [2, 1])
    assert [column.values for column in got.aggregates] == [["3", "3"], ["14", "8"]]


@pytest.mark.parametrize(
    "asked",
    [
        {"keys": ["CAST(code AS INTEGER)"]},
        {"where": "CAST(code AS INTEGER) > 1"},
        {"aggregates": ["sum(CAST(code AS INTEGER))"]},
        {"keys": ["strptime(code, '%Y')"]},
        {"keys": [f"CAST('{CANARY}' AS INTEGER)"]},
        {"keys": [f'"{CANARY}"']},
        {"aggregates": [f"max(date_trunc('{CANARY}', admitted))"]},
        {"keys": [f"'{CANARY}"]},
        {"keys": [f"{CANARY}("]},
    ],
)
def test_errors_quote_neither_values_nor_sql(patients: bytes, asked: dict[str, Any]) -> None:
    with pytest.raises(WireError) as refused:
        ask(patients, 200, **asked)
    for error in (refused.value, refused.value.__cause__):
        assert "canary" not in f"{error!r} {getattr(error, 'hint', '')}".lower()
    assert refused.value.__context__ is None or refused.value.__suppress_context__


def test_no_function_that_reaches_beyond_its_arguments_is_allowed() -> None:
    with duckdb.connect() as connection:
        known = connection.execute(
            "SELECT lower(function_name), stability, macro_definition FROM duckdb_functions() "
            "WHERE function_type IN ('scalar', 'aggregate', 'macro')"
        ).fetchall()
    names = {name for name, _, _ in known}
    assert names >= ALLOWED_FUNCTIONS, "what DuckDB no longer has may come back as something else"
    refused = names - ALLOWED_FUNCTIONS
    assert {"random", "pg_sleep", "get_block_size", "json_serialize_plan", "current_setting", "uuid"} <= refused
    for name, stability, macro in known:
        if name in ALLOWED_FUNCTIONS:
            assert stability != "VOLATILE", name
            calls = re.findall(r"\b(\w+)\(", macro or "") if not re.search(r"\bSELECT\b", macro or "") else ["SELECT"]
            assert not refused & set(calls) - {"if"}, (name, calls)
            assert "SELECT" not in calls, name


@pytest.mark.parametrize(
    "statement",
    [
        "FROM read_text('/etc/passwd')",
        "FROM '/etc/passwd'",
        "COPY rows TO '{folder}/stolen.csv'",
        "ATTACH '{folder}/stolen.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET lock_configuration = false",
        "SET memory_limit = '1TB'",
        "CREATE TEMPORARY SECRET s (TYPE s3)",
    ],
)
def test_even_a_statement_that_got_through_would_reach_nothing(tmp_path: Path, statement: str) -> None:
    with Database() as database:
        database.load_nothing(1)
        with pytest.raises(WireError):
            database.fetch(statement.replace("{folder}", str(tmp_path)), "test")
    assert not list(tmp_path.iterdir())


def test_variables_of_python_are_no_tables() -> None:
    secret = duckdb.connect().execute("SELECT 1 AS x")
    with Database() as database:
        database.load_nothing(1)
        with pytest.raises(WireError, match="no such function, type or table"):
            database.fetch("FROM secret", "test")
    secret.close()


@pytest.mark.parametrize(
    "sql",
    [
        "max(list_sum(list_transform(range(id + 20000), lambda x: x * x)))",
        "sum(list_sum(list_transform(range(2000), lambda x: len(repeat('a', 10 + x % 2) || id))))",
    ],
)
def test_what_takes_too_long_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sql: str) -> None:
    monkeypatch.setattr(limits, "PLAIN_SECONDS", 0.2)
    table = parquet(tmp_path, "SELECT range AS id FROM range(300000)")
    request = PlainRequest(rows=[300_000], aggregates=[sql])
    arguments = (request, [table], limits.MAX_JSON_BYTES)
    with pytest.raises(WireError, match=r"stopped after 0\.2 s") as stopped:
        contained.run(engine.aggregate, arguments, PlainResponse, lambda **_: None)
    assert stopped.value.code == "wire"


def test_the_process_of_a_question_may_start_nothing_and_write_little() -> None:
    found = contained.run(forked_duckdb.answer_with_what_it_may, (None,), forked_duckdb.WhatItMay, lambda **_: None)
    most = contained._bounds(1.0).memory
    assert found.limits == {"RLIMIT_NPROC": (0, 0), "RLIMIT_FSIZE": (most, most), "RLIMIT_CORE": (0, 0)}
    assert contained._bounds(1.0).confined


def test_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PLAIN_MEMORY", "12MB")
    table = parquet(tmp_path, "SELECT range AS id, md5(range::VARCHAR) AS t FROM range(100000)")
    with pytest.raises(WireError, match="more memory") as refused:
        ask(table, 100_000, keys=["t"])
    assert refused.value.code == "too_large"


def test_a_parquet_file_that_claims_to_be_huge_is_not_unpacked(tmp_path: Path) -> None:
    bomb = parquet(tmp_path, "SELECT 1 AS x FROM range(5000000)")
    assert len(bomb) < 100_000
    with pytest.raises(WireError, match="object 0: 5000000 rows, the envelope says 10"):
        ask(bomb, 10, aggregates=["count(*)"])


def test_groups_are_limited(patients: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_PLAIN_GROUPS", 199)
    with pytest.raises(WireError, match="200 groups, at most 199") as refused:
        ask(patients, 200, keys=["id"])
    assert refused.value.code == "too_large"


def test_columns_are_limited(patients: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_PLAIN_COLUMNS", 9)
    with pytest.raises(WireError, match="10 columns, at most 9"):
        ask(patients, 200)


def test_an_answer_too_large_to_send_is_not_even_read(patients: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_JSON_BYTES", 1000)
    with pytest.raises(WireError, match="answer is too large") as refused:
        ask(patients, 200, keys=["id"], aggregates=["sum(bill)"])
    assert refused.value.code == "too_large"


@pytest.mark.parametrize("damage", ["empty", "text", "truncated", "head", "middle"])
def test_damaged_tables_are_refused(patients: bytes, damage: str) -> None:
    table = {
        "empty": b"",
        "text": CANARY.encode(),
        "truncated": patients[: len(patients) // 2],
        "head": b"XXXX" + patients[4:-4] + b"XXXX",
        "middle": patients[:100] + bytes(300) + patients[400:],
    }[damage]
    with pytest.raises(WireError, match=r"^object(s or columns| 0): ") as refused:
        ask(table, 200, aggregates=["count(*)"])
    assert "canary" not in refused.value.message


@pytest.mark.parametrize("kind", [duckdb.InternalException, duckdb.FatalException])
def test_what_duckdb_itself_fails_at_is_a_refusal(kind: type[duckdb.Error]) -> None:
    """Met by `make fuzz` with a damaged Parquet file."""
    told = _translated(kind("secret value"), "table")
    assert (told.code, told.message) == ("wire", "table: DuckDB fails at it")


def test_the_row_count_must_hold(patients: bytes) -> None:
    with pytest.raises(WireError, match="object 0: 200 rows, the envelope says 199"):
        ask(patients, 199)


def test_nothing_is_left_behind(patients: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a file nor a descriptor."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    assert ask(patients, 200, keys=["ward"]).counts
    with pytest.raises(WireError):
        ask(b"damaged", 200)
    assert list(tmp_path.iterdir()) == []
    assert len(os.listdir("/proc/self/fd")) == before


def test_threads_follow_lambdas_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "3538")
    with Database() as database:
        database.load_nothing(1)
        settings_found = dict(
            database.fetch(
                "SELECT name, value FROM duckdb_settings() WHERE name IN ('threads', 'memory_limit')", "test"
            )
        )
    assert settings_found == {"threads": "2", "memory_limit": "1.9 GiB"}


# --- the DuckDB of a child --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    server = ForkServer(contained._server._preload)
    yield server
    server.stop()


def test_it_is_opened_before_the_fork_by_a_process_that_keeps_one_thread(server: ForkServer) -> None:
    for _ in range(2):
        with server.fork() as child:
            child.call(forked_duckdb.tell_of_duckdb)
            assert child.receive(120) == [b"1", b"1"]


def test_none_is_kept_where_it_starts_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_server, "threads", lambda: 2)
    database_module.open_to_fork()
    assert not database_module._unused


def test_no_request_sees_what_another_left(server: ForkServer) -> None:
    for _ in range(2):
        with server.fork() as child:
            child.call(forked_duckdb.leave_a_table)
            assert child.receive(120) == [b"[]", b"3", b"[('kept',), ('rows',)]"]


def test_a_child_is_shut_in(server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    crew = Crew(server.fork, 1, once=True)
    monkeypatch.setattr(contained, "_crew", crew)
    for aggregate in ("max(getenv('HOME'))", "(SELECT count(*) FROM '/etc/passwd')"):
        request = PlainRequest(rows=[3], aggregates=[aggregate])
        with pytest.raises(WireError):
            contained.run(engine.aggregate, (request, [], limits.MAX_JSON_BYTES), PlainResponse, lambda **_: None)
    crew.end()
    with server.fork() as child:
        child.call(forked_duckdb.reach_out, ("/etc/passwd",))
        assert child.receive(120) == [b"refused"] * 4


WHOLE = wire.dump_json(
    PlainResponse(
        label="0" * 32,
        rows=7,
        counts=[7],
        keys=[],
        aggregates=[TypedColumn(type="INTEGER", values=["1"])],
        timings={"load": 0.5},
    )
)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"null",
        WHOLE[:-1],
        WHOLE.decode().encode("utf-16"),
        WHOLE.replace(b"rows", b"row"),
        WHOLE.replace(b"[7]", b"[-7]"),
        WHOLE.replace(b"[7]", b'["7"]'),
        WHOLE.replace(b"INTEGER", b"\xed\xa0\x80"),  # half a surrogate pair
        WHOLE.replace(b"INTEGER", rb"\ud800"),
        WHOLE.replace(b"0.5", b"NaN"),
        WHOLE.replace(b'"stored":null', b'"stored":{}'),
        b"[" * 100_000,
    ],
    ids=range(13),
)
def test_a_child_that_sends_something_else_sent_no_answer(body: bytes) -> None:
    """Expressions run in it: one may have taken it over."""
    assert contained._read(PlainResponse, WHOLE).counts == [7]
    with pytest.raises(ServiceError, match="sent no answer") as caught:
        contained._read(PlainResponse, body)
    assert caught.value.status == 500
