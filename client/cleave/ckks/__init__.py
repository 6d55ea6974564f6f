"""All that touches the key: key file, cipher, layout, the encrypted columns and the checks of what comes back."""
