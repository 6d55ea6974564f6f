"""Connect questions over stored tables to the services: in this process, over HTTP, or as Lambda functions.

A connection is opened when a question first needs one. A question over the totals of a single segment, or over fetched
rows, needs none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from cleave.deadline import Deadline
from cleave.objects.locate import Stores
from cleave.store.manifest import Manifest
from cleave.sums.remote import Remote
from cleave.transport.base import Transport
from cleave_shared.errors import UsageError

if TYPE_CHECKING:
    from cleave.ask.options import Access


class Embedded(Protocol):
    """Opens the services of this process; they read only links that begin with one of `stores`."""

    def __call__(self, stores: Sequence[str] = ()) -> Transport: ...


class Services:
    """One connection, reused for all questions."""

    def __init__(self, access: Access, stores: Stores, embedded: Embedded | None) -> None:
        self._access = access
        self._stores = stores
        self._embedded = embedded
        self._opened: Transport | None = None

    @property
    def available(self) -> bool:
        return self._embedded is not None or self._access.remote

    @property
    def remote(self) -> bool:
        return self._access.remote

    def open(self, folder: str, manifest: Manifest, deadline: Deadline) -> Remote | None:
        """Return the services for one version of a table and one question, or None if there are no services."""
        if not self.available:
            return None
        own = Deadline(deadline.left())  # the failure of a request ends the others, and not what else a question does
        own.seconds = deadline.seconds  # as messages tell it

        def connect() -> Transport:
            if self._opened is None:
                self._opened = own.call(self._connected)  # may run a program for credentials
            return self._opened.begin(own)

        return Remote(connect, own.stop, self._stores, folder, manifest)

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()

    def _connected(self) -> Transport:
        """Connect to the services. Raises InputError if options contradict each other."""
        if self._access.remote:
            from cleave.transport.connect import Target, connect  # noqa: PLC0415

            return connect(self._access.target or Target(), None)
        if self._embedded is None:
            raise UsageError("there are no services in this process: name them with --endpoint or --lambda")
        return self._embedded([self._stores.sensitive.base, self._stores.plain.base])
