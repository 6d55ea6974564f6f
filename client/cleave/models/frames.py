"""Columns of the rows that a model is applied to, and tables of a model's numbers, by pandas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from flint import fmpq

from cleave.aggregates.balls import rational
from cleave.models.certified import Certified
from cleave_shared.errors import InputError, extra

if TYPE_CHECKING:
    import pandas as pd


def columns_of(rows: Any, names: Iterable[str], needed_by: str) -> tuple[dict[str, list[Any]], Any]:
    """Return the values of the named columns of a DataFrame, or of a dict of lists, and the DataFrame's index.

    Upper and lower case are the same. Raises InputError for anything else and for a missing column.
    """
    with extra("pandas", "data frames"):
        import pandas as pd  # noqa: PLC0415 - only here
    if isinstance(rows, Mapping):
        try:
            rows = pd.DataFrame(rows)
        except ValueError:
            raise InputError("the columns of the rows are not lists of the same length") from None
    if not isinstance(rows, pd.DataFrame):
        raise InputError(
            f"the rows are {type(rows).__name__}, not a pandas DataFrame",
            hint="a dict of lists by column works too",
        )
    spelled = {str(name).lower(): name for name in rows.columns}
    for name in names:
        if name.lower() not in spelled:
            raise InputError(f"the frame has no column {name!r}", hint=f"{needed_by} it")
    return {name: rows[spelled[name.lower()]].tolist() for name in names}, rows.index


def is_missing(value: Any) -> bool:
    return value is None or value != value or type(value).__name__ in ("NAType", "NaTType")  # noqa: PLR0124 - NaN


def number_of(value: Any, name: str) -> fmpq:
    """Return a value of the column `name`, exactly. Raises InputError if it is no number."""
    try:
        return rational(value if isinstance(value, int | float | Decimal | Fraction) else value.item())
    except (AttributeError, TypeError, ValueError, OverflowError):
        raise InputError(f"column {name!r} of the frame has a value that is no number") from None


def frame_of(numbers: Mapping[str, Sequence[Certified]], index: Any, *, bounds: bool) -> pd.DataFrame:
    """Return the columns as a DataFrame with this index. `bounds` adds a column NAME_bound after each."""
    with extra("pandas", "data frames"):
        import pandas as pd  # noqa: PLC0415 - only here
    columns: dict[str, list[float]] = {}
    for name, each in numbers.items():
        columns[name] = [one.value for one in each]
        if bounds:
            columns[f"{name}_bound"] = [one.bound for one in each]
    return pd.DataFrame(columns, index=index)
