"""Noisy releases (rules N2 to N7): what is drawn and spent, and what analysts are answered. `test_kept` has N1."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

from cleave.ask import released
from cleave.ckks.key_file import create_key, open_key
from cleave.disclosure.noise import Statistic
from cleave.maintain.rotate import move_table as rotate
from cleave.releases import noising
from cleave.releases.noisy import NoisyReleaseFacts
from cleave.releases.noisy_totals import NoisyTotals
from cleave.releases.page import is_page_of, page_of
from cleave.releases.releases import release, revoke
from cleave.store import put as putting
from cleave.store.dropping import drop
from cleave.store.seen_versions import SeenVersions
from cleave.store.tables import Tables
from cleave.table.progress import Silent
from cleave_shared.errors import CheckFailed, InputError, QueryRefused
from tests.store.contributing import copied_for_each
from tests.store.noising import CLAMPS, NoisyReleases, made

BY_WARD = "SELECT ward, COUNT(*) AS n, SUM(bill) AS bill, AVG(age) AS age FROM trial GROUP BY ward ORDER BY ward"


world = copied_for_each(NoisyReleases.begin, NoisyReleases)


def without_noise(statistic: Statistic, totals: Sequence[int]) -> tuple[float, list[int]]:
    assert statistic.scale > 0
    return 0.05, list(totals)


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noising, "noisy", without_noise)


def truth(sql: str) -> list[tuple[Any, ...]]:
    """DuckDB's answer over the rows that count, all those of a person, their values within the clamps."""
    lines = [line.split(",") for line in made().splitlines()]
    rows = []
    for patient, ward, sex, bill, age, smoker, _ in lines:
        if patient and ward != "Z":
            bill_text = min(Decimal(bill), Decimal(200))
            age_text = "NULL" if not age else str(min(max(int(age), 18), 90))
            ward_text = f"'{ward}'" if ward else "NULL"
            rows.append(
                f"({ward_text}, '{sex}', {bill_text}::DECIMAL(9,2), {age_text}::BIGINT, {smoker or 'NULL'}::BOOLEAN)"
            )
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE trial AS FROM (VALUES {', '.join(rows)}) AS t(ward, sex, bill, age, smoker)")
        return connection.execute(sql).fetchall()


# what is drawn


@pytest.mark.usefixtures("exact")
def test_without_noise_the_answers_are_those_of_the_rows_that_count(world: NoisyReleases) -> None:
    world.draw("carol", most_rows=1000, squares=True)
    for sql in (
        BY_WARD,
        "SELECT sex, SUM(age), COUNT(age), COUNT_IF(smoker), VAR_POP(age) FROM trial GROUP BY sex ORDER BY sex",
        "SELECT COUNT(*), STDDEV(bill), VAR_SAMP(bill), STDDEV_POP(age) FROM trial WHERE ward = 'A' AND sex = 'f'",
        "SELECT COUNT(ward), COUNT(*) FILTER (WHERE sex = 'm'), SUM(2 * bill + 1), AVG(3 - age) FROM trial",
        "SELECT COUNT(*), SUM(bill), AVG(bill) FROM trial WHERE ward = 'C'",
        "SELECT ward, sex, COUNT(*) FROM trial GROUP BY ROLLUP (ward, sex) HAVING COUNT(*) > -1000 ORDER BY ALL",
    ):
        answer = world.ask("carol", sql).result
        expected = truth(sql)
        assert len(answer.rows) == len(expected)
        for row, right in zip(answer.rows, expected, strict=True):
            for value, other, column in zip(row, right, answer.columns, strict=True):
                assert column.source == ("key" if column.name in ("ward", "sex") else "noisy")
                if isinstance(value, int | float | Decimal) and other is not None:
                    assert float(value) == pytest.approx(float(other), rel=1e-9)
                else:
                    assert value == other


def test_answers_lie_around_the_rows_that_count(world: NoisyReleases) -> None:
    """At an epsilon so large that noise is small; a person has no more rows than count."""
    world.draw("carol", epsilon=3, most_rows=40)
    answer = world.ask("carol", BY_WARD).result
    assert [row[0] for row in answer.rows] == ["A", "B", None]
    for row, bounds, right in zip(answer.rows, answer.bounds, truth(BY_WARD), strict=True):
        for value, bound, other in zip(row[1:3], bounds[1:3], right[1:3], strict=True):
            assert abs(float(value) - float(other)) <= 8 * bound, "one of 10^8 draws is farther away"


def test_every_release_draws_anew(world: NoisyReleases) -> None:
    drawn = []
    for number in range(3):
        facts = world.draw("carol", again=True)
        assert (facts.publishes, facts.number, facts.spent) == (True, number + 1, str(number + 1))
        drawn.append(world.drawn("carol").numbers)
    assert len(set(drawn)) == 3


def test_two_releases_share_no_draw(world: NoisyReleases, tmp_path: Path) -> None:
    one, other = world.copy(tmp_path / "one"), world.copy(tmp_path / "other")
    for each in (one, other):
        each.draw("carol", most_rows=1000)  # all rows count, so that totals are the same
    pairs = list(zip(one.drawn("carol").numbers, other.drawn("carol").numbers, strict=True))
    sums = [a == b for place in (1, 2) for a, b in zip(*pairs[place], strict=True)]
    assert not any(sums), "noise of thousands of units"


def test_numbers_are_sealed_again_for_others(world: NoisyReleases) -> None:
    world.draw("carol", "dave")
    drawn = world.drawn("carol")
    analysts = {"erin": world.public_of("erin")}
    facts = release(world.tables()[0], world.name, analysts)
    assert isinstance(facts, NoisyReleaseFacts)
    assert (facts.number, facts.publishes, facts.spent) == (2, False, "1")
    revoke(world.tables()[0], world.name, "dave")
    assert world.drawn("carol") == world.drawn("erin") == drawn
    with pytest.raises(InputError, match="no release"):
        world.source("dave")
    assert world.spent() == 1_000_000
    assert [each.details.get("epsilon") for each in world.tables()[0].log(world.open())] == [None, "1", None, None]


def test_the_same_release_of_the_same_table_is_the_one_that_was_drawn(world: NoisyReleases) -> None:
    world.draw("carol")
    drawn = world.drawn("carol")
    facts = world.draw("carol")
    assert (facts.publishes, facts.number, facts.spent) == (False, 1, "1")
    assert world.drawn("carol") == drawn
    world.draw("carol", most_rows=4, yes=True)
    assert world.spent() == 2_000_000
    assert world.drawn("carol").numbers != drawn.numbers
    with world.table(made(20, start=500)) as table:
        putting.append(world.tables()[0], table, world.name, Silent())
    assert world.draw("carol", most_rows=4, yes=True).publishes, "there are other rows"
    assert world.spent() == 3_000_000


# what is spent


@pytest.mark.parametrize(
    ("how", "lost"),
    [
        ({"clamps": {"bill": ("0", "200"), "smoker": ("0", "1")}}, "the sum of age"),
        ({"squares": False}, "squares of bill, squares of age, squares of smoker"),
        ({"values": {"ward": ["B", "C"]}}, "cells of 1 value of ward"),
        ({"values": {"ward": ["A", "B"], "sex": []}, "clamps": {}}, "cells by sex, the sum of bill, squares of bill"),
    ],
)
def test_nothing_that_was_paid_for_is_lost_unasked(world: NoisyReleases, how: dict[str, Any], lost: str) -> None:
    how = {"squares": True, **how}
    world.draw("carol", squares=True)
    drawn = world.drawn("carol")
    with pytest.raises(InputError, match=f"analysts would lose what release 1 shows them: {lost}") as refused:
        world.draft("carol", **how)
    assert "--yes" in str(refused.value.hint)
    assert (world.drawn("carol"), world.spent()) == (drawn, 1_000_000)
    assert f"- confirmed with --yes: analysts would lose what release 1 shows them: {lost}" in page_of(
        world.draft(yes=True, **how)
    )
    assert world.draw(yes=True, **how).spent == "2"
    assert world.drawn("carol").numbers != drawn.numbers


def test_a_release_may_have_more_than_the_newest(world: NoisyReleases) -> None:
    few = {"values": {"ward": ["A"], "sex": []}, "clamps": {"bill": ("0", "200")}}
    world.draw("carol", **few)
    assert "lose" not in page_of(world.draft(squares=True, yes=True))
    assert world.draw(squares=True, yes=True, clamps={**CLAMPS, "bill": ("0", "100")}).spent == "2"


def test_what_no_analyst_reads_is_not_lost(world: NoisyReleases) -> None:
    world.draw("carol")
    revoke(world.tables()[0], world.name, "carol")
    assert world.draw("dave", clamps={}, yes=True).spent == "2"


def test_the_budget_holds_over_drop_and_put(world: NoisyReleases) -> None:
    world.draw("carol", epsilon=2)
    with pytest.raises(
        InputError, match=r"budget of table 'trial' is epsilon 3, 2 of it is spent, and this release takes 1.5"
    ):
        world.draw("carol", epsilon=1.5)
    with pytest.raises(InputError, match="budget"):
        page_of(world.draft("carol", epsilon=1.5))
    world.put(made(), replace=True)
    assert world.spent() == 2_000_000
    drop(world.tables()[0], world.name)
    world.put(made())
    assert world.spent() == 2_000_000
    head = json.loads((world.root / "s" / world.tables()[0].folder(world.name) / "head").read_bytes())
    assert head["spent"] == 2_000_000
    with pytest.raises(InputError, match="budget"):
        world.draw("carol", epsilon=1.5)
    assert world.draw("carol", epsilon=1, yes=True).spent == "3"


def test_another_key_gets_the_same_numbers_and_what_is_spent(world: NoisyReleases, tmp_path: Path) -> None:
    world.draw("carol", epsilon=2)
    drawn = world.drawn("carol")
    create_key(tmp_path / "new.json", None)
    new = Tables(world.stores(), open_key(tmp_path / "new.json", None), SeenVersions(world.root / "owner.json"))
    opened = rotate(world.tables()[0], new, world.name, Silent())
    assert new.spent(opened) == 2_000_000
    world.key = new.key
    assert world.drawn("carol") == drawn
    with pytest.raises(InputError, match="budget"):
        world.draw("carol", epsilon=1.5)


# what is refused


def test_exact_and_noisy_releases_exclude_each_other(world: NoisyReleases) -> None:
    world.release("carol")
    with pytest.raises(InputError, match="has exact releases"):
        world.draw("carol")
    world.draw("carol", yes=True)
    assert world.ask("carol", "SELECT COUNT(*) FROM trial").result.columns[0].source == "noisy"
    with pytest.raises(InputError, match="had exact releases before its noisy ones"):
        world.release()
    with pytest.raises(InputError, match=r"has noisy releases.*; releases of table 'trial' that follow could be"):
        world.release(new_lineage=True)
    with world.table(made(20, start=500)) as table:
        putting.append(world.tables()[0], table, world.name, Silent())
    with pytest.raises(InputError, match="exact releases before its noisy ones"):
        world.release(yes=True)
    assert world.release(yes=True, new_lineage=True).ends
    assert world.ask("carol", "SELECT COUNT(*) FROM trial").result.columns[0].source == "encrypted"
    assert world.spent() == 1_000_000


def test_a_table_put_again_after_a_drop_keeps_its_noisy_releases_in_mind(world: NoisyReleases) -> None:
    world.draw("carol")
    drop(world.tables()[0], world.name)
    world.put(made())
    with pytest.raises(InputError, match="was dropped or restored, and had noisy releases"):
        world.release("carol")
    world.release("carol", yes=True)
    world.release("carol")  # that was confirmed


def test_the_page_says_that_exact_releases_void_the_promise(world: NoisyReleases) -> None:
    assert "void" not in page_of(world.draft("carol"))
    world.draw("carol")
    assert "void" not in page_of(world.draft("carol"))
    first = world.release("carol", yes=True)
    assert (first.begins, first.ends) == (True, False), "no exact release was before"
    assert "void" in page_of(world.draft("carol", yes=True))
    world.draw("carol", yes=True)
    assert "void" in page_of(world.draft("carol"))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"most_rows": 0}, "--most-rows"),
        ({"clamps": {"weight": ("0", "1")}}, "DOUBLE"),
        ({"clamps": {"patient": ("0", "1")}}, "VARCHAR"),
        ({"clamps": {"sex": ("0", "1")}}, "VARCHAR"),
        ({"clamps": {"nobody": ("0", "1")}}, "nobody"),
        ({"clamps": {"bill": ("5", "5")}}, "lower one first"),
        ({"clamps": {"bill": ("0", "0.001")}}, "at most 2 decimals"),
        ({"clamps": {"bill": ("0", "1e99999999")}}, "at most 2 decimals"),
        ({"clamps": {"bill": ("0", "1e8")}}, "two values of DECIMAL"),
        ({"clamps": {"age": ("0", "x")}}, "no number"),
        ({"clamps": {"smoker": ("0", "2")}}, "two values of BOOLEAN"),
        ({"clamps": {"bill": ("0", "1"), "BILL": ("0", "1")}}, "twice"),
        ({"clamps": {"age": ("-9223372036854775807", "0")}}, "62 bits"),
        ({"values": {"bill": ["1"]}}, "not stored by 'bill'"),
        ({"values": {"ward": ["A", "A"]}}, "twice"),
        ({"values": {"ward": list(map(str, range(5000)))}}, "more than 4,096"),
        ({"values": {"ward": list(map(str, range(4000))), "sex": list(map(str, range(40)))}}, "65,536 cells"),
        ({"split": {"bill": 2}}, "no statistic 'bill'"),
    ],
)
def test_what_does_not_fit_the_table_is_refused_before_a_row_is_read(
    world: NoisyReleases, monkeypatch: pytest.MonkeyPatch, how: dict[str, Any], message: str
) -> None:
    monkeypatch.setattr(noising, "kept_totals", lambda *_: pytest.fail("a row is read"))
    with pytest.raises(InputError, match=message):
        world.draw("carol", **how)
    assert world.spent() == 0


def test_a_table_without_an_entity_has_no_noisy_releases(tmp_path: Path, key_file: Path) -> None:
    class Nobody(NoisyReleases):
        schema_text = NoisyReleases.schema_text.replace('[privacy]\nentity = ["patient"]\nbudget = 3\n', "")

    world = Nobody(tmp_path / "world", key_file)
    world.put(made())
    with pytest.raises(InputError, match="names no entity"):
        world.draw("carol")


# what analysts see


def test_the_analysts_schema_has_nothing_that_was_proposed(world: NoisyReleases) -> None:
    world.draw("carol")
    drawn = world.drawn("carol")
    assert "patient" not in drawn.schema_toml
    assert "weight" not in drawn.schema_toml
    for word in ("1000", "127", "budget", "reason"):
        assert word not in drawn.schema_toml.partition("[columns")[2]
    bounds = {each.name: (each.lower, each.upper) for each in drawn.measures}
    assert bounds == {"bill": (0, 20_000), "age": (18, 90), "smoker": (0, 1)}
    assert drawn.values == (("A", "B", None), ("f", "m"))


def test_what_is_stored_has_one_size_for_all_draws(world: NoisyReleases, tmp_path: Path) -> None:
    sizes = set()
    for number in range(3):
        copy = world.copy(tmp_path / f"copy {number}")
        copy.draw("carol", epsilon=(0.01, 1, 3)[number])
        newest = copy.open().manifest.release
        assert newest is not None
        assert newest.totals is not None
        sizes.add((newest.totals.bytes, newest.ledger.bytes))
    assert len(sizes) == 1


def test_what_a_noisy_release_does_not_answer_is_refused(world: NoisyReleases) -> None:
    world.draw("carol")
    for sql, message in (
        ("SELECT VAR_SAMP(bill) FROM trial", "no sums of squares"),
        ("SELECT MEDIAN(bill) FROM trial", "MEDIAN"),
        ("SELECT SEM(bill) FROM trial", "not SEM"),
        ("SELECT BOOL_AND(smoker) FROM trial", "not BOOL_AND"),
        ("SELECT AVG(weight) FROM trial", "weight"),
        ("SELECT COUNT(DISTINCT ward) FROM trial", "DISTINCT"),
        ("SELECT bill FROM trial", "bill"),
    ):
        with pytest.raises(QueryRefused, match=message):
            world.ask("carol", sql)


def test_a_hint_names_variances_only_if_the_release_has_them(world: NoisyReleases) -> None:
    world.draw("carol")
    with pytest.raises(QueryRefused) as refused:
        world.ask("carol", "SELECT VARIANCE(bill) FROM trial")
    assert refused.value.hint is not None
    assert "sums, means over them need no rows; variances need a release with --squares" in refused.value.hint
    world.draw("carol", squares=True, yes=True)
    with pytest.raises(QueryRefused) as refused:
        world.ask("carol", "SELECT SEM(bill) FROM trial")
    assert refused.value.hint is not None
    assert "sums, means, variances over them need no rows" in refused.value.hint


def test_small_groups_have_no_mean(world: NoisyReleases, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of as much noise as is stated, and not drawn: one draw of forty is larger."""
    monkeypatch.setattr(noising, "noisy", lambda statistic, totals: (statistic.scale, list(totals)))
    world.draw("carol", epsilon=0.01)
    answer = world.ask("carol", "SELECT ward, AVG(bill) AS mean, COUNT(*) AS n FROM trial GROUP BY ward").result
    assert all(math.isnan(row[1]) for row in answer.rows)
    assert all(bounds[1] is None and bounds[2] > 100 for bounds in answer.bounds)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) AS n, SUM(bill) AS bill FROM trial WHERE ward = 'Z'",
        "SELECT sex, COUNT(*) AS n FROM trial WHERE ward LIKE 'Z%' GROUP BY sex",
        "SELECT sex, COUNT(*) AS n, SUM(bill) FILTER (WHERE ward = 'Z') AS bill FROM trial GROUP BY sex",
    ],
)
def test_values_that_are_not_declared_are_no_certain_zero(world: NoisyReleases, sql: str) -> None:
    """The table has rows of ward Z, which the release does not declare."""
    world.draw("carol")
    answer = world.ask("carol", sql).result
    assert any("count nowhere" in each for each in answer.warnings)
    unknown = [place for place, each in enumerate(answer.columns) if each.name == ("bill" if "FILTER" in sql else "n")]
    for bounds, exact in zip(answer.bounds, answer.exact, strict=True):
        assert [(bounds[place], exact[place]) for place in unknown] == [(None, False)]
    assert not world.ask("carol", BY_WARD).result.warnings


def test_nothing_is_decided_by_a_count_of_values_that_are_not_declared(world: NoisyReleases) -> None:
    world.draw("carol")
    answer = world.ask("carol", "SELECT COUNT(*) > 0 AS some, SUM(bill) + 1 AS more FROM trial WHERE ward = 'Z'").result
    assert answer.exact == [[False, False]]
    assert answer.is_undecided(0, 0)


def test_what_overlaps_is_undecided(world: NoisyReleases) -> None:
    world.draw("carol", epsilon=0.01)
    answer = world.ask("carol", "SELECT ward, COUNT(*) AS n FROM trial GROUP BY ward ORDER BY n DESC LIMIT 1").result
    assert answer.doubts == [("LIMIT",)]
    assert "noisy" in answer.note
    assert "95%" in answer.note


def test_a_release_that_is_not_consistent_is_refused(world: NoisyReleases, monkeypatch: pytest.MonkeyPatch) -> None:
    world.draw("carol")
    drawn = world.drawn("carol")
    assert drawn.is_consistent()
    first, *others = drawn.statistics
    for update in (
        {"numbers": ((1,),) * 6},
        {"numbers": drawn.numbers[1:]},
        {"values": ((), ("f", "m"))},
        {"values": drawn.values[1:]},
        {"values": (("A",) * 70_000, ("f",))},
        {"statistics": ()},
        {"statistics": (first, first, *others[1:])},
        {"statistics": (first.model_copy(update={"scale": math.inf}), *others)},
        {"statistics": (first.model_copy(update={"scale": 0.0}), *others)},
        {"statistics": (first.model_copy(update={"scale": 1e200}), *others)},
        {"numbers": ((1 << 63, *drawn.numbers[0][1:]), *drawn.numbers[1:])},
        {"numbers": ((-(10**400), *drawn.numbers[0][1:]), *drawn.numbers[1:])},
        {"measures": tuple(each.model_copy(update={"upper": 10**400}) for each in drawn.measures)},
        {"statistics": (*others, first.model_copy(update={"measure": 3, "part": "sum"}))},
        {"measures": drawn.measures[1:]},
        {"measures": tuple(each.model_copy(update={"sql": "bill; FROM x"}) for each in drawn.measures)},
        {"measures": tuple(each.model_copy(update={"decimals": 1 << 30}) for each in drawn.measures)},
        {"measures": tuple(each.model_copy(update={"upper": None}) for each in drawn.measures)},
    ):
        assert not drawn.model_copy(update=update).is_consistent(), update
    monkeypatch.setattr(NoisyTotals, "is_consistent", lambda _: False)
    with pytest.raises(CheckFailed, match="damaged"):
        world.source("carol", memory="other")


def test_a_release_whose_schema_is_no_toml_is_refused(world: NoisyReleases, monkeypatch: pytest.MonkeyPatch) -> None:
    world.draw("carol")
    strange = world.drawn("carol").model_copy(update={"schema_toml": "x"})
    monkeypatch.setattr(released, "open_totals", lambda *_: strange)
    with pytest.raises(CheckFailed, match="damaged"):
        world.source("carol", memory="other")


# the page


def test_the_page_follows_from_the_arguments(world: NoisyReleases, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noising, "kept_totals", lambda *_: pytest.fail("a row is read"))
    draft = world.draft("carol", epsilon=0.9, squares=True)
    page = page_of(draft)
    assert "- epsilon: 0.9, spent when the release is made (spent before: 0; budget 3)" in page
    assert "| bill.sum | bill within 0.00..200.00 | 600.00 | 0.1 | ± 17,974.40 |" in page
    assert "- ward: A, B, NULL" in page
    assert "Rows with other values count nowhere" in page
    assert "may be NULL, by the schema: ward, age, smoker." in page
    assert is_page_of(world.draft("carol", epsilon=0.9, squares=True), page + " signed")
    assert not is_page_of(world.draft("carol", epsilon=0.8, squares=True), page)
    wards = [str(each) for each in range(40)]
    long = page_of(world.draft("carol", values={"ward": [*wards, "A"]}))
    assert not is_page_of(world.draft("carol", values={"ward": [*wards, "B"]}), long), "of values that it does not list"
    assert [float(each.epsilon) for each in draft.plan.statistics] == [float(Fraction(1, 10))] * 9
    assert list(CLAMPS) == [each.name for each in draft.plan.reading.clamps]


def test_without_declared_values_all_rows_are_one_cell(tmp_path: Path, key_file: Path) -> None:
    class Whole(NoisyReleases):
        schema_text = re.sub("values = .*\n", "", NoisyReleases.schema_text)

    world = Whole(tmp_path / "whole", key_file)
    world.put(made())
    page = page_of(world.draft("carol"))
    assert "1 cell of all rows: no column has declared values" in page
    assert "count nowhere" not in page
