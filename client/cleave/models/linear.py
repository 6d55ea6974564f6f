"""A linear model that was fitted from sums: estimates with certified bounds, its tests, predictions and its table."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import flint
from flint import fmpq

from cleave.aggregates.balls import Number
from cleave.models.certified import NONE, Certified, certified
from cleave.models.frames import columns_of, frame_of, is_missing, number_of
from cleave.models.solve import Solution
from cleave.models.sums import Asked
from cleave.text.printable import printable
from cleave.text.quantities import counted
from cleave.text.tabular import Heading, html_table, table
from cleave_shared.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from cleave.models.design import DesignColumn, Formula

_BITS = 256  # of the arithmetic after the solution


@dataclass(frozen=True, slots=True)
class Coefficient:
    """One row of the table of coefficients. `t`, `p`, `low` and `high` are NaN without a standard error."""

    estimate: Certified
    error: Certified
    t: Certified
    p: Certified
    low: Certified
    high: Certified


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class LinearModel(Asked):
    """A fitted linear model. Every number is a value with its bound.

    `n` counts rows, `left_out` those without a value in some column of the model (None where a threshold forbids
    counting them). `scale` is the residual variance, `deviation` its root. `f` tests all terms but the intercept. Ridge
    models have no standard errors.
    """

    formula: str
    n: int
    left_out: int | None
    df_model: int
    df_resid: int
    level: float
    ridge: float
    weights: str | None
    coefficients: Mapping[str, Coefficient]
    r2: Certified
    adjusted_r2: Certified
    scale: Certified
    deviation: Certified
    f: Certified
    f_p: Certified
    residual: Certified
    total: Certified
    _columns: tuple[DesignColumn, ...] = field(default=())
    _solution: Solution | None = None
    _formula: Formula | None = None
    _levels: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    _scale: Number | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the coefficients, as formulaic spells them."""
        return tuple(self.coefficients)

    @property
    def covariance(self) -> list[list[Certified]]:
        """The covariance matrix of the coefficients, in the order of `names`. Raises InputError after ridge."""
        if self._scale is None:
            raise InputError("a ridge model has no covariance matrix", hint="fit it without ridge")
        scale = self._scale
        with flint.ctx.workprec(_BITS):
            return [[certified(_times(scale, each)) for each in row] for row in self._solved.inverse]

    @property
    def _solved(self) -> Solution:
        assert self._solution is not None  # noqa: S101 - set where it is made
        return self._solution

    def predict(self, frame: Any) -> pd.DataFrame:
        """Return the fitted values for the rows of a pandas DataFrame, or dict of lists.

        The rows need the columns of the formula. The result has the response's name and NAME_bound as columns, and the
        index of `frame`. A row with a missing value gives NaN. Raises InputError for a missing column and for a level
        that the model has not seen.
        """
        formula = self._formula
        assert formula is not None  # noqa: S101 - as above
        needed = dict.fromkeys(number for column in self._columns for number in column.numbers)
        needed |= dict.fromkeys(column.name for column in formula.factors.values())
        held, index = columns_of(frame, needed, "the model needs")
        values = []
        with flint.ctx.workprec(_BITS):
            for row in range(len(index)):
                values.append(self._predicted(formula, {name: column[row] for name, column in held.items()}))
        return frame_of({formula.response.name: values}, index, bounds=True)

    def df(self, *, bounds: bool = False) -> pd.DataFrame:
        """Return the coefficients as a pandas DataFrame: one row per term, one column per member of Coefficient.

        `bounds` adds a column NAME_bound after each. Raises InputError if pandas is not installed.
        """
        numbers = {part: [getattr(each, part) for each in self.coefficients.values()] for part in Coefficient.__slots__}
        return frame_of(numbers, self.names, bounds=bounds)

    def _predicted(self, formula: Formula, row: Mapping[str, Any]) -> Certified:
        if any(is_missing(value) for value in row.values()):
            return NONE
        levels = {}
        for factor, of_factor in formula.factors.items():
            level = next((each for each in self._levels[factor] if _same(each, row[of_factor.name])), None)
            if level is None:
                raise InputError(
                    f"column {of_factor.name!r} of the frame has a value that is no level of {factor}",
                    hint="the model has no coefficient for it: drop those rows",
                )
            levels[factor] = level
        total: Number = fmpq(0)
        for column, coefficient in zip(self._columns, self._solved.coefficients, strict=True):
            if all(levels[factor] == level for factor, level in column.levels):
                value = fmpq(1)
                for number in column.numbers:
                    value *= number_of(row[number], number)
                total = total + _times(coefficient, value)
        return certified(total)

    def summary(self) -> str:
        """Return the model as a text table. Numbers have at most six digits, and none beyond their bounds."""
        return "\n".join([self.formula, "", table(*self._table()), "", *map(printable, self._lines())])

    def _table(self) -> tuple[list[Heading], list[list[str]]]:
        names = self._headings(f"{100 * self.level:g}%")
        headings = [Heading("term"), *(Heading(name, justify="right") for name in names)]
        return headings, [
            [name, *(one.short for one in self._figures(each))] for name, each in self.coefficients.items()
        ]

    def _headings(self, percent: str) -> list[str]:
        if self._scale is None:
            return ["estimate"]
        return ["estimate", "std error", "t", "p", f"{percent} low", "high"]

    def _figures(self, each: Coefficient) -> list[Certified]:
        return (
            [each.estimate] if self._scale is None else [each.estimate, each.error, each.t, each.p, each.low, each.high]
        )

    def _lines(self) -> list[str]:
        left = f" ({self.left_out:,} more lack a value)" if self.left_out else ""
        lines = [f"{counted(self.n, 'row')}{left}, {counted(len(self.coefficients), 'parameter')}"]
        if self.weights:
            lines[0] += f", weights {self.weights}"
        fits = [f"R2 {self.r2.short}"]
        if self._scale is None:
            lines.append(f"ridge {self.ridge:g}: no standard errors, for the estimates are biased")
        else:
            fits += [f"adjusted {self.adjusted_r2.short}", f"residual deviation {self.deviation.short}"]
            fits[-1] += f" on {self.df_resid:,} degrees of freedom"
        lines.append(", ".join(fits))
        if self.f.exists:
            lines.append(f"F {self.f.short} on {self.df_model} and {self.df_resid:,}, p {self.f_p.short}")
        if self.min_group:
            lines.append(f"no cell of the design has fewer than {self.min_group} {self.people}")
        if self.released:
            lines.append("only released parts of the table are counted; smaller ones may exist")
        if self.scanned:
            lines.append("added up by a scan, which is checked against faults, not against a service that lies")
        return lines

    def __repr__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        notes = "<br>".join(html.escape(printable(each)) for each in [self.formula, *self._lines()])
        return f"{html_table(*self._table())}<p><small>{notes}</small></p>"

    def json(self) -> str:
        """Return all numbers with their bounds, and what each party saw, as JSON. NaN is null."""
        facts: dict[str, Any] = {
            name: getattr(self, name)
            for name in (
                "formula",
                "n",
                "left_out",
                "df_model",
                "df_resid",
                "level",
                "ridge",
                "weights",
                "min_group",
                "released",
            )
        }
        facts["coefficients"] = {
            name: {part: getattr(each, part).pair for part in each.__slots__}
            for name, each in self.coefficients.items()
        }
        for name in ("r2", "adjusted_r2", "scale", "deviation", "f", "f_p", "residual", "total"):
            facts[name] = getattr(self, name).pair
        if self._scale is not None:
            facts["covariance"] = [[each.pair for each in row] for row in self.covariance]
        return json.dumps(facts | self._asked_facts(), indent=2)


def _times(one: Number, two: Number) -> Number:
    return one * two


def _same(level: Any, value: Any) -> bool:
    return bool(level == value) or str(level) == str(value)
