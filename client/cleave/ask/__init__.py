"""Answer questions: a session over a file, a frame, or stored tables."""
