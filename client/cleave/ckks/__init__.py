"""Encryption: key file, cipher, layout, encrypted columns, and checks of what comes back."""
