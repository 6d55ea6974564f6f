"""What was described is what was asked: one plan, made under its threshold, over every kind of source."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import cleave
from cleave.api.ask import session_over
from cleave.ask.options import Asking, complete
from cleave.ask.plan import AnswerPlan
from cleave.ask.question import Options
from cleave.ask.session import Session
from cleave.ckks.key_file import create_key, open_key
from cleave.ckks.public_key import export_public, public_side
from cleave.sql.join import JoinPlan
from cleave.sql.planner import Planner
from cleave.store.first_use import contributor_fingerprint
from cleave.store.identity import create_identity, read_contributor_key
from cleave_shared.errors import QueryRefused

FRAME = pd.DataFrame(
    {
        "patient": [f"p{row % 9}" for row in range(24)],
        "ward": ["A"] * 12 + ["B"] * 8 + ["C"] * 4,
        "bill": range(24),
        "mark": [None if row % 3 else row for row in range(24)],
    }
).astype({"mark": "Int64"})
WARDS = pd.DataFrame({"ward": ["A", "B", "C"], "floor": [1, 1, 2]})
KINDS = {"patient": "sealed", "ward": "plain", "bill": "encrypted", "mark": "encrypted"}
WITH_WARDS = {"wards": WARDS}

TOTALS = "SELECT ward, SUM(bill) AS bill, COUNT(*) AS n FROM t GROUP BY ward ORDER BY ward"
ROLLUP = "SELECT ward, SUM(bill) AS bill FROM t GROUP BY ROLLUP (ward) ORDER BY ward"
OF_ROWS = [
    "SELECT ward, SUM(bill) AS bill FROM t WHERE bill > 2 GROUP BY ward ORDER BY ward",
    "SELECT ward, SUM(mark) AS mark, MAX(bill) AS bill FROM t GROUP BY ward ORDER BY ward",
    "SELECT ward, COUNT(DISTINCT patient) AS people FROM t GROUP BY ward ORDER BY ward",
]
JOIN = "SELECT floor, SUM(bill) AS total FROM t s JOIN wards w ON s.ward = w.ward GROUP BY floor"
ROWS = "SELECT ward, bill FROM t ORDER BY ALL"
THRESHOLDS = [
    Options(),
    Options(min_group=6),
    Options(min_group=2),
    Options(min_group=2, yes=True),
    Options(min_group=1, yes=True, pad=True),
]


class Made:
    """A store with one table, and the files of its readers and analysts."""

    def __init__(self, root: Path, key_file: Path) -> None:
        self.root = root
        self.place: dict[str, Any] = {"store": root / "s", "key": key_file}
        self.known = public_side(open_key(key_file, None)).fingerprint

    def put(self) -> None:
        cleave.put(FRAME, "t", schema=KINDS, by=["ward"], entity="patient", **self.place)

    def open(self, data: object = "t", **asking: Any) -> Session:
        given = {"others": WITH_WARDS, **({} if "analyst" in asking else self.place), **asking}
        return session_over(data, complete(Asking, given))  # type: ignore[arg-type]

    def analyst(self, **how: Any) -> Session:
        identity, public = create_identity(self.root / "carol.pem", analyst=True)
        cleave.release("t", to=f"{public}={public_side(identity).fingerprint}", **how, **self.place)
        of_carol = {"analyst": self.root / "carol.pem", "fingerprint": self.known, "others": None}
        return self.open(store=self.place["store"], **of_carol)


def file(made: Made) -> Session:
    FRAME.to_csv(made.root / "t.csv", index=False)
    types = {"patient": "VARCHAR", "ward": "VARCHAR", "bill": "BIGINT", "mark": "BIGINT"}
    kinds = "".join(f'[columns.{name}]\nkind = "{KINDS[name]}"\ntype = "{types[name]}"\n' for name in KINDS)
    (made.root / "t.schema.toml").write_text('[privacy]\nentity = ["patient"]\n' + kinds)
    return made.open(made.root / "t.csv", store=None, key=None)


def frame(made: Made) -> Session:
    return made.open(FRAME, store=None, key=None, schema=KINDS, table="t", entity=["patient"])


def frame_of_rows(made: Made) -> Session:
    return made.open(FRAME, store=None, key=None, schema=KINDS, table="t", entity=[])


def stored(made: Made) -> Session:
    made.put()
    return made.open()


def stored_rows(made: Made) -> Session:
    cleave.put(FRAME, "t", schema=KINDS, by=["ward"], **made.place)
    return made.open()


def contributed(made: Made) -> Session:
    made.put()
    _, public = create_identity(made.root / "north.pem")
    north = f"{public}={contributor_fingerprint(read_contributor_key(public))}"
    cleave.add_contributor("t", "north", contributor_key=north, **made.place)
    return made.open()


def reader(made: Made) -> Session:
    made.put()
    create_key(path := made.root / "dan.json", None)
    dan = open_key(path, None)
    export_public(dan, public_side(dan), made.root / "dan.pub")
    to = f"{made.root / 'dan.pub'}={public_side(dan).fingerprint}"
    cleave.add_reader("t", to=to, columns=list(KINDS), yes=True, **made.place)
    return made.open(key=None, reader=path, fingerprint=made.known)


def exact_release(made: Made) -> Session:
    made.put()
    return made.analyst(min_cell=3)


def noisy_release(made: Made) -> Session:
    made.put()
    how = {"epsilon": 1, "most_rows": 3, "clamp": {"bill": (0, 30)}, "values": {"ward": ["A", "B", "C"]}}
    return made.analyst(**how)


SOURCES: list[Callable[[Made], Session]] = [
    file,
    frame,
    frame_of_rows,
    stored,
    stored_rows,
    contributed,
    reader,
    exact_release,
    noisy_release,
]


def refusal(source: Callable[[Made], Session], sql: str, options: Options, least: int) -> str:
    """Part of the reason why a question is not planned; "" if it is."""
    own = 5 if source is contributed else 0
    if 0 < options.min_group < own and not options.yes:
        return "groups of fewer than 5 are left out"
    if source in (exact_release, noisy_release) and sql not in (TOTALS, ROLLUP):
        return "."
    if not least:
        return ""
    if source is noisy_release:
        return "a noisy release shows all groups"
    counts_rows = source in (frame_of_rows, stored_rows)
    if sql == ROWS or (sql == JOIN and counts_rows):
        return "a minimum group size cannot be kept"
    return ""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("source", SOURCES, ids=lambda each: each.__name__)
def test_the_plan_that_was_described_is_what_runs(
    source: Callable[[Made], Session], tmp_path: Path, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[AnswerPlan] = []
    described: list[AnswerPlan] = []
    with source(Made(tmp_path, key_file)) as session:
        _note(session.source, ran, described, monkeypatch)
        for sql in (TOTALS, ROLLUP, *OF_ROWS, JOIN, ROWS):
            for options in THRESHOLDS:
                own = 5 if source is contributed else 0
                least = options.min_group or own
                least = least if least > 1 else 0
                why = refusal(source, sql, options, least)
                if why:
                    with pytest.raises(QueryRefused, match=why):
                        session.plan(sql, options)
                    continue
                plan = session.plan(sql, options)
                assert (plan.threshold.least, plan.pad) == (least, options.pad), sql
                assert plan.threshold.overridden == (("t",) if least < own else ())
                description = session.describe(plan)
                with monkeypatch.context() as asking:
                    asking.setattr(Planner, "__init__", _not_now)
                    asking.setattr(type(session.source), "plan", _not_now)
                    answer = session.ask(plan)
                assert described.pop() is plan, sql
                assert ran.pop() is plan, sql
                assert not ran, sql
                assert not described, sql
                assert (f"fewer than {least}" in description.threshold) == bool(least), sql
                assert answer.usage.min_group == (least or None), sql
                outputs = plan.cut.cut.outputs if isinstance(plan.cut, JoinPlan) else plan.outputs
                assert [each.source for each in answer.result.columns] == [each.source for each in outputs], sql
                if least and plan.cut.counting and plan.cut.counting.entity:
                    fates = {each.name: each.fate for each in description.columns}
                    assert not fates["patient"].startswith("not read"), sql
                if description.ways:
                    assert description.ways[0].name == plan.name, sql
                counted = plan.cut.counting
                assert (answer.usage.counted == "people") == bool(least and counted and counted.entity), sql


def _note(source: Any, ran: list[AnswerPlan], described: list[AnswerPlan], monkeypatch: pytest.MonkeyPatch) -> None:
    """Note the plans that a source describes, and those that it loads rows for or adds up."""

    def noting(noted: list[AnswerPlan], inner: Callable[..., Any]) -> Callable[..., Any]:
        def method(plan: AnswerPlan, *more: Any) -> Any:
            noted.append(plan)
            return inner(plan, *more)

        return method

    for name, noted in (("describe", described), ("load", ran), ("sums", ran)):
        monkeypatch.setattr(source, name, noting(noted, getattr(source, name)))


def _not_now(*_: object, **__: object) -> None:
    raise AssertionError("planned while it is asked")
