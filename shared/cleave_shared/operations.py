"""The operations of `--op` and of the services' simple calls, and the DuckDB aggregate each stands for."""

from __future__ import annotations

from typing import Literal

Operation = Literal["sum", "product", "mean", "count", "var", "stddev"]

AGGREGATE_OF: dict[str, str] = {
    "sum": "sum",
    "product": "product",
    "mean": "avg",
    "count": "count",
    "var": "var_samp",
    "stddev": "stddev_samp",
}
