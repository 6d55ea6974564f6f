"""Finishes a query on the client: arithmetic and decisions over the groups' figures, certified."""

from cleave.finish.finish import finish
from cleave.finish.result import ResultTable

__all__ = ["ResultTable", "finish"]
