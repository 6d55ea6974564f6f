"""`cleave survival` and `cleave.survival` over files, stored tables and releases, against rows counted by hand."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from statsmodels.duration.survfunc import SurvfuncRight, survdiff

import cleave
from cleave.ckks.key_file import open_key
from cleave.ckks.public_key import public_side
from cleave.models.survival import Survival
from cleave.store.identity import create_identity
from tests.cli.runner import Cli

KINDS = {"person": "sealed", "arm": "plain", "month": "plain", "days": "encrypted", "died": "encrypted"}


def trial(count: int = 300, seed: int = 1, *, last: int = 360) -> pd.DataFrame:
    draw = random.Random(seed)
    days = [draw.randrange(last) for _ in range(count)]
    return pd.DataFrame(
        {
            "person": [f"P{place}" for place in range(count)],
            "arm": [draw.choice(["old", "new"]) for _ in days],
            "month": [1 + each // 30 for each in days],
            "days": days,
            "died": [draw.random() < 0.5 for _ in days],
        }
    )


def counts(found: Survival) -> dict[tuple[Any, float], tuple[int, int, int]]:
    return {
        (each.group, step.time): (step.at_risk, step.events, step.censored)
        for each in found.curves
        for step in each.steps
    }


def expected(frame: pd.DataFrame, ends: Sequence[float], by: str | None = "arm") -> dict[Any, tuple[int, int, int]]:
    """At risk, events and withdrawals by group and step end. Each row leaves at the end of `ends`."""
    leaving: Counter[Any] = Counter()
    for (_, row), end in zip(frame.iterrows(), ends, strict=True):
        leaving[row[by] if by else None, end, bool(row["died"])] += 1
    found = {}
    for group, end in {(group, end) for group, end, _ in leaving}:
        left = sum(rows for (other, time, _), rows in leaving.items() if other == group and time >= end)
        found[group, end] = (left, leaving[group, end, True], leaving[group, end, False])
    return found


def ends_of(frame: pd.DataFrame, width: int = 30) -> list[float]:
    return [(each // width + 1) * width for each in frame["days"]]


FRAME = trial()
TYPES = {"person": "VARCHAR", "arm": "VARCHAR", "month": "BIGINT", "days": "BIGINT", "died": "BOOLEAN"}
SCHEMA = "".join(f'[columns.{name}]\nkind = "{KINDS[name]}"\ntype = "{type_}"\n' for name, type_ in TYPES.items())


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory, key_file: Path) -> dict[str, Any]:
    place = {"store": tmp_path_factory.mktemp("survival") / "s", "key": key_file}
    cleave.put(FRAME, "wards", schema=KINDS, by=["arm"], **place)
    cleave.put(FRAME, "months", schema=KINDS, by=["arm", "month"], **place)
    cleave.put(FRAME, "cells", schema=KINDS, by=["arm", "month", "died"], **place)
    return place


def test_a_file_and_a_frame_have_one_answer(tmp_path: Path, cli: Cli) -> None:
    """Counts are those of the rows, the curve is that of statsmodels over times at the ends of steps."""
    file = tmp_path / "trial.csv"
    FRAME.to_csv(file, index=False)
    file.with_suffix(".schema.toml").write_text(SCHEMA)
    found = cleave.survival(FRAME, "days", "died", by="arm", width=30, schema=KINDS)
    assert counts(found) == expected(FRAME, ends_of(FRAME))
    for each in found.curves:
        rows = FRAME["arm"] == each.group
        other = SurvfuncRight(np.array(ends_of(FRAME))[rows], FRAME["died"][rows].astype(int))
        with_events = [step for step in each.steps if step.events]
        assert [step.survival.value for step in with_events] == pytest.approx(other.surv_prob.tolist(), rel=1e-12)
        assert [step.error.value for step in with_events] == pytest.approx(other.surv_prob_se.tolist(), rel=1e-12)
    assert found.test is not None
    statistic, p = survdiff(np.array(ends_of(FRAME)), FRAME["died"].astype(int), FRAME["arm"])
    assert (found.test.chi_square.value, found.test.p.value) == pytest.approx((statistic, p), rel=1e-9)
    assert (found.n, found.left_out, found.merged, found.until) == (300, 0, False, 360)
    options = ("--time", "days", "--event", "died", "--by", "arm", "--width", 30)
    printed = cli.run("survival", file, *options, "--json")
    facts = json.loads(printed.stdout)
    assert facts["curves"] == json.loads(found.json())["curves"]
    assert facts["log_rank"] == json.loads(found.json())["log_rank"]
    assert "Nothing was sent" in cli.run("survival", file, *options).stderr
    assert cli.run("survival", file, *options).stdout == f"{found.summary()}\n"
    assert "<th" in found._repr_html_()
    assert found.df()["at_risk"].sum() == sum(left for left, _, _ in counts(found).values())


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("table", "time", "width", "ways"),
    [("wards", "days", 30, {"rows"}), ("months", "month", None, {"totals"}), ("cells", "month", None, {"totals"})],
)
def test_a_stored_table_gives_the_curve_of_its_rows(
    stored: dict[str, Any], table: str, time: str, width: int | None, ways: set[str]
) -> None:
    """By rows, and by totals of steps with a count or a by column of events."""
    options = {"cloud_only": True} if ways == {"totals"} else {}
    found = cleave.survival(table, time, "died", "arm", width, **options, **stored)
    ends = ends_of(FRAME) if width else FRAME["month"].tolist()
    assert counts(found) == expected(FRAME, ends)
    assert {way.name for each in found.seen for way in each.ways if way.taken} == ways
    assert found.checks["stored"] == "passed"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("table", ["months", "cells"])
def test_a_release_gives_the_curve_of_its_parts(stored: dict[str, Any], tmp_path: Path, table: str) -> None:
    """An analyst gets the curve of the released parts, by a count or by a column of events."""
    identity, public = create_identity(tmp_path / "carol.pem", analyst=True)
    cleave.release(table, to=f"{public}={public_side(identity).fingerprint}", min_cell=6, **stored)
    known = public_side(open_key(stored["key"], None)).fingerprint
    analyst = {"store": stored["store"], "analyst": tmp_path / "carol.pem", "fingerprint": known}
    found = cleave.survival(table, "month", "died", "arm", **analyst)
    cell = ["arm", "month", *(["died"] if table == "cells" else [])]
    kept = FRAME[FRAME.groupby(cell)["person"].transform("size") >= 6]
    assert counts(found) == expected(kept, kept["month"].tolist())
    assert found.released
    assert "smaller ones may exist" in found.summary()


def thresholds(found: Survival, least: int) -> None:
    """No count that is shown, and no difference of two numbers at risk, is of fewer than `least` rows."""
    for each in found.curves:
        left = [step.at_risk for step in each.steps] + [0]
        for step, before, after in zip(each.steps, left, left[1:], strict=False):
            assert before - after == step.events + step.censored
            assert step.events == 0 or step.events >= least
            assert step.censored == 0 or step.censored >= least


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("seed", "least"), [(2, 3), (3, 5), (4, 8), (5, 12)])
def test_no_step_under_a_threshold_is_of_few_people(seed: int, least: int) -> None:
    frame = trial(120, seed)
    found = cleave.survival(frame, "days", "died", "arm", 30, schema=KINDS, min_group=least)
    thresholds(found, least)
    assert found.merged
    assert f"at least {least} rows have died, or none" in found.summary()
    ends = sorted({step.time for each in found.curves for step in each.steps})
    merged = [next(end for end in ends if day < end) for day in frame["days"]]
    assert counts(found) == expected(frame, merged)  # merged alike in both groups, and nobody is lost
    assert all(each.rows is None and each.groups is None for each in found.usage)


def test_a_threshold_counts_people() -> None:
    """Each person has four rows in one step: as rows they were enough."""
    one = trial(60, 7)
    frame = pd.concat([one] * 4)
    found = cleave.survival(frame, "days", "died", None, 30, schema=KINDS, min_group=6, entity="person")
    thresholds(found, 24)
    assert (found.people, found.n) == ("people", 240)
    rows = cleave.survival(frame, "days", "died", None, 30, schema=KINDS, min_group=6)
    assert len(rows.curves[0].steps) > len(found.curves[0].steps)


def test_each_count_under_a_threshold_is_of_enough_people() -> None:
    """People have one to five rows, in any step: whoever leaves in a step of a group is counted once."""
    draw = random.Random(11)
    frame = pd.concat([trial(90, 11)] * 2 + [trial(60, 12)], ignore_index=True)
    frame["person"] = [f"P{draw.randrange(70)}" for _ in range(len(frame))]
    for least in (3, 6, 9):
        found = cleave.survival(frame, "days", "died", "arm", 30, schema=KINDS, min_group=least, entity="person")
        assert (found.n, found.people) == (240, "people")
        ends = sorted({step.time for each in found.curves for step in each.steps})
        merged = [next(end for end in ends if day < end) for day in frame["days"]]
        assert counts(found) == expected(frame, merged)
        assert frame.groupby(["arm", "died", merged])["person"].nunique().min() >= least


def test_a_noisy_release_gives_no_models(tmp_path: Path, key_file: Path) -> None:
    place: dict[str, Any] = {"store": tmp_path / "s", "key": key_file}
    frame = trial(60, 3)
    cleave.put(frame, "t", schema=KINDS, by=["arm", "month"], entity="person", **place)
    identity, public = create_identity(tmp_path / "carol.pem", analyst=True)
    values = {"arm": ["old", "new"], "month": list(range(1, 13))}
    to = f"{public}={public_side(identity).fingerprint}"
    cleave.release("t", to=to, epsilon=1, most_rows=1, clamp={"days": (0, 360), "died": (0, 1)}, values=values, **place)
    known = public_side(open_key(key_file, None)).fingerprint
    analyst = {"store": place["store"], "analyst": tmp_path / "carol.pem", "fingerprint": known}
    for asked in (
        lambda: cleave.survival("t", "month", "died", "arm", **analyst),
        lambda: cleave.pca("t", "month,days", **analyst),
        lambda: cleave.fit("t", "days ~ month", **analyst),
    ):
        with pytest.raises(cleave.QueryRefused, match=r"^the numbers of a noisy release"):
            asked()


def test_a_table_with_contributors_keeps_its_threshold_and_its_log(tmp_path: Path, key_file: Path, cli: Cli) -> None:
    """Sizes that only this machine reads are no answer with smaller groups."""
    place: dict[str, Any] = {"store": tmp_path / "s", "key": key_file}
    cleave.put(trial(150, 8), "t", schema=KINDS, by=["arm"], **place)
    made = cli.run("key", "contributor", "-o", tmp_path / "north.pem")
    key = f"{tmp_path / 'north.pem.pub'}={re.findall(r'SHA256:[A-Za-z0-9+/]+', made.output)[0]}"
    words = ("--contributor-key", key, "--store", place["store"], "--key", place["key"])
    assert cli.run("contributor", "add", "t", "north", *words).exit_code == 0
    found = cleave.survival("t", "days", "died", "arm", 30, **place)
    thresholds(found, 5)
    assert found.merged
    cleave.query("t", "SELECT COUNT(*) FROM t", min_group=1, yes=True, **place)
    assert str(cleave.log("t", **place)).count("smaller groups") == 1  # of the query


def test_missing_values_are_left_out_and_counted() -> None:
    frame = trial(200, 9)
    frame["days"] = frame["days"].astype("Int64").mask(frame.index % 20 == 0)
    frame["died"] = frame["died"].astype("boolean").mask(frame.index % 20 == 1)
    frame["arm"] = frame["arm"].mask(frame.index % 20 == 2)
    present = frame.dropna()
    found = cleave.survival(frame, "days", "died", "arm", 30, schema=KINDS)
    assert counts(found) == expected(present, ends_of(present))
    assert (found.n, found.left_out) == (170, 30)
    assert "30 rows without a time, event or group left out." in found.notes


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(6))
def test_rows_that_a_curve_leaves_out_are_of_enough_people(seed: int) -> None:
    """A curve without groups less those of groups is of the rows without a group, and so is a mean less a mean."""
    draw, least = random.Random(seed), 5
    frame = pd.concat([trial(120, seed)] * 2, ignore_index=True)  # two rows of each person
    frame["days"], frame["died"] = frame["days"].astype("Int64"), frame["died"].astype("boolean")
    for name in ("arm", "days", "died"):
        lacking = [f"P{each}" for each in draw.sample(range(120), draw.choice([0, 0, 3, 24] if seed else [2]))]
        frame[name] = frame[name].mask(frame["person"].isin(lacking))
    patterns = frame.groupby([frame[name].isna() for name in ("arm", "days", "died")])["person"].nunique()
    timed = frame.dropna(subset=["days", "died"])
    try:
        found = cleave.survival(frame, "days", "died", "arm", 30, schema=KINDS, min_group=least, entity="person")
    except cleave.QueryRefused:
        assert min(patterns) < least or timed[timed["arm"].isna()].groupby("died")["person"].nunique().min() < least
        return
    assert min(patterns) >= least
    assert found.left_out == len(frame) - found.n == len(frame) - len(frame.dropna())
    ends = sorted({step.time for each in found.curves for step in each.steps})
    merged = [min((end for end in ends if day < end), default=0) for day in timed["days"]]
    assert timed.groupby(["arm", "died", merged], dropna=False)["person"].nunique().min() >= least


def test_missing_events_of_stored_totals(tmp_path: Path, key_file: Path) -> None:
    place: dict[str, Any] = {"store": tmp_path / "s", "key": key_file}
    frame = trial(120, 9)
    frame["died"] = frame["died"].astype("boolean").mask(frame.index % 10 == 1)
    cleave.put(frame, "t", schema=KINDS, by=["arm", "month"], **place)
    found = cleave.survival("t", "month", "died", "arm", cloud_only=True, **place)
    present = frame.dropna()
    assert counts(found) == expected(present, present["month"].tolist())
    assert found.left_out == 12


def wide(room: int = 64) -> str:
    """A schema as `cleave schema` proposes it: events are numbers with room."""
    return SCHEMA.replace('type = "BOOLEAN"\n', f'type = "BIGINT"\nlower = {-room}\nupper = {room}\n')


@pytest.mark.sampled(3)
@pytest.mark.parametrize("strange", [None, 2, -1])
def test_events_with_wide_bounds_are_shown_to_be_0_and_1(tmp_path: Path, key_file: Path, strange: int | None) -> None:
    """By the totals of their squares. `strange`: one event of the cell of the first row."""
    place: dict[str, Any] = {"store": tmp_path / "s", "key": key_file}
    frame = trial(120, 9)
    (tmp_path / "t.schema.toml").write_text(wide())
    numbers = frame.assign(died=frame["died"].astype("Int64").mask(frame.index % 10 == 1))
    if strange is not None:
        numbers.loc[0, "died"] = strange
    cleave.put(numbers, "t", schema=tmp_path / "t.schema.toml", by=["month"], **place)
    if strange is not None:
        with pytest.raises(cleave.InputError, match="the events 'died' have values other than 0 and 1"):
            cleave.survival("t", "month", "died", cloud_only=True, **place)
        return
    found = cleave.survival("t", "month", "died", cloud_only=True, **place)
    present = frame[frame.index % 10 != 1].assign(arm=None)
    assert counts(found) == expected(present, present["month"].tolist())
    assert found.left_out == 12


def test_events_too_wide_to_square_are_refused(tmp_path: Path, key_file: Path) -> None:
    place: dict[str, Any] = {"store": tmp_path / "s", "key": key_file}
    (tmp_path / "t.schema.toml").write_text(wide(1 << 40))
    frame = trial(20, 9)
    cleave.put(
        frame.assign(died=frame["died"].astype("Int64")), "t", schema=tmp_path / "t.schema.toml", by=["month"], **place
    )
    with pytest.raises(cleave.InputError, match="may be other than 0 and 1 by their declared bounds"):
        cleave.survival("t", "month", "died", **place)


def frame_of(days: Sequence[Any], died: Sequence[Any], **more: Sequence[Any]) -> pd.DataFrame:
    return pd.DataFrame({"days": days, "died": died, **more})


PAIR = {"days": "encrypted", "died": "encrypted"}


def test_merged_steps_fit_into_a_statement() -> None:
    name = "days since the first treatment of the person in this hospital"
    frame = pd.DataFrame({name: [*range(200), *range(200)], "died": [True] * 400})
    frame.loc[200, name] = 1  # so step 0 has one row
    with pytest.raises(cleave.QueryRefused, match=r"merged steps of .* are too many for one statement"):
        cleave.survival(frame, name, "died", width=1, schema={name: "encrypted", "died": "encrypted"}, min_group=2)


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        (frame_of([1, -2], [True, False]), {"width": 5}, "the times 'days' have negative values"),
        (frame_of([1, -2], [True, False]), {}, "the times 'days' have negative values"),
        (frame_of([1, 2], [2, 1]), {}, "the events 'died' have values other than 0 and 1"),
        (frame_of([1, 2], [0.0, 1.0]), {}, "the events 'died' are DOUBLE"),
        (frame_of([1.5, 2.5], [0, 1]), {}, "are doubles, and need a width"),
        (frame_of([1, 2], [0, 1]), {"width": 0}, "the width of the steps is a number above 0"),
        (frame_of([1, 2], [0, 1]), {"width": "1e999999999"}, "the width of the steps is between 1e-15 and 1e15"),
        (frame_of([1, 2], [0, 1]), {"width": "1e-999999999"}, "the width of the steps is between 1e-15 and 1e15"),
        (frame_of([1, 2], [0, 1]), {"width": "nan"}, "the width of the steps is a number above 0"),
        (frame_of([1, 2], [0, 1]), {"until": "1e999999999"}, "the end of the mean is a number above 0"),
        (frame_of([1, 2], [0, 1]), {"level": "1e-999999999"}, "the level of confidence intervals"),
        (frame_of([1, 2], [0, 1]), {"width": "1.5"}, "more decimals than the times 'days'"),
        (frame_of(["a", "b"], [0, 1]), {}, "the times 'days' are VARCHAR, not numbers"),
        (frame_of(range(61), [1] * 61), {}, "more than 60 values"),
        (frame_of(range(201), [1] * 201), {"width": 1}, "at most 200 steps"),
        (frame_of([1, 2], [1, 0]), {"until": 3}, "--until is after the last step of the curve"),
        (frame_of([1, 2], [0, 1]), {"level": 1}, "the level of confidence intervals"),
        (frame_of([1, 2], [0, 1]), {"by": "died"}, "different columns"),
        (frame_of([1, 2], [0, 1]), {"by": "arm"}, "there is no column 'arm'"),
        (frame_of([1] * 8, [1] * 4 + [0] * 4), {"min_group": 5}, "fewer than 5 rows have the event 'died'"),
        (frame_of([1, 2], [None, None]).astype({"died": "Int64"}), {}, "no row has a time and an event"),
    ],
)
def test_wrong_times_events_and_options_are_refused(frame: pd.DataFrame, options: dict[str, Any], message: str) -> None:
    """No message holds a value of the table."""
    kinds = {**PAIR, "days": "sealed"} if frame["days"].dtype == "str" else PAIR
    with pytest.raises(cleave.CleaveError) as caught:
        cleave.survival(frame, "days", "died", schema=kinds, **options)
    assert message in caught.value.message


def test_a_level_may_be_a_fraction() -> None:
    found = [
        cleave.survival(frame_of([1, 2], [0, 1]), "days", "died", level=each, schema=PAIR) for each in (0.95, "19/20")
    ]
    assert found[0].curves == found[1].curves
    assert found[1].level == 0.95


def test_doubles_and_decimals_fall_in_their_step() -> None:
    """A time at a step's start belongs to it, by the exact value of the double or decimal."""
    days = [0.0, 29.999999999999996, 30.0, 59.99, 60.0]
    found = cleave.survival(frame_of(days, [1] * 5), "days", "died", width=30, schema=PAIR)
    assert [(step.time, step.events) for step in found.curves[0].steps] == [(30, 2), (60, 2), (90, 1)]
    assert found.curves[0].mean.value == float(Fraction(2 * 30 + 2 * 60 + 90, 5))
    years = [Decimal("0.29"), Decimal("0.30"), Decimal("0.59"), Decimal("0.60")]
    found = cleave.survival(frame_of(years, [1] * 4), "days", "died", width="0.3", schema=PAIR)
    assert [(step.time, step.events) for step in found.curves[0].steps] == [(0.3, 1), (0.6, 2), (0.9, 1)]
