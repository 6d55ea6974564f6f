"""Releases: analysts ask for totals of cells with enough rows, and get nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cleave.ask.released import ReleaseSource
from cleave.ask.session import Session
from cleave.maintain.alter import Alteration
from cleave.maintain.alter import alter_columns as alter
from cleave.maintain.derive import derive_expression as derive
from cleave.maintain.derive import derive_products
from cleave.objects.storage import StoreError
from cleave.releases.exact_totals import ExactTotals
from cleave.store import put as putting
from cleave.store.seen_versions import SeenVersions
from cleave.table.progress import Silent
from cleave_shared.errors import CheckFailed, InputError, KeyFileError, QueryRefused, Undecided, UsageError
from tests.solver import singled_out
from tests.store.contributing import copied_for_each
from tests.store.releasing import LEAST, ROWS, Releases, lines_of, rows, truth

LARGE = [("A", "f"), ("B", "f"), ("B", "m")]
QUESTIONS = [
    "SELECT ward, sex, COUNT(*), SUM(bill), SUM(age) FROM trial GROUP BY ward, sex ORDER BY ALL",
    "SELECT ward, COUNT(*), COUNT(bill), SUM(bill) FROM trial GROUP BY ward ORDER BY ward",
    "SELECT COUNT(*), SUM(age) FROM trial WHERE sex = 'f'",
    "SELECT SUM(age) FILTER (WHERE ward = 'A'), COUNT(ward) FROM trial",
    "SELECT sex FROM trial GROUP BY sex HAVING SUM(bill) > 1000 ORDER BY SUM(age)",
    "SELECT COUNT(*) FROM trial WHERE ward = 'nowhere'",
    "SELECT ward, sex, SUM(age) FROM trial GROUP BY ROLLUP (ward, sex) ORDER BY ALL",
]
MEANS = (
    "SELECT ward, AVG(age), AVG(bill), VAR_POP(age), STDDEV(weight), AVG(weight) FROM trial GROUP BY ward ORDER BY 1"
)


def released(world: Releases) -> None:
    world.put(rows())
    world.release("carol")


world = copied_for_each(released, Releases)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("sql", QUESTIONS)
def test_totals_of_large_cells_are_answered_as_duckdb_does(world: Releases, sql: str) -> None:
    answer = world.ask("carol", sql).result
    assert [tuple(row) for row in answer.rows] == truth(lines_of(rows(), LARGE), sql)
    assert not answer.warnings
    assert "release 1: " in answer.trust
    assert " of 20" in answer.trust or "no parts" in answer.trust
    assert "fewer than 5 rows per cell may be missing" in answer.trust


def test_means_and_variances_are_within_their_bounds(tmp_path: Path, key_file: Path) -> None:
    world, csv = Releases(tmp_path / "w", key_file), rows([*[("A", "f")] * 15, *[("B", "f")] * 17])
    world.put(csv)
    world.release("carol")
    answer = world.ask("carol", MEANS).result
    assert not any(map(any, answer.hidden))
    for row, bounds, right in zip(answer.rows, answer.bounds, truth(csv, MEANS), strict=True):
        for value, bound, exact in zip(row[1:], bounds[1:], right[1:], strict=True):
            assert abs(float(value) - float(exact)) <= (bound or 0) + 1e-9 * abs(float(exact))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM trial",
        "SELECT bill FROM trial LIMIT 1",
        "SELECT name FROM trial",
        "SELECT MAX(age) FROM trial",
        "SELECT MEDIAN(age) FROM trial",
        "SELECT COUNT(DISTINCT age) FROM trial",
        "SELECT COUNT(*) FROM trial WHERE name = 'p1'",
        "SELECT COUNT(*) FROM trial WHERE age = 30",
        "SELECT SUM(age * bill) FROM trial",
        "SELECT ward, ANY_VALUE(sex) FROM trial GROUP BY ward",
        "SELECT COUNT(*) FROM (SELECT ward FROM trial)",
    ],
)
def test_rows_are_refused(world: Releases, sql: str) -> None:
    with Session(world.source("carol")) as session, pytest.raises(QueryRefused) as refused:
        session.ask(session.plan(sql))
    assert refused.value.hint


def test_where_nothing_is_new_no_release_is_made(world: Releases) -> None:
    before = world.open().manifest
    again = world.release()
    assert (again.made, again.number, again.parts, again.waiting) == (False, 1, 0, 2)
    assert world.open().manifest == before
    world.sensitive().delete([f"{before.release.analysts[0].place}/head" if before.release else ""])
    world.release()
    assert world.shown("carol"), "a stopped release is finished all the same"
    assert world.release(least=LEAST + 1).number == 2, "a larger least is remembered"
    alter(world.tables()[0], world.name, Alteration(rename=["ward=place"]), Silent())
    renamed = world.release(least=None)
    assert (renamed.made, renamed.number, renamed.parts) == (True, 3, 0)
    assert len(world.ask("carol", "SELECT place, COUNT(*) FROM trial GROUP BY ALL").result.rows) == 2
    assert not world.release(least=None).made


def test_small_cells_are_not_in_the_release(world: Releases) -> None:
    assert world.shown("carol") == {cell: ROWS.count(cell) for cell in LARGE}


def test_squares_are_in_parts_of_three_times_as_many(world: Releases) -> None:
    """Nine, six and twelve rows of at least five."""
    answer = world.ask("carol", "SELECT ward, sex, VAR_POP(age), AVG(age) FROM trial GROUP BY ALL").result
    assert answer.hidden == [[False, False, True, False]] * 3


def test_only_a_figure_that_is_hidden_is_refused_by_strict(world: Releases) -> None:
    """The note always says that rows may be missing."""
    assert world.ask("carol", "SELECT COUNT(*) FROM trial", strict=True).result.rows == [[27]]
    with pytest.raises(Undecided, match="the squares of age are withheld in 3 parts"):
        world.ask("carol", "SELECT VAR_POP(age) FROM trial", strict=True)
    trust = world.ask("carol", "SELECT VAR_POP(age) FROM trial").result.trust
    assert "the squares of age are known over 0 of 3 parts" in trust


def with_nulls(nulls: int) -> str:
    """Twelve rows of one cell, in the first of which there is no bill; eight of another."""
    first = [f"A,f,{20 + n},{'' if n < nulls else 10 + n},{60 + n},p{n}\n" for n in range(12)]
    return "".join([*first, *(f"B,f,{40 + n},{20 + n},{70 + n},q{n}\n" for n in range(8))])


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("nulls", "shown"), [(4, False), (0, True), (5, True), (1, False), (8, False), (12, True)])
def test_a_measure_is_hidden_where_few_rows_have_it_or_have_not(
    tmp_path: Path, key_file: Path, nulls: int, shown: bool
) -> None:
    world, csv = Releases(tmp_path / "w", key_file), with_nulls(nulls)
    world.put(csv)
    world.release("carol")
    sql = "SELECT COUNT(*), SUM(age), COUNT(bill), SUM(bill), AVG(bill) FROM trial"
    answer = world.ask("carol", sql).result
    assert tuple(answer.rows[0][:2]) == truth(csv, sql)[0][:2]
    if shown:
        assert answer.rows[0][2:4] == list(truth(csv, sql)[0][2:4])
        assert float(answer.rows[0][4]) == pytest.approx(truth(csv, sql)[0][4])
    else:
        assert answer.rows[0][2:] == [None, None, None]
    assert answer.hidden == [[False, False, *[not shown] * 3]]
    assert [("totals of bill" in each) for each in answer.warnings] == ([] if shown else [True])
    assert not world.ask("carol", "SELECT SUM(bill) FROM trial WHERE ward = 'B'").result.warnings


def test_no_difference_of_derived_totals_is_over_one_row(tmp_path: Path, key_file: Path) -> None:
    """Eight rows have an age, seven of them a bill: the totals of age, bill and their sum would give one age."""
    world, bills = Releases(tmp_path / "w", key_file), range(1, 8)
    world.put("".join(f"A,f,{20 + n if n < 8 else ''},{100 + n if n in bills else ''},50,p{n}\n" for n in range(13)))
    tables, _ = world.tables()
    derive(tables, world.name, "age + bill", "cost", Silent())
    world.release("carol")
    totals = world.totals("carol")
    assert isinstance(totals, ExactTotals)
    people = {"age": {*range(8)}, "bill": {*bills}, "cost": {*bills}, "weight": {*range(13)}}
    reads = {"cost": ("age", "bill")}
    sums, row_of = set(), {}
    for measure, (shown,) in zip(totals.measures, totals.shown, strict=True):
        values = {(name, row) for name in reads.get(measure.name, (measure.name,)) for row in people[measure.name]}
        sums |= {frozenset(values)} if shown else set()
        row_of |= {each: each[1] for each in values}
    assert len(sums) == 2, "seven of eight who have an age have a bill"
    assert singled_out(sums, row_of, LEAST) is None


def test_what_is_no_release_for_an_analyst(world: Releases) -> None:
    with pytest.raises(InputError, match="no release of table 'trial' for this analyst"):
        world.source("dave")
    with pytest.raises(InputError, match="no release of table 'other'"):
        ReleaseSource(
            "other", world.stores(), world.analyst("carol"), memory=SeenVersions(world.root / "c.json")
        ).open()


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("names", "least", "match"),
    [
        (["dave"], 2, "too small: at least 3"),
        (["dave"], 4, "parts of at least 5 rows"),
        ([], None, ""),
    ],
)
def test_the_least_of_a_part_never_falls(world: Releases, names: list[str], least: int | None, match: str) -> None:
    if not match:
        assert world.release(least=None).analysts == ("carol",)
        return
    with pytest.raises(InputError, match=match):
        world.release(*names, least=least)


def test_a_first_release_names_someone(tmp_path: Path, key_file: Path) -> None:
    world = Releases(tmp_path / "w", key_file)
    world.put(rows())
    with pytest.raises(InputError, match="no analyst is named"):
        world.release()


def test_an_owner_is_pinned_on_first_use(world: Releases) -> None:
    memory = SeenVersions(world.root / "new.json")

    def source(fingerprint: str | None = None) -> ReleaseSource:
        made = ReleaseSource(world.name, world.stores(), world.analyst("carol"), fingerprint, memory)
        made.open()
        return made

    with pytest.raises(KeyFileError, match="was expected"):
        source("SHA256:someone")
    with pytest.warns(match=r"@1, which is seen here for the first time"):
        source().close()
    source().close()


@pytest.mark.slow  # quick: `test_the_least_of_a_part_never_falls`
def test_a_least_that_rises_holds_for_later_parts(world: Releases) -> None:
    with world.table(rows([*[("A", "m")] * 3, *[("C", "f")] * 8], 50)) as table:
        putting.append(world.tables()[0], table, world.name, Silent())
    made = world.release(least=8)
    assert (made.min_cell, made.parts, made.waiting) == (8, 1, 1)
    assert world.shown("carol") == {**{cell: ROWS.count(cell) for cell in LARGE}, ("C", "f"): 9}
    with pytest.raises(InputError, match="parts of at least 8 rows"):
        world.release(least=7)
    assert "fewer than 5 rows per cell may be missing" in world.ask("carol", "SELECT COUNT(*) FROM trial").result.trust


def test_a_replaced_table_without_key_columns_gets_no_further_parts(world: Releases) -> None:
    world.put(rows(), replace=True)
    with pytest.raises(InputError, match="no further parts") as refused:
        world.release()
    assert "--new-lineage --yes" in str(refused.value.hint)
    shown = {cell: ROWS.count(cell) for cell in LARGE}
    assert world.shown("carol") == shown
    world.release("dave")
    assert world.shown("dave") == shown, "what was published before"
    with pytest.raises(InputError, match="could be subtracted"):
        world.release(new_lineage=True)
    made = world.release(new_lineage=True, yes=True)
    assert (made.begins, made.ends, made.parts) == (True, True, 3)
    assert world.shown("carol") == world.shown("dave") == shown


def test_sums_of_columns_are_released_and_products_are_not(tmp_path: Path, key_file: Path) -> None:
    world = Releases(tmp_path / "w", key_file)
    world.put(rows())
    sums = {"square": "age * age", "mixed": "bill - age + age * age", "twice": "2 * age + 1", "cost": "bill - age"}
    for name, sql in sums.items():
        derive(world.tables()[0], world.name, sql, name, Silent())
    tables = world.tables()[0]
    derive_products(tables, world.name, ["age", "bill"], Silent())
    made = world.release("carol")
    products = ("age*bill", "age if bill", "bill if age")
    assert made.left_out == ("square", "mixed", "twice", *products), "the third follows from the age"
    sql = "SELECT ward, SUM({}), SUM({}) FROM trial GROUP BY ward ORDER BY ward"
    right = truth(lines_of(rows(), LARGE), sql.format("2 * age + 1", "bill - age"))
    assert [tuple(row) for row in world.ask("carol", sql.format("twice", "cost")).result.rows] == right
    for refused in ("SUM(age * bill)", "COVAR_POP(age, bill)", "CORR(age, bill)", "REGR_SXY(bill, age)"):
        with pytest.raises(QueryRefused):
            world.ask("carol", f"SELECT {refused} FROM trial")
    squares = "SELECT ward, SUM(age * age), VAR_POP(age) FROM trial GROUP BY ward ORDER BY ward"
    right = truth(lines_of(rows(), LARGE), squares)
    for row, wanted in zip(world.ask("carol", squares).result.rows, right, strict=True):
        assert (row[1] is None) == (row[2] is None), "squares are known where a variance is"
        assert row[1] in (None, wanted[1])


def test_an_answer_does_not_depend_on_what_is_hidden(tmp_path: Path, key_file: Path) -> None:
    """Size of every object but those of the table itself, and all that an analyst is told, are the same."""
    found: list[Any] = []
    for name, small in (("one", 1), ("four", LEAST - 1)):
        world = Releases(tmp_path / name, key_file)
        world.put(lines_of(rows(), LARGE) + rows([("Z", "m")] * small, start=70))
        world.release("carol")
        store = world.sensitive()
        release = world.open().manifest.release
        assert release is not None
        assert release.totals is not None
        answer = world.ask("carol", QUESTIONS[0]).result
        sizes = [len(store.read(f"{each.place}/head", most=1 << 16)) for each in release.analysts]
        found.append((release.totals.bytes, sizes, answer.rows, answer.bounds, answer.warnings))
    assert found[0] == found[1]


def test_a_damaged_release_is_found(world: Releases) -> None:
    release = world.open().manifest.release
    assert release is not None
    assert release.totals is not None
    store, name = world.sensitive(), release.totals.name
    content = store.read(name)
    for changed in (content[:-1], content[:-1] + bytes([content[-1] ^ 1]), content + b" ", b""):
        store.delete([name])
        store.write(name, changed)
        with pytest.raises(CheckFailed):
            world.source("carol")
    store.delete([name])
    with pytest.raises(CheckFailed, match="are gone"):
        world.source("carol")
    store.write(name, content)
    world.source("carol").close()


def test_an_open_session_reads_the_newest_release_or_that_of_its_snapshot(world: Releases) -> None:
    """And a plan over another release than the one that is open is refused."""
    sql = "SELECT COUNT(*) FROM trial"

    def counted(session: Session) -> object:
        return session.ask(session.plan(sql)).result.rows[0][0]

    with Session(world.source("carol")) as session:
        before = counted(session)
        plan = session.plan(sql)
        with session.snapshot():
            putting.append(world.tables()[0], world.loaded(rows()), world.name, Silent(), again=True)
            world.release()
            assert counted(session) == before
            with pytest.raises(UsageError, match="a snapshot already"), session.snapshot():
                pass
        assert counted(session) == world.ask("carol", sql).result.rows[0][0] != before
        with pytest.raises(StoreError, match="the table changed while it was read"):
            session.ask(plan)
        world.revoke("carol")
        with pytest.raises(CheckFailed, match="was here and is gone"):
            session.plan(sql)


DOUBLES = """
[columns]
ward = { kind = "plain", type = "VARCHAR" }
x = { kind = "encrypted", type = "DOUBLE", lower = 0, upper = 1000000 }
y = { kind = "encrypted", type = "DOUBLE" }
"""


class Doubles(Releases):
    schema_text, header = DOUBLES, "ward,x,y\n"


def test_no_value_of_a_row_that_waits_follows_from_how_doubles_are_counted(tmp_path: Path, key_file: Path) -> None:
    """A table's centre is the median of its first rows: here the value of the one row that waits."""
    contents = []
    for number, alone in enumerate(("123456.75", "7.5")):
        world = Doubles(tmp_path / f"w{number}", key_file)
        world.put(f"C,{alone},{alone}\n", ("ward",))
        with world.table("".join(f"A,{n}.25,{alone}\n" for n in range(LEAST))) as table:
            putting.append(world.tables()[0], table, world.name, Silent())
        made = world.release("carol")
        assert (made.parts, made.waiting, made.left_out) == (1, 1, ("y",))
        assert world.ask("carol", "SELECT SUM(x) FROM trial").result.rows == [[sum(range(LEAST)) + LEAST / 4]]
        with pytest.raises(QueryRefused):
            world.ask("carol", "SELECT SUM(y) FROM trial")
        contents.append(world.totals("carol").model_copy(update={"times": ()}))
    assert contents[0] == contents[1]


@pytest.mark.slow  # quick: a replaced table, above
def test_a_table_by_other_columns_gets_no_further_parts_until_it_is_by_these_again(world: Releases) -> None:
    world.release("carol")
    said: list[str] = []
    alter(world.tables()[0], world.name, Alteration(by=("ward",)), Silent(), said.append)
    assert "unless the table is by ward, sex again" in said.pop()
    alter(world.tables()[0], world.name, Alteration(by=("sex",)), Silent(), said.append)
    with pytest.raises(InputError, match=r"no further parts: .* other columns name its rows or cells"):
        world.release()
    alter(world.tables()[0], world.name, Alteration(by=("ward", "sex")), Silent(), said.append)
    assert world.release().parts == 0
    alter(world.tables()[0], world.name, Alteration(rename=["ward=place"]), Silent(), said.append)
    assert said == [], "nothing else ends or begins"
