"""SQLAlchemy over the store itself: reflection, pandas, and what Superset asks of a dialect."""

from __future__ import annotations

import datetime

import pandas as pd
import pytest
import sqlalchemy as sa

from cleave_shared.errors import InputError
from tests.gateway.conftest import Gateway
from tests.gateway.test_answers import TIMES


@pytest.fixture(scope="module")
def engine(gateway: Gateway) -> sa.Engine:
    return sa.create_engine(f"cleave:///{gateway.folder}/store?key={gateway.folder}/key.json&timeout=600&cache=false")


def test_tables_and_columns_are_reflected(engine: sa.Engine) -> None:
    inspector = sa.inspect(engine)
    assert sorted(inspector.get_table_names()) == ["visits", "wards"]
    assert inspector.has_table("WARDS")
    assert not inspector.has_table("nowhere")
    assert inspector.get_view_names() == []
    table = sa.Table("visits", sa.MetaData(), autoload_with=engine)
    kinds = {each.name: type(each.type).__name__ for each in table.columns}
    assert kinds | {} == {
        **{"id": "BigInteger", "ward": "Text", "day": "Date", "seen": "DateTime", "bill": "Numeric"},
        **{"level": kinds["level"], "insured": "Boolean", "big": "BigInteger", "clock": "Time", "name": "Text"},
    }
    with pytest.raises(sa.exc.NoSuchTableError):
        sa.Table("nowhere", sa.MetaData(), autoload_with=engine)


def test_sqlalchemys_statements_are_answered(engine: sa.Engine, gateway: Gateway) -> None:
    table = sa.Table("visits", sa.MetaData(), autoload_with=engine)
    asked = (
        sa.select(table.c.ward, sa.func.count().label("n"), sa.func.sum(table.c.bill).label("s"))
        .where(table.c.day >= datetime.date(2024, 3, 1), table.c.ward != "O'Hara")
        .group_by(table.c.ward)
        .order_by(table.c.ward)
        .limit(2)
        .offset(1)
    )
    truth = gateway.truth.execute(
        "SELECT ward, count(*), sum(bill) FROM visits WHERE day >= '2024-03-01' AND ward != 'O''Hara' GROUP BY ward "
        "ORDER BY ward LIMIT 2 OFFSET 1"
    ).fetchall()
    with engine.connect() as connection:
        assert [tuple(row) for row in connection.execute(asked)] == truth
        named = connection.execute(sa.text("SELECT COUNT(*) FROM visits WHERE ward = :w"), {"w": "A"})
        assert named.scalar() == 750
        with pytest.raises(sa.exc.DBAPIError):
            connection.execute(sa.insert(table).values(id=1))
        connection.rollback()


def test_times_are_parameters(engine: sa.Engine, gateway: Gateway) -> None:
    with engine.connect() as connection:
        for time in TIMES:
            asked = connection.execute(sa.text("SELECT COUNT(*) FROM visits WHERE clock > :t"), {"t": time})
            truth = gateway.truth.execute("SELECT COUNT(*) FROM visits WHERE clock > ?", [time]).fetchall()
            assert [tuple(row) for row in asked] == truth


def test_pandas_reads_answers(engine: sa.Engine, gateway: Gateway) -> None:
    sql = "SELECT day, name, level FROM visits WHERE id < 50 ORDER BY id"
    found = pd.read_sql(sql, engine)
    truth = gateway.truth.execute(sql).fetchall()
    assert [tuple(None if pd.isna(each) else each for each in row) for row in found.to_numpy()] == truth
    assert len(pd.read_sql_table("wards", engine)) == 3


def test_addresses_that_are_wrong() -> None:
    for url in ("cleave:///store?wrong=1", "cleave:///store?min_group=x", "cleave:///store?scan=perhaps"):
        with pytest.raises(InputError):
            sa.create_engine(url).connect()
