"""Splits a table into two halves: the plain columns that a query reads, and the arguments of its encrypted aggregates.

DuckDB on this machine always selects and groups the rows: the encrypted half is arranged by group before it is sent,
and the plain service's groups are checked against these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from cleave.aggregates.columns import Values
from cleave.sql.nodes import ColumnRef, shown
from cleave.sql.plan import Argument, QueryPlan
from cleave.sql.read import expression_of, expressions_of
from cleave.sql.rejoin import Texts
from cleave.sql.tally import Tally, tallied
from cleave.table.blaming import blamed, not_computable
from cleave.table.duck import identifier
from cleave.table.table import Table
from cleave_shared import limits
from cleave_shared.duckdb_errors import Fault
from cleave_shared.errors import CleaveError, QueryRefused

_PARQUET_BYTES = limits.MAX_BODY_BYTES - limits.HEAD_BYTES
_MOST_SHOWN = 3  # expressions of a message
_MOST_ROWS = 1 << 20  # per request: the service can answer any query over this many in time
_TRIED_ROWS = 1 << 14  # of a trial Parquet file, to estimate bytes per row
# Size of a plain answer in JSON: a count, and a value with quotes and comma (texts are longer).
_COUNT_BYTES, _VALUE_BYTES = 12, 28


@dataclass(frozen=True, slots=True)
class PlainPart:
    """Consecutive rows of the plain half: a Parquet file, or only their number if no plain column is read."""

    rows: int
    parquet: bytes | None


def split(table: Table, plan: QueryPlan) -> tuple[QueryPlan, Halves]:
    """The halves of `table` by `plan`, or by its alternative `otherwise` if a group's rows need several requests.
    Returns the plan used.
    """
    halves = Halves(table, plan)
    if plan.otherwise is None or not plan.asks_plain or not halves.divides_groups:
        return plan, halves
    halves.close()
    return plan.otherwise, Halves(table, plan.otherwise)


class Halves:
    """The selected rows and their groups, numbered from 0 in the order of their keys; and the plain half.

    `keys`: DuckDB's text of each group's keys. `counts`: its number of rows. Without keys there is one group, even of
    no rows. `tally`: the rows as a threshold counts them, if the plan asks for it.
    """

    def __init__(self, table: Table, plan: QueryPlan) -> None:
        self.rows = table.rows
        self.schema = table.schema
        self._table = table
        self._plan = plan
        self._keys = [f"k{i}" for i in range(len(plan.keys))]
        fetched = [_fetchable(each) for each in plan.arguments]
        self._arguments = [[f"argument_{i}_{word}" for word in range(len(each))] for i, each in enumerate(fetched)]
        selected = [f"({key}) AS {name}" for key, name in zip(plan.keys, self._keys, strict=True)]
        selected += [
            f"{sql} AS {name}"
            for words, names in zip(fetched, self._arguments, strict=True)
            for sql, name in zip(words, names, strict=True)
        ]
        relation = self._selected = table.relation + (f" WHERE ({plan.where})" if plan.where else "")
        select = f"SELECT {', '.join(selected or ['1 AS one'])} FROM {relation}"
        self._whole: dict[str, NDArray[np.generic]] = {}  # without keys: the selected values
        table.prepare(table.connection, ordered=any(each.ordered for each in plan.local))
        self._compute()
        if not self._keys:
            self.local = self._local()
            if self._arguments:
                self._whole = self._fetch(f"SELECT {self._with_nulls_beside()} FROM ({select}) AS selected")
                rows = len(next(iter(self._whole.values())))
            else:
                source = "SELECT size FROM computed" if plan.local else f"SELECT count(*) AS size FROM {relation}"
                rows = int(self._fetch(source)["size"][0])
            self.counts: NDArray[np.int64] = np.array([rows])
            self.keys: list[Texts] = [()]
            self.tally = self._tally()
            return
        named = ", ".join(self._keys)
        source = f"(SELECT {named}, count(*) AS size FROM ({select}) GROUP BY {named})"
        if self._arguments:  # it contains their values
            self._run(f"CREATE OR REPLACE TABLE selected AS {select}")
            source = f"(SELECT {named}, count(*) AS size FROM selected GROUP BY {named})"
        elif plan.local:
            source = "(SELECT * FROM computed WHERE left_out = 0)"
        self._run(
            "CREATE OR REPLACE TABLE grouped AS "
            f"SELECT row_number() OVER (ORDER BY {named}) - 1 AS number, {named}, size FROM {source}"
        )
        self.local = self._local()
        # the values are sorted, not their texts: DuckDB 2.0.0 would cut those of NaN, where all are NaN, to '-na\0'
        texts = ", ".join(f"CAST({name} AS VARCHAR)" for name in self._keys)
        self.counts = self._fetch("SELECT size FROM grouped ORDER BY number")["size"].astype(np.int64)
        self.keys = self._table.connection.execute(f"SELECT {texts} FROM (FROM grouped ORDER BY number)").fetchall()
        self.tally = self._tally()

    def _tally(self) -> Tally | None:
        """The rows counted for a threshold, by another scan; None if the plan does not count them."""
        counting = self._plan.counting
        return tallied(self._plan, counting, self._selected, self._run, self._fetch) if counting else None

    def _compute(self) -> None:
        """Compute the local aggregates for the groups of every set, and of the finest groups, in one scan."""
        plan = self._plan
        if not plan.local:
            return
        named = [f"({key}) AS {name}" for key, name in zip(plan.keys, self._keys, strict=True)]
        named += [f"({each.sql}) AS l{i}" for i, each in enumerate(plan.local)]
        sets = plan.sets
        if sets is not None and not any(len(set(each)) == len(plan.keys) for each in sets):
            sets = (*sets, tuple(range(len(plan.keys))))
        left_out = f"GROUPING({', '.join(plan.keys)})" if sets is not None and plan.keys else "0"
        with self._table.engine.in_order() if any(each.ordered for each in plan.local) else nullcontext():
            self._run(
                f"CREATE OR REPLACE TABLE computed AS SELECT {left_out} AS left_out, count(*) AS size, "
                f"{', '.join(named)} FROM {self._selected}" + grouped_by(plan.keys, sets)
            )

    def _local(self) -> list[Texts]:
        """DuckDB's text of the local aggregates of each group, set after set; empty if there are none."""
        plan = self._plan
        if not plan.local:
            return []
        every = tuple(range(len(plan.keys)))
        return [row for each in ((every,) if plan.sets is None else plan.sets) for row in self._of_set(each)]

    def _of_set(self, places: Sequence[int]) -> list[Texts]:
        """Return the rows of one grouping set, keyed by `places`, in the order of the finest groups combined
        in them.
        """
        texts = ", ".join(f"CAST(l{i} AS VARCHAR)" for i in range(len(self._plan.local)))
        mask = sum(1 << place for place, i in enumerate(reversed(range(len(self._keys)))) if i not in places)
        if not places:  # one group, even of no rows
            statement = f"SELECT {texts} FROM computed WHERE left_out = {mask}"
        else:
            names = [self._keys[i] for i in places]
            same = " AND ".join(f"computed.{name} IS NOT DISTINCT FROM first.{name}" for name in names)
            statement = (  # sorted before they are texts, as the keys are
                f"SELECT {texts} FROM (FROM computed JOIN (SELECT {', '.join(names)}, min(number) AS number FROM "
                f"grouped GROUP BY ALL) AS first ON {same} WHERE left_out = {mask} ORDER BY first.number)"
            )
        return self._table.connection.execute(statement).fetchall()

    def _fetch(self, sql: str) -> dict[str, NDArray[np.generic]]:
        columns: dict[str, NDArray[np.generic]] = self._run(sql, duckdb.DuckDBPyConnection.fetchnumpy)
        return columns

    def _run(self, statement: str, then: Callable[[duckdb.DuckDBPyConnection], Any] = lambda _: None) -> Any:
        """Run a statement and fetch with `then` under the same guard, since DuckDB may compute rows only when they are
        fetched.
        """
        try:
            return then(self._table.connection.execute(statement))
        except duckdb.InterruptException:
            raise
        except duckdb.OutOfMemoryException:
            found: Fault | CleaveError = self._table.engine.refusal()
        except duckdb.Error as error:  # its message may quote values, so it is not chained
            found = blamed(error, statement, statement[max(0, statement.find("SELECT")) :])
        raise found if isinstance(found, CleaveError) else self._blame(found)

    def _blame(self, fault: Fault) -> CleaveError:
        """The error that names the expression DuckDB could not compute in some row, or for some group."""
        expressions = {argument.sql: _fetchable(argument)[0] for argument in self._plan.arguments}
        expressions |= {
            sql: f"({sql})" for sql in (*self._plan.keys, *([self._plan.where] if self._plan.where else []))
        }
        counted = self._plan.maybe_null if self._plan.counting else ()
        expressions = {sql: f"({sql}) IS NULL" for sql in counted} | expressions
        relation = self._table.relation
        statements = {sql: computing(expression, relation) for sql, expression in expressions.items()}
        groups = grouped_by(self._plan.keys, self._plan.sets)
        statements |= {each.sql: f"SELECT {each.sql} FROM {relation}{groups}" for each in self._plan.local}
        if self._table.streamed and fault.name is not None:
            return not_computable("the query cannot be computed", fault)
        if self._table.streamed:  # finding the cause reads the table again, which a stream cannot
            what = " or ".join(_computing_something(statements)) or "the query"
            return not_computable(f"{what} cannot be computed in some row", fault)
        return blame(self._table.connection, statements) or not_computable("the query cannot be computed", fault)

    @cached_property
    def plain_parts(self) -> list[PlainPart]:
        """The plain half in parts. Raises QueryRefused if a single row does not fit a request."""
        return list(self._parts())

    @property
    def divides_groups(self) -> bool:
        """True if rows of one group are in several parts of the plain half."""
        ends = np.cumsum([part.rows for part in self.plain_parts])[:-1]  # of all parts but the last
        return bool(np.any((ends < self.counts.sum()) & ~np.isin(ends, np.cumsum(self.counts))))

    @property
    def names(self) -> list[str]:
        """The arguments of encrypted aggregates, as messages show them."""
        return list(map(shown, expressions_of([each.sql for each in self._plan.arguments])))

    def _parts(self) -> Iterator[PlainPart]:
        """Yield the plain half as files that fit a request, and whose groups fit an answer.

        Rows come by group, unselected rows last, in random order within a group.
        """
        if not self._plan.plain_columns:
            yield PlainPart(self.rows, None)
            return
        self._make_plain_half()
        ends = np.cumsum(self.counts)  # last row of each group
        most = self._groups_of_an_answer()
        columns = self._plan.plain_columns
        start, size = 0, self.rows
        if size > _TRIED_ROWS:
            step = size // _TRIED_ROWS
            size = _fitting(size // step, self._plain_parquet(columns, f"rowid % {step} = 0"))
        while start < self.rows or start == 0:
            last = int(np.searchsorted(ends, start, "right")) + most - 1
            limit = int(ends[last]) - start if last < len(ends) - 1 else self.rows - start
            size = max(1, min(size, limit, _MOST_ROWS))
            parquet = self._plain_parquet(columns, f"rowid >= {start} AND rowid < {start + size}")
            if len(parquet) > _PARQUET_BYTES:
                if size == 1:
                    raise QueryRefused("one row's plain columns are too large for a request")
                size = min(size // 2, _fitting(size, parquet))
                continue
            yield PlainPart(min(size, self.rows), parquet)
            start += size
            size = _fitting(size, parquet)

    def _make_plain_half(self) -> None:
        """Create the table of the plain half. Its columns are numbered, because a file's column may be called rowid.

        The order is by one number: the group in the upper bits, random lower bits. That is twice as fast as by keys.
        """
        where = f"(({self._plan.where}) IS TRUE)" if self._plan.where else "true"
        columns = [f"c{place}" for place in range(len(self._plan.plain_columns))]
        named = [
            f"{identifier(column)} AS {name}" for column, name in zip(self._plan.plain_columns, columns, strict=True)
        ]
        named += [
            f"CASE WHEN {where} THEN ({key}) END AS {name}"
            for key, name in zip(self._plan.keys, self._keys, strict=True)
        ]
        same = " AND ".join(f"placed.{key} IS NOT DISTINCT FROM grouped.{key}" for key in self._keys)
        groups = len(self.counts)
        bits = 63 - groups.bit_length()
        number = f"CASE WHEN placed.selected THEN {'grouped.number' if same else '0'} ELSE {groups} END"
        self._run(
            f"CREATE OR REPLACE TABLE plain_half AS SELECT {', '.join(columns)} "
            f"FROM (SELECT {', '.join(named)}, {where} AS selected FROM {self._table.relation}) AS placed "
            + (f"LEFT JOIN grouped ON {same} " if same else "")
            + f"ORDER BY CAST({number} AS UBIGINT) << {bits} | CAST(floor(random() * {1 << bits}) AS UBIGINT)"
        )

    def _plain_parquet(self, columns: Sequence[str], which: str = "true") -> bytes:
        """Columns of the plain half as Parquet, in rows where `which` holds."""
        places = {column: place for place, column in enumerate(self._plan.plain_columns)}
        named = ", ".join(f"c{places[column]} AS {identifier(column)}" for column in columns)
        return self._table.parquet(f"SELECT {named} FROM plain_half WHERE {which}")

    def _groups_of_an_answer(self) -> int:
        """The number of groups that fit one answer of the plain service."""
        longest = max((sum(len(text or "") for text in keys) for keys in self.keys), default=0)
        aggregates = sum(len(each.parts) for each in self._plan.plain)
        size = _COUNT_BYTES + 4 * len(self._keys) + 2 * longest + _VALUE_BYTES * aggregates
        return max(1, min(limits.MAX_PLAIN_GROUPS, (limits.MAX_BODY_BYTES - limits.HEAD_BYTES) // size))

    def plain_bytes(self, column: str) -> int:
        """Bytes of one plain column's Parquet file."""
        return len(self._plain_parquet((column,)))

    def values(self) -> list[Values]:
        """The arguments' values in the selected rows, sorted by group. It can be called once: nothing is kept."""
        if not self._arguments:
            return []
        if not self._keys:
            whole, self._whole = self._whole, {}
            return [_values(whole, words, None) for words in self._arguments]
        same = " AND ".join(f"selected.{key} IS NOT DISTINCT FROM grouped.{key}" for key in self._keys)
        columns = self._fetch(f"SELECT number, {self._with_nulls_beside()} FROM selected JOIN grouped ON {same}")
        numbers = columns["number"].astype(np.uint16 if len(self.counts) <= 1 << 16 else np.uint32)
        order = np.argsort(numbers, kind="stable")  # a radix sort for up to 16 bits
        return [_values(columns, words, order) for words in self._arguments]

    def _with_nulls_beside(self) -> str:
        """SQL of the arguments' words. For an argument that may be NULL, NULLs become zeros and a flag column marks
        them.

        Otherwise DuckDB would make masked arrays; importing numpy.ma takes 10 ms.
        """
        return ", ".join(
            f"selected.{words[0]} IS NOT NULL AS {words[0]}_valid, "
            + ", ".join(f"coalesce(selected.{name}, 0::UTINYINT) AS {name}" for name in words)
            if argument.nullable
            else ", ".join(f"selected.{name}" for name in words)
            for argument, words in zip(self._plan.arguments, self._arguments, strict=True)
        )

    def close(self) -> None:
        self._whole = {}
        for name in ("selected", "grouped", "computed", "plain_half"):
            self._table.connection.execute(f"DROP TABLE IF EXISTS {name}")


def grouped_by(keys: Sequence[str], sets: Sequence[Sequence[int]] | None) -> str:
    """The GROUP BY clause for `keys`, or for `sets`, which have indices in `keys`."""
    if sets is None:
        return f" GROUP BY {', '.join(keys)}" if keys else ""
    different = ", ".join(f"({', '.join(keys[place] for place in each)})" for each in dict.fromkeys(map(tuple, sets)))
    return f" GROUP BY GROUPING SETS ({different})"


def _fitting(rows: int, parquet: bytes) -> int:
    """The number of rows that fit a request, if `rows` rows make this file."""
    return int(rows * 0.9 * _PARQUET_BYTES / max(1, len(parquet)))


def _values(columns: Mapping[str, NDArray[np.generic]], words: Sequence[str], order: NDArray[np.intp] | None) -> Values:
    """An argument's values from its words, in the order of the groups."""
    plain: list[Any] = [columns[word] for word in words]
    present = columns.get(f"{words[0]}_valid")
    if present is None and hasattr(plain[0], "mask"):  # a NULL in a column declared NOT NULL; the reader refuses it
        present, plain = ~plain[0].mask, [word.filled(0) for word in plain]
    valid = None if present is None or np.all(present) else present.astype(bool, copy=False)
    if order is not None:
        plain, valid = [word[order] for word in plain], None if valid is None else valid[order]
    return Values(plain[0] if len(plain) == 1 else np.stack([word.view(np.uint64) for word in plain]), valid)


def computing(expression: str, relation: str) -> str:
    """SQL that computes `expression` in every row. (DuckDB would count a column that cannot be NULL without computing
    it.)
    """
    return f"SELECT max(hash({expression})) FROM {relation}"


def blame(connection: duckdb.DuckDBPyConnection, statements: Mapping[str, str]) -> CleaveError | None:
    """The error that names the first expression whose statement fails in DuckDB, or the constant in it; None if all
    succeed.
    """
    for sql, statement in statements.items():
        try:
            connection.execute(statement).fetchall()
        except duckdb.InterruptException:
            raise
        except duckdb.Error as error:
            found = blamed(error, statement, statement)
            if isinstance(found, CleaveError):
                return found
            return not_computable(f"{shown(expression_of(sql))} cannot be computed in some row", found)
    return None


def _computing_something(statements: Iterable[str]) -> list[str]:
    """The first expressions that are more than a column or a count, as a message may show them."""
    nodes = [expression_of(sql) for sql in statements]
    texts = [shown(each) for each in nodes if not isinstance(each, ColumnRef)]
    failing = [each for each in texts if not each.startswith("count(") and not each.endswith(" NULL")]
    return failing[:_MOST_SHOWN] + ["another expression"] * (len(failing) > _MOST_SHOWN)


_INT64, _UINT64 = range(-(1 << 63), 1 << 63), range(1 << 64)
# for these, a quotient and a product together are off by less than a half
_IN_DOUBLES = range(-(1 << 50), (1 << 50) + 1)
_MOST_DECIMALS = 22  # 10^22 is exact in a double


def _fetchable(argument: Argument) -> tuple[str, ...]:
    """SQL whose values numpy can hold exactly: float64, 1 for any value, or integers in the last decimal.

    Integers have 64 bits if the argument's bounds fit, else two words of two's complement, the lower one first.
    """
    if argument.counted:
        return (f"CASE WHEN ({argument.sql}) IS NOT NULL THEN 1::TINYINT END",)
    if argument.decimals is None:
        return (f"CAST(({argument.sql}) AS DOUBLE)",)
    whole, type_ = units(argument)
    if type_ in ("BIGINT", "UBIGINT"):
        return (whole,)
    half = "UBIGINT" if type_ == "UHUGEINT" else "BIGINT"
    return (f"CAST({whole} & {(1 << 64) - 1} AS UBIGINT)", f"CAST({whole} >> 64 AS {half})")


def units(argument: Argument) -> tuple[str, str]:
    """SQL of an exact argument in units of its last decimal, and its type: BIGINT, UBIGINT, HUGEINT or UHUGEINT.

    A value within the argument's bounds is exact. A value outside stays outside, or fails.
    """
    lower, upper = argument.domain.lower, argument.domain.upper
    digits, decimals = f"({argument.sql})", argument.decimals or 0
    if decimals and lower in _IN_DOUBLES and upper in _IN_DOUBLES and decimals <= _MOST_DECIMALS:
        return f"CAST(CAST({digits} AS DOUBLE) * 1e{decimals} AS BIGINT)", "BIGINT"
    if decimals:  # a DECIMAL's text has all decimals; fetched directly it would be a float64
        digits = f"replace(CAST({digits} AS VARCHAR), '.', '')"
    if lower in _INT64 and upper in _INT64:
        type_ = "BIGINT"
    elif lower in _UINT64 and upper in _UINT64:
        type_ = "UBIGINT"
    else:
        type_ = "UHUGEINT" if argument.type == "UHUGEINT" else "HUGEINT"
    return f"CAST({digits} AS {type_})", type_
