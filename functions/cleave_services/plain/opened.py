"""Preparation of the fork server: its children copy the empty DuckDB opened here."""

from cleave_services.plain import database

database.open_to_fork()
