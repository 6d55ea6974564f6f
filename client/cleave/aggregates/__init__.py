"""Aggregates that encrypted columns can answer, and how their figures follow from totals."""

from cleave.aggregates.declared import AGGREGATES, DECLARED

__all__ = ["AGGREGATES", "DECLARED"]
