"""Cleave from Python: one function for one question, DB-API 2.0 (PEP 249) for many. `import cleave` names all of it."""
