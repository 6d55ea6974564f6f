from tests.cli.prepared import prepared
from tests.cli.runner import cli

__all__ = ["cli", "prepared"]
