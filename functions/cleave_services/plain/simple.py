"""The simplest call: columns as JSON lists, and one operation over every numeric column, perhaps by group."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Annotated, Any, ClassVar

from cleave_services.bodies import Note
from cleave_services.plain import contained, engine
from cleave_services.plain.database import Database
from cleave_shared import limits
from cleave_shared.messages import Each, Item, Message, Metadata, Rules
from cleave_shared.params import AGGREGATE_OF, SimpleOperation

_KINDS = {int: "number", float: "number", str: "string", bool: "boolean"}
_HUGEINT = 1 << 127
_SAFE = (1 << 53) - 1  # the largest integer that every JSON reader keeps exactly
_EXAMPLE: dict[str, Any] = {
    "data": {"ward": ["A", "B", "A"], "age": [61, 47, 33]},
    "operation": "mean",
    "group_by": "ward",
}

Scalar = int | float | str | bool | None


def _load_column(values: object) -> list[Any]:
    if not isinstance(values, list):
        raise ValueError("must be a list of values")
    row = 0
    expected = None
    for kind, run in groupby(values, type):
        if kind is not type(None):
            name = _KINDS.get(kind)
            if name is None:
                raise ValueError(f"row {row + 1} is neither number, string, boolean nor null")
            expected = expected or name
            if name != expected:
                raise ValueError(f"row {row + 1} is a {name}, an earlier row is a {expected}: a column has one type")
        row += sum(1 for _ in run)
    for row, value in enumerate(values, 1):
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"row {row} is not a finite number")
        if isinstance(value, int) and not -_HUGEINT < value < _HUGEINT:
            raise ValueError(f"row {row} is an integer of more than 127 bits")
    return values


class _Loaded(Metadata):
    """A column, loaded by `_load_column`."""

    def __iter__(self) -> Iterator[object]:
        from pydantic import PlainValidator, WithJsonSchema  # noqa: PLC0415 - children do not need it

        yield PlainValidator(_load_column)
        yield WithJsonSchema({"type": "array", "items": {"type": ["number", "string", "boolean", "null"]}})


_Values = Annotated[list[Any], _Loaded()]


@dataclass(frozen=True, kw_only=True)
class SimplePlainRequest(Item):
    """Columns of equal length and of one type each; `group_by` names one of them or several."""

    __pydantic_config__: ClassVar = {**Item.__pydantic_config__, "json_schema_extra": {"examples": [_EXAMPLE]}}

    data: Annotated[dict[str, _Values], Rules(min_length=1, max_length=limits.MAX_PLAIN_COLUMNS)]
    operation: SimpleOperation = field(
        metadata={"description": "of the values that are not null; var and stddev are the sample's (divided by n - 1)"}
    )
    group_by: Annotated[str | Each[str], Rules(max_length=limits.MAX_PLAIN_COLUMNS)] = field(default_factory=list)

    @property
    def keys(self) -> list[str]:
        return [self.group_by] if isinstance(self.group_by, str) else self.group_by

    @property
    def operands(self) -> list[str]:
        """The numeric columns that are not in `group_by`. A column of only nulls counts as numeric."""
        numeric = (name for name, values in self.data.items() if _duckdb_type(values) not in ("VARCHAR", "BOOLEAN"))
        return [name for name in numeric if name not in self.keys]

    def __post_init__(self) -> None:
        lengths = {len(values) for values in self.data.values()}
        if len(lengths) > 1:
            raise ValueError(f"data: columns have {min(lengths)} to {max(lengths)} rows, but need the same number")
        if any(name not in self.data for name in self.keys) or len(set(self.keys)) < len(self.keys):
            raise ValueError("group_by: must name columns of data, each once")
        if not self.operands:
            raise ValueError("data: there is no numeric column besides those of group_by")


@dataclass(frozen=True, kw_only=True)
class SimplePlainResponse(Message):
    """Results: one value each without `group_by`; with it, results and `groups` are columns with a row for each group.

    An integer of more than 53 bits and a number that is not finite ("inf", "nan") come as text.
    """

    operation: str
    rows: int
    groups: dict[str, list[Scalar]] | None
    result: dict[str, Scalar | list[Scalar]]


def operate(request: SimplePlainRequest, note: Note, _links: None = None) -> SimplePlainResponse:
    """Apply one operation to every numeric column of `data`, by group where `group_by` names columns."""
    response = contained.run(answer, (request,), SimplePlainResponse, note)
    groups = next(iter(response.groups.values())) if response.groups else [None]
    note(rows=response.rows, groups=len(groups))
    return response


def answer(request: SimplePlainRequest) -> SimplePlainResponse:
    """Evaluate with DuckDB, like every other request. Raises WireError, for example for a result out of range."""
    numbers = {name: f"c{index}" for index, name in enumerate(request.data)}
    with Database() as database:
        database.load_columns(
            [(numbers[name], _duckdb_type(values), _list(values)) for name, values in request.data.items()]
        )
        _, keys, aggregates = engine.group(
            database,
            None,
            [numbers[name] for name in request.keys],
            [f"{AGGREGATE_OF[request.operation]}({numbers[name]})" for name in request.operands],
        )
    rows = len(next(iter(request.data.values())))
    results = [[_value(text, column.type) for text in column.values] for column in aggregates]
    if not request.keys:
        single: dict[str, Scalar | list[Scalar]] = {
            name: values[0] for name, values in zip(request.operands, results, strict=True)
        }
        return SimplePlainResponse(operation=request.operation, rows=rows, groups=None, result=single)
    groups = [[_value(text, column.type) for text in column.values] for column in keys]
    return SimplePlainResponse(
        operation=request.operation,
        rows=rows,
        groups=dict(zip(request.keys, groups, strict=True)),
        result=dict(zip(request.operands, results, strict=True)),
    )


def _duckdb_type(values: Sequence[Scalar]) -> str:
    kinds = {type(value) for value in values if value is not None}
    if str in kinds:
        return "VARCHAR"
    if bool in kinds:
        return "BOOLEAN"
    if float in kinds or not kinds:
        return "DOUBLE"
    fits = all(-(1 << 63) <= value < 1 << 63 for value in values if isinstance(value, int))
    return "BIGINT" if fits else "HUGEINT"


def _list(values: list[Any]) -> str:
    """The JSON for `Database.load_columns`."""
    huge = _duckdb_type(values) == "HUGEINT"
    return json.dumps([None if value is None else str(value) for value in values] if huge else values)


def _value(text: str | None, kind: str) -> Scalar:
    if text is None or kind == "VARCHAR":
        return text
    if kind == "BOOLEAN":
        return text == "true"
    if kind in ("BIGINT", "HUGEINT"):
        return int(text) if abs(int(text)) <= _SAFE else text
    return float(text) if math.isfinite(float(text)) else text
