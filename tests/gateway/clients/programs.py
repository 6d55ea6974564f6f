"""What Python's clients ask: `python programs.py CLIENT`, with libpq's environment. Prints their rows as JSON."""

from __future__ import annotations

import asyncio
import datetime
import json
import os
import sys
from decimal import Decimal
from typing import Any
from urllib.parse import quote

QUERY = "SELECT * FROM stays ORDER BY id"
PREPARED = "SELECT id, name, bill, day FROM stays WHERE id > {} AND ward <> {} AND bill > {} ORDER BY id"
BOUND = (1, "A' \\", Decimal("12.5"))
TYPED = "SELECT id FROM stays WHERE {}"
DAY = datetime.date(2001, 1, 16)
SEEN = datetime.datetime(1970, 1, 1, 0, 4, 5, 1)  # noqa: DTZ001 - a TIMESTAMP has no zone
ZONED = datetime.datetime(2024, 6, 19, 0, 59, 59, 500000, tzinfo=datetime.UTC)
CLOCK = datetime.time(4, 30, 15, 250000)
EACH = {
    "id = {}": 4,
    "ward = {} AND id < 5": "A",
    "insured = {} AND id < 5": True,
    "bill = {}": Decimal("22677.00"),
    "level < {}": -0.005,
    "day = {}": DAY,
    "clock = {}": CLOCK,
    "seen = {}": SEEN,
    "zoned = {}": ZONED,
    "id < 3 AND {} IS NULL": None,
}
ARRAYS: dict[str, list[list[Any]]] = {
    "SELECT id FROM stays WHERE id = ANY($1) ORDER BY id": [[3, 5, 99]],
    "SELECT $1::bigint[] AS a, $2::date[] AS b, $3::text[] AS c": [[1, None], [DAY, None], ["a,b", "NULL", None]],
    "SELECT array_agg(bill ORDER BY id) AS a FROM stays WHERE id < 3": [],
    "SELECT typname FROM pg_type WHERE oid = ANY($1::oid[]) ORDER BY 1": [[23, 25]],
}


def address() -> str:
    env = os.environ
    return f"{env['PGUSER']}:{quote(env.get('PGPASSWORD', ''))}@{env['PGHOST']}:{env['PGPORT']}/{env['PGDATABASE']}"


def psycopg() -> dict[str, Any]:
    import psycopg  # noqa: PLC0415 - in an environment of its own

    found: dict[str, Any] = {}
    prepared = PREPARED.format("%s", "%s", "%s")
    with psycopg.connect("") as connection:
        found["query"] = connection.execute(QUERY).fetchall()
        for _ in range(7):
            found["prepared"] = connection.execute(prepared, BOUND).fetchall()
        binary = connection.cursor(binary=True)
        found["binary"] = binary.execute(QUERY).fetchall()
        found["each"] = [
            connection.execute(TYPED.format(sql.format("%s")), [value]).fetchall()
            for sql, value in EACH.items()
            if value is not None
        ]
        found["any"] = connection.execute(
            "SELECT id FROM stays WHERE id = ANY(%s) ORDER BY id", [[3, 5, 99]]
        ).fetchall()
        found["null"] = connection.execute(
            "SELECT count(*) FROM stays WHERE ward IS NULL AND %s::text IS NULL", [None]
        ).fetchall()
        connection.commit()
        with connection.cursor(name="held") as cursor:
            cursor.itersize = 5
            found["cursor"] = list(cursor.execute("SELECT id, bill FROM stays ORDER BY id"))
        connection.rollback()
        for sql in (
            "SELECT nothing FROM stays",
            "SELECT 1 FROM nosuch",
            "SELEC 1",
            "SELECT ward::integer FROM stays",
            "SELECT nosuch(1)",
        ):
            try:
                connection.execute(sql)
            except psycopg.Error as error:
                found.setdefault("errors", []).append(error.sqlstate)
            try:
                connection.execute("SELECT 1")
            except psycopg.Error as error:
                found["errors"].append(error.sqlstate)
            connection.rollback()
    with psycopg.connect("", autocommit=True) as connection:
        with connection.cursor().copy(
            "COPY (SELECT id, name, bill, day, insured FROM stays ORDER BY id) TO STDOUT"
        ) as copy:
            found["copy"] = [list(row) for row in copy.rows()]
        with connection.pipeline():
            one, two = (
                connection.execute("SELECT count(*) FROM wards"),
                connection.execute("SELECT max(bill) FROM stays WHERE id < %s", [9]),
            )
            found["pipeline"] = [one.fetchall(), two.fetchall()]
        connection.execute("SET application_name = 'report'")
        found["show"] = [
            connection.execute(f"SHOW {each}").fetchall()
            for each in ("application_name", "TimeZone", "transaction_isolation", "standard_conforming_strings")
        ]
        found["empty"] = connection.execute("").description
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        with connection.transaction():
            found["nested"] = connection.execute("SELECT 1").fetchall()
            with connection.transaction():
                found["nested"] += connection.execute("SELECT 2").fetchall()
    return found


def asyncpg() -> dict[str, Any]:
    import asyncpg  # noqa: PLC0415

    async def run() -> dict[str, Any]:
        found: dict[str, Any] = {}
        connection = await asyncpg.connect()
        found["query"] = [list(each) for each in await connection.fetch(QUERY)]
        prepared = await connection.prepare(PREPARED.format("$1", "$2", "$3"))
        found["prepared"] = [list(each) for each in await prepared.fetch(*BOUND)]
        found["attributes"] = [[each.name, each.type.name] for each in prepared.get_attributes()]
        found["parameters"] = [each.name for each in prepared.get_parameters()]
        each = [(sql.format("$1"), value) for sql, value in EACH.items() if value is not None]
        found["each"] = [[list(row) for row in await connection.fetch(TYPED.format(sql), value)] for sql, value in each]
        found["simple"] = await connection.execute("SELECT 1; SELECT count(*) FROM wards")
        async with connection.transaction(readonly=True, isolation="repeatable_read"):
            found["cursor"] = [
                list(row) async for row in connection.cursor("SELECT id, bill FROM stays ORDER BY id", prefetch=5)
            ]
        for sql in ("SELECT nothing FROM stays", "SELECT 1 FROM nosuch", "SELEC 1"):
            try:
                await connection.fetch(sql)
            except asyncpg.PostgresError as error:
                found.setdefault("errors", []).append(error.sqlstate)
        found["fetchval"] = await connection.fetchval("SELECT sum(bill) FROM stays WHERE ward = $1", "A")
        for sql, values in ARRAYS.items():
            found.setdefault("arrays", []).append([list(row) for row in await connection.fetch(sql, *values)])
        await connection.reset()
        await connection.close()
        return found

    return asyncio.run(run())


def odbc() -> dict[str, Any]:
    import pyodbc  # noqa: PLC0415

    env = os.environ
    words = {
        "DRIVER": env["ODBC_DRIVER"],
        "SERVER": env["PGHOST"],
        "PORT": env["PGPORT"],
        "DATABASE": env["PGDATABASE"],
    }
    words |= {"UID": env["PGUSER"], "PWD": env.get("PGPASSWORD", ""), "SSLMODE": "prefer"}
    text = ";".join(f"{key}={value}" for key, value in words.items())
    found: dict[str, Any] = {}
    with pyodbc.connect(text, autocommit=True) as connection:
        cursor = connection.cursor()
        found["query"] = [list(each) for each in cursor.execute(QUERY)]
        for _ in range(2):
            found["prepared"] = [list(each) for each in cursor.execute(PREPARED.format("?", "?", "?"), *BOUND)]
        found["mixed"] = [
            list(each) for each in cursor.execute("SELECT num, bill, name, level, big, ratio FROM stays ORDER BY id")
        ]
        found["typed"] = [[each[0], each[1].__name__] for each in cursor.description]
        found["tables"] = [[each[0], each[1], each[2], each[3]] for each in cursor.tables(schema="public")]
        found["columns"] = [[each[3], each[5], each[8]] for each in cursor.columns(table="stays", schema="public")]
        found["keys"] = [each[3] for each in cursor.primaryKeys("stays", schema="public")]
        found["statistics"] = len(cursor.statistics("stays").fetchall())
        found["each"] = [
            [list(row) for row in cursor.execute(TYPED.format(sql.format("?")), value)]
            for sql, value in EACH.items()
            if value is not None and sql[:5] != "zoned"
        ]
        found["types"] = sorted(each[0] for each in cursor.getTypeInfo())
    with pyodbc.connect(text + ";UseDeclareFetch=1;Fetch=5", autocommit=True) as connection:
        found["cursor"] = [list(each) for each in connection.cursor().execute("SELECT id, bill FROM stays ORDER BY id")]
    return found


def alchemy() -> dict[str, Any]:
    import sqlalchemy as sa  # noqa: PLC0415

    engine = sa.create_engine(f"postgresql+psycopg://{address()}")
    found: dict[str, Any] = {}
    look = sa.inspect(engine)
    found["schemas"] = look.get_schema_names()
    found["tables"] = look.get_table_names()
    found["views"] = look.get_view_names()
    found["columns"] = [[each["name"], str(each["type"]), each["nullable"]] for each in look.get_columns("stays")]
    found["keys"] = look.get_pk_constraint("stays")["constrained_columns"]
    found["foreign"] = look.get_foreign_keys("stays")
    found["indexes"] = look.get_indexes("stays")
    found["unique"] = look.get_unique_constraints("stays")
    found["comment"] = look.get_table_comment("stays")
    found["has"] = [look.has_table("stays"), look.has_table("nosuch")]
    table = sa.Table("stays", sa.MetaData(), autoload_with=engine)
    with engine.connect() as connection:
        mean = sa.func.avg(table.c.bill).label("mean")
        found["core"] = [
            list(each)
            for each in connection.execute(
                sa.select(table.c.ward, mean)
                .where(table.c.id > 1)
                .group_by(table.c.ward)
                .order_by(table.c.ward.nulls_last())
            )
        ]
        found["query"] = [list(each) for each in connection.execute(sa.select(table).order_by(table.c.id))]
        found["like"] = [
            list(each)
            for each in connection.execute(
                sa.select(table.c.id).where(table.c.name.ilike("o'%")).order_by(table.c.id).limit(3)
            )
        ]
    return found


def pandas() -> dict[str, Any]:
    import pandas as pd  # noqa: PLC0415
    import sqlalchemy as sa  # noqa: PLC0415

    engine = sa.create_engine(f"postgresql+psycopg://{address()}")
    frame = pd.read_sql("SELECT id, ward, bill, day, seen, zoned, insured FROM stays ORDER BY id", engine)
    table = pd.read_sql_table("wards", engine)
    chunks = [
        len(each)
        for each in pd.read_sql_query(
            sa.text("SELECT id FROM stays WHERE id >= :least"), engine, params={"least": 2}, chunksize=4
        )
    ]
    return {
        "frame": json.loads(frame.to_json(orient="values", date_format="iso")),
        "types": [str(each) for each in frame.dtypes],
        "table": table.values.tolist(),
        "chunks": chunks,
    }


def polars() -> dict[str, Any]:
    import adbc_driver_postgresql.dbapi as adbc  # noqa: PLC0415
    import polars as pl  # noqa: PLC0415

    found: dict[str, Any] = {}
    sql = "SELECT id, name, ward, bill, level, day, seen, insured FROM stays ORDER BY id"
    found["connectorx"] = [
        list(each) for each in pl.read_database_uri(sql, f"postgresql://{address()}", engine="connectorx").rows()
    ]
    found["adbc"] = [
        list(each) for each in pl.read_database_uri(sql, f"postgresql://{address()}", engine="adbc").rows()
    ]
    with adbc.connect(f"postgresql://{address()}") as connection:
        found["schema"] = [[each.name, str(each.type)] for each in connection.adbc_get_table_schema("stays")]
    return found


def main() -> None:
    found = {
        "psycopg": psycopg,
        "asyncpg": asyncpg,
        "odbc": odbc,
        "alchemy": alchemy,
        "pandas": pandas,
        "polars": polars,
    }[sys.argv[1]]()
    print(json.dumps(found, default=str))


if __name__ == "__main__":
    main()
