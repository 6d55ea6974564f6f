"""A model of a table with contributors: each party can take its own rows away, so its parameters need enough others."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from cleave.ask.options import Asking, complete
from cleave.models.components import moments
from cleave.models.fitting import fit_linear
from cleave.models.linear import LinearModel
from cleave.models.sums import Sums
from cleave_shared.errors import QueryRefused
from tests.store.contributing import World, kept_as

SIZES = {"owner": 60, "north": 40, "south": 8}  # people, of two rows each


class Trial(World):
    schema_text = """
[columns.ward]
kind = "plain"
type = "VARCHAR"
[columns.patient]
kind = "sealed"
type = "VARCHAR"
[columns.age]
kind = "encrypted"
type = "BIGINT"
lower = 0
upper = 127
[columns.bill]
kind = "encrypted"
type = "BIGINT"
lower = 0
upper = 1000
nullable = false
"""
    header = "ward,patient,age,bill\n"


class People(Trial):
    schema_text = f'[privacy]\nentity = ["patient"]\n{Trial.schema_text}'


def text_of(party: str) -> str:
    draw = random.Random(party)
    people = [f"{party[0]}{number}" for number in range(SIZES[party])]
    return "".join(f"{draw.choice('AB')},{each},{draw.randrange(90)},{draw.randrange(900)}\n" for each in people * 2)


def collected(world: Trial, *parties: str) -> None:
    world.put(text_of("owner"), ("ward",))
    for party in parties:
        world.register(party)
        world.contribute(party, text_of(party))
    world.collect()


def rows_of_north(world: Trial) -> None:
    collected(world, "north")


def rows_of_south(world: Trial) -> None:
    collected(world, "south")


def people_of_north(world: People) -> None:
    collected(world, "north")


def people_of_south(world: People) -> None:
    collected(world, "south")


def fitted(world: Trial, formula: str) -> LinearModel:
    with world.session() as session, session.snapshot():
        return fit_linear(Sums(session, complete(Asking, {})), formula, None, 0, 0.95)


def test_parameters_need_three_rows_of_others_each(tmp_path: Path, key_file: Path) -> None:
    formula = "bill ~ age * C(ward) + I(age**2) + I(age**3)"
    large = kept_as(Trial, tmp_path / "large", key_file, rows_of_north)
    assert fitted(large, formula).n == 2 * (SIZES["owner"] + SIZES["north"])
    small = kept_as(Trial, tmp_path / "small", key_file, rows_of_south)
    assert fitted(small, "bill ~ age * C(ward)").n == 2 * (SIZES["owner"] + SIZES["south"])
    with pytest.raises(QueryRefused, match="6 parameters, more than a third of the rows"):
        fitted(small, formula)


def test_parameters_need_three_other_people_each(tmp_path: Path, key_file: Path) -> None:
    formula = "bill ~ age + C(ward)"
    large = kept_as(People, tmp_path / "large", key_file, people_of_north)
    assert fitted(large, formula).n == 2 * (SIZES["owner"] + SIZES["north"])
    small = kept_as(People, tmp_path / "small", key_file, people_of_south)
    assert fitted(small, "bill ~ age").n == 2 * (SIZES["owner"] + SIZES["south"])
    with pytest.raises(QueryRefused, match="3 parameters, more than a third of the people"):
        fitted(small, formula)


def test_so_do_components(tmp_path: Path, key_file: Path) -> None:
    world = kept_as(People, tmp_path / "world", key_file, people_of_south)
    with (
        world.session() as session,
        session.snapshot(),
        pytest.raises(QueryRefused, match="are more than a third of the people"),
    ):
        moments(Sums(session, complete(Asking, {})), ["age", "bill"])
