"""Encryption: key file, cipher, layout, encrypted columns, and checks of answers."""
