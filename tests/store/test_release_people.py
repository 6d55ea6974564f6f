"""Rule R8: no combination of all numbers ever released is about fewer people than --min-cell, whatever happens.

`tests.store.lives` makes lives of tables and reads all numbers, `tests.solver` looks for combinations; neither knows a
rule of releases.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import cleave
from cleave.ckks.key_file import create_key
from cleave.ckks.public_key import public_side
from cleave.store.identity import create_identity, read_identity
from cleave_shared.errors import InputError
from tests.campaign import FACTOR, FULL
from tests.comparing import compared
from tests.store.lives import EXPRESSIONS, LEAST, PARTIES, Cell, Life, Row

A, B, C = ("A", "f"), ("A", "m"), ("B", "f")

pytestmark = pytest.mark.filterwarnings("ignore::cleave.CleaveWarning", "ignore::cleave.UndecidedWarning")


OF_ALL_TYPES = """
[privacy]
entity = ["patient"]
[columns]
patient = { kind = "sealed", type = "VARCHAR" }
ward = { kind = "plain", type = "VARCHAR" }
i = { kind = "encrypted", type = "BIGINT" }
f = { kind = "encrypted", type = "DOUBLE", lower = -1000000, upper = 1000000 }
bare = { kind = "encrypted", type = "DOUBLE" }
d = { kind = "encrypted", type = "DECIMAL(9,2)" }
b = { kind = "encrypted", type = "BOOLEAN" }
"""


@pytest.fixture
def life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Life]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    found = Life(tmp_path, random.Random(0), keyed=True)
    found.nulls = 0
    yield found
    assert found.numbers, "an analyst read something"
    found.check()


# What a table names: key columns, people, and whether sums that one person dominates are withheld.
KINDS = [
    {"keyed": False},
    {"keyed": True, "people": False},
    {"keyed": True, "dominance": True},
    {"keyed": True},
    {"keyed": False, "people": False},
    {"keyed": False, "dominance": True},
]
QUICK = 3  # of people without key columns, of rows with them, of people one of whom may dominate


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("seed", "steps"),
    [
        *((seed, 2) for seed in range(0 if FULL else QUICK)),
        *(pytest.param(seed, 7, marks=pytest.mark.slow) for seed in range(100 * FACTOR if FULL else 12)),
    ],
)
def test_no_numbers_of_any_releases_are_about_few_people(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, steps: int
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    life = Life(tmp_path, random.Random(f"{steps} {seed}"), **KINDS[seed % len(KINDS)])
    life.begin()
    try:
        life.live(steps)
        life.check()
    except Exception as error:
        error.add_note(f"seed {seed}, {steps} steps: {life.did}")
        raise
    assert len(life.did) > steps


def people(life: Life, cell: Cell, patients: range, party: str = "") -> list[Row]:
    """A row of each."""
    return [life.row(cell, each, party) for each in patients]


# each has a life that once gave something away


def test_rows_of_one_person_are_one_person(life: Life) -> None:
    life.begin([*people(life, A, range(3)), *(life.row(B, 1) for _ in range(5))])
    life.release()
    assert life.shown == {A}


def test_rows_about_nobody_are_nobody(life: Life) -> None:
    of_none = [life.made_as(each, patient=None) for each in people(life, B, range(5))]
    life.begin([*people(life, A, range(3)), *of_none, *people(life, B, range(2))])
    life.release()
    assert life.shown == {A}


def test_a_person_is_counted_once_beside_rows_about_nobody(life: Life) -> None:
    """Three people and one row about nobody: the row alone must not follow from a count of values."""
    of_none = life.made_as(life.row(A, 0), patient=None, lab=None)
    life.begin([*people(life, A, range(4)), of_none])
    life.release()
    assert life.shown == {A}


@pytest.mark.slow  # quick: tests/unit/test_crowds.py, of every pattern
def test_patterns_of_null_of_two_columns(life: Life) -> None:
    """Each column alone has enough values and enough NULLs; one person alone has both."""
    rows = people(life, A, range(11))
    life.begin([life.made_as(each, age=None if n < 4 else n, lab=None if n > 4 else n) for n, each in enumerate(rows)])
    life.release()
    assert life.shown == {A}


@pytest.mark.slow  # the random lives above are quick
def test_an_expression_of_columns_that_were_corrected(life: Life) -> None:
    life.begin(people(life, A, range(6)))
    life.release()
    life.correct([life.version(replace(life.rows[0], age=90))])
    life.derive_as("twice")
    life.release()
    assert life.shown == {A}


@pytest.mark.slow  # the random lives above are quick
def test_a_ward_with_another_name_and_one_person_more(life: Life) -> None:
    life.begin([*people(life, A, range(4)), *people(life, C, range(4, 8))])
    life.release()
    life.do(lambda: life.rename(life.rows_of(A), "C"))
    life.add([life.row(("C", "f"), 9)])
    life.release()
    assert life.shown >= {A, C}


@pytest.mark.slow  # quick: tests/unit/test_crowds.py
@pytest.mark.sampled(2)
@pytest.mark.parametrize("keyed", [True, False])
def test_rows_that_come_back_elsewhere_with_one_person_more(life: Life, *, keyed: bool) -> None:
    life.keyed = keyed
    life.begin([*people(life, A, range(4)), *people(life, C, range(4, 8))])
    life.release()
    went = life.rows_of(A)
    life.remove(went)
    life.release()
    life.add([*(life.version(replace(each, cell=B)) for each in went), life.row(B, 9)])
    life.release()


def test_people_of_others_are_few_for_a_contributor(life: Life) -> None:
    """Two people of the owner and three of ann's: ann knows three of the five."""
    life.begin([*people(life, A, range(3)), *people(life, B, range(2))])
    life.put_by(PARTIES[0], people(life, B, range(5, 8), PARTIES[0]))
    life.release()
    assert life.shown == {A}


def test_squares_of_few_people_are_not_released(life: Life) -> None:
    life.begin([*people(life, A, range(8)), *people(life, B, range(10))])
    life.release()
    squares = [name for name in life.numbers.values() if name.startswith(("VAR_POP", "squares"))]
    assert [name for name in squares if str(B) in name] == squares != []


@pytest.mark.slow  # the random lives above are quick
def test_no_sum_of_products_is_released(life: Life) -> None:
    life.begin(people(life, A, range(10)))
    for each in EXPRESSIONS:
        life.derive_as(each)
    life.release()
    assert any("sum of sum_of_both" in name for name in life.numbers.values())


@pytest.fixture
def dominated(life: Life) -> Life:
    life.dominance = True
    return life


def shown(life: Life, cell: Cell) -> set[str]:
    """The measures whose sum a part of a cell has."""
    return {name for name in ("age", "lab", "twice", "sum_of_both") if life.has(f"sum of {name} of {cell} ")}


def valued(life: Life, cell: Cell, ages: Sequence[int | None], labs: Sequence[int | None]) -> list[Row]:
    """A row of each of as many people."""
    pairs = zip(people(life, cell, range(len(ages))), ages, labs, strict=True)
    return [life.made_as(each, age=age, lab=lab) for each, age, lab in pairs]


def test_a_sum_that_one_person_has_most_of_is_withheld(dominated: Life) -> None:
    """More than four fifths of the absolute values: four fifths are shown. A combination reads both columns."""
    life = dominated
    life.begin([*valued(life, A, [81, 10, 10], [1, 1, 1]), *valued(life, B, [80, 10, 10], [1, 1, 1])])
    life.derive_as("sum_of_both")
    life.release()
    assert (shown(life, A), shown(life, B)) == ({"lab"}, {"age", "lab", "sum_of_both"})


@pytest.mark.slow  # quick: the test above
def test_a_sum_of_both_signs_is_withheld_by_its_absolute_values(dominated: Life) -> None:
    life = dominated
    life.begin([*valued(life, A, [1, 1, 1], [900, -1, -1]), *valued(life, B, [1, 1, 1], [500, -500, 1])])
    life.release()
    assert (shown(life, A), shown(life, B)) == ({"age"}, {"age", "lab"})


@pytest.mark.slow  # quick: the tests above
def test_several_rows_of_one_person_dominate_together(dominated: Life) -> None:
    life = dominated
    rows = [*valued(life, A, [30, 5, 5], [1, 1, 1]), life.made_as(life.row(A, 0), age=60, lab=1)]
    life.begin(rows)
    life.release()
    assert shown(life, A) == {"lab"}


@pytest.mark.slow  # quick: tests/unit/test_joining.py
def test_a_dominated_measure_does_not_join(dominated: Life) -> None:
    """Who has a lab has no age and the other way round; one has both. Where ages are dominated, labs are shown."""
    life = dominated
    ages, labs = [90, 1, 1, 1, None, None, None], [None, None, None, 1, 1, 1, 1]
    life.begin([*valued(life, A, ages, labs), *valued(life, B, [2, *ages[1:]], labs)])
    life.release()
    assert (shown(life, A), shown(life, B)) == ({"lab"}, {"age"})


def test_revoking_publishes_nothing(life: Life) -> None:
    life.begin([*people(life, A, range(4)), *people(life, B, range(2))])
    life.release()
    cleave.release("t", to=[compared(life.folder / "dave.pem.pub")], **life.place)
    life.analysts.append("dave")
    life.add([*people(life, A, range(4, 8)), *people(life, B, range(2, 8))])
    before = set(life.numbers)
    life.revoke_from("carol")
    life.read()
    assert life.numbers.keys() == before


@pytest.mark.slow  # quick: test_published.py, of a rotated table
def test_a_rotation_publishes_nothing_twice(life: Life) -> None:
    life.begin([*people(life, A, range(4)), *people(life, C, range(2))])
    life.release()
    life.rotate()
    life.release()
    assert life.shown == {A}
    life.add(people(life, C, range(2, 4)))
    life.release()
    assert life.shown == {A, C}


@pytest.mark.slow  # the random lives above are quick
def test_people_who_wait_change_nothing_that_an_analyst_reads(life: Life) -> None:
    """Answers, warnings and sizes are the same, whether or not a cell has fewer people than are released."""
    life.begin([*people(life, A, range(4)), *people(life, C, range(4))])
    life.release()
    shutil.copytree(life.folder, others := life.folder / "others", ignore=lambda *_: ["others"])
    life.add([*people(life, A, range(2)), *people(life, B, range(2)), life.row(("Z", "z"), 5)])
    place = life.place
    seen = []
    for folder in (life.folder, others):
        cleave.release("t", store=folder / "store", key=folder / place["key"].name)
        asked = [
            life.cli.run("query", "t", sql, "--store", folder / "store", "--analyst", folder / "carol.pem", "--json")
            for sql in (
                "SELECT COUNT(*) FROM t",  # the first says that the release was not seen before
                "SELECT ward, sex, COUNT(*), SUM(age), VAR_POP(lab) FROM t GROUP BY ward, sex ORDER BY ALL",
                "SELECT COUNT(*) FROM t WHERE ward = 'Z'",
                "SELECT COUNT(*), AVG(age) FROM t",
            )
        ]
        answers = [{k: v for k, v in json.loads(each.stdout).items() if k != "timings"} for each in asked]
        sizes = sorted(each.stat().st_size for each in (folder / "store").rglob("releases/**/*") if each.is_file())
        seen.append((answers, [each.stderr for each in asked[1:]], sizes))
    assert "rows" in seen[0][0][0]
    assert repr(seen[0]).replace(str(life.folder), "") == repr(seen[1]).replace(str(others), "")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("released", [True, False])
def test_a_restored_table_publishes_nothing_until_its_owner_says_so(life: Life, *, released: bool) -> None:
    """Its analysts may have a release that it does not know: of patients 4 to 6, then of 4 to 7."""
    life.begin(people(life, A, range(4)))
    if released:
        life.release()
    store, copy = life.folder / "store", life.folder / "copy"
    shutil.copytree(store, copy)
    (version,) = (each.version for each in cleave.ls(**life.place))
    added = people(life, B, range(4, 7))
    life.add(added)
    life.release()
    shutil.rmtree(store)
    shutil.copytree(copy, store)
    cleave.accept("t", version, **life.place)
    life.add([*added, life.row(B, 7)])
    to = [] if released else [compared(life.folder / "carol.pem.pub")]
    with pytest.raises(InputError, match="it was restored"):
        cleave.release("t", to=to, **life.place)
    with pytest.raises(InputError, match="could be subtracted"):
        cleave.release("t", to=to, new_lineage=True, **life.place)
    assert cleave.release("t", to=to, min_cell=LEAST, new_lineage=True, yes=True, **life.place).parts == 2
    assert cleave.release("t", **life.place).parts == 0, "the new lineage goes on"


def test_a_release_has_nothing_of_rows_that_wait_since_the_first_put(tmp_path: Path) -> None:
    """Neither the numbers nor what describes them, of columns of any type."""
    found = []
    for name, waiting in (("one", "w,B,7,123456.75,1.5,99.25,true"), ("two", "w,B,0,-2.5,1000.0,-99.25,false")):
        (folder := tmp_path / name).mkdir()
        create_key(folder / "key.json", None)
        create_identity(folder / "carol.pem", analyst=True)
        rows = [waiting, *(f"p{n},A,{n},{n}.25,{n}.5,{n}.75,{n % 2 == 0}" for n in range(9))]
        (folder / "t.csv").write_text("patient,ward,i,f,bare,d,b\n" + "\n".join(rows) + "\n")
        (folder / "t.schema.toml").write_text(OF_ALL_TYPES)
        place = {"store": folder / "store", "key": folder / "key.json"}
        cleave.put(folder / "t.csv", "t", by=["ward"], **place)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_STATE_HOME", str(folder / "state"))
            pinned = public_side(read_identity(folder / "carol.pem")).fingerprint
            facts = cleave.release("t", to=[f"{folder / 'carol.pem.pub'}={pinned}"], min_cell=3, **place)
            where = {"store": place["store"], "analyst": folder / "carol.pem", "fingerprint": facts.fingerprint}
            with cleave.connect("t", **where) as connection:
                totals = connection._opened().source._release("t").totals  # type: ignore[attr-defined]
        found.append(totals.model_dump(exclude={"times"}))
    assert found[0]["rows"] == (9,)
    assert found[0] == found[1]
