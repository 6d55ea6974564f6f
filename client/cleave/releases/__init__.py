"""Releases: totals of a table, exact or with noise, that its owner publishes to analysts."""
