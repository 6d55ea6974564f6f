"""`cleave fit`, `cleave pca` and `cleave survival`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from cleave.ask.options import Modelling, of_one_table
from cleave.cli import console
from cleave.cli.answer import Force, ReportOption, require_page
from cleave.cli.options import Json, argument, flag, session_over
from cleave.files import FORCE, require_target, write_atomically
from cleave.text.quantities import counted
from cleave_shared.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from cleave.cli.group import Settings
    from cleave.models.linear import LinearModel
    from cleave.models.pca import Components
    from cleave.models.survival import Survival

_TableWords = Annotated[list[str], argument("FILE... | NAME", "CSV, Parquet, JSON or Excel files, or a stored table.")]
FormulaWords = Annotated[
    list[str],
    argument("FILE... | NAME FORMULA", "CSV, Parquet, JSON or Excel files, or a stored table; then the formula."),
]


def fit(
    ctx: typer.Context,
    modelling: Modelling,
    words: FormulaWords,
    weights: Annotated[str | None, flag("--weights COLUMN", "Column of weights, which are not negative.")] = None,
    ridge: Annotated[str, flag("--ridge X", "Add X to the diagonal of X'X, except the intercept's.")] = "0",
    level: Annotated[float, flag("--level P", "Level of confidence intervals. Default: 0.95.")] = 0.95,
    family: Annotated[str, flag("--family NAME", "Only gaussian follows from sums.", advanced=True)] = "gaussian",
    as_json: Json = False,
) -> None:
    """Fit a linear regression by least squares.

    Asks for the sums it needs as a query does, and solves for coefficients with certified bounds. A term is a numeric
    column, a product, a whole power such as I(age**2), or a factor such as C(ward). Needs the extra "models".

    Examples:
      cleave fit visits.csv "bill ~ age + C(ward)"
      cleave fit visits "bill ~ age + weight" --store s3://bucket/prefix --json
    """
    from cleave.models.fitting import fit_linear, require_gaussian  # noqa: PLC0415 - --help does not need it
    from cleave.models.sums import ModelSums  # noqa: PLC0415 - as above

    if len(words) < 2:
        raise typer.BadParameter("a table and a formula are needed: cleave fit visits.csv 'bill ~ age'")
    require_gaussian(family)
    settings: Settings = ctx.obj
    asking = of_one_table(modelling)
    with session_over(words[:-1], asking, settings) as session:
        model = session.on_one_version(
            lambda spent: fit_linear(ModelSums(session, asking, spent=spent), words[-1], weights, ridge, level)
        )
    _print(model, settings, as_json=as_json)


ColumnWords = Annotated[
    list[str],
    argument("FILE... | NAME COLUMN,...", "CSV, Parquet, JSON or Excel files, or a stored table; then the columns."),
]


def pca(
    ctx: typer.Context,
    modelling: Modelling,
    words: ColumnWords,
    standardize: Annotated[
        bool, flag("--no-standardize", "Use the covariance matrix, not the correlations.", default=True)
    ] = True,
    as_json: Json = False,
) -> None:
    """Compute principal components.

    The sums they need are asked as a query asks them. Prints the variance that each component explains, and its
    loadings. Equal variances have no directions of their own, and are refused.

    Examples:
      cleave pca visits.csv age,weight,bill
      cleave pca visits age,weight,bill --no-standardize --store s3://bucket/prefix
    """
    from cleave.models.pca import principal_components  # noqa: PLC0415 - --help does not need it
    from cleave.models.sums import ModelSums  # noqa: PLC0415 - as above

    if len(words) < 2:
        raise typer.BadParameter("a table and columns are needed: cleave pca visits.csv age,bill")
    settings: Settings = ctx.obj
    asking = of_one_table(modelling)
    with session_over(words[:-1], asking, settings) as session:
        found = session.on_one_version(
            lambda spent: principal_components(
                ModelSums(session, asking, spent=spent), words[-1], standardize=standardize
            )
        )
    _print(found, settings, as_json=as_json)


def survival(
    ctx: typer.Context,
    modelling: Modelling,
    words: _TableWords,
    time: Annotated[str, flag("--time COLUMN", "Column of times, from each one's start.")],
    event: Annotated[str, flag("--event COLUMN", "Column that is true or 1 if the event happened at that time.")],
    by: Annotated[str | None, flag("--by COLUMN", "Compare the groups of this column.")] = None,
    width: Annotated[str | None, flag("--width W", "Width of the time steps. Default: each time, at most 60.")] = None,
    until: Annotated[str | None, flag("--until TIME", "End of the mean. Default: last step of all groups.")] = None,
    level: Annotated[float, flag("--level P", "Level of confidence intervals. Default: 0.95.")] = 0.95,
    as_json: Json = False,
    report: ReportOption = None,
    force: Force = False,
) -> None:
    """Estimate survival curves by Kaplan and Meier.

    People are counted per time step and group, as a query counts them. Prints the curves, their medians and means, and
    the log-rank test. Who leaves within a step is at risk through the whole of it. Where a threshold is in force, steps
    are merged until none shows few people.

    Examples:
      cleave survival trial.csv --time days --event died --by arm --width 30
      cleave survival trial --time days --event died --width 30 --store s3://bucket/prefix --json
    """
    from cleave.models.sums import ModelSums  # noqa: PLC0415 - --help does not need it
    from cleave.models.survival import survive  # noqa: PLC0415 - as above

    if report is not None:
        require_page(report)
        import cleave.report.curve  # noqa: F401, PLC0415 - a missing extra is reported now, not after the answer

        require_target(report, hint=FORCE, overwrite=force)
    settings: Settings = ctx.obj
    asking = of_one_table(modelling)
    with session_over(words, asking, settings) as session:
        table = session.name
        found = session.on_one_version(
            lambda spent: survive(ModelSums(session, asking, spent=spent), time, event, by, width, until, level)
        )
    if report is not None:
        _write_page(report, found, table, force=force)
    _print(found, settings, as_json=as_json)
    if report is not None:
        settings.say(f"wrote {report}")


def _write_page(path: Path, found: Survival, table: str, *, force: bool) -> None:
    from cleave.report.curve import survival_page  # noqa: PLC0415 - templates
    from cleave.report.page import PageFacts  # noqa: PLC0415 - as above

    options = {"time": found.time, "event": found.event, "by": found.by, "width": found.width}
    words = " ".join(f"--{name} {value}" for name, value in options.items() if value is not None)
    facts = PageFacts(f"cleave survival {table} {words}", table, datetime.now(UTC), found.seconds)
    write_atomically(path, survival_page(found, facts).encode(), error=InputError, overwrite=force)


def _print(model: Components | LinearModel | Survival, settings: Settings, *, as_json: bool) -> None:
    console.out(model.json() if as_json else model.summary())
    for line in () if as_json else footer_of(model):
        settings.say(line)


def footer_of(model: Components | LinearModel | Survival) -> list[str]:
    """Say what was computed here and why, which checks the statements of a model passed, and what they cost."""
    from cleave.shown.answer import local_words, traffic_of  # noqa: PLC0415 - DuckDB and numpy

    words = local_words(model.usage[0])
    reasons = dict.fromkeys(each.reason for seen in model.seen for each in seen.local if each.reason)
    lines = [f"{words}: {reason}" for reason in reasons]
    passed = [name for name, outcome in model.checks.items() if outcome == "passed"]
    checked = f"{counted(len(passed), 'check')} passed ({', '.join(passed)})" if passed else "Nothing was sent"
    statements = counted(len(model.usage), "statement")
    return [*lines, f"{checked}. {statements}, {traffic_of(model.usage)}, {model.seconds:.2f} s."]
