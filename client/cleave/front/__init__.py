"""How this machine's servers take connections, whatever is spoken over them."""
