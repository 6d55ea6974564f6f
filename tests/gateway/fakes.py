"""In the place of a gateway's workers: readers of texts in this process."""

from __future__ import annotations

from cleave.gateway import commands
from cleave.gateway.session import Command, Setting


class Readers:
    async def read(self, _: str, text: str) -> list[Command]:
        return commands.commands_of(text)

    async def start(self, _: str, given: dict[str, str]) -> dict[str, Setting]:
        return commands.started(given)
