"""Propose schemas for `cleave schema`: how a file is written, its types, and which columns are sensitive."""
