"""What is stored already of a table that is being put: a sealed object of its own, by which a second try goes on.

It is bound to the head it started from and to what was asked for. Whether the rows are still the same is for their
digests to tell. Its name has the version that is being made; the sweep of the next version deletes what is left of it.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from cleave.store.cells import Cells
from cleave.store.manifest import Hex, Measure, Segment
from cleave.store.tables import Tables


class Draft(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    asked: str  # digest of what was asked for
    head: str | None  # of the table it adds to, or replaces
    table_id: Hex
    measures: tuple[Measure, ...]
    window: int
    segments: tuple[Segment, ...]  # those that were added
    digests: tuple[str, ...]  # of the rows of each
    keys: tuple[tuple[str | None, ...], ...]  # of the table's cells, and their rows, those added included
    rows: tuple[int, ...]

    @property
    def cells(self) -> Cells:
        return Cells(list(self.keys), list(self.rows))

    def objects(self) -> tuple[set[str], set[str]]:
        """The names of all that must be there for it to go on: in the sensitive store and in the plain one."""
        plain = {each.plain.name for each in self.segments if each.plain}
        every = {part.name for each in self.segments for part in each.parts()}
        return every - plain, plain


class Drafts:
    """The draft of version `version` of table `name`. Of two who write it, the second to do so is told."""

    def __init__(self, tables: Tables, name: str, version: int) -> None:
        self._tables = tables
        self._name = name
        self._version = version
        self._found: str | None = None

    def load(self, asked: str, head: str | None) -> Draft | None:
        """None where there is none, or it is of something else, or damaged, or objects of it are lost."""
        draft = self.left(asked)
        if draft is None or draft.head != head:
            return None
        return draft if self._tables.has(self._name, *draft.objects()) else None

    def left(self, asked: str) -> Draft | None:
        """None where there is none, or it is of something else, or damaged."""
        content, self._found = self._tables.read_draft(self._name, self._version)
        try:
            draft = Draft.model_validate_json(content) if content is not None else None
        except ValidationError:
            return None
        return draft if draft is not None and draft.asked == asked else None

    def save(self, draft: Draft) -> None:
        """Raises ConflictError where somebody else puts the same table."""
        content = draft.model_dump_json().encode()
        self._found = self._tables.write_draft(self._name, self._version, content, self._found)

    def delete(self) -> None:
        self._tables.delete_draft(self._name, self._version)
