"""The gateway: stored tables, asked by tools that speak MySQL's protocol or HTTP."""
