"""For the fork server alone: its children each have a copy of the DuckDB opened here, in which there is nothing."""

from cleave_services.plain import database

database.open_to_fork()
