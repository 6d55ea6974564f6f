"""Pull, verify, derive, rotate; add or drop scan rows."""
