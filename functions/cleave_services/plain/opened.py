"""Preparation of the fork server: its children copy the empty DuckDB opened here, and the validators of answers."""

from cleave_services.plain import database, simple
from cleave_shared.requests import PlainResponse

database.open_to_fork()
for each in (PlainResponse, simple.SimpleResponse):
    each.model_rebuild()
