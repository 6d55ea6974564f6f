"""From SQL to the finished answer without services, against DuckDB over the whole table."""

from __future__ import annotations

from fractions import Fraction

import duckdb
import numpy as np
import pytest

from cleave.table.schema import Schema
from cleave_shared.errors import QueryRefused
from tests.oracle import Cell
from tests.unit.simulate import differences, number, schema, simulate

COLUMNS = {
    "ward": "plain VARCHAR",
    "Bed No": "plain INTEGER",
    "day": "plain DATE",
    "rate": "plain DOUBLE",
    "fee": "plain DECIMAL(9,2)",
    "is new": "plain BOOLEAN",
    "age": "encrypted INTEGER",
    "bill": "encrypted DECIMAL(9,2)",
    "weight": "encrypted DOUBLE",
    "dose": "encrypted FLOAT",
    "smoker": "encrypted BOOLEAN",
    "id": "encrypted BIGINT",
}


@pytest.fixture(scope="module")
def patients() -> Schema:
    return schema(**COLUMNS, ssn="sealed VARCHAR")


def fill(connection: duckdb.DuckDBPyConnection, rows: int, seed: int) -> None:
    random = np.random.default_rng(seed)

    def maybe(values: list[object], share: float = 0.15) -> list[object]:
        return [None if random.random() < share else value for value in values]

    data = [
        maybe(random.choice(["north", "south", "it's", 'q"x', ""], rows).tolist()),
        maybe(random.integers(-3, 9, rows).tolist()),
        maybe([f"2024-0{1 + month}-1{day}" for month, day in random.integers(0, 9, (rows, 2)).tolist()]),
        maybe(random.choice([0.0, -0.0, 0.5, 1e10, float("nan")], rows).tolist()),
        maybe([f"{cents / 100:.2f}" for cents in random.integers(-99999, 99999, rows).tolist()]),
        maybe(random.choice([True, False], rows).tolist()),
        maybe(random.integers(0, 100, rows).tolist()),
        maybe([f"{cents / 100:.2f}" for cents in random.integers(-99999, 999999, rows).tolist()]),
        maybe((70 + 15 * random.normal(size=rows)).tolist()),
        maybe(random.normal(size=rows).astype(np.float32).tolist()),
        maybe(random.choice([True, False], rows).tolist()),
        maybe(random.integers(-(2**62), 2**62, rows).tolist()),
    ]
    types = [described.split(" ", 1)[1] for described in COLUMNS.values()]
    selected = ", ".join(
        f'unnest(?::VARCHAR[])::{type_} AS "{name}"' for name, type_ in zip(COLUMNS, types, strict=True)
    )
    texts = [[None if value is None else str(value) for value in column] for column in data]
    connection.execute(f"CREATE TABLE patients AS SELECT {selected}", texts)


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    fill(connection, 211, seed=1)
    return connection


QUERIES = [
    " ".join(sql.split())
    for sql in """
SELECT SUM(age) FROM patients

SELECT sum(age), avg(age), count(age), count(*), count(1), count(ward) FROM patients

SELECT var_samp(weight), var_pop(weight), stddev(weight), stddev_pop(weight), avg(weight), sum(weight) FROM
  patients

SELECT sum(smoker), count(smoker), sum(id), avg(id), sum(dose), variance(dose), avg(dose) FROM patients

SELECT product(weight / 70), product(age - 50), product(1 + bill / 1e7) FROM patients WHERE "Bed No" = 3

SELECT ward, avg(bill), sum(bill) FROM patients GROUP BY ward ORDER BY ward

SELECT "Bed No", ward, avg(age) a FROM patients GROUP BY ALL ORDER BY ALL DESC NULLS FIRST

SELECT upper(ward) || '!' AS w, count(*) n FROM patients GROUP BY upper(ward) ORDER BY n DESC, w

SELECT ward w, sum(age) s FROM patients GROUP BY 1 HAVING s > 100 AND w <> 'south' ORDER BY 2 DESC, 1

SELECT ward, sum(age) AS age FROM patients GROUP BY ward HAVING age > 100 ORDER BY age DESC, ward

SELECT ward, sum(age) AS age FROM patients GROUP BY ward HAVING sum(age) > 100 ORDER BY ward

SELECT ward AS g, -sum(age) AS ward FROM patients GROUP BY g ORDER BY ward, g

SELECT sum(age) FILTER (WHERE smoker), count(*) FILTER (WHERE age > 50), avg(bill) FILTER (ward = 'it''s')
  FROM patients

SELECT sum("Bed No") FILTER (WHERE age > 50), count(ward) FILTER (WHERE smoker) FROM patients

SELECT sum(CASE WHEN smoker THEN bill END), sum(age * bill), sum(abs(weight - 70)), sum(age * "Bed No") FROM
  patients

SELECT month(day) m, sum(bill) / count(*) AS per, sum(bill) - 2 * sum(fee) FROM patients GROUP BY m ORDER BY m
  LIMIT 4 OFFSET 1

SELECT rate, count(*), sum(age) FROM patients GROUP BY rate ORDER BY rate

SELECT day, max(fee), min(day), any_value(day) = day FROM patients GROUP BY day ORDER BY day DESC LIMIT 5

SELECT ward FROM patients GROUP BY ward ORDER BY avg(weight)

SELECT ward, sum(age) FROM patients WHERE false GROUP BY ward

SELECT sum(age), count(*), avg(weight), count(bill), median(fee), product(weight) FROM patients WHERE false

SELECT sum(age) FROM patients HAVING sum(age) > 1000000

SELECT round(avg(age), 1), sqrt(var_pop(weight)), avg(weight) / avg(age), sum(age)::VARCHAR FROM patients

SELECT avg(weight) - avg(age), avg(weight) > 60, CASE WHEN avg(weight) > 60 THEN 'heavy' END FROM patients

SELECT ward, median(fee), quantile_cont(fee, 0.9), mode("Bed No"), count(DISTINCT "Bed No") FROM patients
  GROUP BY 1 ORDER BY 1

SELECT string_agg(DISTINCT ward, ',' ORDER BY ward), bool_and("is new"), bit_or("Bed No"), sum(fee), avg(fee)
  FROM patients

SELECT avg("Bed No"), var_samp(fee), stddev_pop("Bed No"), product(1 + "Bed No" / 100), count_if(fee > 0) FROM
  patients

SELECT p.ward, sum(p.age) FROM Patients AS p WHERE p."bed no" > 0 GROUP BY p.ward ORDER BY p.ward

SELECT 5, 'x' AS t, count(*) FROM patients GROUP BY ALL ORDER BY ALL

SELECT (ward), sum((age)) FROM patients GROUP BY (ward, "is new") ORDER BY ward, 2

SELECT "is new" AND ward = 'north' AS k, sum(age) FROM patients GROUP BY k ORDER BY k NULLS FIRST

SELECT ward, sum(age) s, s * 2 AS d, d + 1 FROM patients GROUP BY ward ORDER BY d

SELECT ward, day, stddev(bill), count(*) FROM patients GROUP BY ward, day ORDER BY ward, day

FROM patients SELECT count(*), sum(age)

SELECT ward, corr(age, weight), regr_slope(bill, age), regr_count(weight, "Bed No"), skewness(age), sem(bill),
  count_if(age > 40), covar_pop(age, bill) FILTER (WHERE weight > 60) FROM patients GROUP BY ward ORDER BY ward

SELECT wavg(bill, age), weighted_avg(age, fee), geomean(age + 1), bool_or(smoker), bool_and(age > 3) OR false,
  kurtosis(bill), favg(weight), fsum(age) FROM patients

SELECT ward, count_if(smoker) AS n FROM patients GROUP BY ward HAVING bool_or(age > 50) ORDER BY wavg(fee, fee), ward

SELECT mean(age), variance(age), stddev_samp(age), stddev_pop(bill), var_pop(id), product(smoker::int + 1)
  FROM patients

SELECT log10(count(*)), sum(log10(age + 1)), ward FROM patients GROUP BY ward ORDER BY ward;

SELECT list_transform([1, 2], lambda x: x + count(*)), array_to_string(list(ward ORDER BY ward), ',') FROM
  patients

SELECT sum(age) FROM patients GROUP BY ()
""".strip().split("\n\n")
]


@pytest.mark.sampled(6, 2)  # test_small_tables answers every query
@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("sql", QUERIES)
def test_an_answer_is_duckdbs(connection: duckdb.DuckDBPyConnection, patients: Schema, sql: str, parts: int) -> None:
    if parts > 1 and any(word in sql for word in ("median", "DISTINCT", "list(ward")):
        with pytest.raises(QueryRefused, match="cannot be combined"):
            simulate(sql, patients, connection, "patients", parts)
        return
    cursor = connection.execute(sql)
    names, types = [column[0] for column in cursor.description], [str(column[1]) for column in cursor.description]
    expected = [[number(value) for value in row] for row in cursor.fetchall()]
    result = simulate(sql, patients, connection, "patients", parts)
    assert [column.name for column in result.columns] == names
    assert result.types == types
    assert differences(result, expected) == []


@pytest.mark.parametrize("rows", [2, 0, 1])
@pytest.mark.sampled(3)
def test_small_tables(patients: Schema, rows: int) -> None:
    with duckdb.connect() as small:
        fill(small, rows, seed=2)
        for sql in QUERIES:
            expected = [[number(value) for value in row] for row in small.execute(sql).fetchall()]
            assert differences(simulate(sql, patients, small, "patients"), expected) == [], sql


@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e150, 1e6])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.sampled(5)
def test_doubles_of_every_kind_stay_within_their_bounds(scale: float, seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = int(random.integers(1, 400))
    values = random.choice([random.normal(size=rows), np.exp(3 * random.normal(size=rows)), np.ones(rows)]) * scale
    values += random.choice([0.0, 1e6 * scale])
    groups = random.integers(0, int(random.integers(1, 200)), rows)
    names = ("COUNT", "SUM", "AVG", "VAR_SAMP", "VAR_POP", "STDDEV_SAMP", "STDDEV_POP", "PRODUCT")
    calls = [f"{name}(x){filtered}" for filtered in ("", " FILTER (WHERE x > 0)") for name in names]
    sql = f"SELECT g, {', '.join(calls)} FROM t WHERE g % 5 <> 0 GROUP BY g ORDER BY g"
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT unnest(?::INTEGER[]) AS g, unnest(?::DOUBLE[]) AS x",
            [groups.tolist(), [None if random.random() < 0.1 else value for value in values.tolist()]],
        )
        result = simulate(sql, schema(g="plain INTEGER", x="encrypted DOUBLE"), connection, "t")
        expected = connection.execute(sql).fetchall()
        lists = connection.execute(
            "SELECT list(x) FILTER (WHERE x IS NOT NULL), list(x) FILTER (WHERE x > 0) "
            "FROM t WHERE g % 5 <> 0 GROUP BY g ORDER BY g"
        ).fetchall()
    assert len(result.rows) == len(expected) == len(lists)
    for row, bounds, exact, theirs, pair in zip(result.rows, result.bounds, result.exact, expected, lists, strict=True):
        for place in range(1, len(row)):
            inside = [Fraction(value) for value in pair[(place - 1) // len(names)] or ()]
            cell = Cell(names[(place - 1) % len(names)], inside, None)
            assert cell.wrong(row[place], bounds[place], exact[place]) is None, calls[place - 1]
            assert cell.disagrees(row[place], bounds[place], theirs[place]) is None, calls[place - 1]
