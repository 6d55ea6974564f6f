"""Printable text, counts, values with bounds."""
