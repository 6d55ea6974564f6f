"""From files, frames or names of stored tables to the source that a session asks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cleave.text.quantities import size_of
from cleave_shared.dataclass import dataclass

if TYPE_CHECKING:
    from cleave.ask.access import Access
    from cleave.ask.services import Embedded
    from cleave.ask.stored import StoredSource
    from cleave.objects.locate import Stores
    from cleave.sums.machine import Machine
    from cleave.table.lazy import LazyTable


@dataclass(frozen=True, slots=True)
class Store:
    """How stored tables are asked. `store`: their place; `profile`, `region` for AWS; `seconds`: what opening may take.

    `contributor`: whose rows of the table alone; `scan` False: rows are fetched rather than scanned; `fetch_limit`:
    bytes of rows that a question may fetch, or text with a unit; `memory`: bytes that one over rows may take; None: a
    quarter of this machine's; `cache`: keep on this machine what is read of a store elsewhere; `machine`: ARN of one
    that makes the calls of scans.
    """

    store: str | Path
    profile: str | None = None
    region: str | None = None
    seconds: float | None = None
    contributor: str | None = None
    scan: bool = True
    fetch_limit: int | str = "1GB"
    memory: int | str | None = None
    cache: bool = True
    machine: str | None = None


def open_place(store: str | Path, profile: str | None = None, region: str | None = None) -> Stores:
    """Raises InputError for what names no store, ServiceError where there are no credentials."""
    from cleave.objects.locate import open_stores  # noqa: PLC0415 - what a question over a file does without

    def session() -> object:
        from cleave.transport.aws import open_session  # noqa: PLC0415 - botocore takes 100 ms; a folder needs none

        return open_session(profile, region)

    return open_stores(store, session)


def open_stored(
    name: str | None, asked: Store, access: Access, embedded: Embedded, others: Sequence[LazyTable]
) -> StoredSource:
    """The stored table `name`, which is opened, or None: those that questions name.

    Raises InputError where there is no such table, KeyFileError, StoreError, CheckFailed.
    """
    from cleave.ask.stored import StoredSource  # noqa: PLC0415 - what a question over a file does without
    from cleave.ckks.key_file import describe_key  # noqa: PLC0415

    limit = size_of(asked.fetch_limit)
    memory_limit = None if asked.memory is None else size_of(asked.memory)
    describe_key(access.key)  # a missing key is reported before a store is asked
    return StoredSource(
        *(name, open_place(asked.store, asked.profile, asked.region), access, others),
        seconds=asked.seconds,
        contributor=asked.contributor,
        embedded=embedded,
        scan=asked.scan,
        machine=_machine(asked) if asked.machine is not None else None,
        fetch_limit=limit,
        memory_limit=memory_limit,
        cache=asked.cache,
    )


def _machine(asked: Store) -> Machine:
    from cleave.transport.aws import open_session  # noqa: PLC0415 - botocore takes 100 ms

    session = open_session(asked.profile, asked.region)  # first: it says so where botocore is not installed
    from cleave.sums.machine import Machine  # noqa: PLC0415

    return Machine(session, asked.machine or "")
