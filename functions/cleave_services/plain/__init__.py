"""The plain service: DuckDB groups and aggregates the half of the table that it may see."""

from __future__ import annotations

from cleave_services.operations import ServiceHandler


def _prepare() -> None:
    from cleave_services.plain import contained  # noqa: PLC0415 - DuckDB

    contained.prepare()


service = ServiceHandler(
    "cleave-plain",
    "Groups and aggregates plain columns. It has no key.",
    {
        "/v1/plain/aggregate": "cleave_services.plain.calls:aggregate",
        "/v1/plain/tables/{set}/aggregate": "cleave_services.plain.calls:aggregate",
        "/v1/plain": "cleave_services.plain.simple:operate",
    },
    _prepare,
)
