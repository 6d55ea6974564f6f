"""Deadlines."""
