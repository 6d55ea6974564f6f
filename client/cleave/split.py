"""Cut a table into its two halves: the plain columns a query reads, and the arguments of its encrypted aggregates."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import duckdb
import numpy as np
from numpy.typing import NDArray

from cleave.aggregates.columns import Domain, Values
from cleave.ckks.columns import Asked, Columns
from cleave.ckks.job import Arrangement, Job, taken
from cleave.sql.plan import Argument, QueryPlan
from cleave.table.source import identifier
from cleave.table.table import Table
from cleave_shared import limits
from cleave_shared.errors import InputError, QueryRefused
from cleave_shared.moments import FILTERED, Run
from cleave_shared.params import Profile

_PARQUET_BYTES = limits.MAX_BODY_BYTES - limits.HEAD_BYTES
_WHOLE_TABLE_ROWS = 1 << 18  # try this many rows in one Parquet file first


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive rows of the plain half: a Parquet file, or only their number where no plain column is read."""

    rows: int
    parquet: bytes | None


def shuffler() -> np.random.Generator:
    """Row and group order carry nothing: seeded from the operating system for every use."""
    return np.random.Generator(np.random.PCG64DXSM(secrets.randbits(256)))


class Halves:
    """The table's rows in one order for both halves: by group, shuffled within a group, unselected rows last."""

    def __init__(self, table: Table, plan: QueryPlan) -> None:
        self.rows = table.rows
        self._table = table
        self._plan = plan
        selected = [identifier(column) for column in plan.plain_columns]
        selected += [f"{_fetchable(argument)} AS {_name(i)}" for i, argument in enumerate(plan.arguments)]
        order = [f"(({plan.where}) IS TRUE) DESC"] if plan.where else []
        order += [f"({key})" for key in plan.keys]
        if not selected:
            selected = ["1 AS one"]
        order_by = f"ORDER BY {', '.join([*order, 'random()'])}" if plan.plain_columns else ""
        failure = None
        try:
            table.connection.execute(
                f"CREATE OR REPLACE TABLE halves AS SELECT {', '.join(selected)} FROM {table.relation} {order_by}"
            )
        except duckdb.Error as error:  # its message may quote values: it is neither kept nor chained
            failure = type(error).__name__
        if failure:
            raise self._blame(failure)

    def _blame(self, kind: str) -> InputError:
        """Which expression DuckDB could not compute in some row."""
        expressions = {argument.sql: _fetchable(argument) for argument in self._plan.arguments}
        expressions |= {
            sql: f"({sql})" for sql in (*self._plan.keys, *([self._plan.where] if self._plan.where else []))
        }
        for sql, expression in expressions.items():
            try:
                self._table.connection.execute(f"SELECT count({expression}) FROM {self._table.relation}").fetchall()
            except duckdb.Error as error:
                return InputError(
                    f"{sql} cannot be computed in some row ({type(error).__name__})",
                    hint="an encrypted argument takes at most 64 bits or 18 digits: cast it to DOUBLE, or use TRY_CAST "
                    "where a value may not fit",
                )
        return InputError(f"the query cannot be computed on this table ({kind})")

    def plain_parts(self) -> Iterator[Part]:
        """The plain half in files that each fit a request. Raises QueryRefused if a single row does not."""
        if not self._plan.plain_columns:
            yield Part(self.rows, None)
            return
        start, size = 0, _WHOLE_TABLE_ROWS
        while start < self.rows or start == 0:
            size = max(1, min(size, self.rows - start))
            parquet = self._table.parquet("halves", self._plan.plain_columns, start, start + size)
            if len(parquet) > _PARQUET_BYTES:
                if size == 1:
                    raise QueryRefused("one row's plain columns are too large for a request")
                size = max(1, min(size // 2, int(size * 0.9 * _PARQUET_BYTES / len(parquet))))
                continue
            yield Part(min(size, self.rows), parquet)
            start += size
            size = min(size * 2, int(size * 0.9 * _PARQUET_BYTES / max(1, len(parquet)))) or 1

    def plain_bytes(self, column: str) -> int:
        """The size of one plain column's Parquet file."""
        return len(self._table.parquet("halves", (column,), 0, self.rows))

    def arguments(self) -> list[Values]:
        """The arguments' values, in the order of the plain half."""
        if not self._plan.arguments:
            return []
        names = [_name(i) for i in range(len(self._plan.arguments))]
        columns = self._table.connection.execute(f"SELECT {', '.join(names)} FROM halves").fetchnumpy()
        return [_values(columns[name]) for name in names]

    def close(self) -> None:
        self._table.connection.execute("DROP TABLE IF EXISTS halves")


def _values(column: NDArray[np.generic]) -> Values:
    if isinstance(column, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(column)
        return Values(column.data, ~mask if mask.any() else None)
    return Values(column, None)


def _fetchable(argument: Argument) -> str:
    """SQL whose values numpy holds without loss: integers in the last decimal, float64, or 1 for any value."""
    if argument.counted:
        return f"CASE WHEN ({argument.sql}) IS NOT NULL THEN 1::TINYINT END"
    if argument.decimals is None:
        return f"CAST(({argument.sql}) AS DOUBLE)"
    if not argument.decimals:
        return f"CAST(({argument.sql}) AS BIGINT)"
    # DECIMAL(18, d) * 10^d in two factors that DECIMAL(38) holds, instead of fetchnumpy's float64
    half = argument.decimals // 2
    factors = [f"CAST({10**digits} AS DECIMAL(10,0))" for digits in (half, argument.decimals - half)]
    wide = f"CAST(({argument.sql}) AS DECIMAL(18,{argument.decimals}))"
    return f"CAST({wide} * {factors[0]} * {factors[1]} AS BIGINT)"


def encrypted_job(profile: Profile, plan: QueryPlan, halves: Halves, arrangement: Arrangement) -> Job:
    """The sensitive half of `plan`, its arguments' values taken from `halves`."""
    values = halves.arguments()
    domains = [
        _narrowed(argument, taken(column, arrangement.order))
        for argument, column in zip(plan.arguments, values, strict=True)
    ]
    columns = Columns(domains, [Asked(each.aggregate, each.arguments) for each in plan.encrypted])
    return Job(profile, columns, [argument.sql for argument in plan.arguments], values, arrangement)


def _narrowed(argument: Argument, column: Values) -> Domain:
    """Its domain, as narrow as the selected values are where nothing is declared."""
    domain = argument.domain
    present = column.values if column.valid is None else column.values[..., column.valid]
    nullable = domain.nullable and column.valid is not None and not column.valid.all()
    if not domain.is_exact or argument.lower is not None or not len(present):
        return replace(domain, nullable=nullable)
    return replace(domain, lower=int(present.min()), upper=int(present.max()), nullable=nullable)


def arrange(runs: Sequence[Run], groups: int) -> Arrangement:
    """Give groups random numbers, order them by it, and shuffle the rows within each.

    Neither the order of names nor that of the file shows, and rows stand otherwise than in the plain half.
    """
    numbers = np.repeat(*np.array(runs, dtype=np.intp).reshape(-1, 2).T)
    random = shuffler()
    opaque = random.permutation(groups)
    rows = random.permutation(np.flatnonzero(numbers != FILTERED))
    labels = opaque[numbers[rows]]
    counts = np.bincount(labels, minlength=groups)
    return Arrangement(
        rows[np.argsort(labels, kind="stable")],
        [(int(number), int(counts[number])) for number in range(groups) if counts[number]],
        np.argsort(opaque),
    )


def _name(argument: int) -> str:
    return f"argument_{argument}"
