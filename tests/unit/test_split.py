"""The plain half: which rows each request has, and in which order."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pytest

from cleave.ckks.columns import Columns
from cleave.sql import split
from cleave.sql.plan import Counting
from cleave.sql.planner import plan_query
from cleave.sql.split import Halves
from cleave.sql.tally import tallied
from cleave.table.stream import open_table
from cleave.table.table import Table
from cleave_shared.errors import InputError
from tests.unit.simulate import schema

ROWS = 40_000
KINDS = {
    "rowid": "plain BIGINT",  # the names that the tables of a split have
    "c1": "plain BIGINT",
    "k0": "plain DOUBLE",
    "number": "plain VARCHAR",
    "selected": "plain BIGINT",
    "age": "encrypted BIGINT",
}
FLOATS = ["", "NaN", "-0.0", "0.0", "inf", "1.5"]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table]:
    path = tmp_path_factory.mktemp("split") / "t.csv"
    lines = (f"{row},{row % 7},{FLOATS[row % 6]},{'ab'[row % 2]},{row % 5},{row % 90}" for row in range(ROWS))
    path.write_text("\n".join([",".join(KINDS), *lines]) + "\n")
    with open_table(path, schema(**KINDS)) as opened:
        yield opened


def halves_of(table: Table, sql: str) -> Halves:
    return Halves(table, plan_query(sql, table.schema, "t"))


def sent(halves: Halves, folder: Path) -> list[dict[str, np.ndarray]]:
    found = []
    for number, part in enumerate(halves.plain_parts):
        assert part.parquet is not None
        assert len(part.parquet) <= split._PARQUET_BYTES
        path = folder / f"{number}.parquet"
        path.write_bytes(part.parquet)
        columns = duckdb.sql(f"FROM '{path}'").fetchnumpy()
        assert {len(each) for each in columns.values()} == {part.rows}
        found.append({name: np.ma.filled(values, -1) for name, values in columns.items()})
    return found


QUESTION = "SELECT c1, MAX(rowid), MIN(number), SUM(age) FROM t {} GROUP BY c1"


@pytest.mark.parametrize("most", [30_000, split._PARQUET_BYTES, 4_000])
@pytest.mark.parametrize("where", ["", "WHERE selected < 2"])
@pytest.mark.sampled(2)
def test_every_row_is_sent_once_group_by_group_and_what_is_not_selected_last(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, where: str
) -> None:
    monkeypatch.setattr(split, "_PARQUET_BYTES", most)
    parts = sent(halves_of(table, QUESTION.format(where)), tmp_path)
    assert (len(parts) > 1) == (most < 1_000_000)
    rows = np.concatenate([part["rowid"] for part in parts])
    assert sorted(rows) == list(range(ROWS))
    assert np.array_equal(np.concatenate([part["c1"] for part in parts]), rows % 7)
    groups = [int(row % 7) if not where or row % 5 < 2 else "not selected" for row in rows]
    assert [group for group, _ in itertools.groupby(groups)] == [*range(7), *(["not selected"] if where else [])]


@pytest.mark.parametrize("where", ["", "WHERE selected < 2"])
@pytest.mark.parametrize("keys", ["", "GROUP BY number"])
def test_within_a_group_rows_are_in_an_order_that_is_random(
    table: Table, tmp_path: Path, where: str, keys: str
) -> None:
    """Those of the encrypted half come in the order of the file."""
    orders = []
    for _ in range(2):
        (part,) = sent(halves_of(table, f"SELECT MAX(rowid), MIN(number), SUM(age) FROM t {where} {keys}"), tmp_path)
        orders.append([row for row in part["rowid"].tolist() if row % 2 and (not where or row % 5 < 2)])
        later = sum(one < other for one, other in itertools.pairwise(orders[-1])) / len(orders[-1])
        assert 0.45 < later < 0.55, "as many steps forward as back"
        assert abs(np.corrcoef(orders[-1], np.arange(len(orders[-1])))[0, 1]) < 0.05
    assert orders[0] != orders[1]


@pytest.mark.parametrize("where", ["", "WHERE selected < 2"])
def test_keys_are_the_same_where_duckdb_groups_them_so(table: Table, tmp_path: Path, where: str) -> None:
    """NULL, NaN, and a zero with either sign."""
    halves = halves_of(table, f"SELECT k0, MAX(rowid), MIN(selected), SUM(age) FROM t {where} GROUP BY k0")
    (part,) = sent(halves, tmp_path)
    names = ["NULL", "NaN", "0", "0", "inf", "1.5"]
    groups = [names[row % 6] if not where or row % 5 < 2 else "not selected" for row in part["rowid"]]
    found = [(name, len(list(rows))) for name, rows in itertools.groupby(groups)]
    assert [name for name, _ in found] == ["0", "1.5", "inf", "NaN", "NULL", *(["not selected"] if where else [])]
    assert [count for _, count in found[:5]] == halves.counts.tolist()
    nulls = [row for row, name in zip(part["rowid"].tolist(), groups, strict=True) if name == "NULL"]
    assert nulls != sorted(nulls)


def test_a_key_is_not_computed_where_where_says_no(table: Table, tmp_path: Path) -> None:
    key = "CAST(CASE WHEN c1 = 3 THEN 'none' ELSE '1' END AS BIGINT)"
    halves = halves_of(table, f"SELECT {key} AS k, MAX(rowid), SUM(age) FROM t WHERE c1 <> 3 GROUP BY k")
    (part,) = sent(halves, tmp_path)
    assert np.all(part["c1"][-(ROWS // 7) :] == 3)


def test_nothing_selected_is_sent_like_everything(table: Table, tmp_path: Path) -> None:
    for keys in ("", "GROUP BY c1"):
        (part,) = sent(halves_of(table, f"SELECT MAX(rowid), SUM(age) FROM t WHERE c1 > 99 {keys}"), tmp_path)
        assert sorted(part["rowid"]) == list(range(ROWS))


@pytest.mark.parametrize("type_", ["BIGINT", "DOUBLE", "DECIMAL(30,2)"])
@pytest.mark.parametrize("keys", ["", "GROUP BY g"])
def test_a_null_where_there_is_none_by_the_schema_is_refused(type_: str, keys: str, tmp_path: Path) -> None:
    """Should the table let it pass: it is not added up as 0, nor as whatever lies under it."""
    (path := tmp_path / "t.csv").write_text("g,n\n1,5\n1,\n2,7\n")
    with open_table(path, schema(g="plain BIGINT", n=f"encrypted {type_}")) as opened:
        columns = tuple(replace(each, nullable=False) for each in opened.schema.columns)
        plan = plan_query(f"SELECT SUM(n) FROM t {keys}", replace(opened.schema, columns=columns), "t")
        (values,) = Halves(opened, plan).values()
    assert values.valid is not None
    assert values.valid.tolist() == [True, False, True]
    assert not values.values[..., 1].any()
    with pytest.raises(InputError, match="is NULL in 1 row, and the schema says it never is"):
        Columns(plan.domains, plan.encrypted).encode(["n"], [values])


def test_no_request_has_more_rows_than_a_service_has_time_for(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(split, "_MOST_ROWS", 15_000)
    parts = sent(halves_of(table, "SELECT MAX(c1), SUM(age) FROM t"), tmp_path)
    assert [len(part["c1"]) for part in parts] == [15_000, 15_000, 10_000]


def test_what_was_counted_of_people_goes_after_errors_too(table: Table) -> None:
    def interrupted(_: str) -> None:
        raise duckdb.InterruptException("in the middle")

    plan = plan_query("SELECT SUM(age) FROM t", table.schema, "t")
    with pytest.raises(duckdb.InterruptException):
        tallied(plan, Counting(("c1",)), table.relation, table.connection.execute, interrupted)
    left = table.connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
    assert {"told", "people"}.isdisjoint(name for (name,) in left)
