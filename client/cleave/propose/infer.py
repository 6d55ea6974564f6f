"""Types of a CSV's columns, from every field of them, and how its numbers and dates are written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from cleave.propose.dates import name_dates
from cleave.propose.detect import MANY, Facts
from cleave.table.cast import DATE, TIMESTAMP, accounting_pattern, cast, is_null_token, number_pattern
from cleave.table.duck import identifier
from cleave.table.schema import Column, CsvDialect, Kind
from cleave.table.table import Table
from cleave.table.types import INT64_DIGITS

NULL_TOKENS = ("na", "n/a", "#n/a", "null", "none", "nan", "-", "--", "?", ".", "missing", "\\n")
MAX_DECIMALS = 6  # more digits after the point are measured, not counted: DOUBLE
_SAMPLE = 1000
_BATCH = 10  # columns asked about in one query: DuckDB plans hundreds of aggregates slowly
_MOSTLY = 0.9
_ROW = '"place in the file"'  # not rowid: a column of the file may be called that

_UNIT = re.compile(
    r"[$\u00a3\u20a0-\u20cf\u00a5\u0e3f%\u2030]|\b(?:AUD|BRL|CAD|CHF|CNY|CZK|DKK|EUR|GBP|HUF|INR|JPY|MXN|NOK|PLN|SEK|TRY|USD|ZAR)\b"
)
_DIGITS = r"[0-9.,' \u00a0\u202f\u2019]*[0-9][0-9.,' \u00a0\u202f\u2019]*(?:[eE][+-]?[0-9]+)?"
_NUMBER_LIKE = re.compile(rf"\s*(?:[+-]?\s*{_DIGITS}|\({_DIGITS}\)|{_DIGITS}-)\s*")
_BOOLEANS = ({"true", "false"}, {"yes", "no"}, {"y", "n"})
# decimal and thousands separators, the likeliest first where several explain a file
_POINT = ((".", ""), (".", ","))
_COMMA = ((",", ""), (",", "."))
_RARE = tuple((d, t) for d in (".", ",") for t in (" ", "'", "\u00a0", "\u202f", "\u2019"))


@dataclass(slots=True)
class _Draft:
    """What is known of a column so far.

    `shapes`: its fields with every digit turned to 9, without their unit -> (how many, first row, any with leading
    zeros).
    """

    name: str
    filled: int
    distinct: int
    average: float
    longest: int
    tokens: tuple[str, ...]
    sample: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    shapes: dict[str, tuple[int, int, bool]] = field(default_factory=dict)
    type: str = "VARCHAR"
    note: str = ""
    unit: str = ""
    format: str | None = None


def infer(text: Table) -> tuple[CsvDialect, list[Facts]]:
    """`text`: the file with every column as VARCHAR."""
    drafts = _measure(text)
    _sample(text, drafts)
    dialect = _number_format(text, drafts)
    for draft in drafts:
        if draft.shapes:
            _type_number(text, draft, dialect)
        elif draft.sample:
            _type_other(text, draft)
    texts = [draft for draft in drafts if draft.type == "VARCHAR" and draft.sample and not draft.note]
    name_dates(text, texts, NULL_TOKENS)
    tokens = {token for draft in drafts if draft.type != "VARCHAR" for token in draft.tokens}
    dialect = replace(dialect, null_tokens=tuple(sorted(tokens)))
    return dialect, [
        Facts(d.name, d.type, d.filled, d.distinct, d.average, d.longest, d.sample, d.values, d.note, d.unit, d.format)
        for d in drafts
    ]


def _measure(text: Table) -> list[_Draft]:
    drafts = []
    columns = text.schema.columns
    for start in range(0, len(columns), _BATCH):
        batch = columns[start : start + _BATCH]
        figures = ", ".join(
            f"count({c}), count(DISTINCT {c}), coalesce(avg(length({c})), 0), coalesce(max(length({c})), 0), "
            f"list(DISTINCT lower(trim({c}))) FILTER (WHERE {is_null_token(c, NULL_TOKENS)})"
            for c in (identifier(column.name) for column in batch)
        )
        row = text.connection.execute(f"SELECT {figures} FROM {text.relation}").fetchall()[0]
        for index, column in enumerate(batch):
            filled, distinct, average, longest, tokens = row[5 * index : 5 * index + 5]
            drafts.append(_Draft(column.name, filled, distinct, average, longest, tuple(tokens or ())))
    return drafts


def _sample(text: Table, drafts: Sequence[_Draft]) -> None:
    """Evenly spaced fields of each column, the first ones where that finds none; of categories every value too."""
    step = max(1, text.rows // _SAMPLE)
    numbered = f"SELECT *, row_number() OVER () AS {_ROW} FROM {text.relation}"
    spaced = f"SELECT * EXCLUDE ({_ROW}) FROM ({numbered}) WHERE {_ROW} % {step} = 0"
    rows = text.connection.execute(spaced).fetchall()
    for draft, fields in zip(drafts, zip(*rows, strict=True), strict=True):
        draft.sample = tuple(one for one in fields if one is not None and one.strip().lower() not in NULL_TOKENS)
        if not draft.sample and draft.filled:
            name = identifier(draft.name)
            found = text.connection.execute(
                f"SELECT {name} FROM {text.relation} WHERE {_solid(name)} LIMIT {_SAMPLE}"
            ).fetchall()
            draft.sample = tuple(one for (one,) in found)
        if draft.distinct <= MANY:
            name = identifier(draft.name)
            different = text.connection.execute(f"SELECT DISTINCT {name} FROM {text.relation} WHERE {_solid(name)}")
            draft.values = tuple(one for (one,) in different.fetchall())


def _solid(name: str) -> str:
    return f"{name} IS NOT NULL AND NOT {is_null_token(name, NULL_TOKENS)}"


def _number_format(text: Table, drafts: Sequence[_Draft]) -> CsvDialect:
    """The separators under which most columns hold nothing but numbers."""
    dialect = text.schema.dialect
    for draft in drafts:
        like = sum(_NUMBER_LIKE.fullmatch(_UNIT.sub("", one, count=1)) is not None for one in draft.sample)
        if draft.sample and like >= _MOSTLY * len(draft.sample):
            name = identifier(draft.name)
            found = text.connection.execute(
                "SELECT translate(field, '0123456789', '9999999999'), count(*), min(place), "
                "bool_or(regexp_matches(field, '^[^0-9]*0[0-9]')) "
                f"FROM (SELECT {name} AS field, row_number() OVER () AS place FROM {text.relation}) "
                f"WHERE {_solid('field')} GROUP BY 1"
            ).fetchall()
            _split_units(draft, {shape: (count, row, marked) for shape, count, row, marked in found})
    common = (*_POINT, *_COMMA) if dialect.delimiter != ";" else (_POINT[0], *_COMMA, _POINT[1])
    formats = [replace(dialect, decimal=decimal, thousands=thousands) for decimal, thousands in (*common, *_RARE)]
    return max(formats, key=lambda one: sum(bool(draft.shapes) and not _odd(draft, one) for draft in drafts))


def _split_units(draft: _Draft, shapes: dict[str, tuple[int, int, bool]]) -> None:
    """One unit in all of the fields is the column's; where only some carry it, or another, they stay what they are."""
    units = {shape: match[0] if (match := _UNIT.search(shape)) else "" for shape in shapes}
    several = set(units.values())
    if len(several) > 1:
        usual = max(several, key=lambda unit: sum(shapes[shape][0] for shape in shapes if units[shape] == unit))
        row = min(shapes[shape][1] for shape in shapes if units[shape] != usual)
        with_unit = f"the unit {usual!r}" if usual else "no unit"
        draft.note = f"numbers, most with {with_unit}, others not, the first in data row {row}: kept as text"
        return
    (draft.unit,) = several
    merged: dict[str, tuple[int, int, bool]] = {}
    for shape, (count, row, marked) in shapes.items():
        bare = re.sub(r"^([+(-])\s+", r"\1", shape.replace(draft.unit, "", 1).strip()) if draft.unit else shape
        known = merged.get(bare, (0, row, False))
        merged[bare] = (known[0] + count, min(known[1], row), known[2] or marked)
    draft.shapes = merged


def _odd(draft: _Draft, dialect: CsvDialect) -> list[str]:
    """The shapes that are no numbers."""
    patterns = [re.compile(number_pattern(dialect, None)), re.compile(accounting_pattern(dialect, None))]
    return [
        shape for shape in draft.shapes if "9" not in shape or not any(pattern.fullmatch(shape) for pattern in patterns)
    ]


def _type_number(text: Table, draft: _Draft, dialect: CsvDialect) -> None:
    if odd := _odd(draft, dialect):
        others = sum(draft.shapes[shape][0] for shape in odd)
        total = sum(count for count, _, _ in draft.shapes.values())
        if others < (1 - _MOSTLY) * total:
            row = min(draft.shapes[shape][1] for shape in odd)
            draft.note = (
                f"{100 * (total - others) / total:.0f} % are numbers, others are not, the first in data row {row}"
            )
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
        draft.type = "DOUBLE"
        return
    parts = [shape.rpartition(dialect.decimal) if dialect.decimal in shape else (shape, "", "") for shape in shapes]
    decimals = max(len(fraction) for _, _, fraction in parts)
    digits = max(whole.count("9") for whole, _, _ in parts)
    if not any(point for _, point, _ in parts):
        if digits <= INT64_DIGITS or _all_read(text, draft, "BIGINT", dialect):
            draft.type = "BIGINT"
        else:
            draft.note = "whole numbers beyond 64 bits, kept as text"
    elif decimals <= MAX_DECIMALS and digits + decimals <= INT64_DIGITS:
        draft.type = f"DECIMAL({INT64_DIGITS},{decimals})"
        if decimals == 3 and all(re.fullmatch(r"[+-]?9{1,3}[.,]9{3}|[+-]?9{1,3}", shape) for shape in shapes):
            draft.note = f"check that {dialect.decimal!r} is the decimal point: three digits follow it everywhere"
    else:
        draft.type = "DOUBLE"


def _type_other(text: Table, draft: _Draft) -> None:
    if draft.distinct <= 2 * 6 + len(draft.tokens):  # each of two words in a few spellings
        name = identifier(draft.name)
        found = text.connection.execute(
            f"SELECT DISTINCT lower(trim({name})) FROM {text.relation} WHERE {_solid(name)}"
        ).fetchall()
        words = {word for (word,) in found}
        if words in _BOOLEANS or words in ({"true"}, {"false"}):
            draft.type = "BOOLEAN"
            return
    for type_, pattern in (("DATE", DATE), ("TIMESTAMP", TIMESTAMP)):
        if all(re.fullmatch(pattern, one) for one in draft.sample) and _all_read(
            text, draft, type_, text.schema.dialect
        ):
            draft.type = type_
            return


def _all_read(text: Table, draft: _Draft, type_: str, dialect: CsvDialect) -> bool:
    column = Column(draft.name, Kind.LOCAL, type_, 0 if type_ == "BIGINT" else None)
    unreadable = cast(identifier(draft.name), column, replace(dialect, null_tokens=NULL_TOKENS)).unreadable
    (count,) = text.connection.execute(f"SELECT count(*) FROM {text.relation} WHERE {unreadable}").fetchall()[0]
    return bool(count == 0)
