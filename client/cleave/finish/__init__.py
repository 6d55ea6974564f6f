"""Last step of a query, on the client: certified arithmetic and decisions over the groups' figures."""

from cleave.finish.finish import finish
from cleave.finish.result import ResultTable

__all__ = ["ResultTable", "finish"]
