"""Preparation of the fork server: its children copy the empty DuckDB opened here, and the validators of answers."""

from cleave_services.plain import database, simple
from cleave_shared.stored import StoredPlainResponse

database.open_to_fork()
for each in (StoredPlainResponse, simple.SimpleResponse):
    each.model_rebuild()
