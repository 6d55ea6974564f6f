"""A query names the contributor of each row as a column: the same answers as over a table that has it as one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cleave.ask.plan import AnswerPlan
from cleave.ask.question import Options
from cleave.ask.session import Session
from cleave.ask.ways.totals import TotalsWay
from cleave_shared.errors import QueryRefused
from tests.store.contributing import World, kept
from tests.store.test_contributors import NORTH, OWN, SOUTH, _oracle, expected, registered, taken_in
from tests.store.trial import check

ALL = Options(min_group=1, yes=True)  # also groups of a few rows
WHOSE = """CREATE OR REPLACE TABLE trial AS SELECT *, CASE WHEN name IN ('Ada', 'Bo', 'Cy') THEN 'owner'
WHEN name IN ('Di', 'Ed') THEN 'north' ELSE 'south' END AS contributor FROM trial"""
TOTALS = [
    "SELECT contributor, COUNT(*), COUNT(bill), SUM(bill), AVG(age) FROM trial GROUP BY contributor ORDER BY 1",
    "SELECT SUM(bill), COUNT(*) FROM trial WHERE contributor = 'north'",
    "SELECT ward, SUM(bill) FROM trial WHERE contributor = 'nobody' GROUP BY ward",
    "SELECT contributor, ward, SUM(age) FROM trial WHERE contributor <> 'owner' GROUP BY ALL ORDER BY ALL",
    "SELECT ward, SUM(age) FILTER (contributor = 'south') FROM trial GROUP BY ward ORDER BY ward",
    "SELECT upper(contributor) AS who, sex, VAR_POP(age) FROM trial GROUP BY ROLLUP (who, sex) ORDER BY ALL",
    "SELECT contributor, SUM(age) AS s FROM trial GROUP BY contributor HAVING SUM(age) > 100 ORDER BY s DESC LIMIT 2",
]
ROWS = [
    "SELECT contributor, MEDIAN(age), MAX(name) FROM trial GROUP BY contributor ORDER BY contributor",
    "SELECT contributor, name FROM trial WHERE contributor <> 'north' ORDER BY name",
    "SELECT COUNT(DISTINCT contributor) FROM trial WHERE age > 40",
    "SELECT DISTINCT contributor FROM trial ORDER BY 1",
    "SELECT name, t.Contributor FROM trial t WHERE t.\"CONTRIBUTOR\" = 'south' ORDER BY name",
    "SELECT MEDIAN(age), SUM(bill) FROM trial WHERE contributor = 'south' AND ward = 'C'",
    "SELECT ward, (SELECT MAX(age) FROM trial i WHERE i.contributor = o.contributor) FROM trial o ORDER BY ALL",
    "SELECT * FROM trial WHERE contributor = 'north' ORDER BY name",
    "SELECT * FROM trial ORDER BY name",
]


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory, key_file: Path) -> Iterator[tuple[Session, World]]:
    world = kept(tmp_path_factory.mktemp("whose") / "world", key_file, taken_in)
    with world.session() as opened:
        yield opened, world


def compare(asked: tuple[Session, World], sql: str, *, cloud_only: bool) -> AnswerPlan:
    opened, world = asked
    expected(world, OWN + NORTH + SOUTH, "SELECT 1 FROM trial")
    if "contributor" in sql.lower():
        _oracle().execute(WHOSE)
    plan = opened.plan(sql, ALL, cloud_only=cloud_only)
    found = opened.ask(plan).result
    check(found.rows, found.bounds, _oracle().execute(sql).fetchall())
    return plan


@pytest.mark.sampled(2)
@pytest.mark.parametrize("sql", TOTALS)
def test_totals_of_each_contributor(asked: tuple[Session, World], sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TotalsWay, "worth", 10**9)
    plan = compare(asked, sql, cloud_only=True)
    assert plan.name == "totals"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("sql", [*TOTALS, *ROWS])
def test_rows_of_each_contributor(asked: tuple[Session, World], sql: str) -> None:
    compare(asked, sql, cloud_only=False)


def test_only_the_blocks_of_a_contributor_are_read(asked: tuple[Session, World]) -> None:
    _, world = asked
    read = {}
    for where in ("contributor = 'south'", "true"):
        with world.session() as opened:  # another one may hold what it has read
            plan = opened.plan(f"SELECT MAX(name) FROM trial WHERE {where}", ALL)
            described = opened.describe(plan)
            assert described.plain.count == 0
            read[where] = opened.ask(plan).usage.bytes_read
    assert read["contributor = 'south'"] < read["true"]


def test_the_hint_of_a_refusal_names_the_contributor(asked: tuple[Session, World]) -> None:
    opened, _ = asked
    with pytest.raises(QueryRefused) as refused:
        opened.plan("SELECT contributor, MEDIAN(age) FROM trial GROUP BY contributor", cloud_only=True)
    assert "sex, contributor: " in refused.value.hint


def test_a_table_of_nobody_else_has_no_such_column(tmp_path: Path, key_file: Path) -> None:
    world = World(tmp_path / "world", key_file)
    world.put(OWN)
    with world.session() as opened, pytest.raises(QueryRefused, match="contributor"):
        opened.plan("SELECT SUM(age) FROM trial WHERE contributor = 'owner'")


def test_nothing_was_put_yet(tmp_path: Path, key_file: Path) -> None:
    world = kept(tmp_path / "world", key_file, registered)
    with world.session() as opened:
        plan = opened.plan("SELECT contributor, COUNT(*) FROM trial GROUP BY contributor", ALL)
        assert opened.ask(plan).result.rows == [["owner", 3]]
        assert "contributor" in opened.schemas["trial"].names


class Named(World):
    """Its table has a column of that name."""

    schema_text = World.schema_text + '[columns.contributor]\nkind = "plain"\ntype = "VARCHAR"\n'
    header = World.header.strip() + ",contributor\n"


def test_a_column_of_that_name_comes_first(tmp_path: Path, key_file: Path) -> None:
    world = Named(tmp_path / "world", key_file)
    world.put("A,f,61,12.50,70.25,Ada,us\nB,m,47,99.00,81.5,Bo,them\n")
    world.register("north")
    with world.session() as opened:
        plan = opened.plan("SELECT age, contributor FROM trial WHERE contributor = 'them'", ALL)
        assert opened.ask(plan).result.rows == [[47, "them"]]
