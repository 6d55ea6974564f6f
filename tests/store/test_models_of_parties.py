"""A model of a table with contributors: each party can take its own rows away, so its parameters need enough others."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from cleave.ask.options import Asking, complete
from cleave.models.components import moments
from cleave.models.fitting import fit_linear
from cleave.models.linear import LinearModel
from cleave.models.sums import ModelSums
from cleave_shared.errors import QueryRefused
from tests.campaign import FACTOR
from tests.store.contributing import World, kept_as

SIZES = {"owner": 60, "north": 40, "south": 8}  # people, of two rows each


class People(World):
    schema_text = f'[privacy]\nentity = ["name"]\n{World.schema_text}'


def text_of(party: str) -> str:
    draw = random.Random(party)
    names = [f"{party[0]}{number}" for number in range(SIZES[party])] * 2
    return "".join(f"{draw.choice('AB')},f,{draw.randrange(90)},{draw.randrange(900)},70,{name}\n" for name in names)


def collected(world: World, party: str) -> None:
    world.put(text_of("owner"), ("ward",))
    world.register(party)
    world.contribute(party, text_of(party))
    world.collect()


def with_north(world: World) -> None:
    collected(world, "north")


def with_south(world: World) -> None:
    collected(world, "south")


def fitted(world: World, formula: str) -> LinearModel:
    with world.session() as session, session.snapshot():
        return fit_linear(ModelSums(session, complete(Asking, {})), formula, None, 0, 0.95)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("kind", "few", "many", "refusal"),
    [
        (
            World,
            "bill ~ age * C(ward)",
            "bill ~ age * C(ward) + I(age**2) + I(age**3)",
            "6 parameters, more than a third of the rows of all parties but any one",
        ),
        (
            People,
            "bill ~ age",
            "bill ~ age + C(ward)",
            "3 parameters, more than a third of the people of all parties but any one",
        ),
    ],
)
def test_parameters_need_three_others_each(
    kind: type[World], few: str, many: str, refusal: str, tmp_path: Path, key_file: Path
) -> None:
    """Rows of others, or people where the schema names an entity. Each has two rows."""
    large = kept_as(kind, tmp_path / "large", key_file, with_north)
    assert fitted(large, many).n == 2 * (SIZES["owner"] + SIZES["north"])
    small = kept_as(kind, tmp_path / "small", key_file, with_south)
    assert fitted(small, few).n == 2 * (SIZES["owner"] + SIZES["south"])
    with pytest.raises(QueryRefused, match=refusal):
        fitted(small, many)


def test_components_need_others_too(tmp_path: Path, key_file: Path) -> None:
    world = kept_as(People, tmp_path / "world", key_file, with_south)
    with (
        world.session() as session,
        session.snapshot(),
        pytest.raises(QueryRefused, match="are more than a third of the people of all parties but any one"),
    ):
        moments(ModelSums(session, complete(Asking, {})), ["age", "bill"])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(3 * FACTOR))
def test_people_of_all_parties_but_any_one_are_counted(tmp_path: Path, key_file: Path, seed: int) -> None:
    """As sets of them: people of several parties, and of none, with and without a value."""
    chance = random.Random(seed)
    rows = [
        (party, f"p{chance.randrange(45)}" if chance.random() < 0.9 else "", chance.random() < 0.8)
        for party in ("owner", "north", "south")
        for _ in range(chance.randint(40, 60))
    ]

    def text(party: str) -> str:
        mine = [(name, has) for of, name, has in rows if of == party]
        return "".join(f"A,f,{number if has else ''},{number},70,{name}\n" for number, (name, has) in enumerate(mine))

    world = People(tmp_path / "world", key_file)
    world.put(text("owner"), ("ward",))
    for party in ("north", "south"):
        world.register(party)
        world.contribute(party, text(party))
    world.collect()
    with world.session() as session, session.snapshot():
        sums = ModelSums(session, complete(Asking, {}))
        for figures, has in ((["SUM(age)", "COUNT(age)"], {True}), (["COUNT(*)"], {True, False})):
            _, people = sums.ask_and_count([], [()], figures)
            views = [{name for of, name, value in rows if of != each and name and value in has} for each in SIZES]
            assert people == min(map(len, views))
