"""Ways of answering a part of a cut question, a module each."""
