"""What is refused: what DuckDB refuses, what is no SELECT over the tables, what reads files or settings or draws."""

from __future__ import annotations

from pathlib import Path

import pytest

from cleave_shared.errors import QueryRefused
from tests.conformance.conftest import Tables

CANARY = "swordfish"

# {0} is a file, {1} one that must not come to be
READS = """
SELECT * FROM '{0}'
SELECT * FROM read_csv('{0}')
SELECT * FROM read_csv_auto('{0}')
SELECT * FROM read_text('{0}')
SELECT content FROM read_blob('{0}')
SELECT * FROM read_json('{0}')
SELECT * FROM read_json_auto('{0}')
SELECT * FROM read_ndjson('{0}')
SELECT * FROM read_parquet('{0}')
SELECT * FROM parquet_scan('{0}')
SELECT * FROM parquet_schema('{0}')
SELECT * FROM sniff_csv('{0}')
SELECT * FROM glob('/*')
SELECT * FROM glob('{0}')
SELECT SUM(mid) FROM numbers, read_text('{0}')
SELECT SUM(mid) FROM numbers WHERE g IN (SELECT content FROM read_text('{0}'))
SELECT (SELECT content FROM read_text('{0}')) FROM numbers
WITH a AS (SELECT * FROM read_text('{0}')) SELECT * FROM a
WITH a AS MATERIALIZED (SELECT * FROM '{0}') SELECT COUNT(*) FROM a, numbers
SELECT g FROM numbers UNION ALL SELECT content FROM read_text('{0}')
SELECT id FROM numbers ORDER BY (SELECT content FROM read_text('{0}'))
SELECT id FROM numbers LIMIT (SELECT COUNT(*) FROM read_text('{0}'))
SELECT id FROM numbers QUALIFY row_number() OVER (ORDER BY (SELECT content FROM read_text('{0}'))) = 1
SELECT g, SUM(mid) FROM numbers GROUP BY g HAVING g < (SELECT content FROM read_text('{0}'))
SELECT SUM(mid) FILTER (WHERE g < (SELECT content FROM read_text('{0}'))) FROM numbers
SELECT CASE WHEN EXISTS (SELECT 1 FROM read_text('{0}')) THEN 1 END FROM numbers
SELECT * FROM numbers AS n, LATERAL (SELECT content FROM read_text('{0}')) AS t
SELECT * FROM (FROM '{0}')
FROM (PIVOT (FROM read_text('{0}')) ON size)
SELECT list_transform([1], lambda i: (SELECT content FROM read_text('{0}'))) FROM numbers
SELECT * FROM query('SELECT * FROM read_text(''{0}'')')
SELECT * FROM query_table('numbers')
SELECT * FROM query('SELECT 1')
COPY numbers TO '{1}'
COPY (SELECT 1) TO '{1}'
EXPORT DATABASE '{1}'
ATTACH '{1}' AS a
ATTACH '{1}'
INSTALL httpfs
LOAD httpfs
SELECT * FROM 'https://example.org/a.csv'
SELECT * FROM 's3://bucket/a.parquet'
"""

SETTINGS = """
SELECT current_setting('threads')
SELECT current_setting('home_directory') FROM numbers
SELECT getenv('HOME')
SELECT getvariable('a')
SELECT * FROM duckdb_settings()
SELECT * FROM duckdb_secrets()
SELECT * FROM which_secret('a', 'b')
SELECT * FROM duckdb_tables()
SELECT * FROM duckdb_columns()
SELECT * FROM duckdb_functions()
SELECT * FROM duckdb_databases()
SELECT * FROM duckdb_extensions()
SELECT * FROM duckdb_temporary_files()
SELECT * FROM duckdb_memory()
SELECT * FROM duckdb_logs()
SELECT * FROM information_schema.tables
SELECT * FROM information_schema.columns
SELECT * FROM pg_catalog.pg_tables
SELECT * FROM sqlite_master
SELECT * FROM pragma_table_info('numbers')
SELECT * FROM pragma_storage_info('numbers')
SELECT * FROM pragma_version()
SELECT * FROM pragma_user_agent()
SELECT * FROM main.source
SELECT * FROM source
SELECT * FROM memory.main.source
SELECT * FROM memory.main.numbers
SELECT * FROM other
SELECT * FROM temp.main.numbers
SELECT * FROM system.main.duckdb_tables
SELECT * FROM regions
SELECT 1 WHERE EXISTS (FROM memory.main.source)
SELECT version()
SELECT current_database()
SELECT current_schema()
SELECT current_user
SELECT user
SELECT current_query()
SELECT txid_current()
SELECT * FROM numbers WHERE g = current_database()
SELECT write_log('a')
SELECT pg_sleep(60)
SELECT sleep_ms(60000) FROM numbers
SELECT in_search_path('a', 'b')
"""

DRAWN = """
SELECT random()
SELECT SUM(mid * random()) FROM numbers
SELECT SUM(mid) FROM numbers WHERE random() < 0.5
SELECT id FROM numbers ORDER BY random()
SELECT uuid() FROM numbers
SELECT gen_random_uuid()
SELECT uuidv7()
SELECT setseed(0.5)
SELECT nextval('a')
SELECT currval('a')
SELECT reservoir_quantile(mid, 0.5) FROM numbers
SELECT id FROM numbers WHERE id = (SELECT random() * 10)
WITH a AS (SELECT random() AS r) SELECT r FROM a
SELECT list_transform([1], lambda i: random())
SELECT array_agg(random()) OVER () FROM numbers
"""

NO_SELECT = """
DELETE FROM numbers
INSERT INTO numbers SELECT * FROM numbers
UPDATE numbers SET mid = 0
DROP TABLE numbers
TRUNCATE numbers
ALTER TABLE numbers ADD COLUMN z INTEGER
CREATE TABLE t AS SELECT 1
CREATE VIEW v AS SELECT 1
CREATE MACRO m() AS 1
CREATE TEMP TABLE t AS SELECT 1
SET threads = 1
RESET threads
PRAGMA threads = 1
PRAGMA database_list
CALL pragma_version()
USE memory
DETACH memory
BEGIN
COMMIT
CHECKPOINT
VACUUM
ANALYZE
PREPARE p AS SELECT 1
EXECUTE p
SELECT 1; SELECT 2
SELECT 1; DROP TABLE numbers
SELECT ?
SELECT $1 FROM numbers
SELECT $name
SELECT * INTO t FROM numbers
MERGE INTO numbers USING numbers AS n ON numbers.id = n.id WHEN MATCHED THEN DELETE
WITH d AS (DELETE FROM numbers RETURNING *) SELECT * FROM d
"""

DUCKDB_TOO = """
SELECT
SELECT FROM numbers
SELECT SUM(mid FROM numbers
SELECT SUM(nothing) FROM numbers
SELECT nothing(mid) FROM numbers
SELECT SUM(g) FROM numbers
SELECT AVG(code) FROM numbers
SELECT mid FROM numbers GROUP BY g
SELECT g, SUM(mid) FROM numbers
SELECT SUM(mid) FROM numbers GROUP BY SUM(mid)
SELECT SUM(SUM(mid)) FROM numbers
SELECT SUM(mid) FROM numbers WHERE SUM(mid) > 0
SELECT id FROM numbers WHERE row_number() OVER () = 1
SELECT (SELECT id, mid FROM numbers)
SELECT id FROM numbers UNION SELECT id, mid FROM numbers
SELECT id FROM numbers ORDER BY 2
SELECT g FROM numbers GROUP BY 3
SELECT a.id FROM numbers AS a, numbers AS b WHERE id = 1
SELECT corr(x) FROM numbers
SELECT median(mid, mid) FROM numbers
SELECT CAST(mid AS NOTHING) FROM numbers
SELECT 'text' + DATE '2024-01-01' FROM numbers
SELECT * FROM numbers AS n JOIN numbers AS m
SELECT mid FROM numbers LIMIT -1
SELECT 'unfinished FROM numbers
SELECT "unfinished FROM numbers
"""


def _lines(text: str) -> list[str]:
    return text.strip().splitlines()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("files")
    (folder / "file.csv").write_text(f"word\n{CANARY}\n")
    return folder / "file.csv", folder / "written"


@pytest.mark.parametrize("sql", _lines(READS))
def test_no_file_is_read_or_written(tables: Tables, files: tuple[Path, Path], sql: str) -> None:
    written, made = files
    refused(tables, sql.replace("{0}", str(written)).replace("{1}", str(made)))
    assert not made.exists()


@pytest.mark.parametrize("sql", _lines(SETTINGS))
def test_nothing_but_the_tables_is_there(tables: Tables, sql: str) -> None:
    refused(tables, sql)


@pytest.mark.parametrize("sql", _lines(DRAWN))
def test_what_does_not_follow_from_the_tables_is_refused(tables: Tables, sql: str) -> None:
    refused(tables, sql)


@pytest.mark.parametrize("sql", _lines(NO_SELECT))
def test_only_one_select_is_asked(tables: Tables, sql: str) -> None:
    refused(tables, sql)


@pytest.mark.parametrize("sql", _lines(DUCKDB_TOO))
def test_what_duckdb_refuses_is_refused_before_the_table_is_read(tables: Tables, sql: str) -> None:
    refused(tables, sql)


@pytest.mark.parametrize(
    ("sql", "type_", "rows"),
    [
        ("SELECT now()", "TIMESTAMP WITH TIME ZONE", 1),
        ("SELECT current_timestamp FROM numbers", "TIMESTAMP WITH TIME ZONE", 240),
        ("SELECT current_time", "TIME WITH TIME ZONE", 1),
        ("SELECT id FROM numbers USING SAMPLE 10", "INTEGER", 10),
        ("SELECT id FROM numbers TABLESAMPLE reservoir(5 ROWS)", "INTEGER", 5),
        ("SELECT id FROM numbers TABLESAMPLE 100%", "INTEGER", 240),
    ],
)
def test_the_time_and_samples_are_duckdbs_own(tables: Tables, sql: str, type_: str, rows: int) -> None:
    """One time in a query, and rows of the table: they are answered here, where no two halves can differ."""
    session = tables.session("numbers")
    result = session.ask(session.plan(sql)).result
    assert ([column.source for column in result.columns], result.types) == (["local"], [type_])
    assert len(result.rows) == rows


def refused(tables: Tables, sql: str) -> None:
    """By the plan: nothing is opened, run or sent."""
    with pytest.raises(QueryRefused) as caught:
        tables.session("numbers").plan(sql)
    assert str(caught.value).strip()
    assert CANARY not in f"{caught.value} {caught.value.hint}"
