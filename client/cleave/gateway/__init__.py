"""The gateway: stored tables for tools that speak MySQL's protocol or HTTP."""
