"""Sums of a stored table: totals of cells, scans, jobs."""
