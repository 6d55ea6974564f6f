"""For the fork server alone: its children each have a copy of the DuckDB opened here, in which there is nothing, and of
the validators of answers.
"""

from cleave_services.plain import database, simple
from cleave_shared.stored import StoredPlainResponse

database.open_to_fork()
for each in (StoredPlainResponse, simple.SimpleResponse):
    each.model_rebuild()
