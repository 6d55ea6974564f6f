"""The newest state of each table of a store that this machine saw or the key file recorded (its floors), and dropped
tables.
"""

from __future__ import annotations

from collections.abc import Callable

from cleave.ckks.owner_key import OwnerKey
from cleave.store.seen_versions import SeenVersions

State = tuple[str, int]  # (a table's id, length of its log)


class SeenTables:
    """Tables of one store, by tag. `name` makes the name under which a tag is remembered, because two stores may have
    equal tags.
    """

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
        """Forget what this machine saw. Raises InputError if that cannot be written."""
        self._versions.forget(self._name(tag))

    def accept(self, tag: str) -> None:
        """Forget what this machine saw, and ignore what the key file recorded. Raises InputError as `forget` does."""
        self.forget(tag)
        if tag in self._key.floors:  # the key file is not changed, because it may be wrapped
            self._versions.remember(self._accepted(tag), *self._key.floors[tag])

    def remember_dropped(self, table_id: str, count: int) -> None:
        self.remember(self._grave(table_id), table_id, count)

    def spent(self, tag: str, least: int) -> int:
        """Millionths of epsilon that noisy releases of tables with this tag spent, as noted here; at least `least`."""
        noted = self._versions.newest(self._key.tag(f"spent {self._name(tag)}"))
        return max(least, noted[1] if noted else 0)

    def remember_spent(self, tag: str, spent: int) -> None:
        """Note what was spent. It stays when a table is dropped or forgotten."""
        if spent:
            name = self._key.tag(f"spent {self._name(tag)}")
            self._versions.remember(name, name, spent)

    def had_exact(self, tag: str) -> bool:
        """True if tables with this tag had exact releases, as noted here."""
        return self._versions.newest(self._exact(tag)) is not None

    def remember_exact(self, tag: str) -> None:
        """Note that there was an exact release. It stays when a table is dropped or forgotten."""
        self._versions.remember(self._exact(tag), self._exact(tag), 1)

    def accept_dropped(self, table_id: str) -> None:
        self.accept(self._grave(table_id))

    def is_dropped(self, table_id: str) -> bool:
        return self.newest(self._grave(table_id)) is not None

    def dropped(self) -> dict[str, State]:
        """Dropped tables, as floors for a copy of the key file."""
        noted = [*self._versions.states().values(), *self._key.floors.values()]
        return {self._grave(table_id): (table_id, count) for table_id, count in noted if self.is_dropped(table_id)}

    def _exact(self, tag: str) -> str:
        return self._key.tag(f"exact release of {self._name(tag)}")

    def _grave(self, table_id: str) -> str:
        """The tag that marks a table as dropped."""
        return self._key.tag(f"dropped {table_id}")

    def _accepted(self, tag: str) -> str:
        """The name that marks a floor as ignored."""
        return self._key.tag(f"forgotten {self._name(tag)}")
