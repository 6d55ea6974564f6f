"""What the embedded services do with questions about stored tables; a question over files imports none of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

from pydantic import BaseModel

from cleave.transport.base import Service
from cleave_services.links import Links
from cleave_services.plain import calls as plain
from cleave_services.sensitive import scan_stored, stored
from cleave_shared.scan import ScanRequest, SelectRequest
from cleave_shared.stored import SET, StoredPlainRequest, SumsRequest

_STORED = re.compile(rf"/v1/(?:sensitive|plain)/tables/({SET})/([a-z]+)")


def work_of(service: Service, path: str, stores: Sequence[str]) -> tuple[type[BaseModel], Any] | None:
    """The request of a stored table that `path` takes, and what is done with it; None for any other path."""
    match = _STORED.fullmatch(path)
    found = _works(service).get(match[2]) if match else None
    if match is None or found is None:
        return None
    model, of_table = found
    return model, partial(of_table, table_set=match[1], links=Links(stores))


def _works(service: Service) -> dict[str, tuple[type[BaseModel], Any]]:
    """By the last word of the path."""
    if service is Service.SENSITIVE:
        return {"sums": (SumsRequest, stored.answer_sums), "scan": (ScanRequest, scan_stored.answer_scan)}
    return {
        "aggregate": (StoredPlainRequest, plain.aggregate_stored),
        "select": (SelectRequest, plain.select_stored),
    }
