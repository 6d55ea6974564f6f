"""Finishes a query on the client: arithmetic and decisions over the groups' figures, certified."""

from cleave.sql.finish.finish import finish
from cleave.sql.finish.result import ResultTable

__all__ = ["ResultTable", "finish"]
