"""Printable text, counts, sizes, tables, and values with bounds."""
