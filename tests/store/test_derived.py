"""Derived columns: named in questions like columns, over files and stores; a stored table keeps totals of them."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from cleave.ask.files import FileSource
from cleave.ask.options import Access
from cleave.ask.session import Session
from cleave.local.embedded import embedded_services
from cleave.maintain.derive import derive_expression as derive
from cleave.sql.read import canonical, expression_of
from cleave.store.schemas import stored_schema
from cleave.table.lazy import of_files
from cleave.table.progress import Silent
from cleave.table.schema import Kind, dump_schema, load_schema, read_schema
from cleave_shared.errors import InputError
from tests.conftest import no_passphrase
from tests.store.trial import SAMPLE, World, truth

DERIVED = """
[derived.net]
sql = "bill * (1 - 0.10)"
reason = "what is left"

[derived.dose]
sql = "weight * 2.5"

[derived.who]
sql = "lower(ward) || email"

[derived.day]
sql = "CAST(admitted AS VARCHAR)"
"""


@pytest.fixture
def schema_file(tmp_path: Path) -> Path:
    path = tmp_path / "patients.schema.toml"
    path.write_text((SAMPLE / "patients.schema.toml").read_text() + DERIVED)
    return path


def test_a_schema_keeps_them(schema_file: Path) -> None:
    schema = load_schema(schema_file)
    assert [(each.name, each.type, each.columns) for each in schema.derived] == [
        ("net", "DECIMAL(18,4)", ("bill",)),
        ("dose", "DOUBLE", ("weight",)),
        ("who", "VARCHAR", ("ward", "email")),
        ("day", "VARCHAR", ("admitted",)),
    ]
    assert read_schema(tomllib.loads(dump_schema(schema), parse_float=Decimal), "x") == schema
    assert schema.hash() == load_schema(SAMPLE / "patients.schema.toml").hash()  # no row is other for it


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ('[derived.x]\nsql = "SUM(age)"', "[derived.x] sql: is no expression over a row: an aggregate cannot be here"),
        ('[derived.x]\nsql = "agee"', "[derived.x] sql: names no column"),
        ('[derived.x]\nsql = "age + net"', "[derived.x] sql: is no expression over a row: there is no column 'net'"),
        ('[derived.x]\nsql = "age * random()"', "[derived.x] sql: random() depends on more than the row"),
        ('[derived.x]\nsql = "admitted - today()"', "[derived.x] sql: today() depends on more than the row"),
        ('[derived.x]\nsql = "epoch(age(admitted))"', "[derived.x] sql: age() depends on more than the row"),
        (
            '[derived.x]\nsql = "current_localtimestamp() - admitted"',
            "[derived.x] sql: current_localtimestamp() depends on more than the row",
        ),
        ('[derived.x]\nsql = "age) VIRTUAL, y AS (age"', "[derived.x] sql: is not one expression"),
        ('[derived.x]\nsql = "age FROM t"', "[derived.x] sql: is not one expression"),
        ('[derived.x]\nsql = "(SELECT age)"', "[derived.x] sql: is no expression over a row: a subquery cannot"),
        ("[derived.x]\nsql = 3", "[derived.x] sql: must be text"),
        ('[derived.x]\nreason = "so"', "[derived.x] sql: is missing"),
        ('[derived.x]\nsql = "age"\nmoments = 1', "[derived.x]: does not know the key 'moments'"),
        ('[derived.x]\nsql = "age"\nkind = "plain"', "[derived.x]: does not know the key 'kind'"),
        ('[derived.AGE]\nsql = "age"', "[derived.AGE] sql: there is a column of that name"),
        ('[derived.NET]\nsql = "age"', "[derived.NET]: is no name, or differs"),
        ("[derived]\nx = 3", "[derived.x]: must be a table"),
    ],
)
def test_a_wrong_one_is_refused_with_its_place(schema_file: Path, wrong: str, said: str) -> None:
    text = schema_file.read_text()
    schema_file.write_text((text if "[derived]" not in wrong else text.partition("[derived")[0]) + wrong + "\n")
    with pytest.raises(InputError) as error:
        load_schema(schema_file)
    assert str(error.value).startswith(f"{schema_file}: {said}")


@pytest.mark.parametrize(
    "sql",
    [
        "age + 1",
        "year(admitted) - 2000",
        "date_diff('day', admitted, DATE '2025-02-01')",
        "strftime(admitted, '%m')",
        "age(admitted, TIMESTAMP '2025-02-01')",
    ],
)
def test_time_zones_make_no_function_depend_on_more_than_the_row(schema_file: Path, sql: str) -> None:
    """DuckDB 2.0.1 says that `+` and `year` differ between queries: of times with a zone they do, in other zones."""
    schema_file.write_text(schema_file.read_text().partition("[derived")[0] + f'[derived.x]\nsql = "{sql}"\n')
    assert [each.name for each in load_schema(schema_file).derived] == ["x"]


OVER_A_FILE = [
    "SELECT SUM(net), AVG(NET), COUNT(day) FROM trial",
    "SELECT ward, SUM(net) AS n FROM trial AS t GROUP BY ward HAVING SUM(t.net) > 3 ORDER BY n DESC",
    "SELECT day, COUNT(*) FROM trial GROUP BY day ORDER BY day LIMIT 5",
    "SELECT MAX(who), MEDIAN(net) FROM trial",
    "SELECT net, who FROM trial ORDER BY who, net LIMIT 7",
    "SELECT COLUMNS('^(net|age|dose)$') FROM trial ORDER BY ALL LIMIT 3",
    "SELECT SUM(net) FILTER (WHERE day < '2025-02-01') FROM trial",
]


def told(schema_file: Path, sql: str) -> list[tuple[object, ...]]:
    """What DuckDB makes of it over a view that has them."""
    schema = load_schema(schema_file)
    named = ", ".join(f'({each.sql}) AS "{each.name}"' for each in schema.derived)
    return truth(f"WITH trial AS (SELECT *, {named} FROM main.trial) {sql}")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("sql", OVER_A_FILE)
def test_a_derived_column_of_a_file_is_answered(schema_file: Path, key_file: Path, sql: str) -> None:
    table = of_files([SAMPLE / "patients.csv"], schema_file, "trial")
    with Session(FileSource(table, Access(key_file, no_passphrase), embedded_services)) as session:
        found = session.ask(session.plan(sql)).result
    agree(found.rows, told(schema_file, sql))


def agree(found: list[list[object]], wanted: list[tuple[object, ...]]) -> None:
    assert len(found) == len(wanted)
    for row, expected in zip(found, wanted, strict=True):
        for value, exact in zip(row, expected, strict=True):
            if isinstance(exact, float):
                assert value == pytest.approx(exact, rel=1e-9)
            else:
                assert value == exact or str(value) == str(exact) or str(value) == str(exact).lower()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("sql", OVER_A_FILE)
def test_a_derived_column_of_a_store_is_answered(
    world: World, schema_file: Path, key_file: Path, tmp_path: Path, sql: str
) -> None:
    world.put("ward", "admitted", schema=schema_file)
    with world.session(key_file, services=False) as session:
        agree(session.ask(session.plan(sql)).result.rows, told(schema_file, sql))


def test_totals_are_kept_of_numbers_over_encrypted_columns(world: World, schema_file: Path) -> None:
    world.put("ward", "admitted", schema=schema_file)
    measures = world.stored().manifest.measures
    assert [each.name for each in measures if each.derived] == ["net", "dose"]
    answer = world.ask(
        "SELECT SUM(net), STDDEV(net), SUM(dose), STDDEV(dose) FROM trial WHERE day < '2025-02-01'"
    ).result
    assert {column.source for column in answer.columns} == {"encrypted"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "spelled",
    ["bill * (1 - 0.1)", "(1-.1)*bill", "((bill)) * (1 - 0.100)", 'trial."BILL" * (1 - 0.10)'],
)
def test_an_expression_that_equals_one_uses_it(world: World, schema_file: Path, spelled: str) -> None:
    world.put("ward", schema=schema_file)
    (row,) = world.ask(f"SELECT SUM({spelled}) FROM trial").result.rows
    assert Fraction(str(row[0])) == Fraction(str(truth(f"SELECT SUM({spelled}) FROM trial")[0][0]))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("a + b", "b + a", True),
        ("a * (b + c)", "(c + b) * a", True),
        ("a + b + c", "c + (b + a)", True),
        ("a + b + c", "a + (b + c)", False),
        ("a - b", "b - a", False),
        ("a / b", "b / a", False),
        ("a * 0.50", "0.5 * a", True),
        ("a * 1", "a * 1.0", False),
        ("a * 1e0", "a * 1.0", False),
        ("a * 10", "a * 1", False),
        ("a * 10.0", "a * 1.0", False),
        ("(a + b) * c", "a + b * c", False),
        ("a = b", "b = a", True),
        ("f(a, b)", "f(b, a)", False),
        ("'0.10'", "'0.1'", False),
    ],
)
def test_equal_expressions_have_one_spelling(one: str, other: str, same: bool) -> None:
    assert (canonical(expression_of(one)) == canonical(expression_of(other))) == same


def test_what_is_derived_later_has_a_name_too(world: World, schema_file: Path) -> None:
    world.put("ward", schema=schema_file)
    derive(world.tables, "trial", "bill * age", "weighted", Silent())
    (row,) = world.ask("SELECT SUM(weighted), SUM(age * bill) FROM trial").result.rows
    assert row[0] == row[1] == truth("SELECT SUM(bill * age) FROM trial")[0][0]
    for name, expression, said in (
        ("weighted", "age", "already"),
        ("other", "age * bill", "stored already"),
        ("other", "SUM(age)", "an aggregate cannot be here"),
        ("other", "length(ward)", "no encrypted column"),
        ("other", "ward || age", "only numbers have totals"),
    ):
        with pytest.raises(InputError, match=said):
            derive(world.tables, "trial", expression, name, Silent())


def test_what_is_derived_from_local_columns_is_not_stored(world: World, schema_file: Path) -> None:
    schema = load_schema(schema_file)
    columns = tuple(replace(each, kind=Kind.LOCAL) if each.name == "email" else each for each in schema.columns)
    assert [each.name for each in stored_schema(replace(schema, columns=columns), "t").derived] == [
        *("net", "dose", "day")
    ]
