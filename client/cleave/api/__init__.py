"""Use Cleave from Python: a function for one question, and DB-API 2.0 (PEP 249) for many. `import cleave` has all
names.
"""
