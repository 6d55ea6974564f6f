"""Gets the plain service's processes ready in the background."""

from __future__ import annotations


def prepare_embedded() -> None:
    """To be called before an embedded service is asked: best while this process has one thread, else early.

    All that the plain service needs, most of which the client needs as well, is imported once, before its process is
    forked.
    """
    from cleave_services.plain import calls, contained  # noqa: F401, PLC0415 - DuckDB and pydantic take 100 ms

    contained.prepare()
