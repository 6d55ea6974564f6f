"""Options of a query, and its result."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from cleave.text.quantities import counted
from cleave_shared.dataclass import dataclass
from cleave_shared.errors import InputError

if TYPE_CHECKING:
    from cleave.finish import ResultTable


@dataclass(frozen=True, slots=True)
class Options:
    """`pad` rounds the number of chunks up to a power of two.

    Groups of fewer than `min_group` rows are left out of the answer; 0: as the table has it, which is none but for a
    stored one with contributors.
    """

    pad: bool = False
    min_group: int = 0

    def __post_init__(self) -> None:
        """Raises InputError."""
        if self.min_group < 0:
            raise InputError("the least rows of a group cannot be negative")


DEFAULTS = Options()


@dataclass(frozen=True, slots=True)
class Usage:
    """What one query took. None where a minimum group size hides it, since with the counts that are shown it could
    tell the size of a suppressed group; the last three of these are None where none was asked for. `withheld_groups`
    are large enough, but a suppressed one would follow from them. `objects_read`, `bytes_read`: of what rests in
    stores; None where rows came from files.
    """

    profile: str | None = None  # None where nothing was sent: no key was needed
    key_id: str | None = None
    rows: int | None = None
    selected_rows: int | None = None
    groups: int | None = None
    lanes: int = 0
    blocks: int = 0
    chunks: int = 0
    sensitive_requests: int = 0
    requests: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    min_group: int | None = None
    suppressed_groups: int | None = None
    withheld_groups: int | None = None
    objects_read: int | None = None
    bytes_read: int | None = None

    @property
    def suppression(self) -> str:
        """A sentence on what a minimum group size left out, "" where none was asked for."""
        if self.suppressed_groups is None:
            return ""
        small = f"{counted(self.suppressed_groups, 'group')} of fewer than {self.min_group} rows"
        if not self.withheld_groups:
            return f"{small} not shown."
        return f"{small} and {counted(self.withheld_groups, 'group')} from which one of them would follow not shown."


ASKED = ("sensitive_requests", "requests", "bytes_sent", "bytes_received")
"""The counts of a Usage that parts of a question add up to."""


@dataclass(frozen=True, slots=True)
class Result:
    result: ResultTable
    checks: dict[str, str]  # name of a check -> passed, or not needed
    usage: Usage
    timings: dict[str, float]  # seconds by stage


class Clock:
    """Seconds by stage, added up."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started
