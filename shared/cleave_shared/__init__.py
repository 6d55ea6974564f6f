"""Code of both sides of the wire, and how both fork: no network, no files, no secret key."""
