"""`cleave shell`: a table, a key and services are opened once, for many questions."""
