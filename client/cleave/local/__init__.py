"""The composition root: the only package that may import both sides."""
