"""Find the types of a CSV's columns from all fields, and how its numbers and dates are written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from cleave.propose.detect import CHECKED, MANY, ColumnFacts, FieldShape
from cleave.propose.harmless import harmless_name
from cleave.table.cast import (
    CENSORED,
    DATE,
    TIMESTAMP,
    ZONED_TIMESTAMP,
    accounting_pattern,
    cast,
    formatted,
    is_null_token,
    number_pattern,
)
from cleave.table.duck import identifier
from cleave.table.schema import Column, CsvDialect, Kind
from cleave.table.table import Table
from cleave.table.types import INT64_DIGITS, ZONED
from cleave.table.types import pattern as date_pattern

NULL_TOKENS = ("na", "n/a", "#n/a", "null", "none", "nan", "-", "--", "?", ".", "missing", "\\n")
# Between numbers these may mean NULL or something else, so they are proposed and not taken.
_MISSING = (
    "n.d.|nd|n/d|n.a.|k.a.|k. a.|s/d|unknown|unk|unbekannt|inconnu|tbd|pending|not done|not available|not applicable"
    "|not detected|below detection|bdl|lod|error|err|#value!|#ref!|#div/0!|x|xx|xxx|*|**|..."
)
MISSING = frozenset(_MISSING.split("|"))
MAX_DECIMALS = 6  # more digits after the point are measured, not counted: DOUBLE
_SAMPLE = 1000
_BATCH = 10  # columns of one query: DuckDB plans hundreds of aggregates slowly
_MOSTLY = 0.9
_ROW = '"place in the file"'  # not rowid: a column of the file may be called that

_UNIT = re.compile(
    r"[$\u00a3\u20a0-\u20cf\u00a5\u0e3f%\u2030]|\b(?:AUD|BRL|CAD|CHF|CNY|CZK|DKK|EUR|GBP|HUF|INR|JPY|MXN|NOK|PLN|SEK|TRY|USD|ZAR)\b"
)
_DIGITS = r"[0-9.,' \u00a0\u202f\u2019]*[0-9][0-9.,' \u00a0\u202f\u2019]*(?:[eE][+-]?[0-9]+)?"
_CENSORED = re.compile(CENSORED)
_NUMBER_LIKE = re.compile(rf"\s*(?:[+-]?\s*{_DIGITS}|\({_DIGITS}\)|{_DIGITS}-)\s*")
_BOOLEANS = ({"true", "false"}, {"true"}, {"false"}, {"yes", "no"}, {"y", "n"})
# decimal and thousands separators, the likeliest first where several explain a file
_POINT = ((".", ""), (".", ","))
_COMMA = ((",", ""), (",", "."))
_RARE = tuple((d, t) for d in (".", ",") for t in (" ", "'", "\u00a0", "\u202f", "\u2019"))


def infer(text: Table) -> tuple[CsvDialect, list[ColumnFacts]]:
    """Infer the dialect and the facts of the columns. `text` is the file with every column as VARCHAR.

    The null tokens of the file's own dialect count, and so does what it makes of censored numbers.
    """
    tokens = (*NULL_TOKENS, *(each.strip().lower() for each in text.schema.dialect.null_tokens))
    drafts = _measure(text, tokens)
    _sample(text, drafts, tokens)
    dialect = _number_format(text, drafts, tokens)
    for draft in drafts:
        if draft.shapes:
            _type_number(text, draft, dialect, tokens)
        elif draft.sample:
            _type_other(text, draft, tokens)
    texts = [draft for draft in drafts if draft.type == "VARCHAR" and draft.sample and not draft.note]
    _name_dates(text, texts, tokens)
    spellings = {token for draft in drafts if draft.type != "VARCHAR" for token in draft.tokens}
    dialect = replace(dialect, null_tokens=tuple(sorted({*spellings, *text.schema.dialect.null_tokens})))
    return dialect, drafts


def _measure(text: Table, tokens: tuple[str, ...]) -> list[ColumnFacts]:
    drafts = []
    columns = text.schema.columns
    for start in range(0, len(columns), _BATCH):
        batch = columns[start : start + _BATCH]
        figures = ", ".join(
            f"count({c}), count(DISTINCT {c}), coalesce(avg(length({c})), 0), coalesce(max(length({c})), 0), "
            f"list(DISTINCT lower(trim({c}))) FILTER (WHERE {is_null_token(c, tokens)})"
            for c in (identifier(column.name) for column in batch)
        )
        row = text.connection.execute(f"SELECT {figures} FROM {text.relation}").fetchall()[0]
        for index, column in enumerate(batch):
            filled, distinct, average, longest, nulls = row[5 * index : 5 * index + 5]
            drafts.append(
                ColumnFacts(column.name, "VARCHAR", filled, distinct, average, longest, tokens=tuple(nulls or ()))
            )
    return drafts


def _sample(text: Table, drafts: Sequence[ColumnFacts], tokens: tuple[str, ...]) -> None:
    """Sample evenly spaced fields of each column, or the first ones if that finds none, and every value of
    categories.
    """
    step = max(1, text.rows // _SAMPLE)
    numbered = f"SELECT *, row_number() OVER () AS {_ROW} FROM {text.relation}"
    spaced = f"SELECT * EXCLUDE ({_ROW}) FROM ({numbered}) WHERE {_ROW} % {step} = 0"
    rows = text.connection.execute(spaced).fetchall()
    for draft, fields in zip(drafts, zip(*rows, strict=True), strict=True):
        draft.sample = tuple(one for one in fields if one is not None and one.strip().lower() not in tokens)
        if not draft.sample and draft.filled:
            name = identifier(draft.name)
            solid = text.connection.execute(
                f"SELECT {name} FROM {text.relation} WHERE {_solid(name, tokens)} LIMIT {_SAMPLE}"
            ).fetchall()
            draft.sample = tuple(one for (one,) in solid)
    few = [
        draft for draft in drafts if draft.distinct <= (CHECKED if harmless_name(draft.name, draft.distinct) else MANY)
    ]
    for batch in (few[start : start + _BATCH] for start in range(0, len(few), _BATCH)):
        names = [identifier(draft.name) for draft in batch]
        lists = ", ".join(f"list(DISTINCT {name}) FILTER (WHERE {_solid(name, tokens)})" for name in names)
        different = text.connection.execute(f"SELECT {lists} FROM {text.relation}").fetchall()[0]
        for draft, values in zip(batch, different, strict=True):
            draft.values = tuple(values or ())


def _solid(name: str, tokens: tuple[str, ...]) -> str:
    return f"{name} IS NOT NULL AND NOT {is_null_token(name, tokens)}"


def _number_format(text: Table, drafts: Sequence[ColumnFacts], tokens: tuple[str, ...]) -> CsvDialect:
    """Return a dialect with the separators under which most columns hold only numbers."""
    dialect = text.schema.dialect
    for draft in drafts:
        bare = [_UNIT.sub("", one, count=1) for one in draft.sample]
        numbers = sum(_NUMBER_LIKE.fullmatch(one) is not None for one in bare)
        odd = sum(one.strip().lower() in MISSING or _is_censored(one) for one in bare)
        if draft.sample and numbers + odd >= _MOSTLY * len(bare) and 2 * numbers >= len(bare):
            name = identifier(draft.name)
            rows = text.connection.execute(
                "SELECT translate(field, '0123456789', '9999999999'), count(*), min(place), "
                "bool_or(regexp_matches(field, '^[^0-9]*0[0-9]')) "
                f"FROM (SELECT {name} AS field, row_number() OVER () AS place FROM {text.relation}) "
                f"WHERE {_solid('field', tokens)} GROUP BY 1"
            ).fetchall()
            shapes = {shape: (count, row, marked) for shape, count, row, marked in rows}
            _split_units(draft, _uncensored(shapes, dialect.censored))
    common = (*_POINT, *_COMMA) if dialect.delimiter != ";" else (_POINT[0], *_COMMA, _POINT[1])
    formats = [replace(dialect, decimal=decimal, thousands=thousands) for decimal, thousands in (*common, *_RARE)]
    return max(formats, key=lambda one: sum(bool(draft.shapes) and not _strange(_odd(draft, one)) for draft in drafts))


def _is_censored(field: str) -> bool:
    sign = _CENSORED.match(field)
    return sign is not None and _NUMBER_LIKE.fullmatch(field, sign.end()) is not None


def _uncensored(shapes: Mapping[str, FieldShape], censored: str) -> dict[str, FieldShape]:
    """Return the shapes as the dialect reads them. A limit becomes its number, or is left out if it is read as NULL."""
    if not censored:
        return dict(shapes)
    read: dict[str, FieldShape] = {}
    for shape, (count, row, marked) in shapes.items():
        if _is_censored(shape) and censored == "null":
            continue
        bare = _CENSORED.sub("", shape, count=1) if _is_censored(shape) else shape
        before = read.get(bare, (0, row, False))
        read[bare] = before[0] + count, min(before[1], row), before[2] or marked
    return read


def _split_units(draft: ColumnFacts, shapes: dict[str, FieldShape]) -> None:
    """Split off the unit that all fields share. Fields with different units stay text."""
    units = {shape: match[0] if (match := _UNIT.search(shape)) else "" for shape in shapes}
    several = set(units.values())
    if len(several) > 1:
        usual = max(several, key=lambda unit: sum(shapes[shape][0] for shape in shapes if units[shape] == unit))
        row = min(shapes[shape][1] for shape in shapes if units[shape] != usual)
        with_unit = f"the unit {usual!r}" if usual else "no unit"
        draft.note = f"numbers, most with {with_unit}, others not, the first in data row {row}: kept as text"
        return
    (draft.unit,) = several
    merged: dict[str, FieldShape] = {}
    for shape, (count, row, marked) in shapes.items():
        bare = re.sub(r"^([+(-])\s+", r"\1", shape.replace(draft.unit, "", 1).strip()) if draft.unit else shape
        before = merged.get(bare, (0, row, False))
        merged[bare] = (before[0] + count, min(before[1], row), before[2] or marked)
    draft.shapes = merged


def _odd(draft: ColumnFacts, dialect: CsvDialect) -> list[str]:
    """Return the shapes that are not numbers."""
    patterns = [re.compile(number_pattern(dialect, None)), re.compile(accounting_pattern(dialect, None))]
    return [
        shape for shape in draft.shapes if "9" not in shape or not any(pattern.fullmatch(shape) for pattern in patterns)
    ]


def _strange(odd: Sequence[str]) -> list[str]:
    """Return the shapes that are not numbers and that no option can read."""
    return [shape for shape in odd if not _is_censored(shape) and shape.strip().lower() not in MISSING]


def _type_number(text: Table, draft: ColumnFacts, dialect: CsvDialect, tokens: tuple[str, ...]) -> None:
    if odd := _odd(draft, dialect):
        total = sum(count for count, _, _ in draft.shapes.values())
        numbers = total - sum(draft.shapes[shape][0] for shape in odd)
        if 2 * numbers >= total:
            draft.note = f"{numbers:,} of {total:,} fields are numbers{_others(draft, odd)}"
        return
    shapes = [re.sub("[()+-]", "", shape) if "e" not in shape.lower() else shape for shape in draft.shapes]
    shapes = [shape.strip() for shape in shapes]
    signed = any(shape.strip()[0] in "-(" or shape.strip()[-1] == "-" for shape in draft.shapes)
    plus = any(shape.strip()[0] == "+" for shape in draft.shapes)
    if any(marked for _, _, marked in draft.shapes.values()) or (
        plus and not signed and not any(dialect.decimal in shape for shape in shapes)
    ):
        draft.note = "digits with leading zeros or a plus sign, kept as text"
        return
    if draft.unit:
        draft.note = f"numbers in {draft.unit!r}"
    if any("e" in shape.lower() for shape in shapes):
        if any(dialect.decimal in shape or re.search("[eE][+-]", shape) for shape in shapes):
            draft.type = "DOUBLE"
        else:  # 12E03 may be the number of a lot
            draft.note = "numbers with exponents, or codes like them, kept as text"
        return
    parts = [shape.rpartition(dialect.decimal) if dialect.decimal in shape else (shape, "", "") for shape in shapes]
    decimals = max(len(fraction) for _, _, fraction in parts)
    digits = max(whole.count("9") for whole, _, _ in parts)
    if not any(point for _, point, _ in parts):
        if digits <= INT64_DIGITS or _all_read(text, draft, "BIGINT", dialect, tokens):
            draft.type = "BIGINT"
        else:
            draft.note = "whole numbers beyond 64 bits, kept as text"
    elif decimals <= MAX_DECIMALS and digits + decimals <= INT64_DIGITS:
        draft.type = f"DECIMAL({INT64_DIGITS},{decimals})"
        if decimals == 3 and all(re.fullmatch(r"[+-]?9{1,3}[.,]9{3}|[+-]?9{1,3}", shape) for shape in shapes):
            draft.note = f"check that {dialect.decimal!r} is the decimal point: three digits follow it everywhere"
    else:
        draft.type = "DOUBLE"


def _others(draft: ColumnFacts, odd: Sequence[str]) -> str:
    """Count what stands among numbers, and propose how to read it. Only words of MISSING are quoted."""
    counts = {shape: draft.shapes[shape][0] for shape in odd}
    limits = [shape for shape in odd if _is_censored(shape)]
    missing = [shape for shape in odd if shape.strip().lower() in MISSING]
    parts = [f"{shape.strip()!r}: {counts[shape]:,}" for shape in missing]
    if limits:
        parts.append(f"limits (< or > and a number): {sum(counts[shape] for shape in limits):,}")
    if left := _strange(odd):
        row = min(draft.shapes[shape][1] for shape in left)
        parts.append(f"others: {sum(counts[shape] for shape in left):,}, the first in data row {row}")
    options = [f"--null-token {shape.strip()!r}" for shape in missing]
    options += ["--censored limit (or null)"] if limits else []
    advice = [f"to read them: {' '.join(options)}"] if options else []
    return "".join(f"; {part}" for part in [*parts, *advice])


def _type_other(text: Table, draft: ColumnFacts, tokens: tuple[str, ...]) -> None:
    if {one.strip(" ").lower() for one in draft.values} in _BOOLEANS:
        draft.type = "BOOLEAN"
        return
    for type_, pattern in (("DATE", DATE), ("TIMESTAMP", TIMESTAMP), (ZONED, ZONED_TIMESTAMP)):
        if all(re.fullmatch(pattern, one) for one in draft.sample) and _all_read(
            text, draft, type_, text.schema.dialect, tokens
        ):
            draft.type = type_
            return


def _all_read(text: Table, draft: ColumnFacts, type_: str, dialect: CsvDialect, tokens: tuple[str, ...]) -> bool:
    column = Column(draft.name, Kind.LOCAL, type_)
    unreadable = cast(identifier(draft.name), column, replace(dialect, null_tokens=tokens)).unreadable
    (count,) = text.connection.execute(f"SELECT count(*) FROM {text.relation} WHERE {unreadable}").fetchall()[0]
    return bool(count == 0)


_SEPARATED = [order.replace(" ", mark) for mark in "./-" for order in ("%d %m %Y", "%m %d %Y", "%d %m %y", "%m %d %y")]
_NAMED = ["%d %b %Y", "%d-%b-%Y", "%d-%b-%y", "%d %B %Y", "%d. %B %Y", "%b %d, %Y", "%B %d, %Y"]
_DATES = [*_SEPARATED, "%Y.%m.%d", "%Y/%m/%d", *_NAMED]
_TIMES = ["", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p"]
# with points the day comes first everywhere
_FORMATS = [date + time for date in _DATES for time in _TIMES if not date.startswith("%m.")]
_LIKE = re.compile(  # cheap to test on every text column
    r"\s*(?:\d{1,4}[./-]\d{1,2}[./-]\d{2,4}|\d{1,2}\.?[ -][A-Za-z]{3,9}[ -]\d{2,4}|[A-Za-z]{3,9} \d{1,2}, \d{4})"
    r"(?: [\d:]+(?: ?[AaPp][Mm])?)?\s*"
)


def _name_dates(text: Table, drafts: Sequence[ColumnFacts], tokens: tuple[str, ...]) -> None:
    """Give each column of dates the format that explains all of its fields, if there is only one.

    If two orders of day and month explain a column, other columns that allow only one order decide. If none does, the
    column stays text, with a note.
    """
    undecided: list[tuple[ColumnFacts, list[str]]] = []
    chosen: set[str] = set()
    for draft in drafts:
        if sum(_LIKE.fullmatch(one) is not None for one in draft.sample) < _MOSTLY * len(draft.sample):
            continue
        likely = [one for one in _FORMATS if _fits(draft.sample, one) >= _MOSTLY * len(draft.sample)]
        reading = {one: _first_other(text, draft, one, tokens) for one in likely}
        formats = [one for one, row in reading.items() if row is None]
        if len(formats) == 1:
            _settle(draft, formats[0])
            chosen.add(formats[0])
        elif formats:
            undecided.append((draft, formats))
        elif reading:
            date_format, row = max(reading.items(), key=lambda item: item[1] or 0)
            draft.note = f"most are dates written {date_format}, others are not, the first in data row {row}"
    for draft, formats in undecided:
        settled = [one for one in formats if one in chosen]
        if len(settled) == 1:
            _settle(draft, settled[0])
        else:
            choice = " or ".join(f'"{one}"' for one in formats)
            draft.note = f"dates, but the order of day and month is not clear: set type DATE and format = {choice}"


def _fits(sample: Sequence[str], date_format: str) -> int:
    written = re.compile(date_pattern(date_format), re.ASCII)
    return sum(written.fullmatch(one) is not None for one in sample)


def _first_other(text: Table, draft: ColumnFacts, date_format: str, tokens: tuple[str, ...]) -> int | None:
    """Return the first row that the format does not explain, or None if it explains all."""
    name = identifier(draft.name)
    value = formatted(name, date_format, _type(date_format))
    numbered = f"SELECT *, row_number() OVER () AS {_ROW} FROM {text.relation}"
    (row,) = text.connection.execute(
        f"SELECT min({_ROW}) FROM ({numbered}) WHERE {_solid(name, tokens)} AND {value} IS NULL"
    ).fetchall()[0]
    return None if row is None else int(row)


def _settle(draft: ColumnFacts, date_format: str) -> None:
    draft.type, draft.format = _type(date_format), date_format
    if "%y" in date_format:
        draft.note = "check the century: years of two digits are 1969 to 2068"


def _type(date_format: str) -> str:
    return "TIMESTAMP" if "%M" in date_format else "DATE"
