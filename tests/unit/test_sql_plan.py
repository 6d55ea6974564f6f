"""What a plan holds, and what is refused with which reason."""

from __future__ import annotations

import duckdb
import pytest

from cleave.sql import functions
from cleave.sql.plan import Output
from cleave.sql.planner import plan_query
from cleave.table.functions import CLOCK, UNSTEADY
from cleave.table.schema import Schema
from cleave_shared.errors import QueryRefused
from tests.unit.simulate import schema


@pytest.fixture(scope="module")
def patients() -> Schema:
    return schema(
        ward="plain VARCHAR",
        **{"Bed No": "plain INTEGER"},
        day="plain DATE",
        age="encrypted BIGINT",
        bill="encrypted DECIMAL(9,2)",
        weight="encrypted DOUBLE",
        smoker="encrypted BOOLEAN",
        ssn="sealed VARCHAR",
        note="local VARCHAR",
    )


def test_a_query_is_cut_in_three(patients: Schema) -> None:
    plan = plan_query(
        'SELECT WARD, avg(AGE) / 2 AS half, max("bed no"), count(*) FROM Patients WHERE year(day) > 2000 '
        "GROUP BY ward HAVING count(*) > 5 ORDER BY half DESC LIMIT 3 OFFSET 1",
        patients,
        "patients",
    )
    assert plan.where == 'year("day") > 2000'
    assert plan.keys == ('"ward"',)
    assert plan.key_types == ("VARCHAR",)
    assert plan.plain_columns == ("ward", "Bed No", "day")
    (argument,) = plan.arguments
    assert (argument.sql, argument.type, argument.decimals, argument.columns) == ('"age"', "BIGINT", 0, ("age",))
    assert not argument.counted
    assert [each.aggregate.names[0] for each in plan.encrypted] == ["AVG"]
    assert [each.parts for each in plan.plain] == [('max("Bed No")',)]
    assert plan.outputs == (
        Output("ward", "key"),
        Output("half", "encrypted"),
        Output('max("bed no")', "plain"),
        Output("count_star()", "plain"),
    )
    assert [final.sql for final in plan.finals] == ["k0", "e0 / 2", "p0", "n"]
    assert plan.having == "n > 5"
    assert plan.order_by == ("e0 / 2 DESC NULLS LAST",)
    assert (plan.limit, plan.offset) == (3, 1)


def test_a_selection_by_an_encrypted_column_stays_here_and_takes_the_plain_aggregates_along(patients: Schema) -> None:
    plan = plan_query(
        'SELECT ward, count(*), sum("bed no"), avg(age) FROM patients WHERE age > 30 GROUP BY ward',
        patients,
        "patients",
    )
    assert (plan.where, plan.keys, plan.selecting) == ('"age" > 30', ('"ward"',), ("ward", "age"))
    assert (plan.plain_columns, plan.plain, plan.asks_plain) == ((), (), False)
    assert [argument.sql for argument in plan.arguments] == ['"Bed No"', '"age"']
    assert [output.source for output in plan.outputs] == ["key", "local", "encrypted", "encrypted"]


def test_a_question_about_encrypted_columns_alone_sends_no_plain_column(patients: Schema) -> None:
    plan = plan_query("SELECT count(*), sum(age) FROM patients", patients, "patients")
    assert (plan.where, plan.keys, plan.plain_columns, plan.plain) == (None, (), (), ())


def test_equal_arguments_are_encrypted_once_for_all_their_aggregates(patients: Schema) -> None:
    plan = plan_query(
        "SELECT sum(age*2), avg( (age) * 2 ), VAR_SAMP(AGE * 2) + sum(age * 2), count(age) FROM patients",
        patients,
        "patients",
    )
    assert [argument.sql for argument in plan.arguments] == ['"age" * 2', '"age"']
    assert [argument.counted for argument in plan.arguments] == [False, True]
    assert [each.arguments for each in plan.encrypted] == [(0,), (0,), (0,), (1,)]


@pytest.mark.parametrize(
    ("aggregate", "argument", "type_", "decimals"),
    [
        ("sum(age) FILTER (WHERE smoker)", 'CASE WHEN "smoker" THEN "age" END', "BIGINT", 0),
        ("count(*) FILTER (WHERE age > 50)", 'CASE WHEN "age" > 50 THEN 1 END', "INTEGER", 0),
        ('sum("Bed No") FILTER (WHERE smoker)', 'CASE WHEN "smoker" THEN "Bed No" END', "INTEGER", 0),
        ("sum(smoker)", '"smoker"', "BOOLEAN", 0),
        ("sum(bill * 2)", '"bill" * 2', "DECIMAL(18,2)", 2),
        ("avg(age / 2)", '"age" / 2', "DOUBLE", None),
        ("count(age::VARCHAR)", 'CAST("age" AS VARCHAR)', "VARCHAR", None),
        ("product(CASE WHEN ward = 'x' THEN weight END)", 'CASE WHEN "ward" = \'x\' THEN "weight" END', "DOUBLE", None),
    ],
)
def test_the_client_computes_the_argument(
    patients: Schema, aggregate: str, argument: str, type_: str, decimals: int | None
) -> None:
    plan = plan_query(f"SELECT {aggregate} FROM patients", patients, "patients")
    assert [(each.sql, each.type, each.decimals) for each in plan.arguments] == [(argument, type_, decimals)]
    assert plan.plain_columns == ()


REFUSED = {
    # what the trust model cannot answer
    "SELECT count(*) FROM patients ORDER BY age": ("'age' is encrypted", "SUM(age)"),
    "SELECT age FROM patients": ("'age' is encrypted", "AVG(age)"),
    "SELECT count(*) FROM patients HAVING age > 3": ("'age' is encrypted", "SUM(age)"),
    "SELECT min(ward) FROM patients WHERE age > 3": ("MIN over rows that 'age' selects", "COUNT, SUM, AVG"),
    "SELECT bill, count(DISTINCT ward) FROM patients GROUP BY ALL": ("over rows that 'bill' selects", "SUM"),
    "SELECT min(age) FROM patients": ("MIN over 'age'", "COUNT, SUM, AVG"),
    "SELECT median(bill) FROM patients": ("compared", "COUNT, SUM, AVG"),
    "SELECT quantile_cont(bill, 0.5) FROM patients": ("compared", "SUM"),
    "SELECT mode(age) FROM patients": ("compared", "SUM"),
    "SELECT arg_max(ward, age) FROM patients": ("ARG_MAX over 'age'", "SUM"),
    "SELECT count(DISTINCT age) FROM patients": ("COUNT(DISTINCT", "SUM"),
    "SELECT sum(DISTINCT age) FROM patients": ("SUM(DISTINCT", "SUM"),
    "SELECT approx_count_distinct(age) FROM patients": ("equal values", "SUM"),
    "SELECT string_agg(age, ',') FROM patients": ("STRING_AGG over 'age'", "SUM"),
    "SELECT corr(age) FROM patients": ("CORR over 'age', which is encrypted: takes 2 arguments", None),
    "SELECT max(ssn) FROM patients": ("'ssn' is sealed", "schema"),
    "SELECT count(*) FROM patients WHERE note = 'x'": ("'note' is local", "schema"),
    "SELECT string_agg(ward, ',') FROM patients": ("order of rows", "ORDER BY"),
    "SELECT first(ward) FROM patients": ("order of rows", "ANY_VALUE"),
    # types
    "SELECT avg(smoker) FROM patients": ("avg(BOOLEAN)", None),
    "SELECT sum(age::VARCHAR) FROM patients": ("VARCHAR", None),
    "SELECT product(age::DATE) FROM patients": ("", None),
    # names
    "SELECT sum(agee) FROM patients": ("no column 'agee'", "did you mean 'age'?"),
    'SELECT sum(age) FROM patients WHERE ward = "north"': ("no column 'north'", "did you mean"),
    "SELECT sum(age) FROM patient": ("no table 'patient'", "FROM patients"),
    "SELECT sum(x.age) FROM patients": ("x.age", "alone"),
    "SELECT nosuch(ward) FROM patients GROUP BY ALL": ("no function NOSUCH", "did you mean"),
    # groups
    "SELECT ward, sum(age) FROM patients": ("'ward' is neither grouped", "ANY_VALUE"),
    "SELECT ward FROM patients": ("single rows", "GROUP BY ALL"),
    "SELECT sum(sum(age)) FROM patients": ("inside another", None),
    "SELECT sum(age) FROM patients WHERE sum(age) > 1": ("WHERE cannot hold an aggregate", "HAVING"),
    "SELECT sum(age) FROM patients GROUP BY 2": ("GROUP BY: must be the number of a select item, 1 to 1", None),
    "SELECT sum(age) FROM patients ORDER BY 0": ("ORDER BY: must be the number of a select item, 1 to 1", None),
    # the rest of SQL
    "SELECT * FROM patients": ("single rows", "name the aggregates"),
    "SELECT COLUMNS('a.*') FROM patients": ("COLUMNS()", None),
    "SELECT DISTINCT ward FROM patients": ("DISTINCT", "GROUP BY ALL"),
    "SELECT sum(age) OVER () FROM patients": ("window", "GROUP BY"),
    "SELECT sum(age) FROM patients JOIN other USING (ward)": ("join", "one table"),
    "SELECT sum(age) FROM patients, other": ("join", "one table"),
    "WITH x AS (SELECT 1) SELECT * FROM x": ("WITH", "one table"),
    "SELECT sum(age) FROM (SELECT * FROM patients)": ("subquery", None),
    "SELECT sum(age) FROM patients WHERE ward = (SELECT 'x')": ("subquery", "literal"),
    "SELECT sum(age) FROM patients WHERE EXISTS (SELECT 1)": ("subquery", "literal"),
    "SELECT sum(age) FROM patients WHERE ward IN (SELECT 'x')": ("subquery", "literal"),
    "SELECT sum(age) FROM patients UNION SELECT 1": ("UNION", "one at a time"),
    "SELECT ward FROM patients GROUP BY ward QUALIFY true": ("QUALIFY", "HAVING"),
    "SELECT sum(age) FROM patients USING SAMPLE 10": ("SAMPLE", None),
    "SELECT sum(age) FROM patients TABLESAMPLE 10%": ("SAMPLE", None),
    "SELECT sum(age) FROM read_csv('x.csv')": ("FROM must name", "FROM patients"),
    "SELECT sum(age) FROM 'patients.csv'": ("no table", "FROM patients"),
    "SELECT sum(age) FROM other.patients": ("only name the table", "FROM patients"),
    "SELECT sum(age)": ("no FROM", "FROM patients"),
    "SELECT sum(age) FROM patients LIMIT 10%": ("LIMIT", "number"),
    "SELECT sum(age) FROM patients LIMIT ward": ("LIMIT is not a whole number", None),
    "SELECT sum(age) FROM patients; SELECT 1": ("2 statements", None),
    "DELETE FROM patients": ("one SELECT", None),
    "COPY patients TO 'x'": ("one SELECT", None),
    "SELECT sum(age) FROM patients WHERE ward = ?": ("parameter", "value itself"),
    "SELECT sum(age) FROM patients WHERE ward = $1": ("parameter", "value itself"),
    "SELECT sum(age) FROM patients WHERE random() < 0.5": ("random()", "literal"),
    "SELECT sum(age) FROM patients WHERE day < current_timestamp": ("current_timestamp", "literal"),
    "SELECT sum(age) FROM patients WHERE day < now()": ("now()", "literal"),
    "SELECT unnest([1, 2]), sum(age) FROM patients": ("unnest()", None),
    "SELECT age.sum() FROM patients": ("after a dot", "function(column)"),
    "SELECT list(ward ORDER BY ward)[1] FROM patients": ("an element by its place", "list_extract"),
    "SELECT sum(age) FROM patients WHERE": ("syntax error", None),
    "SELECT sum(age FROM patients": ("syntax error at line 1, column 16", None),
    "SELECT 'x": ("does not end", None),
    "": ("empty", None),
    "SELECT count(*) FROM patients WHERE " + "(" * 3000 + "true" + ")" * 3000: ("nested too deeply", None),
    "SELECT " + "1," * 20_000: ("characters", None),
}


@pytest.mark.parametrize("sql", REFUSED)
def test_what_no_service_can_answer_is_refused_with_the_alternative(patients: Schema, sql: str) -> None:
    reason, hint = REFUSED[sql]
    with pytest.raises(QueryRefused) as caught:
        plan_query(sql, patients, "patients", cloud_only=True)
    assert reason in caught.value.message
    if hint is not None:
        assert hint in str(caught.value.hint)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT nosuch('secret', ward) FROM patients GROUP BY ALL",
        "SELECT sum('secret') FROM patients",
        "SELECT count(*) FROM patients WHERE ward = 'secret' AND day > 'secret'::DATE + nosuch",
        "SELECT nosuch(CAST('secret' AS INTEGER)) FROM patients GROUP BY ALL",
        "SELECT sum(age FROM patients WHERE ward = 'secret'",
        "SELECT count(*) FROM patients WHERE ward = 'secret",
    ],
)
def test_a_refusal_does_not_quote_literals(patients: Schema, sql: str) -> None:
    with pytest.raises(QueryRefused) as caught:
        plan_query(sql, patients, "patients")
    assert "secret" not in f"{caught.value.message} {caught.value.hint}"


def test_odd_table_and_column_names_are_quoted() -> None:
    odd = schema(**{'a "b" c': "encrypted BIGINT", "select": "plain VARCHAR"})
    plan = plan_query(
        'SELECT "select", sum("A ""B"" C") FROM "the groups.2024-01" GROUP BY 1', odd, "the groups.2024-01"
    )
    assert plan.keys == ('"select"',)
    assert plan.arguments[0].sql == '"a ""b"" c"'


def test_names_of_functions_are_those_of_duckdbs_catalogue() -> None:
    with duckdb.connect() as connection:
        known = connection.execute(
            "SELECT function_name, function_type, stability, parameters FROM duckdb_functions() "
            "WHERE function_type IN ('aggregate', 'scalar', 'macro')"
        ).fetchall()
    aggregates = {name for name, kind, *_ in known if kind == "aggregate"}
    # of functions with arguments DuckDB 2.0.1 also names those that read the time zone, which is UTC here
    unsteady = {
        name
        for name, kind, steady, parameters in known
        if kind == "scalar" and (steady == "VOLATILE" or (steady == "CONSISTENT_WITHIN_QUERY" and not parameters))
    }
    everything = {name for name, *_ in known}
    assert aggregates <= functions.AGGREGATE_NAMES
    assert everything >= functions.AGGREGATE_NAMES
    assert unsteady <= UNSTEADY | CLOCK
    for names in (
        functions.FOLLOWS_ROW_ORDER,
        functions.SAME_IN_ANY_ORDER,
        functions.INTERPOLATES,
        functions.COMPARES_VALUES,
    ):
        assert names | functions.INTERPOLATES <= functions.AGGREGATE_NAMES


@pytest.mark.parametrize(
    ("table", "spelled"),
    [
        ("trial", "trial"),
        ("größe", "größe"),
        ("my data-2024", '"my data-2024"'),
        ("a.b", '"a.b"'),
        ("semi", '"semi"'),
        ("select", '"select"'),
        ('a"b', '"a""b"'),
        ("2024", '"2024"'),
        ("--", '"--"'),
    ],
)
def test_a_wrong_table_is_told_the_right_one_as_it_must_be_written(table: str, spelled: str, patients: Schema) -> None:
    with pytest.raises(QueryRefused) as refused:
        plan_query("SELECT COUNT(*) FROM other", patients, table)
    assert str(refused.value.hint).endswith(f"FROM {spelled}")
    assert plan_query(f"SELECT COUNT(*) FROM {spelled}", patients, table).table == table


def test_an_unknown_column_is_told_those_there_are() -> None:
    with pytest.raises(QueryRefused) as refused:
        plan_query("SELECT SUM(zzz) FROM t", schema(ward="plain VARCHAR", bill="encrypted DOUBLE"), "t")
    assert refused.value.hint == "the schema names ward, bill, and nothing else"


def test_a_syntax_error_may_be_the_table_without_its_quotes(patients: Schema) -> None:
    for table in ("my data-2024", "semi"):
        with pytest.raises(QueryRefused) as refused:
            plan_query(f"SELECT COUNT(*) FROM {table}", patients, table)
        assert "quotes" in str(refused.value.hint) or f'"{table}"' in str(refused.value.hint)


def test_rows_can_be_counted_though_no_column_is_for_asking() -> None:
    assert plan_query("SELECT COUNT(*) FROM t", schema(note="sealed VARCHAR"), "t").finals[0].sql == "n"
