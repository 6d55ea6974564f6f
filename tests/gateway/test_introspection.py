"""What tools ask before a person asks anything: PostgreSQL's catalogue over a user's tables, and nothing else.

Statements of many tools, as they send them, are recorded and replayed elsewhere.
"""

from __future__ import annotations

from contextlib import closing

import psycopg
import pytest
import sqlalchemy as sa

from cleave.gateway import catalogue
from cleave.table.duck import closed_in
from cleave.table.schema import Column, Kind
from tests.gateway.conftest import PASSWORD, Gateway


def test_columns_have_postgresqls_types(gateway: Gateway) -> None:
    sql = (
        "SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnum FROM pg_catalog.pg_attribute a "
        "WHERE a.attrelid = 'public.visits'::pg_catalog.regclass AND a.attnum > 0 ORDER BY a.attnum"
    )
    types = [
        "bigint",
        "text",
        "date",
        "timestamp without time zone",
        "numeric(9,2)",
        "double precision",
        "boolean",
        "bigint",
    ]
    names = [each[0] for each in gateway.truth.execute("DESCRIBE visits").fetchall()]
    found = gateway.rows(sql)
    assert [name for name, _, _ in found] == names
    assert [type_ for _, type_, _ in found] == [*types, "time without time zone", "text"]
    columns = "SELECT column_name, numeric_precision, numeric_scale FROM information_schema.columns"
    assert gateway.rows(f"{columns} WHERE udt_name = 'numeric'") == [("bill", 9, 2)]


def test_sqlalchemy_reflects(gateway: Gateway) -> None:
    url = sa.URL.create("postgresql+psycopg", "owner", PASSWORD, "127.0.0.1", gateway.port, "cleave")
    engine = sa.create_engine(url)
    inspector = sa.inspect(engine)
    assert sorted(inspector.get_table_names()) == ["visits", "wards"]
    assert inspector.get_schema_names() == ["information_schema", "public"]
    assert inspector.has_table("wards")
    assert not inspector.has_table("nowhere")
    assert inspector.get_view_names() == []
    table = sa.Table("visits", sa.MetaData(), autoload_with=engine)
    kinds = {each.name: type(each.type).__name__ for each in table.columns}
    assert kinds == {
        **{
            "id": "BIGINT",
            "ward": "TEXT",
            "day": "DATE",
            "seen": "TIMESTAMP",
            "bill": "NUMERIC",
            "level": "DOUBLE_PRECISION",
        },
        **{"insured": "BOOLEAN", "big": "BIGINT", "clock": "TIME", "name": "TEXT"},
    }
    with engine.connect() as connection:
        asked = sa.select(sa.func.count()).select_from(table).where(table.c.ward == "A", table.c.bill > 10)
        truth = gateway.truth.execute("SELECT COUNT(*) FROM visits WHERE ward = 'A' AND bill > 10").fetchall()
        assert connection.execute(asked).fetchall() == truth
    engine.dispose()


def test_every_definition_can_be_made_and_read() -> None:
    """Also those that no other test reads."""
    definitions = catalogue._definitions()
    with closing(closed_in()) as connection:
        table = catalogue.Listed([Column("a", Kind.PLAIN, "BIGINT")], ("a",))
        for sql in definitions.values():
            connection.execute(sql)
        catalogue._fill(connection, definitions, lambda: {"t": table}, {})
        for name in definitions:
            if name.startswith(("pg_catalog.", "information_schema.")):
                assert connection.execute(f'SELECT * FROM "{name}"').description, name
        read = 'SELECT pg_get_indexdef(indexrelid), pg_get_constraintdef(c.oid) FROM "pg_catalog.pg_index" i '
        found = connection.execute(f'{read} JOIN "pg_catalog.pg_constraint" c ON c.conindid = i.indexrelid').fetchall()
    assert found == [("CREATE UNIQUE INDEX t_pkey ON public.t USING btree (a)", "PRIMARY KEY (a)")]


def test_the_catalogue_reaches_nothing(gateway: Gateway) -> None:
    for sql in (
        "SELECT current_setting('home_directory')",
        "SELECT set_config('memory_limit', '1TB', false)",
        "SELECT getenv('HOME') FROM pg_class",
        "SELECT * FROM pg_class, duckdb_settings()",
        "SELECT * FROM pg_class, read_text('/etc/passwd')",
        "SELECT * FROM pg_class, '/etc/passwd'",
        'SELECT * FROM "base.settings"',
        'SELECT * FROM pg_class, "base.settings"',
        "SELECT * FROM memory.main.pg_class",
        "SELECT * FROM system.pg_catalog.pg_nothing",
        "SELECT query('SELECT 1') FROM pg_class",
    ):
        with pytest.raises(psycopg.Error):
            gateway.rows(sql)


def test_a_message_does_not_grow_with_dots(gateway: Gateway) -> None:
    """Literals are taken out of DuckDB's message once: of many "." each would make three of the last ones'."""
    dots = ", ".join(["'.'"] * 40)
    with pytest.raises(psycopg.Error) as caught:
        gateway.rows(f"SELECT {dots}, c.nothing FROM pg_class AS c")
    assert len(str(caught.value)) < 1000


def test_a_table_of_the_users_own_may_be_called_like_one_of_the_catalogue() -> None:
    from cleave.sql.read import read_statement  # noqa: PLC0415

    def kind(sql: str) -> str:
        return catalogue.kind_of(read_statement(sql), lambda name: name == "pg_mine")

    assert kind("SELECT * FROM pg_mine") == "tables"
    assert kind("SELECT * FROM pg_catalog.pg_mine") == "catalogue"
    assert kind("SELECT * FROM pg_class") == "catalogue"
    assert kind("WITH pg_class AS (SELECT 1) SELECT * FROM pg_class") == ""
    assert kind("SELECT 1") == ""
    assert kind("SELECT (SELECT max(oid) FROM pg_class)") == "catalogue"
