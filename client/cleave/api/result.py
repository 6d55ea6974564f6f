"""The answer to one question, for Python, pandas, Arrow and notebooks."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any, overload

from cleave.finish import ResultTable
from cleave.finish.result import loaded, records
from cleave.shown.answer import answer_text, cells, footer
from cleave.sql.plan import Cut, FigureSource
from cleave.table.types import ZONED
from cleave.text import figures
from cleave.text.printable import printable
from cleave_shared.errors import extra

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from cleave.ask.question import Answer, Usage

_SHOWN = 100  # rows that a prompt or a notebook shows
_TEMPORAL: dict[str, Callable[[str], Any]] = {
    "DATE": date.fromisoformat,
    "TIME": time.fromisoformat,
    "TIMESTAMP": datetime.fromisoformat,
    ZONED: datetime.fromisoformat,
}
_INT64 = range(-(1 << 63), 1 << 63)


@dataclass(frozen=True, slots=True, repr=False)
class Result:
    """The answer to one question. Iterating returns its rows.

    `rows` hold int, float, Decimal, bool, str, date, time, datetime and None; values of other types are DuckDB's text.
    No value has digits beyond its error bound. `bounds` has the same shape as `rows` and holds the largest possible
    distance of each value to the exact one. It is 0.0 for an exact value, and None for keys and for doubles computed
    from plain columns alone, which have no bound. `sources` says where each column comes from: "key", "plain" (the
    plain service), "encrypted" (ciphertexts), "local" (this machine) or "hidden".
    """

    plan: Cut
    seconds: float
    _answer: Answer

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(column.name for column in self._table.columns)

    @property
    def types(self) -> tuple[str, ...]:
        """Return DuckDB's names of the column types."""
        return tuple(self._table.types)

    @property
    def sources(self) -> tuple[FigureSource, ...]:
        return tuple(self._table.source(place) for place in range(len(self.columns)))

    @property
    def scanned(self) -> tuple[bool, ...]:
        """Return for each column whether a scan made its sums. A dishonest sensitive service could choose such sums
        freely.
        """
        return tuple(self._table.is_scanned(place) for place in range(len(self.columns)))

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        types = self._table.types
        return [
            tuple(_python(value, type_) for (value, _), type_ in zip(self._published(row), types, strict=True))
            for row in range(len(self))
        ]

    @property
    def bounds(self) -> list[tuple[float | None, ...]]:
        return [tuple(bound for _, bound in self._published(place)) for place in range(len(self))]

    @property
    def exact(self) -> list[tuple[bool | None, ...]]:
        """Return for each value whether it is the exact one, correctly rounded to its type; None if it has no bound."""
        return [tuple(row) for row in self._table.exact]

    @property
    def undecided(self) -> list[tuple[bool, ...]]:
        """Return which values depend on a decision that the error bounds leave open."""
        places = range(len(self.columns))
        return [tuple(self._table.is_undecided(row, place) for place in places) for row in range(len(self))]

    @property
    def hidden(self) -> list[tuple[bool, ...]]:
        """Return which values need a withheld total; their values and bounds are None."""
        places = range(len(self.columns))
        return [tuple(self._table.is_hidden(row, place) for place in places) for row in range(len(self))]

    @property
    def doubts(self) -> list[tuple[str, ...]]:
        """Return for each row the clauses that the error bounds leave open.

        HAVING and LIMIT leave open whether the row belongs in the answer, ORDER BY its position.
        """
        return [tuple(self._table.doubts_of(row)) for row in range(len(self))]

    @property
    def is_decided(self) -> bool:
        return self._table.is_decided

    @property
    def warnings(self) -> list[str]:
        return list(self._table.warnings)

    @property
    def checks(self) -> dict[str, str]:
        """Return "passed" or "not needed" for each check, by name. An answer that fails a check is never returned."""
        return dict(self._answer.checks)

    @property
    def usage(self) -> Usage:
        """Return the numbers of rows, groups, requests and bytes."""
        return self._answer.usage

    @property
    def timings(self) -> dict[str, float]:
        """Return the seconds spent in each stage."""
        return dict(self._answer.timings)

    def df(self, *, bounds: bool = False) -> pd.DataFrame:
        """Return a pandas DataFrame. Decimals stay Decimal, and whole numbers with NULLs become Int64.

        `bounds` adds a column NAME_bound after each column that comes from ciphertexts, and a last column "scanned" if
        a scan made sums. If the error bounds leave something undecided, there is always a last column "undecided".
        Raises InputError if pandas is not installed.
        """
        with extra("pandas", "data frames"):
            import pandas as pd  # noqa: PLC0415
        held = records(self._table, bounds=bounds)
        table = self.arrow(bounds=bounds)
        series = {}
        for place, (name, type_) in enumerate(zip(held.names, held.types, strict=True)):
            values = [row[place] for row in held.rows]
            if _is_whole(type_):
                series[name] = pd.Series(values, dtype=_whole_type(values))
            else:
                try:
                    series[name] = table.column(place).to_pandas()
                except ValueError:  # infinity, or a year that Python does not have; pyarrow's errors are of this class
                    series[name] = pd.Series([_python(value, type_) for value in values], dtype="object")
        return pd.DataFrame(series)

    def arrow(self, *, bounds: bool = False) -> pa.Table:
        """Return a pyarrow Table with DuckDB's types.

        Integers of 128 bits become decimals, or text if one has 39 digits. `bounds` works as in `df`.
        """
        with extra("arrow", "Arrow tables"):
            import pyarrow  # noqa: F401, PLC0415 - DuckDB uses it
        with loaded(records(self._table, bounds=bounds), "arrow") as connection:
            return connection.sql("FROM answer").to_arrow_table()

    def footer(self) -> str:
        """Say in a line or two how far to trust the answer, and what it cost."""
        return footer(self._answer, self.seconds)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return the rows, as a DB-API cursor does."""
        return self.rows

    @overload
    def __getitem__(self, place: int) -> tuple[Any, ...]: ...

    @overload
    def __getitem__(self, place: slice) -> list[tuple[Any, ...]]: ...

    def __getitem__(self, place: int | slice) -> tuple[Any, ...] | list[tuple[Any, ...]]:
        """Return a row, or a list of rows for a slice."""
        return self.rows[place]

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self._table.rows)

    def __repr__(self) -> str:
        """Return the table that `cleave query` prints."""
        return "\n".join([answer_text(replace(self._answer, result=self._first())), *self._rest()])

    def _repr_html_(self) -> str:
        first = self._first()
        headings, rows = cells(first)
        align = [f' style="text-align: {heading.justify}"' for heading in headings]
        head = "".join(
            f"<th{at}>{_escaped(heading.name)}<br><small>{_escaped(heading.note)}</small></th>"
            for heading, at in zip(headings, align, strict=True)
        )
        body = "".join(
            f"<tr>{''.join(_cell(first, row, place, text, align[place]) for place, text in enumerate(texts))}</tr>"
            for row, texts in enumerate(rows)
        )
        notes = [*self._rest(), *(f"warning: {each}" for each in self.warnings), *self.footer().splitlines()]
        return (
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
            f"<p><small>{'<br>'.join(map(_escaped, notes))}</small></p>"
        )

    @property
    def _table(self) -> ResultTable:
        return self._answer.result

    def _published(self, row: int) -> list[tuple[Any, float | None]]:
        table = self._table
        cells = zip(table.rows[row], table.bounds[row], table.exact[row], strict=True)
        return [figures.published(*cell) for cell in cells]

    def _first(self) -> ResultTable:
        table = self._table
        return replace(
            table,
            rows=table.rows[:_SHOWN],
            bounds=table.bounds[:_SHOWN],
            exact=table.exact[:_SHOWN],
            undecided=table.undecided[:_SHOWN],
            hidden=table.hidden[:_SHOWN],
            doubts=table.doubts[:_SHOWN],
        )

    def _rest(self) -> list[str]:
        return [f"... and {len(self) - _SHOWN:,} more rows"] if len(self) > _SHOWN else []


def _cell(table: ResultTable, row: int, place: int, text: str, align: str) -> str:
    """Return an HTML cell, marked if its value is undecided. The last place may hold the row's doubts."""
    is_marked = table.is_undecided(row, place) if place < len(table.columns) else bool(text)
    return f"<td{align}>{f'<mark>{_escaped(text)}</mark>' if is_marked else _escaped(text)}</td>"


def _python(value: Any, type_: str) -> Any:
    if type_ in ("DOUBLE", "FLOAT") and isinstance(value, Decimal):  # rounded to its bound
        return float(value)
    if isinstance(value, Decimal) and _is_whole(type_):  # the same
        return int(value)
    if isinstance(value, str) and type_ in _TEMPORAL:
        try:
            return _TEMPORAL[type_](value)
        except ValueError:  # infinity, or a year that Python does not have
            return value
    return value


def _is_whole(type_: str) -> bool:
    return type_.removeprefix("U") in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")


def _whole_type(values: list[Any]) -> str:
    present = [value for value in values if value is not None]
    if any(int(value) not in _INT64 for value in present):
        return "object"
    return "int64" if len(present) == len(values) else "Int64"


def _escaped(text: str) -> str:
    return html.escape(printable(text))
