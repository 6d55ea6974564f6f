"""What both sides of the wire agree on: no I/O, no network, no secret key."""
