"""Code that client and services share: messages, their encoding, and child processes. No secret key."""
