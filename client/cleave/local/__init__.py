"""The composition root: the only package that imports the client and the services."""
