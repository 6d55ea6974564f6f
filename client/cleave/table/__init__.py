"""Tables read under a schema, from files or frames: types, casts, constraints, and errors for values that do
not fit.
"""
