"""One table of all types that DuckDB and PostgreSQL both have, for comparisons with a PostgreSQL server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

TYPES: Final[Mapping[str, str]] = {
    "id": "BIGINT",
    "ward": "TEXT",
    "name": "TEXT",
    "insured": "BOOLEAN",
    "small": "SMALLINT",
    "num": "INTEGER",
    "big": "BIGINT",
    "bill": "NUMERIC(9, 2)",
    "fine": "NUMERIC(18, 6)",
    "ratio": "REAL",
    "level": "DOUBLE PRECISION",
    "day": "DATE",
    "clock": "TIME",
    "seen": "TIMESTAMP",
    "zoned": "TIMESTAMPTZ",
    "gap": "INTERVAL",
    "token": "TEXT",
}
"""Columns, with PostgreSQL's types."""

ROWS: Final = 12
STAYS: Final = f"""
    SELECT i::BIGINT AS id, ['A', 'B', NULL, 'Ćwik'][1 + i % 4] AS ward,
        ['O''Hara', 'back\\slash',
            'tab' || chr(9) || 'end', '"quoted", with comma', chr(128512), '', NULL][1 + i % 7] AS name,
        CASE WHEN i % 5 THEN i % 2 = 0 END AS insured,
        (CASE WHEN i % 6 THEN i * 997 - 5000 END)::SMALLINT AS small,
        (CASE WHEN i % 5 THEN i * 77777777 - 400000000 END)::INTEGER AS num,
        (CASE WHEN i % 7 THEN i * 800000000000000000 - 4000000000000000000 END)::BIGINT AS big,
        (CASE WHEN i % 4 <> 1 THEN i * 7919.25 - 9000 END)::DECIMAL(9, 2) AS bill,
        (CASE WHEN i % 5 <> 2 THEN i * 100000.000001 - 12000 END)::DECIMAL(18, 6) AS fine,
        (CASE WHEN i % 6 <> 3 THEN i * 0.5 - 2 END)::FLOAT AS ratio,
        (CASE WHEN i % 6 <> 4 THEN i * 1e-3 - 0.0055 END)::DOUBLE AS level,
        CASE WHEN i % 7 THEN DATE '1999-12-25' + (i * 97)::INTEGER END AS day,
        CASE WHEN i % 5 <> 3 THEN TIME '00:30:15.25' + INTERVAL 1 HOUR * i END AS clock,
        CASE WHEN i % 4 <> 3 THEN TIMESTAMP '1969-12-31 23:59:59.000001' + i * INTERVAL '61.5 seconds' END AS seen,
        CASE WHEN i % 4 <> 2 THEN TIMESTAMPTZ '2024-03-31 00:59:59.5+00' + i * INTERVAL 20 DAY END AS zoned,
        CASE WHEN i % 4 THEN to_months((i * 5 - 20)::INTEGER) + to_days((i - 6)::INTEGER)
            + i * INTERVAL '61.5 seconds' END AS gap,
        CASE WHEN i % 3 THEN ('00000000-0000-4000-8000-0000000000' || printf('%02d', i)) END AS token
    FROM range({ROWS}) r(i)
"""
WARDS: Final = "SELECT * FROM (VALUES ('A', 'north'), ('B', 'south'), ('C', 'north')) w(ward, region)"
