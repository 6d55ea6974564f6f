"""What both sides of the wire agree on, and how both fork: no network, no files, no secret key."""
