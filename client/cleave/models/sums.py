"""Ask for the sums of a model, as ordinary statements of a session.

    with session.snapshot():
        sums = ModelSums(session, asking)
        groups = sums.ask(['"ward"'], [(0,), ()], ['SUM("age")', 'SUM("age" * "age")'])

So a file, a stored table and a release answer a model as they answer a query, with the same checks and thresholds.
Numbers are read from the unpublished answer, which has all digits.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from flint import arb

from cleave.aggregates.balls import Number, half_unit, precision, rational
from cleave.ask.options import question_options
from cleave.ask.question import Options
from cleave.table.duck import identifier
from cleave.table.privacy import CONTRIBUTOR
from cleave_shared import limits
from cleave_shared.errors import NotComputable, QueryRefused, SumOverflows, Undecided

if TYPE_CHECKING:
    from cleave.ask.describe import Description
    from cleave.ask.options import Asking
    from cleave.ask.question import Answer, Usage
    from cleave.ask.session import Session
    from cleave.finish import ResultTable
    from cleave.table.schema import Schema

_MOST_FIGURES = 40  # of one statement: those of a file are encrypted side by side
_BOUNDS = "declare lower and upper of these columns in the schema: then their sums cannot overflow"
_ROOM = 500  # characters besides keys and figures
_UNSEEN = Options(min_group=1, yes=True, logged=True)  # of sums that nobody is shown

NOISY = "the numbers of a noisy release are not exact sums, and a model needs those"
BESIDE = "ask the owner of the table for the model: an exact release beside it would void the promise of the noisy one"


@dataclass(frozen=True, slots=True)
class Total:
    """A figure of a group.

    `value` is None for NULL and for a hidden figure. `hidden`: too few people have a value there, or have none.
    `loose`: DuckDB added doubles in an unknown order. `value` is then its result, without a bound of its error.
    """

    value: Number | None
    hidden: bool = False
    loose: bool = False


@dataclass(frozen=True, slots=True)
class KeyedGroup:
    """A group of the set number `set` of keys. `keys` has the values of that set's keys, in their order; `rows` is its
    number of rows.
    """

    set: int
    keys: tuple[Any, ...]
    rows: int
    totals: tuple[Total, ...]


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class Asked:
    """How the sums of a model were asked for.

    `min_group` is the threshold in force, in `people` ("people" or "rows"), or 0. `released`: only released parts of
    the table are counted. `scanned`: a scan made sums. `seen` says what each party saw, as `cleave.plan` does, and
    `usage` counts the work, both by statement.
    """

    min_group: int
    people: str
    released: bool
    checks: Mapping[str, str]
    seen: tuple[Description, ...]
    usage: tuple[Usage, ...]
    seconds: float
    scanned: bool

    def _asked_facts(self) -> dict[str, Any]:
        """The last members of the JSON of a model."""
        return {
            "checks": dict(self.checks),
            "scanned": self.scanned,
            "seen": [asdict(each.leakage) for each in self.seen],
            "usage": [asdict(each) for each in self.usage],
        }


class ModelSums:
    """Sums of one table for one model. `answers` and `seen` have the answers and descriptions of all statements so far.

    `min_group` is the threshold in force, or 0. `left_out` counts groups that it left out.
    """

    def __init__(self, session: Session, asking: Asking, table: str = "", spent: float = 0.0) -> None:
        """`spent`: seconds that are used up already of the time that all statements have together."""
        self._session = session
        self._asking = asking
        self._options = question_options(asking)
        self.table = table or session.name
        self.answers: list[Answer] = []
        self.seen: list[Description] = []
        self.seconds = 0.0
        self._spent = spent

    @property
    def schema(self) -> Schema:
        return self._session.schemas[self.table]

    @property
    def rows(self) -> int | None:
        """The number of rows of the table, if it is known."""
        return self._session.rows_of(self.table)

    def keeps(self, figure: str) -> bool:
        """True over a release, and if totals of a stored table answer `figure` where no threshold counts people."""
        if self.released:
            return True
        if self._session.asked_by(self.table) is None:
            return False
        try:
            self._session.plan(f"SELECT {figure} FROM {identifier(self.table)}", _UNSEEN, cloud_only=True)
        except QueryRefused:
            return False
        return True

    @property
    def min_group(self) -> int:
        return max((each.usage.min_group or 0 for each in self.answers), default=0)

    @property
    def released(self) -> bool:
        """True over a release, which has only the parts of a table with enough people."""
        return not self._session.source.has_rows

    @property
    def people(self) -> str:
        """What the threshold counts: "people" or "rows"."""
        return next((each.usage.counted for each in self.answers if each.usage.counted), self.schema.privacy.counted)

    @property
    def other_people(self) -> str:
        """The people, or rows, that a model's numbers are compared with, in words."""
        asked = self._session.asked_by(self.table)
        return f"{self.people} of all parties but any one" if asked and CONTRIBUTOR in asked.by else self.people

    def is_key(self, column: str) -> bool:
        """True if groups of this column's values cost no more than a sum: over a file, and for columns that the totals
        of a stored table are grouped by.
        """
        asked = self._session.asked_by(self.table)
        return asked is None or column in asked.by

    @property
    def left_out(self) -> int:
        return sum((each.usage.suppressed_groups or 0) + (each.usage.withheld_groups or 0) for each in self.answers)

    @property
    def checks(self) -> dict[str, str]:
        """The checks of all answers: passed if one of them needed it."""
        checks: dict[str, str] = {}
        for answer in self.answers:
            for name, state in answer.checks.items():
                checks[name] = state if checks.get(name) != "passed" else "passed"
        return checks

    @property
    def usages(self) -> tuple[Usage, ...]:
        return tuple(each.usage for each in self.answers)

    def asked(self) -> dict[str, Any]:
        """The members of `Asked`."""
        return {
            "min_group": self.min_group,
            "people": self.people,
            "released": self.released,
            "checks": self.checks,
            "seen": tuple(self.seen),
            "usage": self.usages,
            "seconds": self.seconds,
            "scanned": any(each.result.scanned for each in self.answers),
        }

    def ask(
        self,
        keys: Sequence[str],
        sets: Sequence[Sequence[int]],
        figures: Sequence[str],
        where: str = "",
        *,
        unseen: bool = False,
    ) -> list[KeyedGroup]:
        """Return the groups of each set of keys that the answers show, with one total per figure.

        `keys` and `figures` are SQL, and so is `where`; `sets` has indices of `keys`. Many figures are asked for in
        several statements. `unseen` leaves out no small group: the caller chooses larger ones by their sizes, and shows
        nothing of them. Raises QueryRefused over a noisy release and for a figure without a bound, and every error
        of a query.
        """
        return self.ask_and_count(keys, sets, figures, where, unseen=unseen)[0]

    def ask_and_count(
        self,
        keys: Sequence[str],
        sets: Sequence[Sequence[int]],
        figures: Sequence[str],
        where: str = "",
        *,
        unseen: bool = False,
    ) -> tuple[list[KeyedGroup], int | None]:
        """Ask as `ask` does, and return also how many people, or rows, have a value in all figures (rule P2).

        Each party of a table with contributors knows its own rows: then those of all parties but any one count. None
        if no threshold is in force.
        """
        groups: dict[tuple[int, tuple[Any, ...]], list[Total]] = {}
        rows: dict[tuple[int, tuple[Any, ...]], int] = {}
        people: list[int] = []
        counted = len(keys) + 1 if keys else 0  # the column of COUNT(*)
        for part in self._parts(keys, figures):
            answer = self._answer(self._statement(keys, sets, part, where), unseen=unseen)
            answered, found = answer.result, {}
            if answer.people is not None:
                people.append(answer.people)
            for place, row in enumerate(answered.rows):
                key = _key(row, len(keys), sets)
                found[key] = [_total(answered, place, counted + 1 + number) for number in range(len(part))]
                rows[key] = int(row[counted])
            if groups and found.keys() != groups.keys():
                raise QueryRefused("two statements of one model show different groups", hint="try again")
            for key, totals in found.items():
                groups.setdefault(key, []).extend(totals)
        keyed = [KeyedGroup(*key, rows[key], tuple(totals)) for key, totals in groups.items()]
        return keyed, min(people, default=None)

    def count(self, figure: str) -> int | None:
        """Return a whole number of the whole table, such as COUNT(DISTINCT patient); None if it is hidden."""
        answered = self._answer(f"SELECT {figure} FROM {identifier(self.table)}").result
        value = answered.rows[0][0] if answered.rows else None
        return None if value is None else int(value)

    def missing(
        self, keys: Sequence[str], sets: Sequence[Sequence[int]], nullable: Sequence[bool], columns: Collection[str]
    ) -> list[KeyedGroup] | None:
        """Return the rows by what they lack; None if a threshold hides some. Ask nothing without one.

        The sums of a model are over rows with a value in each of its columns, and those of a model with fewer columns
        are over more rows. Both together tell of the rows between. So in each group of each set of `keys`, the rows
        with one pattern of NULLs, over the columns and all keys that are `nullable`, must be none or enough. Columns
        join in the schema's order (rule A1). The last keys of a group say which keys are NULL. A release
        has only parts in which its columns have joined.
        """
        if not self.min_group or self.released or not (columns or any(nullable)):
            return []
        tested = [place for place, each in enumerate(nullable) if each and any(place not in one for one in sets)]
        flags = {place: len(keys) + number for number, place in enumerate(tested)}
        tests = [f"({keys[place]} IS NULL)" for place in tested]
        refined = [(*one, *(flag for place, flag in flags.items() if place not in one)) for one in sets]
        before = self.left_out
        ordered = [name for name in self.schema.names if name in columns]
        groups = self.ask([*keys, *tests], refined, [f"COUNT({identifier(name)})" for name in ordered])
        few = self.left_out > before or any(total.hidden for group in groups for total in group.totals)
        return None if few else groups

    def _parts(self, keys: Sequence[str], figures: Sequence[str]) -> Iterator[list[str]]:
        left = limits.MAX_SQL_CHARS - _ROOM - 8 * sum(len(key) + 4 for key in keys)
        part: list[str] = []
        size = 0
        for figure in figures:
            if part and (size + len(figure) > left or len(part) == _MOST_FIGURES):
                yield part
                part, size = [], 0
            part.append(figure)
            size += len(figure) + 2
        yield part

    def _statement(self, keys: Sequence[str], sets: Sequence[Sequence[int]], figures: Sequence[str], where: str) -> str:
        grouping = f"GROUPING({', '.join(keys)})" if keys else "0"
        selected = ", ".join([*keys, grouping, "COUNT(*)", *figures]) if keys else ", ".join(["COUNT(*)", *figures])
        clause = f" WHERE {where}" if where else ""
        listed = ", ".join(f"({', '.join(keys[each] for each in one)})" for one in sets)
        grouped = f" GROUP BY GROUPING SETS ({listed})" if keys else ""
        return f"SELECT {selected} FROM {identifier(self.table)}{clause}{grouped}"

    def _answer(self, sql: str, *, unseen: bool = False) -> Answer:
        started = time.perf_counter()
        asking = self._asking
        if self.released and not self.answers:
            self.require_exact()
        options = replace(_UNSEEN, pad=asking["pad"]) if unseen else self._options
        planned = self._session.plan(sql, options, cloud_only=asking["cloud_only"])
        try:
            self.seen.append(self._session.describe(planned))
            answer = self._session.ask(
                planned, asking["timeout"], strict=asking["strict"], spent=self._spent, sized=True
            )
        except (NotComputable, SumOverflows) as error:  # a formula has no casts
            if error.code not in ("out_of_range", "overflow"):
                raise
            named = ", ".join(repr(each) for each in self.schema.names if identifier(each) in sql)
            said = f"a sum of a model over columns {named} overflows"
            raise type(error)(said, hint=_BOUNDS, code=error.code) from None
        self._spent = self._session.spent
        usage = replace(answer.usage, rows=None, selected_rows=None, groups=None) if unseen else answer.usage
        self.answers.append(replace(answer, usage=usage))
        self.seconds += time.perf_counter() - started
        if not answer.result.is_decided:
            raise Undecided("; ".join(answer.result.warnings), hint="a model needs sums that the error bounds decide")
        return answer

    def require_exact(self) -> None:
        """Raises QueryRefused over a noisy release."""
        planned = self._session.plan(f"SELECT COUNT(*) FROM {identifier(self.table)}")
        if any(each.source == "noisy" for each in planned.outputs):
            raise QueryRefused(NOISY, hint=BESIDE)


def _key(row: Sequence[Any], keys: int, sets: Sequence[Sequence[int]]) -> tuple[int, tuple[Any, ...]]:
    """The set of a row, and its keys. GROUPING has a bit for each key that is not in the row's set."""
    if not keys:
        return 0, ()
    inside = {each for each in range(keys) if not int(row[keys]) >> (keys - 1 - each) & 1}
    number = next(number for number, each in enumerate(sets) if set(each) == inside)
    return number, tuple(row[each] for each in sets[number])


def _whole(total: Total) -> int:
    return 0 if total.value is None else int(rational(total.value).p)  # type: ignore[arg-type]


def _total(answered: ResultTable, row: int, column: int) -> Total:
    """The number in a cell, with its bound. Raises QueryRefused if there is no bound, or the value is not finite."""
    if answered.is_hidden(row, column):
        return Total(None, hidden=True)
    value, bound, exact = (each[row][column] for each in (answered.rows, answered.bounds, answered.exact))
    if value is None:
        return Total(None)
    if isinstance(value, float) and not math.isfinite(value):
        raise QueryRefused("a sum is not finite", hint="look for infinite values, NaN, or values near 1e308")
    if exact:
        return Total(rational(value) if isinstance(value, int | Decimal) else arb(value, half_unit(value)))
    if exact is None:
        return Total(rational(value), loose=isinstance(value, float))
    if bound is None:
        raise QueryRefused("a sum has no error bound", hint="declare `lower` and `upper` of the columns in the schema")
    with precision():
        return Total(arb(arb(rational(value)), arb(rational(bound))))
