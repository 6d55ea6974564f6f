"""Tables that rest in a store, half by half, and are asked where they are."""
