"""SQL of a question: its text, its tree and its plan."""
