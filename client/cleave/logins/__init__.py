"""Logins of the gateway: its users, their passwords and tokens."""
