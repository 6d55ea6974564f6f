"""What no sum gives, computed here beside what services answer: DuckDB's values, and nothing more is sent for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from cleave.ask.describe import Description
from cleave.ask.files import describe_file
from cleave.ask.plan import AnswerPlan
from cleave.ask.question import Answer, Options
from cleave.ask.ways.file import FilePlace, FileWay
from cleave.ckks.secret_key import SecretKey
from cleave.local.embedded import embedded_services
from cleave.sql.plan import QueryPlan
from cleave.sql.planner import plan_query
from cleave.table.progress import Silent
from cleave.table.schema import load_schema
from cleave.table.stream import open_table
from cleave.table.table import Table
from cleave.text import figures
from cleave_shared.errors import InputError, QueryRefused
from cleave_shared.requests import PlainRequest, PlainResponse, SumsRequest, SumsResponse
from tests.answering import run_local, run_query
from tests.samples import write_schema

COLUMNS = {
    "ward": "plain VARCHAR",
    "sex": "plain VARCHAR",
    "bed": "plain INTEGER",
    "age": "encrypted BIGINT; lower = 0; upper = 128",
    "kg": "encrypted DOUBLE; lower = 0; upper = 256",
    "name": "sealed VARCHAR",
    "note": "local VARCHAR",
}
ROWS = 300


def described(table: Table, cut: QueryPlan) -> Description:
    def unused(*_: object) -> Any:
        raise AssertionError("nothing is sent")

    return describe_file(FilePlace(table, unused, unused), AnswerPlan(cut, (FileWay(cut),)))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("items")
    write_schema(folder / "t.csv", COLUMNS)
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT CASE WHEN i % 11 > 0 THEN 'w' || i % 4 END AS ward, "
            "CASE i % 3 WHEN 0 THEN 'F' ELSE 'M' END AS sex, "
            "CASE WHEN i % 7 > 0 THEN (i * 37 % 50)::INTEGER END AS bed, "
            "CASE WHEN i % 5 > 0 THEN i * 71 % 97 END AS age, (i * 13 % 801) / 8.0 AS kg, "
            "'n' || i % 60 AS name, CASE WHEN i % 2 = 0 THEN 'x, ''y''' || i % 9 END AS note "
            f"FROM range({ROWS}) AS r(i)"
        )
        connection.execute(f"COPY t TO '{folder / 't.csv'}' (HEADER)")
    return folder / "t.csv"


@pytest.fixture(scope="module")
def table(files: Path) -> Iterator[Table]:
    with open_table(files, load_schema(files.with_suffix(".schema.toml"))) as opened:
        yield opened


class Sent:
    """The embedded services, and what they are asked."""

    def __init__(self) -> None:
        self._inner = embedded_services()
        self.plain_requests: list[PlainRequest] = []
        self.moments: list[dict[str, Any]] = []

    def plain(self, request: PlainRequest) -> PlainResponse:
        self.plain_requests.append(request)
        return self._inner.plain(request)

    def sensitive(self, request: SumsRequest) -> SumsResponse:
        told = {name: each for name, each in vars(request).items() if name not in {"label", "lanes"}}
        self.moments.append(told | {"sizes": [[len(each) // 100 for each in lane.objects] for lane in request.lanes]})
        return self._inner.sensitive(request)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def answer(table: Table, sql: str, key: SecretKey, options: Options | None = None) -> tuple[Answer, Sent]:
    plan = plan_query(sql, table.schema, "t")
    assert isinstance(plan, QueryPlan)
    sent = Sent()
    if plan.sends_nothing:
        return run_local(table, plan, options or Options()), sent
    return run_query(table, plan, key, sent, Silent(), options or Options()), sent


def expected(table: Table, sql: str) -> list[tuple[str | None, ...]]:
    """DuckDB's answer over the same rows."""
    connection = table.connection
    connection.execute("CREATE OR REPLACE VIEW t AS SELECT * FROM source")
    connection.execute(f"CREATE OR REPLACE TEMP TABLE wanted AS {sql}")
    return connection.execute("SELECT CAST(COLUMNS(*) AS VARCHAR) FROM wanted").fetchall()


def shown(result: Answer) -> list[tuple[str | None, ...]]:
    return [tuple(None if value is None else figures.plain(value) for value in row) for row in result.result.rows]


L, E, K, P = "local", "encrypted", "key", "plain"


@pytest.mark.parametrize(
    ("sql", "sources"),
    [
        ("SELECT ward, SUM(age), MEDIAN(age) FROM t GROUP BY ward ORDER BY ward", (K, E, L)),
        ("SELECT MIN(age), MAX(kg), COUNT(age) FROM t", (L, L, E)),
        ("SELECT ward, MAX(age) - MIN(age) AS spread, COUNT(*) FROM t GROUP BY ward ORDER BY 1", (K, L, P)),
        ("SELECT COUNT(DISTINCT age), SUM(DISTINCT age), SUM(age) FROM t WHERE bed > 10", (L, L, E)),
        ("SELECT ward, SUM(age) / MAX(age) AS mixed, SUM(age) FROM t GROUP BY ward ORDER BY ward", (K, L, E)),
        ("SELECT ward, SUM(age) FROM t GROUP BY ward HAVING MAX(age) > 94 ORDER BY ward", (K, E)),
        ("SELECT ward, SUM(age) AS s FROM t GROUP BY ward ORDER BY MIN(kg) DESC, ward LIMIT 2", (K, E)),
        ("SELECT ward, SUM(age) FROM t GROUP BY ward ORDER BY LIST(note ORDER BY note) NULLS FIRST, ward", (K, E)),
        ("SELECT name, SUM(age), MAX(note) FROM t GROUP BY name ORDER BY name LIMIT 7", (K, E, L)),
        ("SELECT SUM(age), COUNT(name) FROM t WHERE name < 'n3' AND note IS NOT NULL", (E, L)),
        ("SELECT note, SUM(bed), MAX(bed) FROM t GROUP BY note ORDER BY note", (K, E, L)),
        ("SELECT LIST(note ORDER BY note, name), SUM(age) FROM t WHERE age = 71", (L, E)),
        ("SELECT STRUCT_PACK(a := MAX(note), b := MIN(age)), SUM(age) FROM t", (L, E)),
        (
            "SELECT ward, sex, SUM(age), MEDIAN(kg), GROUPING(sex) FROM t GROUP BY ROLLUP (ward, sex) ORDER BY ALL",
            (K, K, E, L, K),
        ),
        (
            "SELECT COALESCE(ward, 'all') || MAX(note) AS x, SUM(age) FROM t GROUP BY CUBE (ward, sex) ORDER BY ALL",
            (L, E),
        ),
        ("SELECT MEDIAN(bed), SUM(age) FROM t GROUP BY GROUPING SETS ((sex), (sex), ()) ORDER BY ALL", (L, E)),
        ("SELECT MAX(age), SUM(age) FROM t WHERE ward = 'none'", (L, E)),
        ("SELECT ward, MAX(age), SUM(age) FROM t WHERE ward = 'none' GROUP BY ward", (K, L, E)),
        ("SELECT MAX(age), SUM(age) FROM t WHERE ward = 'none' GROUP BY ROLLUP (ward)", (L, E)),
        ("SELECT MAX(name), SUM(age) FROM t GROUP BY 'one', ward ORDER BY ALL", (L, E)),
        ("SELECT SUM(age::BIGNUM), SUM(age) FROM t", (L, E)),
        ("SELECT FIRST(bed ORDER BY bed, sex), SUM(age), ARRAY_AGG(DISTINCT sex ORDER BY sex) FROM t", (P, E, P)),
        ("SELECT ANY_VALUE(PG_TYPEOF(bed)), SUM(age) FROM t", (L, E)),
    ],
)
@pytest.mark.sampled(6)
def test_is_duckdbs_answer_item_by_item(table: Table, key: SecretKey, sql: str, sources: tuple[str, ...]) -> None:
    result, _ = answer(table, sql, key)
    assert tuple(output.source for output in result.result.columns) == sources
    wanted = expected(table, sql)
    assert (
        (shown(result) == wanted)
        if "ORDER BY" in sql
        else (sorted(map(repr, shown(result))) == sorted(map(repr, wanted)))
    )


@pytest.mark.parametrize(
    ("sql", "addition"),
    [
        ("SELECT ward, AVG(age){} FROM t GROUP BY ward", ", MEDIAN(kg), MAX(name)"),
        ("SELECT ward, AVG(age){} FROM t GROUP BY ward", ", SUM(kg) / MAX(kg)"),
        ("SELECT SUM(age){} FROM t WHERE bed > 3", ", LIST(note), MIN(age)"),
        ("SELECT ward, COUNT(*){} FROM t GROUP BY ward", ", MODE(age)"),
        ("SELECT ward, SUM(age) FROM t GROUP BY ward{}", " HAVING MAX(kg) > 1 ORDER BY MIN(name)"),
        ("SELECT name, SUM(age){} FROM t GROUP BY name", ", MAX(bed)"),
    ],
)
@pytest.mark.sampled(2)
def test_what_is_computed_here_changes_nothing_that_is_sent(
    table: Table, key: SecretKey, tmp_path: Path, sql: str, addition: str
) -> None:
    def columns(parquet: bytes) -> list[Any]:
        (tmp_path / "half.parquet").write_bytes(parquet)
        with duckdb.connect() as connection:
            return connection.execute(f"DESCRIBE FROM '{tmp_path / 'half.parquet'}'").fetchall()

    def told(request: PlainRequest) -> dict[str, Any]:
        return {name: each for name, each in vars(request).items() if name not in {"label", "objects"}}

    def leaves(query: str) -> object:
        _, sent = answer(table, query, key)
        plain = [(told(each), [columns(bytes(half)) for half in each.objects]) for each in sent.plain_requests]
        plan = plan_query(query, table.schema, "t")  # of few rows, one ciphertext holds whatever is asked
        assert isinstance(plan, QueryPlan)
        asked = [(each.aggregate.names, each.arguments) for each in plan.encrypted]
        return plain, sorted(sent.moments, key=str), plan.arguments, asked

    assert leaves(sql.format("")) == leaves(sql.format(addition))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT ward, MEDIAN(age) FROM t GROUP BY ward",
        "SELECT MAX(age), MIN(name) FROM t WHERE ward = 'w1'",
        "SELECT name, COUNT(*) FROM t GROUP BY name",
        "SELECT COUNT(*) FROM t WHERE note IS NULL",
        "SELECT ward FROM t GROUP BY ward HAVING MAX(age) > 3 AND COUNT(*) > 2",
        "SELECT 1, MAX(kg) FROM t",
    ],
)
def test_where_only_this_machine_computes_nothing_is_sent_and_no_key_is_needed(table: Table, sql: str) -> None:
    plan = plan_query(sql, table.schema, "t")
    assert isinstance(plan, QueryPlan)
    assert plan.sends_nothing
    result = run_local(table, plan)
    assert sorted(map(repr, shown(result))) == sorted(map(repr, expected(table, sql)))
    description = described(table, plan)
    assert description.profile is None
    assert not any(column.bytes for column in description.columns)


def test_no_column_that_stays_here_is_ever_sent(table: Table, key: SecretKey) -> None:
    """Neither in the clear nor encrypted: not as a condition of an encrypted sum either."""
    for sql in (
        "SELECT SUM(age) FILTER (WHERE name < 'n3'), SUM(kg) FROM t",
        "SELECT SUM(age * length(note)), SUM(kg) FROM t",
        "SELECT COUNT(name), SUM(kg) FROM t",
        "SELECT COUNT(*) FILTER (WHERE note IS NULL), SUM(kg) FROM t",
    ):
        plan = plan_query(sql, table.schema, "t")
        assert isinstance(plan, QueryPlan)
        assert [output.source for output in plan.outputs] == [L, E]
        assert {name for each in plan.arguments for name in each.columns} == {"kg"}
        assert plan.plain_columns == ()


def test_a_minimum_group_size_holds_for_what_is_computed_here(table: Table, key: SecretKey) -> None:
    sql = "SELECT name, SUM(age), MAX(note) FROM t WHERE kg < 60 GROUP BY name ORDER BY name"
    result, _ = answer(table, sql, key, Options(min_group=4))
    small = expected(table, "SELECT name FROM t WHERE kg < 60 GROUP BY name HAVING COUNT(*) < 4")
    assert small
    assert not {row[0] for row in shown(result)} & {row[0] for row in small}
    every = {row[0]: row for row in expected(table, sql)}
    assert all(every[row[0]] == row for row in shown(result))


def test_an_error_in_what_is_computed_here_quotes_no_value(table: Table, key: SecretKey) -> None:
    for sql in (
        "SELECT SUM(age), MAX(CAST(name AS INTEGER)) FROM t",
        "SELECT ward, SUM(age) FROM t GROUP BY ward HAVING MAX(CAST(note AS DATE)) IS NULL",
        "SELECT SUM(age), 1 // (MIN(age) - MIN(age)) + SUM(DISTINCT CAST(name AS INTEGER)) FROM t",
    ):
        with pytest.raises(InputError) as caught:
            answer(table, sql, key)
        error: BaseException | None = caught.value
        while error is not None:
            assert "n1" not in f"{error!r}"
            error = error.__cause__ or error.__context__


def test_what_cannot_be_put_together_from_several_requests_is_computed_here(
    table: Table, key: SecretKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = "SELECT sex, MEDIAN(bed), SUM(bed), SUM(age) FROM t GROUP BY sex ORDER BY sex"
    result, sent = answer(table, sql, key)
    assert [output.source for output in result.result.columns] == [K, P, P, E]
    monkeypatch.setattr("cleave.sql.split._PARQUET_BYTES", len(sent.plain_requests[0].objects[0]) * 9 // 10)
    result, sent = answer(table, sql, key)
    assert [output.source for output in result.result.columns] == [K, L, P, E]
    assert len(sent.plain_requests) > 1
    assert not any("median" in text for each in sent.plain_requests for text in each.aggregates)
    assert "several requests" in result.result.columns[1].reason
    assert shown(result) == expected(table, sql)
    plan = plan_query(sql, table.schema, "t", cloud_only=True)
    assert isinstance(plan, QueryPlan)
    with pytest.raises(QueryRefused, match="several requests"):
        run_query(table, plan, key, Sent(), Silent())


def test_every_local_output_says_why(table: Table) -> None:
    plan = plan_query(
        "SELECT ward, AVG(age), MEDIAN(age), MAX(name), COUNT(DISTINCT kg) FROM t GROUP BY ward", table.schema, "t"
    )
    reasons = [output.reason for output in plan.outputs]
    assert reasons[:2] == ["", ""]
    assert "compared" in reasons[2]
    assert "'name' is sealed" in reasons[3]
    assert "equal values" in reasons[4]
    made = plan_query(
        "SELECT ward, AVG(age) FROM t GROUP BY ward HAVING MAX(name) > 'a' ORDER BY MEDIAN(kg)", table.schema, "t"
    )
    told = {each.name for each in described(table, made).local}
    assert told == {"HAVING or ORDER BY"}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT MEDIAN(age) FROM t",
        "SELECT MAX(name) FROM t",
        "SELECT COUNT(*) FROM t WHERE note = 'x'",
        "SELECT LIST(ward) FROM t",
    ],
)
def test_only_the_cloud_is_not_asked_for_it(table: Table, sql: str) -> None:
    with pytest.raises(QueryRefused) as refused:
        plan_query(sql, table.schema, "t", cloud_only=True)
    assert refused.value.hint
