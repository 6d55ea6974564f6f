"""Questions: one Session over a source, which is rows of a file or a frame here, or tables in a store."""
