"""A CSV read under its schema: types, casts, and what to blame where a value does not fit."""
