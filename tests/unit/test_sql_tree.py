"""What is written of DuckDB's tree is the same tree to DuckDB again, with the same values and types."""

from __future__ import annotations

import re

import duckdb
import pytest

from cleave.sql.functions import AGGREGATE_NAMES
from cleave.sql.nodes import ColumnRef, Node, write
from cleave.sql.read import ExpressionReader, expression_of, require_faithful
from cleave.sql.refusals import Uncut
from cleave.table.duck import tree_of
from cleave.table.trees import Tree
from cleave_shared.errors import QueryRefused
from cleave_shared.plain_functions import ALLOWED_FUNCTIONS

EXPRESSIONS = """
a / 2; a // 2; a % 3; a ^ 2; a ** 2; 2 ** 3 ** 2; -2 ^ 2; - -a; -a - -b; a - (b - (d - 1)); (a + b) * (d - 1) / 2
1 - 2 - 3; 8 / 4 / 2; 8 // 3 * 2; a & 1 | 2; a << 1 + 1; ~a; @b; 1e308 * 10; 0.5; 1_000; a::DECIMAL(10,2); a::decimal
CAST(a AS VARCHAR); a::text; a::int8; a::real; a::double; a::hugeint; a::varchar(3); TRY_CAST(g AS INTEGER); b::int
round(b, 1)::varchar; cast(a as decimal(5,1)); sum(a)::decimal(20,3) / 3; g || 'x'; 'it''s'; $$abc$$
g LIKE 'a%'; g NOT LIKE 'a%'; g ILIKE 'A%'; g NOT ILIKE 'x'; g LIKE 'x$%' ESCAPE '$'; g SIMILAR TO 'a.*'; g GLOB 'a*'
g ~ 'a'; g !~ 'a'; g ~~ 'a%'; g ^@ 'a'; regexp_matches(g, 'a'); regexp_replace(g, 'a', 'b', 'g'); starts_with(g, 'a')
substring(g, 1, 2); g[1:2]; g[1]; g[-1]; left(g, 2); len(g); strpos(g, 'a'); position('a' in g); lpad(g, 3, '0')
date_trunc('month', dt); datetrunc('week', dt); extract(year from dt); extract(dow from dt); year(dt); dayofweek(dt)
dt + INTERVAL 3 DAY; dt + INTERVAL (a) DAY; dt - INTERVAL '1 month'; INTERVAL '3 days' + ts
time_bucket(INTERVAL '1 week', dt)
date_diff('day', dt, DATE '2020-01-01'); datediff('day', dt, dt); date_add(dt, INTERVAL 1 DAY); strftime(dt, '%Y-%m')
try_strptime(g, '%Y') IS NULL; epoch(ts); make_date(2020, 1, 1); ts::date = '2020-01-31'; ts > '2020-06-01'
time '10:00'
ts AT TIME ZONE 'UTC' IS NULL; dt BETWEEN DATE '2020-01-01' AND DATE '2021-01-01'; a NOT BETWEEN 1 AND 2; a IN (1, 2)
a NOT IN (1, 2); NOT a IN (1, 2); a IN (1); a IS NULL; a IS NOT NULL; NOT a IS NULL; a IS DISTINCT FROM 3
a IS NOT DISTINCT FROM 3; bo IS TRUE; bo IS NOT FALSE; bo IS UNKNOWN; NOT bo; not not bo; bo AND a > 1 OR b < 2
not (bo and a = 1); a = 1 is true; a == 1; a <> 1; a != 1; (a, b) = (1, 2); coalesce(a, 0); ifnull(a, 0); nullif(a, 0)
if(a > 1, 1, 2); CASE a WHEN 1 THEN 'x' ELSE 'y' END; CASE WHEN a > 1 THEN 'x' END; greatest(a, 3); least(a, b)
log(b + 9); ln(b + 9); log10(b + 9); log2(b + 9); log(2, b + 9); pow(b, 2); power(b, 2); ceil(b); ceiling(b); mod(a, 3)
sign(a); concat(g, 'x'); concat_ws('-', g, 'x'); trim(g); hash(g); md5(g); isnan(b); typeof(a); g COLLATE NOCASE = 'X'
[1, 2, 3]; {'a': 1}; list_contains([1, 2], a); map {'a': 1}; struct_pack(x := 1); list_transform([1], lambda x: x + a)
list_value(a, b)[1]; [a, 2][1]; row(1, 2); try(a / 0); format('{}', a); printf('%d', a); g = ANY(['a', 'b'])
sum(a); count(*); count(a); count(DISTINCT a); count(DISTINCT (g, a)); avg(a); mean(a); var_samp(a); variance(a)
stddev(a); median(a); quantile_cont(a, 0.5); quantile_cont(a, [0.25, 0.5]); quantile_disc(a, 0.5); mode(a)
string_agg(g, ',' ORDER BY a)
string_agg(DISTINCT g, '-' ORDER BY g); list(a ORDER BY b DESC NULLS FIRST); array_agg(a ORDER BY a); arg_max(a, b)
max_by(a, b); first(a ORDER BY a); any_value(g ORDER BY a); bool_and(bo); bit_xor(a); product(a); corr(a, b)
regr_slope(a, b); approx_count_distinct(a); histogram(a); max(a, 3); count_if(a > 1); countif(a > 1); geomean(b + 9)
kahan_sum(b); sum(a) FILTER (WHERE b > 1); count(*) FILTER (bo); sum(DISTINCT a) FILTER (WHERE b > 0)
sum(CASE WHEN g = 'x' THEN a END); sum(a * (1 - d) * 1.19); max(a) - min(a); epoch_ms(ts); interval '90' minute
"""

NO_SERVICE = """
g[1:2]; g[1]; g[-1]; list(a)[1]; list(a ORDER BY a)[1:2]; list_value(a, b)[1]; [a, 2][1]; (map {'a': 1}).a
a IN (SELECT 1); EXISTS (SELECT 1); sum(a) OVER (); #1; *; COLUMNS('a'); list_transform([1], lambda x: x + (SELECT 1))
a.upper(); main.sum(a); g = ANY(['a', 'b'])
"""


def split(text: str) -> list[str]:
    return [sql.strip() for line in text.strip().splitlines() for sql in line.split(";")]


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute(
        "CREATE TABLE t (a INTEGER, b DOUBLE, d DECIMAL(9,2), bo BOOLEAN, g VARCHAR, dt DATE, ts TIMESTAMP);"
        "INSERT INTO t VALUES (1, 2.5, 3.25, true, 'x', '2020-01-31', '2020-01-31 10:11:12'),"
        "(2, NULL, 1.1, false, 'ay-b', '2021-02-28', '2021-06-30 23:59:59.5'), (7, -3, NULL, NULL, 'aX$5', NULL, NULL),"
        "(100, 0.1, 99.99, true, '12', '1999-12-31', '1999-12-31'), (NULL, 7, 0, false, NULL, '2024-02-29', NULL)"
    )
    return connection


def read(sql: str) -> tuple[Tree, Node]:
    statement = f"SELECT {sql} FROM t"
    tree = tree_of(statement)["statements"][0]["node"]["select_list"][0]
    return tree, ExpressionReader(statement).node(tree)


@pytest.mark.parametrize("expression", sorted(set(split(EXPRESSIONS)) - set(split(NO_SERVICE))))
def test_an_expression_is_written_as_it_was_read(connection: duckdb.DuckDBPyConnection, expression: str) -> None:
    tree, node = read(expression)
    require_faithful([tree], [node])
    expected = connection.execute(f"SELECT {expression} FROM t")
    types, rows = [column[1] for column in expected.description], repr(expected.fetchall())
    got = connection.execute(f"SELECT {write(node)} FROM t")
    assert [column[1] for column in got.description] == types
    assert repr(got.fetchall()) == rows


@pytest.mark.parametrize("expression", split(NO_SERVICE))
def test_what_no_service_answers_is_refused(expression: str) -> None:
    with pytest.raises(Uncut):
        read(expression)


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_every_name_can_be_that_of_a_function_and_of_a_column(connection: duckdb.DuckDBPyConnection, step: int) -> None:
    keywords = {word for (word,) in connection.execute("SELECT keyword_name FROM duckdb_keywords()").fetchall()}
    words = {word for word in keywords | ALLOWED_FUNCTIONS | AGGREGATE_NAMES if word[0].isalpha()}
    for word in sorted(words - {"columns", "count_star", "unpack"})[::step]:
        tree, node = read(f'"{word}"("{word}", t."{word}")')
        require_faithful([tree], [node])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a > 1", "a >= 1"),
        ("a NOT IN (1, 2)", "a IN (1, 2)"),
        ("a IS NOT NULL", "a IS NULL"),
        ("'3'", "3"),
        ("a::DECIMAL(10,2)", "a::DECIMAL(10,3)"),
        ("INTERVAL 3 DAY", "INTERVAL 3 MONTH"),
        ("INTERVAL 3 DAY", "INTERVAL 4 DAY"),
        ("a - b - 1", "a - (b - 1)"),
        ("g LIKE 'a'", "g LIKE 'A'"),
        ("sum(a) FILTER (WHERE b > 1)", "sum(a)"),
        ("extract(year FROM dt)", "extract(month FROM dt)"),
        ("count(DISTINCT a)", "count(a)"),
    ],
)
def test_another_expression_is_noticed(one: str, other: str) -> None:
    with pytest.raises(QueryRefused):
        require_faithful([read(one)[0]], [read(other)[1]])


def test_brackets_and_spaces_alone_do_not_matter() -> None:
    def of(sql: str) -> str:
        return write(expression_of(sql))

    assert of("(a + 1)") == of("a+1") == of("((a) + (1))")
    assert of("a - (b - c)") != of("(a - b) - c")
    assert of("'X'") != of("'x'")


def test_a_tree_with_other_operands_is_written_with_them() -> None:
    for sql in (
        "CASE WHEN a THEN b ELSE d END",
        "sum(DISTINCT a ORDER BY b DESC NULLS FIRST) FILTER (WHERE d)",
        "a BETWEEN b AND d",
        "a COLLATE NOCASE",
        "list_transform([a], lambda x: x + b)",
        "try(CAST(a AS STRUCT(b INTEGER, c VARCHAR[3])[]))",
    ):
        node = expression_of(sql)
        renamed = node.replaced(lambda each: ColumnRef((each.name * 2,)) if isinstance(each, ColumnRef) else None)
        assert write(renamed) == re.sub(r'"([abd])"', r'"\1\1"', write(node).replace('"b" INTEGER', "field")).replace(
            "field", '"b" INTEGER'
        )
        assert [each.name for each in renamed.find(ColumnRef)] == [each.name * 2 for each in node.find(ColumnRef)]


@pytest.mark.parametrize(("before", "after"), [("1 IN (", ")"), ("COALESCE(", ", 1)"), ("1 IN (2, COALESCE(1, ", "))")])
def test_expressions_within_each_other_are_written_in_time(before: str, after: str) -> None:
    """40 of them: 2^40 steps where each is written twice."""
    text = before * 40 + "x" + after * 40
    written = write(expression_of(text))
    assert write(expression_of(written)) == written
