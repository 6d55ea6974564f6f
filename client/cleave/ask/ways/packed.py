"""Pack a file or frame as it would be sent for a question, to describe how exact it is and what each service learns."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from cleave.aggregates.base import SIGMAS
from cleave.aggregates.columns import Exact
from cleave.ask.describe import UNASKED, EncryptedColumn
from cleave.ask.way import AS_SQL, READ_HERE, Disclosures, Lesson, Use, Uses, Work, values_of
from cleave.ckks.columns import Columns
from cleave.ckks.encode import scales_of
from cleave.ckks.layout import FRESH_VARIANCE, ROUNDING_UNITS, WideLane
from cleave.ckks.packing import bytes_of_chunk, plan_packing
from cleave.sql.plan import Argument, QueryPlan
from cleave.sql.split import split
from cleave.table.schema import Kind, Schema
from cleave.table.table import Table
from cleave.text.quantities import counted
from cleave_shared import limits
from cleave_shared.params import Profile


class Packed:
    """A packed file, to be closed after use. `hides_rows`: nobody may learn how many rows it has.

    Raises what the question itself would raise before it sends anything: QueryRefused, InputError.
    """

    def __init__(self, table: Table, cut: QueryPlan, profile: Profile, *, pad: bool, hides_rows: bool) -> None:
        self._table = table
        self._rows = None if hides_rows else table.rows
        self.cut, self.halves = split(table, cut)
        self._columns = Columns(self.cut.domains, self.cut.encrypted)
        self.packing = plan_packing(self._columns.types, self.halves.counts, profile, pad=pad)
        self.ranges = self.packing.ranges(limits.REQUESTS_UNDER_WAY)
        self.plain = [len(part.parquet or b"") for part in self.halves.plain_parts] if self.cut.asks_plain else []
        self._scales = scales_of(self.packing.layout, self._columns.encode(self.halves.names, self.halves.values()))
        self.profile = profile

    @property
    def bytes_up(self) -> int:
        """Return the bytes of ciphertexts that would be sent."""
        return self.packing.chunks * bytes_of_chunk(self.profile)

    @property
    def bytes_down(self) -> int:
        return sum(len(each.runs) for each in self.ranges) * limits.RESULT_BYTES

    def work(self) -> Work:
        return Work(calls=len(self.ranges) + len(self.plain), answered=self.bytes_down)

    def uses(self) -> Uses:
        return {(self._table.name, name): use for name, use in self._uses()}

    def _uses(self) -> Iterator[tuple[str, Use]]:
        cut = self.cut
        read = {name for argument in cut.arguments for name in argument.columns}
        here = {name for each in cut.local for name in each.columns}
        here |= {*(cut.counting.columns if cut.counting else ())}
        encrypted = Counter[str]()
        for packed, size in zip(self._columns.names, self._bytes(), strict=True):
            for number in packed.arguments:
                for name in _behind(cut.arguments[number], self._table.schema):
                    encrypted[name] += size
        for column in self._table.schema.columns:
            name = column.name
            if name in cut.plain_columns:
                yield name, Use("sent in the clear", "plain", self.halves.plain_bytes(name))
            elif encrypted[name]:
                yield name, Use("encrypted", "sensitive", encrypted[name])
            elif name in cut.selecting:
                yield name, Use("read here to select and group rows")
            elif name in read and column.kind is Kind.PLAIN:
                yield name, Use("read here for an encrypted column")
            elif name in read or name in here:  # an argument of declared NULLs and range asks nothing more
                yield name, Use(READ_HERE)

    def _bytes(self) -> list[int]:
        """Return each encrypted column's share of what is sent, by the bits it takes in a row."""
        bits = [
            self.profile.capacity_bits if isinstance(place, WideLane) else sum(field.width for field in place.fields)
            for place in self.packing.layout.by_column
        ]
        return [round(self.bytes_up * taken / max(1, sum(bits))) for taken in bits]

    def encrypted(self) -> Iterator[EncryptedColumn]:
        packing, columns = self.packing, self._columns
        noise = SIGMAS * math.sqrt(FRESH_VARIANCE * int(packing.placement.terms().sum()))
        places = packing.layout.by_column
        for name, type_, place, scale, size, reading in zip(
            columns.names, columns.types, places, self._scales, self._bytes(), columns.decodings, strict=True
        ):
            arguments = [self.cut.arguments[number] for number in name.arguments]
            exact = isinstance(type_, Exact)
            lost = float(ROUNDING_UNITS) + (noise if isinstance(place, WideLane) else 0.0)
            yield EncryptedColumn(
                argument=", ".join(argument.sql for argument in arguments),
                type=", ".join(argument.type for argument in arguments),
                moment=name.moment,
                exact=exact,
                log2_scale=packing.layout.guard if exact else scale.exponent,
                bytes=size,
                bound=0.0 if exact else _ldexp(lost, -scale.exponent) * float(reading.unit),
            )

    def disclosures(self) -> Disclosures:
        """List what each service learns, as SECURITY.md explains it."""
        packing = self.packing
        plain, sensitive = [UNASKED], [UNASKED]
        if self.cut.asks_plain:
            columns = ", ".join(self.cut.plain_columns) or "none"
            plain = [
                Lesson(
                    f"the plain columns the query reads, with names and values: {columns}",
                    values_of(self.cut.plain_columns),
                ),
                "the number of rows" + ("" if self._rows is None else f": {self._rows}"),
                AS_SQL,
            ]
        if packing.chunks:
            follows = "the query, the schema and the number of selected rows"
            if packing.chunks > 1:  # a group takes the same places in each ciphertext, so some places stay empty
                follows = "the query, the schema, the number of selected rows, and the number and sizes of the groups"
            sensitive = [
                Lesson(
                    f"the number of ciphertexts: {packing.chunks}, in {counted(packing.blocks, 'block')} that are "
                    f"added up; it follows from {follows}",
                    f"the number of ciphertexts: {packing.chunks}; it grows with the selected rows",
                ),
                "not which rows form a group, nor any name, nor the SQL",
                "the key's id, the profile, Cleave's release, sizes and times of requests",
            ]
        return Disclosures(plain, sensitive, queried=self.cut.asks_plain)

    def close(self) -> None:
        self.halves.close()


def _behind(argument: Argument, schema: Schema) -> tuple[str, ...]:
    """Return the columns that an argument is encrypted for: its encrypted columns, or all of its columns if they are
    plain.
    """
    encrypted = [name for name in argument.columns if schema.column(name).kind is Kind.ENCRYPTED]
    return tuple(encrypted) or argument.columns


def _ldexp(value: float, exponent: int) -> float:
    try:
        return math.ldexp(value, exponent)
    except OverflowError:
        return math.inf
