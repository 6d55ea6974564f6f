"""Principal components of a table: variances, loadings and scores, each with its certified bound."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import flint
from flint import arb, fmpq

from cleave.aggregates.balls import Number
from cleave.models.certified import NONE, Certified, certified
from cleave.models.components import directions, moments
from cleave.models.frames import columns_of, frame_of, is_missing, number_of
from cleave.models.sums import Asked, ModelSums
from cleave.text.printable import printable
from cleave.text.quantities import counted
from cleave.text.tabular import Heading, html_table, table

if TYPE_CHECKING:
    import pandas as pd

_BITS = 192


@dataclass(frozen=True, slots=True)
class Component:
    """One component. `variance` is its eigenvalue, `share` its part of the variance of all columns, and `cumulative`
    that of all components up to it.

    `loadings` has the unit vector, by column. Of the loadings that may be the largest in size, the first is positive.
    """

    variance: Certified
    share: Certified
    cumulative: Certified
    loadings: Mapping[str, Certified]


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class Components(Asked):
    """Principal components, the largest first. Every number is a value with its bound.

    `standardize`: of the correlation matrix; else of the covariance matrix. `n` counts rows, `left_out` those without
    a value in one of the columns (None where a threshold forbids counting them). `means` and `deviations` are by
    column, deviations with the divisor n - 1.
    """

    columns: tuple[str, ...]
    standardize: bool
    n: int
    left_out: int | None
    means: Mapping[str, Certified]
    deviations: Mapping[str, Certified]
    components: tuple[Component, ...]
    _centre: tuple[tuple[Number, Number], ...] = field(default=())
    _vectors: tuple[tuple[arb, ...], ...] = field(default=())

    @property
    def variances(self) -> tuple[float, ...]:
        """The eigenvalues, the largest first."""
        return tuple(each.variance.value for each in self.components)

    @property
    def shares(self) -> tuple[float, ...]:
        return tuple(each.share.value for each in self.components)

    @property
    def loadings(self) -> list[list[float]]:
        """One row per component, one number per column."""
        return [[each.value for each in one.loadings.values()] for one in self.components]

    def transform(self, frame: Any, *, bounds: bool = False) -> pd.DataFrame:
        """Return the scores PC1, PC2, ... of the rows of a pandas DataFrame, with its index, or of a dict of lists.

        `bounds` adds a column PC1_bound after each. A row with a missing value gives NaN. Raises InputError for a
        missing column and for a value that is no number.
        """
        held, index = columns_of(frame, self.columns, "the components need")
        scores = [self._scores(row) for row in zip(*held.values(), strict=True)]
        numbers = {f"PC{place + 1}": [each[place] for each in scores] for place in range(len(self.components))}
        return frame_of(numbers, index, bounds=bounds)

    def df(self, *, bounds: bool = False) -> pd.DataFrame:
        """Return the loadings as a pandas DataFrame: one row per column of the table, one column per component.

        `bounds` adds a column PC1_bound after each. Raises InputError if pandas is not installed.
        """
        numbers = {f"PC{place + 1}": list(each.loadings.values()) for place, each in enumerate(self.components)}
        return frame_of(numbers, self.columns, bounds=bounds)

    def _scores(self, row: Sequence[Any]) -> list[Certified]:
        if any(is_missing(value) for value in row):
            return [NONE] * len(self.components)
        with flint.ctx.workprec(_BITS):
            centred = [
                arb((number_of(value, name) - mean) / scale)
                for value, name, (mean, scale) in zip(row, self.columns, self._centre, strict=True)
            ]
            return [
                certified(sum((one * two for one, two in zip(centred, vector, strict=True)), arb(0)))
                for vector in self._vectors
            ]

    def summary(self) -> str:
        """Return variances and loadings as text. Numbers have at most six digits, and none beyond their bounds."""
        parts = [table(*each) for each in self._tables()]
        return "\n".join([printable(self._title()), "", parts[0], "", parts[1], "", *map(printable, self._notes())])

    def _title(self) -> str:
        return f"principal components of {', '.join(self.columns)}"

    def _tables(self) -> list[tuple[list[Heading], list[list[str]]]]:
        names = [f"PC{place + 1}" for place in range(len(self.components))]
        right = [Heading(name, justify="right") for name in ("variance", "share", "cumulative")]
        variances = [
            [name, each.variance.short, each.share.short, each.cumulative.short]
            for name, each in zip(names, self.components, strict=True)
        ]
        headings = [Heading("column"), *(Heading(name, justify="right") for name in names)]
        loadings = [[column, *(each.loadings[column].short for each in self.components)] for column in self.columns]
        return [([Heading("component"), *right], variances), (headings, loadings)]

    def _notes(self) -> list[str]:
        left = f" ({self.left_out:,} more lack a value)" if self.left_out else ""
        matrix = "correlation" if self.standardize else "covariance"
        notes = [f"{counted(self.n, 'row')}{left}, of the {matrix} matrix"]
        if self.scanned:
            notes.append("added up by a scan, which is checked against faults, not against a service that lies")
        return notes

    def __repr__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        notes = "<br>".join(html.escape(printable(each)) for each in [self._title(), *self._notes()])
        return f"{''.join(html_table(*each) for each in self._tables())}<p><small>{notes}</small></p>"

    def json(self) -> str:
        """Return all numbers with their bounds, and what each party saw, as JSON."""
        facts: dict[str, Any] = {
            name: getattr(self, name) for name in ("columns", "standardize", "n", "left_out", "min_group")
        }
        for name in ("means", "deviations"):
            facts[name] = {column: each.pair for column, each in getattr(self, name).items()}
        facts["components"] = [
            {
                **{name: getattr(each, name).pair for name in ("variance", "share", "cumulative")},
                "loadings": {column: loading.pair for column, loading in each.loadings.items()},
            }
            for each in self.components
        ]
        return json.dumps(facts | self._asked_facts(), indent=2)


def principal_components(sums: ModelSums, columns: Sequence[str] | str, *, standardize: bool = True) -> Components:
    """Compute the components of columns of the table of `sums`.

    Raises InputError, UsageError for columns that do not fit, QueryRefused for too few people, for a constant column
    to standardize, and for variances that are equal or may be.
    """
    names = [name.strip() for name in columns.split(",")] if isinstance(columns, str) else list(columns)
    found = moments(sums, names)
    pairs = directions(found, standardize=standardize)
    with flint.ctx.workprec(_BITS):
        own = [found.covariance[place][place] for place in range(len(found.columns))]
        total = fmpq(len(own)) if standardize else sum(own, fmpq(0))
        deviations = [arb(each).sqrt() if each else fmpq(0) for each in own]
        components: list[Component] = []
        so_far: Number = fmpq(0)
        for place, pair in enumerate(pairs):
            so_far = so_far + pair.variance
            everything = place == len(pairs) - 1
            components.append(
                Component(
                    certified(pair.variance),
                    certified(pair.variance / total),
                    certified(fmpq(1) if everything else so_far / total),
                    dict(zip(found.columns, map(certified, pair.vector), strict=True)),
                )
            )
        centre = tuple(
            (mean, scale if standardize else fmpq(1)) for mean, scale in zip(found.means, deviations, strict=True)
        )
    return Components(
        columns=found.columns,
        standardize=standardize,
        n=found.n,
        left_out=found.left_out,
        means=dict(zip(found.columns, map(certified, found.means), strict=True)),
        deviations=dict(zip(found.columns, map(certified, deviations), strict=True)),
        components=tuple(components),
        **sums.asked(),
        _centre=centre,
        _vectors=tuple(each.vector for each in pairs),
    )
