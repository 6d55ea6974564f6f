from tests.cli.runner import cli

__all__ = ["cli"]
