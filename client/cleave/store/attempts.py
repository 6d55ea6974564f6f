"""How long and how often a change tries again beside others, and how it waits in between."""

from __future__ import annotations

import random
import time

from cleave.store.change import MOST_ROUNDS, HeldError, UnkeptError
from cleave_shared.errors import CheckFailed, ServiceError

HELD_SECONDS = 60.0  # for which a change waits for another that takes several versions
SECONDS = 900.0  # for which a change tries again beside others
MOST_IDLE = 8  # attempts in a row beside which nobody changed the table: then the store is the cause
_LONGEST_WAIT = 2.0


class Attempts:
    """The attempts of one run of a change. `waits`: how often it waited, except for a change that takes several
    versions. `rounds`: attempts in which others changed what was read.
    """

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._idle = 0  # attempts since the head that the last one saw
        self.waits = 0
        self.rounds = 0

    def see_another_head(self) -> None:
        self._idle = 0

    def wait_while_held(self, error: HeldError) -> None:
        """Wait for a change that takes several versions. Raises `error` if that takes too long."""
        if time.monotonic() > self._begun + HELD_SECONDS:
            raise error
        time.sleep(random.uniform(0, _LONGEST_WAIT))  # noqa: S311 - no secret

    def require_time(self, error: ServiceError | CheckFailed) -> None:
        """Raise `error` if the run has taken too long."""
        if time.monotonic() > self._begun + SECONDS:
            raise error

    def wait(self, error: ServiceError | CheckFailed) -> None:
        """Wait by chance, to try again. Raises `error` if the store is the cause of it."""
        self.waits += 1
        self._idle += 1
        if self._idle > (MOST_ROUNDS if isinstance(error, UnkeptError) else MOST_IDLE):
            raise error
        time.sleep(random.uniform(0, min(_LONGEST_WAIT, 0.02 * 2**self.waits)))  # noqa: S311 - no secret
