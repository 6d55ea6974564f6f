"""The newest state of each table of a store that was seen here, or that the key file was copied with (its floors), and
which tables were dropped.
"""

from __future__ import annotations

from collections.abc import Callable

from cleave.ckks.owner_key import OwnerKey
from cleave.store.seen_versions import SeenVersions

State = tuple[str, int]  # the id of a table, and the length of its log


class SeenTables:
    """Tables of one store by their tags. `name`: under which a tag is noted, since two stores may have the same."""

    def __init__(self, versions: SeenVersions, key: OwnerKey, name: Callable[[str], str]) -> None:
        self._versions = versions
        self._key = key
        self._name = name

    def newest(self, tag: str) -> State | None:
        seen, floor = self._versions.newest(self._name(tag)), self._key.floors.get(tag)
        if floor:
            accepted = self._versions.newest(self._accepted(tag))
            if accepted and accepted[0] == floor[0] and accepted[1] >= floor[1]:
                floor = None
        return max((each for each in (seen, floor) if each), key=lambda each: each[1], default=None)

    def remember(self, tag: str, table_id: str, count: int) -> None:
        self._versions.remember(self._name(tag), table_id, count)

    def forget(self, tag: str) -> None:
        """Forget what was seen here. Raises InputError where that cannot be written."""
        self._versions.forget(self._name(tag))

    def accept(self, tag: str) -> None:
        """Forget what was seen here, and what the key file says. Raises InputError as `forget` does."""
        self.forget(tag)
        if tag in self._key.floors:  # the key file stays as it is: it may be wrapped
            self._versions.remember(self._accepted(tag), *self._key.floors[tag])

    def remember_dropped(self, table_id: str, count: int) -> None:
        self.remember(self._grave(table_id), table_id, count)

    def accept_dropped(self, table_id: str) -> None:
        self.accept(self._grave(table_id))

    def is_dropped(self, table_id: str) -> bool:
        return self.newest(self._grave(table_id)) is not None

    def dropped(self) -> dict[str, State]:
        """Tables that were dropped: floors for a copy of the key file."""
        noted = [*self._versions.states().values(), *self._key.floors.values()]
        return {self._grave(table_id): (table_id, count) for table_id, count in noted if self.is_dropped(table_id)}

    def _grave(self, table_id: str) -> str:
        """The tag under which it is noted that a table was dropped."""
        return self._key.tag(f"dropped {table_id}")

    def _accepted(self, tag: str) -> str:
        """The name under which it is noted that a floor no longer counts."""
        return self._key.tag(f"forgotten {self._name(tag)}")
