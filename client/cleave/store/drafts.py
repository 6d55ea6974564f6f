"""Drafts: sealed records of segments that a change or a put has stored, from which a second attempt continues.

  PLACE          the request, and the first segment
  PLACE.ID.n     the n-th further segment; ID is random and belongs to this draft only

Each record has the digest of the step before it, so records of two attempts are never combined. Records of steps are
written once; the first may be replaced, by whoever takes the draft over. A draft is bound to its request. It proves
nothing about the rows: their digests are compared with the rows that are put.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Generator, Iterator
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cleave.objects.locate import Stores
from cleave.objects.storage import ConflictError, NotStoredError, replaced
from cleave.store.manifest import Count, StoredModel
from cleave.store.vault import Vault
from cleave_shared import limits
from cleave_shared.errors import CheckFailed
from cleave_shared.wire import Hex


class Step(StoredModel):
    """A stored segment. `digest`: of its rows. `segment`: None once it is in the head.

    `replaces`: ids of the segments that it replaces; for a contributor's rows, those of its part; empty for new rows.
    """

    id: Hex
    rows: Count
    digest: str
    segment: StoredModel | None = None
    replaces: tuple[Hex, ...] = ()
    after: str | None = None  # digest of the step before it; None in the first


class Draft(StoredModel):
    """`request`: its digest, stored as "asked". `head`: name of the manifest that it adds to or replaces."""

    model_config = ConfigDict(serialize_by_alias=True)

    format: Literal[2] = 2
    id: Hex
    request: str = Field(alias="asked")
    head: str | None
    steps: tuple[Step, ...]

    @property
    def put(self) -> tuple[Any, ...]:
        """Steps of new rows."""
        return tuple(each for each in self.steps if not each.replaces)

    @property
    def rows(self) -> int:
        """Number of new rows."""
        return sum(each.rows for each in self.put)

    @property
    def is_open(self) -> bool:
        """True if it has segments, and no head has them yet."""
        return bool(self.steps) and all(each.segment is not None for each in self.steps)

    @property
    def segments(self) -> tuple[Any, ...]:
        """Segments that no head has yet."""
        return tuple(each.segment for each in self.steps if each.segment is not None)

    def objects(self) -> set[str]:
        """Names of the objects that it needs, in either store."""
        return {part.name for each in self.segments for part in each.parts()}


D = TypeVar("D", bound=Draft)
S = TypeVar("S", bound=Step)
_Model = TypeVar("_Model", bound=BaseModel)


class Drafts(Generic[D, S]):
    """The draft at `place`, sealed by `vault`. If two processes continue one draft, the second one fails."""

    def __init__(self, stores: Stores, place: str, vault: Vault, draft: type[D], step: type[S]) -> None:
        self._stores = stores
        self._place = place
        self._vault = vault
        self._draft = draft
        self._step = step
        self._version: str | None = None  # of the first record in the store

    def find(self, request: str) -> D | None:
        """The draft of `request`. None if there is none, it is of another request, or it is damaged.

        Raises StoreError, ForeignError.
        """
        store = self._stores.sensitive
        stored = store.read_versioned(self._place, limits.MAX_MANIFEST_BYTES)
        self._version = stored[1] if stored else None
        draft = self._opened(self._draft, self._place, stored[0]) if stored else None
        if draft is None or draft.request != request:
            return None
        steps = list(draft.steps)
        with contextlib.suppress(NotStoredError):
            while steps:
                name = self._name(draft.id, len(steps))
                content = store.read(name, most=limits.MAX_MANIFEST_BYTES)
                step = self._opened(self._step, name, content)
                if step is None or step.after != _digest(steps[-1]):
                    return None
                steps.append(step)
        return draft.model_copy(update={"steps": tuple(steps)})

    def is_there(self) -> bool:
        """True if its first record is stored, whoever wrote it."""
        return self._stores.sensitive.read_versioned(self._place, limits.MAX_MANIFEST_BYTES) is not None

    def find_any(self) -> D | None:
        """The first record, of whatever request; None if there is none, or it is damaged. Raises as `find`."""
        stored = self._stores.sensitive.read_versioned(self._place, limits.MAX_MANIFEST_BYTES)
        draft = self._opened(self._draft, self._place, stored[0]) if stored else None
        return None if draft is None else self.find(draft.request)

    def resumable(self, draft: D | None, head: str | None) -> D | None:
        """Return `draft` if a put on top of `head` can continue it; None otherwise, also if an object is missing."""
        if draft is None or draft.head != head or not draft.is_open:
            return None
        folder = self._place.rpartition("/")[0]
        stored = {name for store in self._stores.distinct() for name in store.names(folder)}
        return draft if draft.objects() <= stored else None

    def write(self, draft: D, steps: Generator[S]) -> D:
        """Record each of `steps` after its objects are stored. Returns `draft` with all of them."""
        with contextlib.closing(steps):
            for step in steps:
                draft = self.add(draft, step)
        return draft

    def add(self, draft: D, step: S) -> D:
        """Record one more segment. Raises ConflictError if another process continued the same draft."""
        longer = draft.model_copy(update={"steps": (*draft.steps, step)})
        if not draft.steps:
            self._begin(longer)
        else:
            name, after = self._name(draft.id, len(draft.steps)), _digest(draft.steps[-1])
            step = step.model_copy(update={"after": after})
            replaced(self._stores.sensitive, name, self._sealed(name, step), None)
            longer = draft.model_copy(update={"steps": (*draft.steps, step)})
        return longer

    def rewrite(self, draft: D) -> None:
        """Write the first record of `draft` again, with what changed in it. Raises ConflictError if another process
        took the draft over.
        """
        self._begin(draft.model_copy(update={"steps": draft.steps[:1]}))

    def finish(self, draft: D) -> None:
        """Delete all of a draft but what later recognises its rows. Its segments must already be in the head."""
        if draft.is_open or not draft.steps:
            past = tuple(
                self._step(id=each.id, rows=each.rows, digest=each.digest, replaces=each.replaces)
                for each in draft.steps
            )
            with contextlib.suppress(ConflictError):  # the next put has already begun
                self._begin(draft.model_copy(update={"steps": past}))
        self._stores.sensitive.delete([*self.names(draft)][1:])

    def delete(self, draft: D) -> None:
        """Delete the records. The first is deleted last, so until then the draft is recognised."""
        if len(draft.steps) > 1:
            self.finish(draft)
        self._stores.sensitive.delete([self._place])

    def remove(self, draft: D) -> None:
        """Delete the records, the first last: until then the draft is found."""
        self._stores.sensitive.delete([*self.names(draft)][1:])
        self._stores.sensitive.delete([self._place])

    def names(self, draft: D) -> Iterator[str]:
        """Names of its records."""
        yield self._place
        yield from (self._name(draft.id, number) for number in range(1, len(draft.steps)))

    def _name(self, draft: str, number: int) -> str:
        return f"{self._place}.{draft}.{number}"

    def _begin(self, draft: D) -> None:
        content = self._sealed(self._place, draft)
        self._version = replaced(self._stores.sensitive, self._place, content, self._version)

    def _sealed(self, name: str, record: BaseModel) -> bytes:
        return self._vault.seal("draft", name, record.model_dump_json().encode())

    def _opened(self, kind: type[_Model], name: str, content: bytes) -> _Model | None:
        """Open a record; None if it is damaged, or from another key or release."""
        try:
            return kind.model_validate_json(self._vault.open("draft", name, content))
        except (CheckFailed, ValidationError):
            return None


def _digest(step: Step) -> str:
    return hashlib.sha256(step.model_dump_json().encode()).hexdigest()
