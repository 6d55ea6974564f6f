"""Write an answer as one HTML page that holds everything: its style sheet, script and drawing library too."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from cleave.finish import ResultTable
from cleave.finish.result import csv_of
from cleave.report.charts import Chart, charts_of, digits_before_point, fraction, is_by_month, is_numeric, key_text
from cleave.report.html import html, shown_time
from cleave.sql.plan import reasons_of
from cleave.text import figures
from cleave.text.printable import printable
from cleave.text.quantities import counted, sized

if TYPE_CHECKING:
    from cleave.ask.describe import Description
    from cleave.ask.question import Answer, Usage

_STAGES = {
    "split": "Select, group and split rows here",
    "encode": "Encode the values to encrypt",
    "ask": "Ask both services, side by side",
    "plain": "the plain service",
    "sensitive": "encryption and the sensitive service",
    "rows": "Fetch and decrypt rows",
    "local": "Answer on this machine",
    "finish": "Decrypt, check, rejoin and finish",
    "rest": "Start, open and plan",
}
_MOST_NAMED = 8  # columns in one sentence
_PARTS = ("plain", "sensitive")  # of `ask`


@dataclass(frozen=True, slots=True)
class PageFacts:
    """What a page states besides the answer. `seconds` counts from question to answer; an empty `title` means the
    table's name.
    """

    sql: str
    table: str
    created: datetime
    seconds: float
    title: str = ""
    author: str = ""


def page(
    answer: Answer, facts: PageFacts, description: Description | None, charts: Sequence[Chart] | None = None
) -> str:
    """Return the page, which must be written as UTF-8. `description` is of the same question; None if nothing was to be
    sent. `charts`: other ones than `charts_of` the answer.
    """
    charts = charts_of(answer.result) if charts is None else charts
    rows = cells_of(answer.result)
    return html(
        "page.html",
        DRAWING if charts else (),
        [asdict(chart) for chart in charts],
        title=printable(facts.title or facts.table),
        author=printable(facts.author),
        statement=printable(_statement(answer, facts, description)),
        csv=b64encode(csv_of(answer.result)).decode(),
        sql="\n".join(printable(line) for line in facts.sql.replace("\r\n", "\n").expandtabs(4).strip().split("\n")),
        created=shown_time(facts.created),
        tiles=_tiles(answer, facts),
        warnings=[printable(warning) for warning in answer.result.warnings],
        suppressed=answer.usage.suppression,
        trust=printable(answer.result.trust),
        headings=headings_of(answer.result),
        rows=rows,
        shortened=any(cell.full for row in rows for cell in row.cells),
        downwards=len(answer.result.rows) == 1 and len(answer.result.columns) > 1,
        doubtful=any(answer.result.doubts),
        charts=charts,
        plan=description,
        reasons=[printable(each) for each in reasons_of((each.name, each.reason) for each in answer.result.columns)],
        fates=_fates(answer, description),
        unread=_unread(description),
        checks=answer.checks,
        timings=_timings(answer.timings, facts.seconds),
        usage=answer.usage,
    )


def _statement(answer: Answer, facts: PageFacts, description: Description | None) -> str:
    """Return a sentence on what left this machine, which a person can sign."""
    usage = answer.usage
    if usage.objects_read is not None:
        read = f"{counted(usage.objects_read, 'object')} ({sized(usage.bytes_read or 0)})"
        return (
            f"To answer this query, {read} were read from the stores; "
            "no key and no sensitive value left this machine unencrypted."
        )
    if description is None or not usage.requests:
        return "Nothing was sent to answer this query: no row, no column and no key left this machine."
    sent = [
        f"{_names(names)} of {facts.table} left this machine {how}"
        for destination, how in (("plain", "in the clear"), ("sensitive", "encrypted"))
        if (names := [each.name for each in description.columns if each.destination == destination])
    ]
    what = " and ".join(sent) or "only numbers of rows left this machine"
    return f"To answer this query, {what}; no other column and no key did."


def _names(names: Sequence[str]) -> str:
    """Name the columns, or say how many if they are too many for a sentence."""
    if len(names) > _MOST_NAMED:
        return counted(len(names), "column")
    return f"{'column' if len(names) == 1 else 'columns'} {', '.join(names)}"


def _timings(timings: Mapping[str, float], seconds: float) -> list[tuple[str, bool, str]]:
    """Return the stages. Those that are no parts of others add up to `seconds`."""
    if not timings:
        return []
    rest = seconds - sum(spent for name, spent in timings.items() if name not in _PARTS)
    stages = {**timings, "rest": max(0.0, rest)}
    return [(_STAGES.get(name, name), name in _PARTS, f"{stages[name]:.3f}") for name in sorted(stages, key=_order)]


def _order(stage: str) -> int:
    return list(_STAGES).index(stage) if stage in _STAGES else len(_STAGES)


def _tiles(answer: Answer, facts: PageFacts) -> list[tuple[str, str, str]]:
    """Return the tiles at the top, each with a figure, what it counts, and the text below."""
    usage = answer.usage
    passed = sum(1 for outcome in answer.checks.values() if outcome == "passed")
    sources = [column.source for column in answer.result.columns]
    encrypted, others = sources.count("encrypted"), len(sources) - sources.count("key")
    return [
        (f"{len(answer.result.rows):,}", "row" if len(answer.result.rows) == 1 else "rows", "in the answer"),
        (f"{encrypted} of {others}", "columns", "from ciphertexts"),
        (f"{passed}", "check" if passed == 1 else "checks", "passed" if passed else "nothing to check"),
        _moved(usage),
        (f"{facts.seconds:.2f} s", "time", counted(usage.requests, "request")),
    ]


def _moved(usage: Usage) -> tuple[str, str, str]:
    if usage.objects_read is None:
        return sized(usage.bytes_sent), "sent", f"{sized(usage.bytes_received)} received"
    return sized(usage.bytes_read or 0), "read", f"{counted(usage.objects_read, 'object')} of the stores"


def _fates(answer: Answer, description: Description | None) -> list[tuple[str, str, str, str, str]]:
    """Return the columns that the question reads. Sizes are left out if a minimum group size hides how many rows there
    are.
    """
    if description is None:
        return []
    hides = answer.usage.min_group is not None
    return [
        (
            printable(column.name),
            f"{column.kind} {printable(column.type)}".strip(),
            column.fate,
            column.destination,
            "" if hides or not column.bytes else sized(column.bytes),
        )
        for column in description.columns
        if not column.fate.startswith("not read")
    ]


def _unread(description: Description | None) -> int:
    if description is None:
        return 0
    return sum(1 for column in description.columns if column.fate.startswith("not read"))


DRAWING = ("vendor/plot.js", "draw.js")

_DIGITS = 4
_WHOLE = 12  # digits before the point that are never rounded to zeros; of more, a power of ten is shown
_SMALL = -6  # least power of ten that is not shown as one


@dataclass(frozen=True, slots=True)
class PageHeading:
    name: str
    source: str
    type: str
    is_number: bool
    scanned: bool = False


@dataclass(frozen=True, slots=True)
class PageCell:
    """A cell. `value` is shown; `full` has every digit with the bound, and is "" if `value` says it all.

    `trust` is the bound, such as "± 2e0", if it affects a digit that is shown.
    """

    value: str
    full: str
    trust: str
    is_null: bool
    undecided: bool


@dataclass(frozen=True, slots=True)
class PageRow:
    cells: tuple[PageCell, ...]
    doubts: str


def headings_of(result: ResultTable) -> list[PageHeading]:
    return [
        PageHeading(
            printable(column.name), result.source(place), printable(type_), is_numeric(type_), result.is_scanned(place)
        )
        for place, (column, type_) in enumerate(zip(result.columns, result.types, strict=True))
    ]


def cells_of(result: ResultTable) -> list[PageRow]:
    months = {place for place in range(len(result.columns)) if is_by_month(result, place)}
    return [
        PageRow(
            tuple(_cell(result, row, place, month=place in months) for place in range(len(result.columns))),
            ", ".join(result.doubts_of(row)),
        )
        for row in range(len(result.rows))
    ]


def _cell(result: ResultTable, row: int, place: int, *, month: bool) -> PageCell:
    value, exact = result.rows[row][place], result.exact[row][place]
    source, undecided = result.columns[place].source, result.is_undecided(row, place)
    full, bound = figures.plain(value), None
    if result.columns[place].has_bounds and value is not None:
        bound = None if exact else result.bounds[row][place]
        full = figures.encrypted(value, result.bounds[row][place], exact)
    text = key_text(value, month=month) if month or source == "key" else brief(value)
    if result.is_hidden(row, place):
        text = full = "hidden"
    trust = ""
    if " ± " in full and (unit := shown_unit(value)) is not None and not (bound is not None and 2 * bound < unit):
        text, _, trust = full.partition(" ± ")
        trust = f"± {trust}"
    full = "" if f"{text} {trust}".strip() == full else full
    return PageCell(printable(text), printable(full), trust, value is None, undecided)


def brief(value: Any) -> str:
    """Return `value` with four significant digits, or with all digits before the point if these are at most 12."""
    unit = shown_unit(value)
    if unit is None:
        return figures.plain(value)
    shown = Decimal(round(Fraction(value) / unit)) * (Decimal(unit.numerator) / Decimal(unit.denominator))
    if shown and not _SMALL <= shown.adjusted() < _WHOLE:
        return f"{shown.scaleb(-shown.adjusted()).normalize():f}e{shown.adjusted()}"
    return f"{shown:,f}"


def shown_unit(value: Any) -> Fraction | None:
    """Return the unit of the last digit that `brief` shows of a number, or None if it is not finite."""
    exact = fraction(value)
    if exact is None:
        return None
    if not exact:
        return Fraction(1)
    before = digits_before_point(abs(exact))
    unit = Fraction(10) ** (before - (max(_DIGITS, before) if before <= _WHOLE else _DIGITS))
    return max(unit, _least_unit(value)) if unit < 1 else unit


def _least_unit(value: Any) -> Fraction:
    """Return the unit of a number's last digit, so that 0.5 is not written 0.5000."""
    if isinstance(value, Fraction):
        return Fraction(0)
    exponent = Decimal(repr(value) if isinstance(value, float) else value).normalize().as_tuple().exponent
    return Fraction(10) ** exponent if isinstance(exponent, int) else Fraction(0)
