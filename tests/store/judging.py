"""Judges what processes say that they did with one table at the same time. It shares no code with Cleave.

The log says in which order changes were made, and nothing else: what each of them did comes from the process that was
told that it is done. So there is one state of the rows for each record. It must agree with the time at which processes
began and ended, and each answer must be that of a state between the question's begin and its end.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from tests.solver import singled_out

DATA = ("append", "delete", "update")  # as the log calls them
MAY_CONFLICT = ("alter", "derive", "release", "reader add", "rotate")
MAY_GIVE_UP = ("compact", "delete", "update")  # and upserts: if others change what they read four times
MISSING = ("there is no column", "there is no reader")
Call = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Row:
    """`cents`: of the bill."""

    name: str
    ward: str
    sex: str
    group: int
    cents: int

    def raised(self, cents: int) -> Self:
        return replace(self, cents=self.cents + cents)

    @property
    def bill(self) -> str:
        return euros(self.cents)

    def dump(self) -> list[Any]:
        return [self.name, self.ward, self.sex, self.group, self.cents]


def euros(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02}"


State = Mapping[str, Row]  # by name, which is the key
Do = Callable[[State], State]


def line_of(row: Row) -> str:
    return f"{row.ward},{row.sex},{row.group},{row.bill},{row.name}\n"


def done_by(call: Call) -> Do:
    """What a call does to the rows."""
    if call["what"] == "append":
        rows = {each[0]: Row(*each) for each in call["rows"]}
        return lambda state: {**state, **rows}
    group = call["group"]
    if call["what"] == "delete":
        return lambda state: {name: row for name, row in state.items() if row.group != group}
    return lambda state: {name: row.raised(100) if row.group == group else row for name, row in state.items()}


def changed_by(call: Call, state: State) -> int:
    """How many rows a delete or an update is about."""
    return sum(row.group == call["group"] for row in state.values())


def totals_of(state: State) -> list[list[str]]:
    cells: dict[tuple[str, str], list[Row]] = {}
    for row in state.values():
        cells.setdefault((row.ward, row.sex), []).append(row)

    return [
        [*key, str(len(rows)), euros(sum(each.cents for each in rows)), str(sum(each.group for each in rows))]
        for key, rows in sorted(cells.items())
    ]


def rows_of(state: State) -> list[list[str]]:
    return sorted([row.name, row.bill, str(row.group)] for row in state.values())


ANSWERS: dict[str, Callable[[State], list[list[str]]]] = {"totals": totals_of, "rows": rows_of}


@dataclass(frozen=True, slots=True)
class Judged:
    """`states`: after each record of the log; the first is before all. `counts`: of calls by what and how they ended.
    `parts`: all that were published.
    """

    states: Sequence[State]
    counts: Mapping[tuple[str, Any], int]
    parts: Sequence[Part]


class Judge:
    """`calls`: of all processes; those of one user in its order. `log`: the facts of all records, in order."""

    def __init__(self, first: State, calls: Sequence[Call], log: Sequence[Call]) -> None:
        self.calls, self.log = calls, log
        self.number_of: dict[int, int] = {}  # place of a call in `calls` -> number of its record
        self.states: list[State] = [{}]
        self._replay(first)
        self._by_end = sorted((calls[at]["end"], number) for at, number in self.number_of.items())
        self._by_start = sorted(((calls[at]["start"], number) for at, number in self.number_of.items()), reverse=True)
        self._newest = _running(self._by_end, max)
        self._oldest = _running(self._by_start, min)

    def judge(self) -> Judged:
        counts: dict[tuple[str, Any], int] = {}
        for each in self.calls:
            counts[each["what"], each["code"]] = counts.get((each["what"], each["code"]), 0) + 1
            self._may_end(each)
        self._in_order()
        for at, each in enumerate(self.calls):
            if each["code"] == 0:
                self._answer(at, each)
        return Judged(self.states, counts, self._releases())

    def _replay(self, first: State) -> None:
        waiting: dict[str, list[int]] = {}
        for at, each in enumerate(self.calls):
            if each["code"] == 0 and each["what"] in DATA and has_effect(each):
                waiting.setdefault(each["user"], []).append(at)
        for number, record in enumerate(self.log, 1):
            assert record["number"] == number, record
            now = self.states[-1]
            if record["what"] == "delete" and not record["rows"]:  # of what others were just making
                self.states.append(now)
                continue
            if record["what"] == "put":
                now = first
            elif record["what"] in DATA:
                ended = [each for each in self.calls if each["user"] == record["user"] and each["code"] != 0]
                assert waiting.get(record["user"]), f"nobody was told that this was done: {record}; {ended}"
                at = waiting[record["user"]].pop(0)
                call = self.calls[at]
                assert call["what"] == record["what"], (call, record)
                now = done_by(call)(now)
                assert record["rows"] == len(now) - len(self.states[-1]), (call, record)
                if call["what"] != "append":
                    assert call["answer"]["rows"] == changed_by(call, self.states[-1]), (call, record)
                elif "upsert" not in call["user"]:
                    assert record["rows"] == len(call["rows"]), (call, record)
                self.number_of[at] = number
            self.states.append(now)
        left = [self.calls[at] for of in waiting.values() for at in of]
        assert not left, f"{left[0]['user']} was told that this is done, and the log lacks it: {left[0]}"

    @staticmethod
    def _may_end(call: Call) -> None:
        what, code, message = call["what"], call["code"], call["message"]
        if code in (0, "moved"):
            return
        if call.get("of") == "nothing" and "no longer open to this reader" in message:
            return
        assert code != 7, f"damage: {call}"
        if call.get("of") == "nothing" or call.get("may_fail") or what == "read release":
            return  # who may read nothing, or reads under the key before
        if code == 6:
            gives_up = what in MAY_GIVE_UP or call["user"].startswith("upsert")
            assert what in MAY_CONFLICT or gives_up, f"in conflict: {call}"
            return
        assert call.get("may_lack"), call
        assert any(each in message for each in MISSING), call

    def _in_order(self) -> None:
        """Who began when another had ended came later."""
        for at, number in self.number_of.items():
            before, _ = self._span(self.calls[at])
            assert before < number, (self.calls[at], number, before)

    def _span(self, call: Call) -> tuple[int, int]:
        """Numbers of the first and the last state that a call may have seen."""
        ended = bisect.bisect_left(self._by_end, (call["start"], 0))
        least = self._newest[ended - 1] if ended else 1
        begun = bisect.bisect_left([-start for start, _ in self._by_start], -call["end"])
        most = self._oldest[begun - 1] - 1 if begun else len(self.log)
        return least, most

    def _answer(self, at: int, call: Call) -> None:
        least, most = self._span(call)
        states = self.states[least : most + 1]
        what, of = call["what"], call.get("of")
        assert of != "nothing", f"who was revoked still reads: {call}"
        if what == "verify":
            assert call["answer"] == [], call
        elif of in ANSWERS:
            assert call["answer"] in [ANSWERS[of](each) for each in states], (least, most, call)
        elif what in ("delete", "update") and not has_effect(call):
            assert any(not changed_by(call, each) for each in states), (least, most, call)
        assert what not in DATA or has_effect(call) == (at in self.number_of), call

    def _releases(self) -> list[Part]:
        """All parts that were published. Each is over all rows of a cell that no part before was over, and stays."""
        published: list[Part] = []
        span = (1, 0)
        for each in (each for each in self.calls if each["code"] == 0):
            if each["what"] == "release":
                span = self._span(each)
            if each["what"] != "read release":
                continue
            found = [Published.of(part) for part in each["answer"]]
            for part in published:
                assert Published.over(part) in found, f"a part is gone or changed: {part}"
                found.remove(Published.over(part))
            seen = {row.name for _, of in published for row in of}
            for part in found:
                published.append(self._part(part, span, seen))
        return published

    def _part(self, part: Published, span: tuple[int, int], seen: Collection[str]) -> Part:
        """The rows that a new part is over."""
        for state in self.states[span[0] : span[1] + 1]:
            of = frozenset(row for row in state.values() if (row.ward, row.sex) == part.key and row.name not in seen)
            if Published.over((part.key, of)) == part:
                return part.key, of
        raise AssertionError(f"a part is over other rows than those of its cell that are new: {part}")


Part = tuple[tuple[str, str], frozenset[Row]]


@dataclass(frozen=True, slots=True)
class Published:
    """The numbers of a part: its rows, and the sums of cents and groups."""

    key: tuple[str, str]
    rows: int
    cents: int
    groups: int

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Published:
        """As the analyst reads it: for each column whether it is shown, the number of values, their sum and squares."""
        for name in ("bill", "grp"):
            shown, count, _, _ = facts[name]
            assert (bool(shown), count) == (True, facts["rows"]), facts
        return cls(tuple(facts["key"]), facts["rows"], facts["bill"][2], facts["grp"][2])

    @classmethod
    def over(cls, part: Part) -> Published:
        key, rows = part
        return cls(key, len(rows), sum(each.cents for each in rows), sum(each.group for each in rows))


def has_effect(call: Call) -> bool:
    return bool(call["rows"]) if call["what"] == "append" else call["answer"]["rows"] > 0


def _running(pairs: Iterable[tuple[float, int]], of: Callable[[int, int], int]) -> list[int]:
    found: list[int] = []
    for _, number in pairs:
        found.append(of(found[-1], number) if found else number)
    return found


def few_in(parts: Sequence[Part], least: int) -> set[int] | None:
    """Fewer than `least` people whom some combination of the parts' numbers is about."""
    names = sorted({row.name for _, rows in parts for row in rows})
    place = {name: at for at, name in enumerate(names)}
    sums: list[frozenset[tuple[str, str, int]]] = []
    for _, rows in parts:
        sums.append(frozenset(("row", row.name, 0) for row in rows))
        sums.append(frozenset(("bill", row.name, row.cents) for row in rows))
    people = {each: place[each[1]] for of in sums for each in of}
    return singled_out(sums, people, least)
