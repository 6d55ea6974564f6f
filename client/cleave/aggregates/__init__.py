"""The aggregates that encrypted columns can answer, and what their figures follow from."""

from cleave.aggregates.declared import AGGREGATES, DECLARED

__all__ = ["AGGREGATES", "DECLARED"]
