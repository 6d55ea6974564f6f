"""Stored tables: their format, writing and reading."""
