"""The gateway: stored tables for tools that speak PostgreSQL's protocol or HTTP."""
