"""Answers of stored tables under a threshold, with contributors and entities: exactly what a mirror says is shown."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from cleave.ask.question import Options
from cleave_shared.errors import InputError, QueryRefused
from tests.people import HEADER, SCHEMA, Row, expected, question, rows_of
from tests.store.contributing import World

ENTITIES: tuple[tuple[str, ...], ...] = ((), ("patient",), ("house", "patient"), ("patient", "contributor"))


def world_of(root: Path, key_file: Path, entity: Sequence[str]) -> World:
    class Stays(World):
        schema_text = SCHEMA + (f"[privacy]\nentity = {json.dumps(list(entity))}\n" if entity else "")
        header = ",".join(HEADER) + "\n"

    return Stays(root, key_file)


def text_of(rows: Sequence[Row]) -> str:
    writer = csv.DictWriter(text := io.StringIO(), HEADER, extrasaction="ignore", lineterminator="\n")
    writer.writerows(rows)
    return text.getvalue()


@pytest.mark.sampled(7)
@pytest.mark.parametrize("seed", range(12))
def test_an_answer_shows_what_the_mirror_does(tmp_path: Path, key_file: Path, seed: int) -> None:
    chance = random.Random(seed)
    entity = ENTITIES[seed % 4]
    world = world_of(tmp_path / "world", key_file, entity)
    rows = [{**row, "party": "owner"} for row in rows_of(chance)]
    world.put(text_of(rows), ("ward", "sex"))
    if seed % 4 == 3 or seed % 3 == 0:  # an entity of contributors needs some
        for name in ("north", "south"):
            world.register(name)
            theirs = [{**row, "party": name} for row in rows_of(chance)]
            world.contribute(name, text_of(theirs))
            rows += theirs
        world.collect()
    for row in rows:
        row["contributor"] = row["party"]
    with world.session() as session:
        for _ in range(6):
            asked, least = question(chance, "trial"), chance.randint(2, 6)
            result = session.ask(session.plan(asked.sql, Options(min_group=least, yes=True))).result
            values, marks = expected(asked, rows, least, entity)
            assert result.rows == values, asked.sql
            assert result.hidden == marks, asked.sql


@pytest.fixture
def people(tmp_path: Path, key_file: Path) -> World:
    world = world_of(tmp_path / "world", key_file, ("patient",))
    world.put("A,f,p1,1,1,1,1\nA,f,p1,1,1,1,1\nB,f,p1,1,1,1,1\nB,f,p2,1,1,1,1\n", ("ward", "sex"))
    return world


def test_a_plan_says_that_people_are_counted_and_reads_their_column(people: World) -> None:
    with people.session() as session:
        sql = "SELECT ward, SUM(z) FROM trial GROUP BY ward"
        plan = session.plan(sql, Options(min_group=2))
        described = session.describe(plan)
        assert described.ways[0].name == "rows"
        assert "counts people (patient)" in described.ways[0].reason
        fates = {column.name: column.fate for column in described.columns}
        assert fates["patient"] == fates["z"] == "fetched, and read here"
        assert session.ask(plan).result.rows == [["B", 2]]
        without = session.describe(session.plan(sql))
        assert {column.name: column.fate for column in without.columns}["patient"] == "not read"


def test_reads_under_a_threshold_do_not_depend_on_who_the_rows_are_about(tmp_path: Path, key_file: Path) -> None:
    reads = []
    for name, other in (("one", "p1"), ("two", "p2")):
        world = world_of(tmp_path / name, key_file, ("patient",))
        world.put(f"A,f,p1,1,1,1,1\nB,f,{other},1,1,1,1\n", ("ward",))
        with world.session() as session:
            sql = "SELECT SUM(z) FROM trial"
            session.ask(session.plan(sql))
            usage = session.ask(session.plan(sql, Options(min_group=2))).usage
        reads.append((usage.objects_read, usage.bytes_read))
    assert reads[0] == reads[1]


def test_cloud_only_is_refused_where_rows_are_counted(people: World) -> None:
    with people.session() as session:
        sql = "SELECT ward, SUM(z) FROM trial GROUP BY ward"
        plan = session.plan(sql, cloud_only=True)
        assert session.ask(plan).result.rows == [["A", 2], ["B", 2]]
        for each in (sql, sql.replace("z", "x")):
            with pytest.raises(QueryRefused, match=r"counts people \(patient\)"):
                session.plan(each, Options(min_group=2), cloud_only=True)


def test_a_local_column_names_nobody(tmp_path: Path, key_file: Path) -> None:
    world = world_of(tmp_path / "world", key_file, ("patient",))
    local = world.schema_text.replace('patient]\nkind = "sealed"', 'patient]\nkind = "local"')
    (world.root / "schema.toml").write_text(local)
    type(world).schema_text = local
    with pytest.raises(InputError, match="'patient' is local, and names whom a row is about"):
        world.put("A,f,p1,1,1,1,1\n", ("ward",))


def test_contributors_are_nobody_where_there_are_none(tmp_path: Path, key_file: Path) -> None:
    world = world_of(tmp_path / "world", key_file, ("contributor",))
    world.put("A,f,p1,1,1,1,1\n" * 9, ("ward",))
    with world.session() as session, pytest.raises(QueryRefused, match="this table has no contributors"):
        session.plan("SELECT SUM(z) FROM trial", Options(min_group=2))
