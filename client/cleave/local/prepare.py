"""Gets the services' processes ready in the background."""

from __future__ import annotations


def prepare_embedded() -> None:
    """To be called before an embedded service is asked: best while this process has one thread, else early.

    All that the services need, most of which the client needs as well, is imported once, before their processes are
    forked.
    """
    from cleave_services.plain import calls, contained  # noqa: F401, PLC0415 - DuckDB and pydantic take 100 ms

    contained.prepare(ahead=False)
    from cleave_services.sensitive import calls as _sums  # noqa: F401, PLC0415 - as above
    from cleave_services.sensitive import workers  # noqa: PLC0415 - SEAL and numpy take 60 ms

    workers.prepare()
