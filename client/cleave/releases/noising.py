"""Draw the numbers of a noisy release, and what analysts may know of the table's columns."""

from __future__ import annotations

from decimal import Decimal

from cleave.disclosure.noise import Clamp
from cleave.releases.drawing import noisy, require_sampler
from cleave.releases.kept import NoisyReading, kept_totals
from cleave.releases.noisy_plan import NoisyPlan
from cleave.releases.noisy_totals import NoisyStatistic, NoisyTotals
from cleave.store.manifest import Measure, now
from cleave.store.reader import Opened
from cleave.store.tables import Tables
from cleave.table.duck import identifier
from cleave.table.schema import Column, CsvDialect, Kind, Schema, dump_schema


def drawn(tables: Tables, opened: Opened, plan: NoisyPlan) -> NoisyTotals:
    """Draw the numbers. Raises InputError without OpenDP; CheckFailed, StoreError."""
    schema, reading, statistics = plan.schema, plan.reading, plan.statistics
    require_sampler()
    exact = kept_totals(tables, opened, reading, statistics)
    numbers = [noisy(each, totals) for each, totals in zip(statistics, exact, strict=True)]
    return NoisyTotals(
        table=opened.manifest.table,
        schema_toml=dump_schema(_shown_schema(schema, reading, opened.manifest.table)),
        by=reading.by,
        values=reading.values,
        measures=tuple(_measure(schema, each) for each in reading.clamps),
        number=opened.manifest.next_release,
        at=now(),
        epsilon=plan.choices.epsilon,
        most_rows=reading.most_rows,
        statistics=tuple(
            NoisyStatistic(
                part=each.part,
                measure=each.measure,
                sensitivity=each.sensitivity,
                epsilon=str(each.epsilon),
                scale=scale,
            )
            for each, (scale, _) in zip(statistics, numbers, strict=True)
        ),
        numbers=tuple(tuple(of) for _, of in numbers),
    )


def _shown_schema(schema: Schema, reading: NoisyReading, table: str) -> Schema:
    """Names, types, clamps and values, and which columns may be NULL: nothing that was proposed from rows."""
    by = [(schema.column(name), values) for name, values in zip(reading.by, reading.values, strict=True)]
    cells = [
        Column(
            each.name, Kind.SEALED, each.type, nullable=each.nullable, values=tuple(v for v in values if v is not None)
        )
        for each, values in by
    ]
    measures = [schema.column(each.name) for each in reading.clamps]
    summed = [
        Column(each.name, Kind.ENCRYPTED, each.type, *_bounds(each, clamp), nullable=each.nullable)
        for each, clamp in zip(measures, reading.clamps, strict=True)
    ]
    return Schema((*cells, *summed), CsvDialect(), table)


def _bounds(column: Column, clamp: Clamp) -> tuple[Decimal | None, Decimal | None]:
    if column.type == "BOOLEAN":
        return None, None
    low, high = (Decimal(end).scaleb(-clamp.decimals) for end in (clamp.low, clamp.high))
    return low, high


def _measure(schema: Schema, clamp: Clamp) -> Measure:
    column = schema.column(clamp.name)
    return Measure(
        name=column.name,
        sql=identifier(column.name),
        type=column.type,
        decimals=clamp.decimals,
        lower=clamp.low,
        upper=clamp.high,
        nullable=clamp.nullable,
        derived=False,
    )
