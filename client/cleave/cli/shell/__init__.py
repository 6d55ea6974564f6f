"""`cleave shell FILE`: a table, a key and services opened once, and one question after the other."""
