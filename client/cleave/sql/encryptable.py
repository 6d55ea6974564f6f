"""What an encrypted column can be asked for, and how everything else is refused."""

from __future__ import annotations

from cleave.aggregates import DECLARED
from cleave.sql.functions import COMPARES_VALUES, COUNTS_EQUAL_VALUES
from cleave.table.types import digits_of
from cleave_shared.errors import QueryRefused

MAX_DIGITS = 18  # of a DECIMAL whose unscaled value is an int64
SUPPORTED = "encrypted columns can be asked for " + ", ".join(name for each in DECLARED for name in each.names[:1])
_SIGNED = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT"})
_ENCODABLE = _SIGNED | {f"U{name}" for name in _SIGNED} | {"BOOLEAN", "FLOAT", "DOUBLE"}


def single_value(name: str) -> QueryRefused:
    return QueryRefused(
        f"{name!r} is encrypted: its single values are not shown",
        hint=f"ask for an aggregate, such as SUM({name}) or AVG({name})",
    )


def not_declared(name: str, column: str) -> QueryRefused:
    if name in ("COUNT_IF", "COUNTIF"):
        return QueryRefused(f"{name} over an encrypted column", hint="write COUNT(*) FILTER (WHERE ...)")
    if name.lower() in COMPARES_VALUES:
        reason = "values cannot be compared under encryption"
    elif name.lower() in COUNTS_EQUAL_VALUES:
        reason = "equal values cannot be recognised under encryption"
    else:
        reason = "it is not one of the aggregates that can be computed under encryption"
    return QueryRefused(f"{name} over {column!r}, which is encrypted: {reason}", hint=SUPPORTED)


def decimals_of(type_: str) -> int | None:
    if type_.startswith("DECIMAL"):
        return int(type_.rstrip(")").split(",")[1])
    return None if type_ in ("FLOAT", "DOUBLE") else 0


def require_encodable(type_: str) -> None:
    """Raises QueryRefused for a type no value of which fits.

    DuckDB types `bill + 1` DECIMAL(19,2): whether its values take more than 18 digits shows when they are read.
    """
    if type_ in _ENCODABLE:
        return
    if digits_of(type_) is not None:
        if (decimals_of(type_) or 0) > MAX_DIGITS:
            raise QueryRefused(
                f"an encrypted argument is {type_}, at most {MAX_DIGITS} digits can be encrypted",
                hint=f"cast it to DECIMAL({MAX_DIGITS}, ...) or to DOUBLE",
            )
        return
    if type_ in ("HUGEINT", "UHUGEINT", "BIGNUM"):
        raise QueryRefused(
            f"an encrypted argument is {type_}, at most 64 bits can be encrypted",
            hint="cast it: SUM(CAST(... AS BIGINT)), or to DOUBLE",
        )
    raise QueryRefused(
        f"an encrypted argument is {type_}, which is not a number", hint="cast it to a number, or use COUNT"
    )
