"""Each output of a question over a stored table comes its own way, and says which; together they are right."""

from __future__ import annotations

import json

import numpy as np
import pytest

from cleave.ask.question import Options
from cleave.ask.ways.rows import cells_of
from cleave.sql.parse import conditions_of_select
from cleave.sql.read import read_statement
from cleave.sums.stored import Stored
from cleave_shared.errors import CheckFailed, QueryRefused
from tests.store.asking import ask, planned, rows_of, site_of
from tests.store.trial import World, check, truth

MIXED = {
    "SELECT ward, AVG(bill), MEDIAN(bill) FROM trial GROUP BY ward ORDER BY ward": "key encrypted local",
    "SELECT COUNT(*), MAX(age) FROM trial": "encrypted local",
    "SELECT ward, COUNT(*) FROM trial GROUP BY ward HAVING MEDIAN(age) > 40 ORDER BY 1": "key encrypted",
    "SELECT ward, SUM(bill) FROM trial GROUP BY ward ORDER BY MAX(email)": "key encrypted",
    "SELECT ward, SUM(bill) FILTER (WHERE admitted < DATE '2025-01-20') f, MEDIAN(age) FILTER (WHERE bill > 100) m "
    "FROM trial GROUP BY ward ORDER BY ward": "key encrypted local",
    "SELECT ward, SUM(bill) FILTER (WHERE age > 50) FROM trial GROUP BY ward ORDER BY ward": "key local",
    "SELECT ward, admitted < DATE '2025-01-20' e, GROUPING(ward), AVG(bill), MODE(insured), CORR(age, bill) FROM trial "
    "GROUP BY CUBE (ward, e) ORDER BY ALL": "key key key encrypted local local",
    "SELECT AVG(bill), MEDIAN(bill) FROM trial WHERE ward = 'nowhere'": "encrypted local",
    "SELECT ward, AVG(bill) FROM trial WHERE age > 40 AND ward < 'N' GROUP BY ward ORDER BY 1": "key local",
    "SELECT age > 50 AS old, COUNT(*) FROM trial GROUP BY old ORDER BY 1": "key local",
    "SELECT COUNT(*) FILTER (WHERE ward < 'N'), COUNT(ward), COUNT(weight), SUM(weight) FROM trial": "encrypted " * 4,
    "SELECT AVG(bill) / MEDIAN(bill) AS r, AVG(bill) * 2 AS a FROM trial": "local encrypted",
    "SELECT string_agg(patient_name, ',') FROM trial WHERE ward = 'Surgery'": "local",
    "SELECT COUNT(email), MIN(email) FROM trial WHERE ward IN ('Surgery', 'Maternity')": "local local",
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("sql", list(MIXED))
def test_every_output_its_own_way(world: World, sql: str) -> None:
    world.put("ward", "admitted")
    answer = world.ask(sql, cloud_only=False).result
    assert [column.source for column in answer.columns] == MIXED[sql].split()
    assert all(column.reason for column in answer.columns if column.source == "local")
    check(answer.rows, answer.bounds, truth(sql))


@pytest.mark.slow  # quick: the test above
def test_by_columns_may_be_sealed_or_encrypted(world: World) -> None:
    world.put("ward", "insured", "patient_name")
    sql = (
        "SELECT insured, SUM(bill), SUM(age) FILTER (WHERE patient_name < 'M'), MIN(patient_name) FROM trial "
        "WHERE patient_name <> 'x' GROUP BY insured ORDER BY 1"
    )
    answer = world.ask(sql, cloud_only=False).result
    assert [column.source for column in answer.columns] == ["key", "encrypted", "encrypted", "local"]
    check(answer.rows, answer.bounds, truth(sql))


def test_only_the_columns_that_need_it_are_fetched(world: World) -> None:
    world.put("ward")
    plan = planned(world.stored(), "SELECT ward, AVG(bill), MEDIAN(age) FROM trial GROUP BY ward")
    rows = rows_of(plan)
    assert rows.cut.rows() == {"trial": ["ward", "age"]}
    needed = world.stored().rows.needed(rows.cut.rows()["trial"])
    assert [stored_column(world, number) for number in needed.sealed] == ["age"]
    assert not needed.ordered


def stored_column(world: World, number: int) -> str:
    return world.stored().manifest.sealed[number].name


def test_rows_are_refused_where_only_services_may_answer(world: World) -> None:
    world.put("ward")
    for sql in ("SELECT MEDIAN(bill) FROM trial", "SELECT COUNT(*) FROM trial WHERE age > 5"):
        with pytest.raises(QueryRefused):
            world.ask(sql)
    assert world.ask("SELECT COUNT(*) FROM trial").result.rows == [list(*truth("SELECT COUNT(*) FROM trial"))]


def test_small_groups_are_left_out_of_every_way(world: World) -> None:
    """Also where rows make the groups, which DuckDB answering as a whole could not do."""
    world.put("ward")
    sizes = dict(truth("SELECT admitted, COUNT(*) FROM trial GROUP BY admitted"))
    sql = "SELECT admitted, MEDIAN(bill), SUM(age) FROM trial GROUP BY admitted ORDER BY 1"
    answer = world.ask(sql, Options(min_group=3), cloud_only=False)
    assert [str(row[0]) for row in answer.result.rows] == sorted(str(day) for day, rows in sizes.items() if rows >= 3)
    assert answer.usage.suppressed_groups == sum(rows < 3 for rows in sizes.values())


def test_rows_that_are_not_those_of_the_cells_are_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.put("ward")
    stored = world.stored()
    cells = stored.manifest.cells
    real = type(world.tables).unseal

    def moved(tables: object, vault: object, purpose: str, which: object) -> bytes:
        content: bytes = real(tables, vault, purpose, which)  # type: ignore[arg-type]
        if which not in cells:
            return content
        found = json.loads(content)
        found["rows"][0] += 1
        found["rows"][1] -= 1
        return json.dumps(found).encode()

    monkeypatch.setattr(type(world.tables), "unseal", moved)
    with pytest.raises(CheckFailed, match="not those that were summed"):
        ask(stored, "SELECT ward, AVG(bill), MEDIAN(bill) FROM trial GROUP BY ward", cloud_only=False)


CONJUNCTS = {
    "ward = 'Surgery'": True,
    "ward = 'Surgery' AND age > 3": True,
    "(ward = 'Surgery' AND age > 3) AND admitted > DATE '2025-01-20'": True,
    "ward = 'Surgery' OR age > 3": False,
    "ward = 'Surgery' OR admitted > DATE '2025-01-20'": True,
    "NOT (ward = 'Surgery')": True,
    "age > 3": False,
    "ward IS NULL": True,
    "coalesce(nullif(ward, 'Surgery'), '') <> ''": True,
    "CAST(ward AS INTEGER) > 3 AND age > 3": False,
    "admitted - INTERVAL 1 DAY > DATE '2025-01-20' AND ward LIKE '%y'": True,
    "1 = 0 AND age > 3": False,
}


def expected(where: str, stored: Stored) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """The cells in which a row is selected."""
    keys = {tuple(map(str, row)) for row in truth(f"SELECT DISTINCT ward, admitted FROM trial WHERE {where}")}
    return np.array([key in keys for key in stored.cells.keys])


@pytest.mark.sampled(8)
@pytest.mark.parametrize("where", list(CONJUNCTS))
def test_cells_that_cannot_match_are_left_out_and_no_other(world: World, where: str) -> None:
    world.put("ward", "admitted")
    stored = world.stored()
    plan = planned(stored, f"SELECT MEDIAN(bill) FROM trial WHERE {where}")
    whole = f"SELECT bill FROM trial AS t WHERE {where}"
    for conditions in (plan.cut.conditions, conditions_of_select(read_statement(whole), "trial")):
        left = cells_of(stored, conditions)
        assert (left is not None) == CONJUNCTS[where]
        if left is not None:
            wanted = expected(where, stored)
            assert not (wanted & ~left.flags).any()
            assert "age" in where or (left.flags == wanted).all()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT bill FROM trial WHERE age > 3",
        "SELECT bill FROM trial WHERE ward = 'Surgery' OR random() < 2",
        "SELECT bill FROM trial WHERE ward < CAST(now() AS VARCHAR)",
        "SELECT bill FROM trial t JOIN trial u USING (age) WHERE t.ward = 'Surgery'",
        "WITH x AS (SELECT * FROM trial) SELECT bill FROM x WHERE ward = 'Surgery'",
        "SELECT bill FROM (SELECT * FROM trial WHERE ward = 'Surgery')",
        "SELECT bill FROM trial WHERE ward = (SELECT max(ward) FROM trial)",
        "SELECT bill FROM trial WHERE ward = 'Surgery' UNION ALL SELECT bill FROM trial",
        "SELECT bill FROM trial AS t(a, b, ward, c) WHERE ward = 'Surgery'",
        "SELECT bill FROM trial TABLESAMPLE 10 ROWS WHERE ward = 'Surgery'",
        "SELECT bill FROM trial WHERE ward = 'Surgery' USING SAMPLE 3 ROWS",
        "SELECT bill FROM trial WHERE list_contains(list_transform(['a'], ward -> ward), 'a')",
    ],
)
def test_what_is_not_surely_of_the_cells_leaves_all(world: World, sql: str) -> None:
    world.put("ward")
    assert cells_of(world.stored(), conditions_of_select(read_statement(sql), "trial")) is None


def test_padded_questions_read_everything(world: World) -> None:
    world.put("ward")
    stored = world.stored()
    plan = planned(stored, "SELECT MEDIAN(bill) FROM trial WHERE ward = 'Surgery' AND age > 3")
    rows, site = rows_of(plan), site_of(stored)
    every = stored.rows.reads(stored.rows.needed(rows.cut.rows()["trial"]))
    assert rows.work(site, pad=True).reads == every
    assert rows.work(site, pad=False).reads == every
    nowhere = planned(stored, "SELECT MEDIAN(bill) FROM trial WHERE ward = 'nowhere' AND age > 3")
    assert not rows_of(nowhere).work(site, pad=False).reads
