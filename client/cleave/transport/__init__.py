"""Requests to the services: how bytes are carried, frames, digests, limits and retries."""
