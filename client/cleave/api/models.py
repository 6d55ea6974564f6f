"""Models that follow from sums and counts.

`fit` is linear regression, `pca` principal components, and `survival` curves of the time until an event. The sums
are asked as ordinary queries, so arguments that `query` has too mean the same here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, TypeVar, Unpack

from cleave.api.ask import session_over
from cleave.ask.options import Modelling, complete, of_one_table, stated
from cleave_shared.errors import InputError

if TYPE_CHECKING:
    from cleave.ask.options import Data
    from cleave.models.linear import LinearModel
    from cleave.models.pca import Components
    from cleave.models.sums import ModelSums
    from cleave.models.survival import Survival

M = TypeVar("M")


@stated(Modelling)
def fit(
    data: Data,
    formula: str,
    weights: str | None = None,
    ridge: float | Decimal | str = 0,
    level: float = 0.95,
    family: str = "gaussian",
    **asking: Unpack[Modelling],
) -> LinearModel:
    """Fit a linear regression to a frame, files, or a stored or released table, by least squares.

    `formula` names a response and terms, as in R. A term is a numeric column, a product of columns, a whole power such
    as I(age**2), or a factor: a text or boolean column, or C(column). The first level of a factor is the reference.
    Everything else needs a derived column. Rows with a missing value are left out.

    `weights` is a column of numbers that are not negative by their declared bounds. `ridge` is added to the diagonal of
    X'X, except the intercept's; standard errors are then left out. `level` is that of the confidence intervals. Only
    the `family` "gaussian" follows from sums.

    >>> import cleave
    >>> model = cleave.fit("patients.csv", "bill ~ age + C(ward)")
    >>> model.coefficients["age"].estimate
    Certified(value=-7.6016540282885385, bound=0.0)
    >>> model.n, model.df_resid
    (600, 593)

    Raises InputError, QueryRefused and every error of `query`. No message holds a value of the table.
    """
    from cleave.models.fitting import fit_linear, require_gaussian  # noqa: PLC0415 - DuckDB, numpy and flint

    require_gaussian(family)
    return _model(data, asking, lambda sums: fit_linear(sums, formula, weights, ridge, level))


@stated(Modelling)
def pca(
    data: Data,
    columns: Sequence[str] | str,
    standardize: bool = True,
    **asking: Unpack[Modelling],
) -> Components:
    """Compute the principal components of columns of a frame, files, or a stored or released table.

    `columns` are two or more columns of numbers. With `standardize` each is divided by its standard deviation, so the
    components are those of the correlation matrix; else of the covariance matrix. Rows with a missing value are left
    out. Equal variances have no directions of their own, and are refused.

    >>> import cleave
    >>> components = cleave.pca("patients.csv", ["age", "bill"])
    >>> components.shares
    (0.5207081216117483, 0.47929187838825166)
    >>> components.components[0].loadings["age"].value
    0.7071067811865476

    Raises InputError, QueryRefused and every error of `query`. No message holds a value of the table.
    """
    from cleave.models.pca import principal_components  # noqa: PLC0415 - DuckDB, numpy and flint

    return _model(data, asking, lambda sums: principal_components(sums, columns, standardize=standardize))


@stated(Modelling)
def survival(
    data: Data,
    time: str,
    event: str,
    by: str | None = None,
    width: float | Decimal | str | None = None,
    until: float | Decimal | str | None = None,
    level: float = 0.95,
    **asking: Unpack[Modelling],
) -> Survival:
    """Estimate Kaplan-Meier curves of a frame, files, or a stored or released table, from counts per time step.

    `time` is a column of numbers, counted from each one's start. `event` says whether the event happened then (true or
    1), or the person left without it (false or 0). `by` compares groups. `width` is that of the steps; without it each
    time is a step, of at most 60. `until` is the end of the restricted mean, by default the last step that all groups
    have. `level` is that of the confidence intervals. Rows with a missing value are left out.

    >>> import cleave, pandas as pd
    >>> trial = pd.DataFrame({"days": [12, 35, 40, 70, 71, 95], "died": [True, False, True, True, False, False]})
    >>> curves = cleave.survival(trial, "days", "died", width=30, schema={"days": "encrypted", "died": "encrypted"})
    >>> [(step.time, step.at_risk, step.events, step.survival.value) for step in curves.curves[0].steps[:2]]
    [(30, 6, 1, 0.8333333333333334), (60, 5, 1, 0.6666666666666666)]
    >>> curves.curves[0].median
    90

    Raises InputError, QueryRefused and every error of `query`. No message holds a value of the table.
    """
    from cleave.models.survival import survive  # noqa: PLC0415 - DuckDB, numpy and flint

    return _model(data, asking, lambda sums: survive(sums, time, event, by, width, until, level))


def _model(data: Data, asking: Modelling, make: Callable[[ModelSums], M]) -> M:
    """Make a model from sums over one version of the table. Raises InputError without a table."""
    from cleave.models.sums import ModelSums  # noqa: PLC0415 - DuckDB, numpy and flint

    if data is None:
        raise InputError("a model needs one table", hint="name a file, a frame or a stored table")
    given = of_one_table(complete(Modelling, asking))
    with session_over(data, given) as session:
        return session.on_one_version(lambda spent: make(ModelSums(session, given, spent=spent)))
