"""Requests to the services: carriers, frames, digests, limits and retries."""
