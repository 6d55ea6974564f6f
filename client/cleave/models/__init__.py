"""Models from totals: their sums are asked as ordinary queries, and solved with certified numbers."""
