"""What a gateway user without rows may ask: a line per thing that is answered, and one per thing that is not."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from decimal import Decimal, localcontext
from typing import Final

import pytest

from cleave.disclosure import askable
from cleave.disclosure.askable import FITTING, G1, Askable
from cleave.sql.plan import QueryPlan
from cleave.sql.planner import plan_query
from cleave.sql.read import read_statement
from cleave.table.derived import checked
from cleave.table.schema import Column, Kind
from cleave_shared.errors import QueryRefused
from tests.unit.simulate import schema

COLUMNS: Final = schema(
    patient="sealed VARCHAR",
    ward="plain VARCHAR",
    year="plain INTEGER",
    day="plain DATE",
    seen="plain TIMESTAMP",
    insured="plain BOOLEAN",
    price="plain DECIMAL(9,2)",
    bill="encrypted DECIMAL(9,2)",
    paid="encrypted DECIMAL(9,2)",
    age="encrypted INTEGER",
    small="encrypted TINYINT",
    big="encrypted BIGINT",
    huge="sealed DECIMAL(38,2)",
    level="encrypted DOUBLE",
    name="sealed VARCHAR",
)
VISITS: Final = replace(
    COLUMNS,
    derived=(
        checked("net", "bill - paid", COLUMNS.find),
        checked("capped", "least(bill, 100)", COLUMNS.find),
        checked("same", "bill", COLUMNS.find),
        checked("twice", "bill * 2", COLUMNS.find),
    ),
)
BY: Final = ("ward", "year", "day", "seen", "insured", "price", "patient")
QUESTIONS: Final = Askable("visits", VISITS, BY, ("patient",))

FIGURES: Final = {
    "count": "count(age)",
    "sum": "SUM(bill)",
    "avg": "Avg(bill)",
    "mean": "mean(bill)",
    "var_pop": "var_pop(bill)",
    "var_samp": "var_samp(bill)",
    "variance": "variance(age)",
    "stddev": "stddev(bill)",
    "stddev_pop": "stddev_pop(level)",
    "stddev_samp": "stddev_samp(small)",
}
STEPS: Final = {"+": "SUM(bill + paid + 2)", "-": "SUM(-bill - (3 - paid))", "*": "SUM(2 * bill - 0.5 * paid)"}
COMPARISONS: Final = {
    "=": "ward = 'A'",
    "<>": "year <> 2024",
    "<": "day < DATE '2024-01-31'",
    "<=": "'2024-01-31' <= day",
    ">": "price > -1.5",
    ">=": "seen >= TIMESTAMP '2024-01-31 12:00:00'",
    "IN": "ward NOT IN ('A', 'B', NULL)",
    "BETWEEN": "year BETWEEN 2020 AND CAST('2024' AS INTEGER)",
    "~~": "ward LIKE 'A%' AND ward LIKE CAST('%b' AS VARCHAR)",
    "!~~": "ward NOT LIKE '%x_'",
}
CONNECTIVES: Final = {
    "AND": "ward = 'A' AND year = 2024",
    "OR": "ward = 'A' OR insured = true",
    "NOT": "NOT (ward = 'A')",
}
TESTS: Final = {"IS_NULL": "ward IS NULL", "IS_NOT_NULL": "day IS NOT NULL"}
ANSWERED: Final = (
    *(f"SELECT {each} FROM visits" for each in (*FIGURES.values(), *STEPS.values())),
    *(f"SELECT COUNT(*) FROM visits WHERE {each}" for each in (*COMPARISONS.values(), *CONNECTIVES.values())),
    *(f"SELECT COUNT(*) FROM visits WHERE {each}" for each in TESTS.values()),
    "SELECT COUNT(*), COUNT(1), SUM(1), COUNT(DISTINCT patient) FROM visits",
    "SELECT ward, COUNT(DISTINCT visits.patient) FROM visits GROUP BY ward",
    "SELECT v.ward AS w, SUM(v.bill) AS bill FROM visits AS v GROUP BY w ORDER BY bill DESC LIMIT 3 OFFSET 1",
    "SELECT WARD, sum(BILL) FROM VISITS GROUP BY 1 ORDER BY 2",
    "SELECT ward, year, SUM(bill) FROM visits GROUP BY ALL ORDER BY ALL",
    "SELECT ward FROM visits GROUP BY ward HAVING COUNT(*) > 20",
    "SELECT ward, insured, SUM(bill), GROUPING(ward) FROM visits GROUP BY CUBE (ward, insured)",
    "SELECT ward, COUNT(*) FROM visits GROUP BY GROUPING SETS ((ward), ())",
    "SELECT upper(ward), 100 * SUM(bill) / SUM(paid) AS x, round(AVG(age), 1) FROM visits GROUP BY ward ORDER BY x",
    "SELECT CASE WHEN COUNT(*) > 9 THEN CAST(AVG(bill) AS INTEGER) END FROM visits",
    "SELECT coalesce(SUM(bill), 0), SUM(bill) IS NULL FROM visits HAVING SUM(bill) BETWEEN 1 AND 2",
    "SELECT SUM(net) FROM visits",
    "SELECT COUNT(*) FROM main.visits WHERE visits.ward = 'A'",
    "SELECT SUM(small * 1000::INTEGER), SUM(big * 1000::DECIMAL(4,0)) FROM visits",
    "SELECT SUM(2147483520 + small), SUM(small - 2147483520), SUM(2147483519 - small) FROM visits",
    "SELECT COUNT(huge), SUM(NULL), AVG((1 + 2) * (bill - 3)) FROM visits",
    "SELECT SUM(age + NULL), SUM(twice), AVG(-bill), VAR_POP(same), STDDEV(Visits.BILL) FROM visits",
    "SELECT COUNT(*) FROM visits WHERE day = TIMESTAMP '2024-01-31 00:00:00'",
    "SELECT COUNT(*) FROM visits WHERE seen > DATE '2024-01-31' AND price = 5",
    "SELECT COUNT(*) FROM visits WHERE year = '2024'",
    "SELECT COUNT(*) FROM visits WHERE year IN (+CAST('5' AS INTEGER), -CAST('5' AS INTEGER))",
    "FROM visits SELECT COUNT(*)",
)
BY_G1: Final = (
    *(f"SELECT {each}(bill) FROM visits" for each in ("min", "max", "median", "mode", "first", "any_value", "list")),
    *(f"SELECT {each}(bill) FROM visits" for each in ("product", "entropy", "skewness", "mad", "sem", "favg", "fsum")),
    *(f"SELECT {each}(age) FROM visits" for each in ("bit_xor", "bit_or", "histogram", "approx_count_distinct")),
    "SELECT string_agg(ward, ',') FROM visits",
    "SELECT arg_max(bill, age) FROM visits",
    "SELECT quantile_cont(bill, 0.5) FROM visits",
    "SELECT corr(bill, paid) FROM visits",
    "SELECT covar_pop(bill, paid) FROM visits",
    "SELECT count_if(year = 2024) FROM visits",
    "SELECT bool_or(insured) FROM visits",
    "SELECT SUM(DISTINCT bill) FROM visits",
    "SELECT COUNT(DISTINCT ward) FROM visits",
    "SELECT COUNT(DISTINCT upper(patient)) FROM visits",
    "SELECT ward, COUNT(DISTINCT patient) FROM visits GROUP BY ROLLUP (ward)",
    "SELECT COUNT(*) FILTER (WHERE ward = 'A') FROM visits",
    "SELECT SUM(bill) FILTER (WHERE bill > 10) FROM visits",
    "SELECT SUM(bill ORDER BY bill) FROM visits",
    "SELECT SUM(x := bill) FROM visits",
    "SELECT SUM(bill, paid) FROM visits",
    "SELECT SUM() FROM visits",
    "SELECT struct_pack(a := SUM(bill)) FROM visits",
    "SELECT abs(DISTINCT SUM(bill)) FROM visits",
    "SELECT abs(SUM(bill) ORDER BY 1) FROM visits",
    "SELECT abs(SUM(bill)) FILTER (WHERE ward = 'A') FROM visits",
    "SELECT SUM(bill * (patient = 'P17')::INT) FROM visits",
    "SELECT SUM(CASE WHEN patient = 'P17' THEN bill END) FROM visits",
    "SELECT SUM(if(age > 90, bill, 0)) FROM visits",
    "SELECT SUM(bill * paid) FROM visits",
    "SELECT CORR(bill, paid) FROM visits",
    "SELECT COVAR_POP(bill, paid) FROM visits",
    "SELECT VAR_POP(bill + paid) - VAR_POP(bill) - VAR_POP(paid) FROM visits",
    "SELECT STDDEV(bill - 0 * paid) FROM visits",
    "SELECT VAR_SAMP(net) FROM visits",
    "SELECT SUM(bill * bill) FROM visits",
    "SELECT SUM(bill / 2) FROM visits",
    "SELECT COUNT('5') FROM visits",
    "SELECT SUM(bill + '5') FROM visits",
    "SELECT COUNT(CAST('5x' AS TINYINT)) FROM visits",
    "SELECT SUM(age % 2) FROM visits",
    "SELECT SUM(age // 2) FROM visits",
    "SELECT SUM(age & 1) FROM visits",
    "SELECT SUM(abs(age)) FROM visits",
    "SELECT SUM(greatest(age, 90)) FROM visits",
    "SELECT SUM(coalesce(bill, 0)) FROM visits",
    "SELECT SUM(bill::BIGINT) FROM visits",
    "SELECT SUM(TRY_CAST(name AS INTEGER)) FROM visits",
    "SELECT SUM(insured::INT) FROM visits",
    "SELECT SUM(insured) FROM visits",
    "SELECT SUM(bill > 5) FROM visits",
    "SELECT COUNT(NULLIF(age, 90)) FROM visits",
    "SELECT COUNT(name) FROM visits",
    "SELECT COUNT(patient) FROM visits",
    "SELECT AVG(day) FROM visits",
    "SELECT SUM(capped) FROM visits",
    "SELECT SUM(list_extract([bill], 1)) FROM visits",
    "SELECT list_transform([SUM(bill)], lambda x: x + 1) FROM visits",
    "SELECT weighted_avg(bill, age) FROM visits",
    "SELECT SUM((bill + 1) * (paid + 1)) FROM visits",
    "SELECT SUM((1 - bill) * (1 - paid)) FROM visits",
    "SELECT SUM(2 * (paid - 1) * (2 + bill)) FROM visits",
    # variances of anything but one stored number
    *(
        f"SELECT VARIANCE({each}) FROM visits"
        for each in ("bill + 1", "2 * (bill + 1) - 1", "2 * bill", "-bill", "+age")
    ),
    *(f"SELECT VAR_POP({each}) FROM visits" for each in ("bill * (1 - 3) - 2", "age + 4", "NULL", "bill + 0", "twice")),
    *(f"SELECT STDDEV({each}) FROM visits" for each in ("1 - bill", "2 * bill - 0.5 * bill", "big * 1 - age", "5")),
    *(f"SELECT {each}(2 * bill) FROM visits" for each in ("var_samp", "stddev_pop", "stddev_samp")),
    "SELECT STDDEV(small + NULL) FROM visits",
    # a step that rounds
    "SELECT SUM(level + 1) FROM visits",
    "SELECT SUM(level * 2) FROM visits",
    "SELECT SUM(-level) FROM visits",
    "SELECT SUM(bill * 1e0) FROM visits",
    "SELECT SUM(age + 1e300) FROM visits",
    "SELECT SUM(1e-1) FROM visits",
    # rows
    "SELECT ward FROM visits",
    "SELECT bill FROM visits",
    "SELECT 1 FROM visits",
    "SELECT ward, year, COUNT(*) FROM visits GROUP BY ward",
    "SELECT SUM(bill) FROM visits GROUP BY ward ORDER BY name",
    "SELECT SUM(bill) FROM visits HAVING name = 'x'",
)
OVERFLOWING: Final = (  # a step that some value overflows
    "SELECT SUM(2147483521 + small) FROM visits",
    "SELECT SUM(small - 2147483521) FROM visits",
    "SELECT SUM(2147483520 - small) FROM visits",
    "SELECT SUM(small * 100) FROM visits",
    "SELECT SUM(age + 2147483647) FROM visits",
    "SELECT SUM(big * 1000) FROM visits",
    "SELECT SUM(big + 170141183460469231731687303715884105727) FROM visits",
    "SELECT SUM(big * 1::HUGEINT) FROM visits",
    "SELECT SUM(huge) FROM visits",
    "SELECT AVG(huge * 10) FROM visits",
)
KEYS: Final = "ward, year, day, seen, insured, price"
SHAPE: Final = (  # other clauses
    "SELECT * FROM visits",
    "SELECT COLUMNS('b.*') FROM visits",
    "SELECT DISTINCT ward FROM visits GROUP BY ward",
    "SELECT DISTINCT ON (ward) COUNT(*) FROM visits GROUP BY ward",
    "SELECT COUNT(*) OVER () FROM visits",
    "SELECT SUM(SUM(bill)) OVER () FROM visits GROUP BY ward",
    "SELECT ward, COUNT(*) FROM visits GROUP BY ward QUALIFY row_number() OVER () = 1",
    "SELECT COUNT(*) FROM visits USING SAMPLE 10%",
    "SELECT COUNT(*) FROM visits TABLESAMPLE 5 ROWS",
    "SELECT COUNT(*) FROM visits LIMIT 50%",
    "SELECT COUNT(*) FROM visits LIMIT (SELECT COUNT(*) FROM visits)",
    "WITH a AS (SELECT SUM(bill) AS s FROM visits) SELECT s FROM a",
    "SELECT s FROM (SELECT SUM(bill) AS s FROM visits)",
    "SELECT (SELECT SUM(bill) FROM visits)",
    "SELECT COUNT(*) FROM visits a JOIN visits b USING (ward)",
    "SELECT COUNT(*) FROM visits a, visits b",
    "SELECT COUNT(*) FROM visits UNION ALL SELECT COUNT(*) FROM visits",
    "SELECT COUNT(*) FROM visits AS v(a, b)",
    "SELECT COUNT(*) FROM visits WHERE ward IN (SELECT ward FROM visits)",
    "SELECT COUNT(*) FROM visits WHERE EXISTS (SELECT 1 FROM visits)",
    "SELECT COUNT(*) FROM visits WHERE ward = ANY(['A'])",
    "PIVOT visits ON ward IN ('A') USING SUM(bill)",
)
GROUPING: Final = (  # other columns, and what is computed from columns
    "SELECT COUNT(*) FROM visits WHERE name = 'x'",
    "SELECT COUNT(*) FROM visits WHERE bill > 10",
    "SELECT COUNT(*) FROM visits WHERE patient = 'P17'",
    "SELECT COUNT(*) FROM visits WHERE patient IS NULL",
    "SELECT COUNT(*) FROM visits WHERE ward = 'A' OR patient LIKE 'P%'",
    "SELECT COUNT(*) FROM visits WHERE 1 = 1",
    "SELECT COUNT(*) FROM visits WHERE ward COLLATE NOCASE = 'a'",
    "SELECT COUNT(*) FROM visits WHERE upper(ward) = 'A'",
    "SELECT COUNT(*) FROM visits WHERE year(day) = 2024",
    "SELECT COUNT(*) FROM visits WHERE -year = 1",
    "SELECT COUNT(*) FROM visits WHERE year + 1 = 2025",
    "SELECT COUNT(*) FROM visits WHERE year / 0 = 1",
    "SELECT COUNT(*) FROM visits WHERE ward::INTEGER = 1",
    "SELECT COUNT(*) FROM visits WHERE TRY_CAST(ward AS INTEGER) = 1",
    "SELECT COUNT(*) FROM visits WHERE (ward, year) = ('A', 2024)",
    "SELECT patient, COUNT(*) FROM visits GROUP BY patient",
    "SELECT COUNT(*) FROM visits GROUP BY bill",
    "SELECT bill, COUNT(*) FROM visits GROUP BY ALL",
    "SELECT year % 2, COUNT(*) FROM visits GROUP BY 1",
    "SELECT COUNT(*) FROM visits GROUP BY upper(ward)",
    "SELECT COUNT(*) FROM visits GROUP BY CASE WHEN ward = 'A' THEN 1 END",
    "SELECT net AS n, COUNT(*) FROM visits GROUP BY n",
)
FILTERING: Final = (  # other conditions
    "SELECT COUNT(*) FROM visits WHERE ward IN ['A']",
    "SELECT COUNT(*) FROM visits WHERE TRUE",
    "SELECT COUNT(*) FROM visits WHERE insured",
    "SELECT COUNT(*) FROM visits WHERE NOT insured",
    "SELECT COUNT(*) FROM visits WHERE insured IS TRUE",
    "SELECT COUNT(*) FROM visits WHERE ward IS DISTINCT FROM 'A'",
    "SELECT COUNT(*) FROM visits WHERE ward ILIKE 'a%'",
    "SELECT COUNT(*) FROM visits WHERE ward LIKE 'A#' ESCAPE '#'",
    "SELECT COUNT(*) FROM visits WHERE ward SIMILAR TO 'A.*'",
    "SELECT COUNT(*) FROM visits WHERE ward GLOB 'A*'",
    "SELECT COUNT(*) FROM visits WHERE ward ^@ 'A'",
    "SELECT COUNT(*) FROM visits WHERE regexp_matches(ward, '(')",
    "SELECT COUNT(*) FROM visits WHERE CASE WHEN ward = 'A' THEN 'x'::INTEGER = 1 END",
    "SELECT COUNT(*) FROM visits WHERE year LIKE '2%'",
)
TYPED: Final = {  # constants of another type, so that the column would be cast, and what is no constant
    ("ward", "VARCHAR"): (
        "SELECT COUNT(*) FROM visits WHERE ward = insured",
        "SELECT COUNT(*) FROM visits WHERE ward = ward",
        "SELECT COUNT(*) FROM visits WHERE ward = 5",
        "SELECT COUNT(*) FROM visits WHERE ward IN ('A', 5)",
        "SELECT COUNT(*) FROM visits WHERE CAST('2024' AS INTEGER) = ward",
    ),
    ("year", "INTEGER"): (
        "SELECT COUNT(*) FROM visits WHERE year = abs(5)",
        "SELECT COUNT(*) FROM visits WHERE year = -year",
        "SELECT COUNT(*) FROM visits WHERE year = 5.5",
        "SELECT COUNT(*) FROM visits WHERE year = '5x'",
        "SELECT COUNT(*) FROM visits WHERE year = 3000000000",
        "SELECT COUNT(*) FROM visits WHERE year BETWEEN 1 AND '5x'",
        "SELECT COUNT(*) FROM visits WHERE year = TRY_CAST('x' AS INTEGER)",
    ),
    ("day", "DATE"): (
        "SELECT COUNT(*) FROM visits WHERE day = current_date",
        "SELECT COUNT(*) FROM visits WHERE day > DATE '2024-01-31' - INTERVAL 3 DAY",
        "SELECT COUNT(*) FROM visits WHERE day = 'x'",
        "SELECT COUNT(*) FROM visits WHERE day < TIMESTAMP '2024-01-31 12:00:00'",
    ),
    ("price", "DECIMAL(9,2)"): ("SELECT COUNT(*) FROM visits WHERE price = 1.005",),
    ("insured", "BOOLEAN"): ("SELECT COUNT(*) FROM visits WHERE insured = 1",),
}
REFUSED: Final = {
    G1: BY_G1,
    FITTING: OVERFLOWING,
    f"ask for figures of one table, grouped or filtered by {KEYS} (rule G2)": SHAPE,
    f"group or filter by {KEYS} (rule G2)": GROUPING,
    f"compare {KEYS} with constants by =, <>, <, <=, >, >=, IN, BETWEEN, LIKE or IS NULL (rule G2)": FILTERING,
    **{f"compare {column} with constants of type {type_} (rule G2)": each for (column, type_), each in TYPED.items()},
}
OTHERS: Final = {  # the errors of any user
    "SELECT visits FROM visits": "there is no column 'visits'",
    "SELECT SUM(blil) FROM visits": "there is no column 'blil'",
    "SELECT nosuch(bill) FROM visits": "there is no function",
    "SELECT SUM(bill FROM visits": "syntax error",
    "SELECT COUNT(*) FROM visits WHERE read_csv('x') = 1": "there is no function",
}


@pytest.mark.parametrize("sql", ANSWERED)
def test_an_admitted_question_is_planned(sql: str) -> None:
    admitted = QUESTIONS.admitted(read_statement(sql))
    plan = plan_query(admitted.sql, VISITS, "visits")
    assert isinstance(plan, QueryPlan)


@pytest.mark.parametrize(("instead", "sql"), [(text, sql) for text, every in REFUSED.items() for sql in every])
def test_a_refusal_says_what_to_ask_and_the_rule(instead: str, sql: str) -> None:
    with pytest.raises(QueryRefused) as caught:
        QUESTIONS.admitted(read_statement(sql))
    assert caught.value.message == f"you may see totals only: {instead}"
    assert caught.value.hint == "docs/gateway.md lists what is answered"


def test_a_refusal_names_the_columns_that_the_user_may_group_by_and_no_others() -> None:
    of_user = replace(VISITS.only({"patient", "ward", "day", "bill"}), derived=())
    for by, named in (
        (("Day", "year", "ward", "patient"), "group or filter by day, ward (rule G2)"),
        (("patient", "year"), "leave WHERE and GROUP BY out (rule G2)"),
    ):
        questions = Askable("visits", of_user, by, ("Patient",))
        for sql in ("SELECT COUNT(*) FROM visits WHERE bill > 5", "SELECT COUNT(*) FROM visits GROUP BY patient"):
            with pytest.raises(QueryRefused) as caught:
                questions.admitted(read_statement(sql))
            assert caught.value.message == f"you may see totals only: {named}"
    for sql, named in (
        ("SELECT * FROM visits", askable.ONE_TABLE),
        ("SELECT COUNT(*) FROM visits WHERE bill > 5 IS NULL", "leave WHERE and GROUP BY out (rule G2)"),
        ("SELECT COUNT(*) FROM visits WHERE TRUE", "leave WHERE and GROUP BY out (rule G2)"),
    ):
        with pytest.raises(QueryRefused) as caught:
            questions.admitted(read_statement(sql))
        assert caught.value.message == f"you may see totals only: {named}"


@pytest.mark.parametrize(
    ("figure", "type_", "largest"),
    [
        # 2^40 rows: DuckDB's sum is DECIMAL(38)
        ("SUM(x)", "DECIMAL(38,2)", (10**38 - 1) // 2**40),
        ("AVG(x)", "DECIMAL(38,0)", (10**38 - 1) // 2**40),
        ("SUM(2 * x)", "DECIMAL(30,2)", (10**38 - 1) // 2**40 // 2),
        ("VARIANCE(x)", "DECIMAL(38,0)", (10**38 - 1) // 2**40),
    ],
)
def test_figures_are_of_numbers_that_no_step_overflows_or_rounds(figure: str, type_: str, largest: int) -> None:
    """`largest`: in units of the last decimal. One more is refused, on either side of 0."""
    column = Column("x", Kind.ENCRYPTED, type_)
    unit = Decimal(1).scaleb(-(column.decimals or 0))
    for lower, upper, answered in (
        (0, largest, True),
        (-largest, 0, True),
        (0, largest + 1, False),
        (-largest - 1, 0, False),
    ):
        with localcontext(prec=50):
            bounded = replace(column, lower=lower * unit, upper=upper * unit)
        questions = Askable("visits", replace(COLUMNS, columns=(bounded,)), ())
        with nullcontext() if answered else pytest.raises(QueryRefused, match="rule G1"):
            questions.admitted(read_statement(f"SELECT {figure} FROM visits"))


@pytest.mark.parametrize(
    "product",
    [
        "one * two",
        "(one + 1) * (two - 1)",
        "(1 - one) * (1 - two)",
        "2 * (one - 1) * (2 + two)",
        "(one * 2) * (3 * two)",
        "(1 + one) * -two",
        "(one + two) * (one + 1)",
    ],
)
def test_a_product_of_columns_is_refused_even_if_it_fits(product: str) -> None:
    small = tuple(Column(name, Kind.ENCRYPTED, "BIGINT", Decimal(0), Decimal(9)) for name in ("one", "two"))
    questions = Askable("visits", replace(COLUMNS, columns=small), ())
    questions.admitted(read_statement("SELECT SUM(2 * (one + 1) - 3 * (two - 1)) FROM visits"))
    with pytest.raises(QueryRefused, match="rule G1"):
        questions.admitted(read_statement(f"SELECT SUM({product}) FROM visits"))


@pytest.mark.parametrize("sql", OTHERS)
def test_errors_of_any_user(sql: str) -> None:
    with pytest.raises(QueryRefused, match=OTHERS[sql]):
        QUESTIONS.admitted(read_statement(sql))


def test_every_line_of_the_lists_is_tried() -> None:
    listed = (askable.FIGURES, askable.STEPS, askable.COMPARISONS, askable.CONNECTIVES, askable.TESTS)
    tried = (FIGURES, STEPS, COMPARISONS, CONNECTIVES, TESTS)
    assert [each.split() for each in listed] == [list(each) for each in tried]


@pytest.mark.parametrize(
    ("given", "runs"),
    [
        ("ward = 'A' AND year IN (1, NULL)", "CAST('A' AS VARCHAR)) AND (\"year\" IN (CAST('1' AS INTEGER), CAST(NULL"),
        (
            "price > 1e0 OR day <= '2024-1-31'",
            "CAST('1.00' AS DECIMAL(9, 2))) OR (\"day\" <= CAST('2024-01-31'",
        ),
        ("seen < DATE '2024-01-31'", "CAST('2024-01-31 00:00:00' AS TIMESTAMP)"),
        ("year = ?", "\"year\" = CAST('7' AS INTEGER)"),
    ],
)
def test_constants_are_of_the_type_of_their_column(given: str, runs: str) -> None:
    sql = f"SELECT COUNT(*) FROM visits WHERE {given}"
    statement = read_statement(sql, [7] if "?" in sql else None)
    plan = plan_query(QUESTIONS.admitted(statement).sql, VISITS, "visits")
    assert isinstance(plan, QueryPlan)
    assert runs in str(plan.where)


def test_every_constant_of_a_long_list_is_tried() -> None:
    years = [*range(1600, 2050), None]
    sql = f"SELECT COUNT(*) FROM visits WHERE year IN ({', '.join('?' * len(years))})"
    plan = plan_query(QUESTIONS.admitted(read_statement(sql, years)).sql, VISITS, "visits")
    assert isinstance(plan, QueryPlan)
    assert all(f"CAST('{year}' AS INTEGER)" in str(plan.where) for year in years if year)
    for place in (0, 199, 200, 449):
        with pytest.raises(QueryRefused, match="rule G2"):
            QUESTIONS.admitted(read_statement(sql, [*years[:place], "5x", *years[place + 1 :]]))


@pytest.mark.parametrize(
    ("sql", "bare"),
    [
        ("SELECT ward, SUM(huge) FROM visits GROUP BY ward ORDER BY SUM(huge) DESC NULLS FIRST", True),
        ("SELECT COUNT(DISTINCT patient), SUM(bill) FROM visits", True),
        ("SELECT SUM(huge) / 2 FROM visits", False),
        ("SELECT SUM(huge) FROM visits ORDER BY CAST(SUM(huge) AS TINYINT)", False),
        ("SELECT SUM(huge) FROM visits HAVING CAST(SUM(huge) AS TINYINT) > 1", False),
        ("SELECT name FROM visits", False),
    ],
)
def test_expressions_over_rows_are_not_bare(sql: str, *, bare: bool) -> None:
    """DuckDB computes them of every group, those among them that are left out."""
    assert askable.is_bare(plan_query(sql, VISITS, "visits")) is bare
