"""SQL of a query: its text, its tree and its plan."""
