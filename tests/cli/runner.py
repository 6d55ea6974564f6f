"""The command line in this process, over services that a test hands in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

import pytest
from typer import Typer, testing
from typer.testing import CliRunner, Result

from cleave.cli.app import create_cli
from cleave.cli.group import ANYWHERE
from cleave.local.embedded import embedded_services
from cleave.local.main import SERVERS
from cleave.transport.base import Transport

# A command and what reads its options take 10 ms to make, which is most of what an error costs.
testing._get_command = lru_cache(testing._get_command)  # type: ignore[attr-defined]


@lru_cache
def _app(embedded: Callable[[], Transport], first: str) -> Typer:
    return create_cli(embedded, words=[first], more=SERVERS)


@dataclass
class Cli:
    """`run` gives exit code, stdout and stderr apart."""

    embedded: Callable[[], Transport] = embedded_services
    environment: dict[str, str | None] = field(default_factory=dict)

    def run(self, *arguments: object, typed: str | None = None) -> Result:
        words = [str(argument) for argument in arguments]
        app = _app(self.embedded, next((word for word in words if word not in ANYWHERE), ""))
        return CliRunner().invoke(app, words, input=typed, env=self.environment, prog_name="cleave")

    def fails(self, code: int, *arguments: object) -> str:
        """stderr of a command that must fail with `code`: `error:`, an excerpt of the question if any, `hint:`."""
        result = self.run(*arguments)
        assert (result.exit_code, result.stdout) == (code, ""), result.output
        lines = result.stderr.splitlines()
        assert lines[0].startswith("error: "), lines
        assert all(line.startswith(("hint: ", "  ")) for line in lines[1:]), lines
        return result.stderr


@pytest.fixture
def cli() -> Cli:
    return Cli()
