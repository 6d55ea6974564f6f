"""Contributions: rows of other parties, put without the key of the owner and collected by the owner."""
