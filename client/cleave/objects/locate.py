"""`--store`: where a table's two halves lie. Every call to a store ends, with its question's deadline or by itself.

The time-outs of botocore are of single waits, so a store that sends a byte now and then holds a reader for ever; a
folder on a network file system that went away has no time-out at all. A call that is late is left to a daemon thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cleave.objects.folder import Folder
from cleave.objects.storage import Storage, StoreError
from cleave.processes.deadline import Deadline, OutOfTime
from cleave_shared.errors import UsageError

if TYPE_CHECKING:
    from botocore.session import Session

CALL_SECONDS = 900.0  # 100 MB at 1 Mbit/s
_S3 = "s3://"


class Bounded:
    """See Storage, each method of which is that of `inside`."""

    def __init__(self, inside: Storage, seconds: float = CALL_SECONDS) -> None:
        self.location = inside.location
        self.inside = inside
        self._seconds = seconds
        self._deadline: Deadline | None = None

    def limit(self, deadline: Deadline | None) -> None:
        """From now on calls end with `deadline` too, with its error; None: no longer."""
        self._deadline = deadline

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inside, name)
        return partial(self._call, found) if callable(found) else found

    def close(self) -> None:
        self.inside.close()

    def _call(self, method: Callable[..., Any], *given: Any, **named: Any) -> Any:
        def work() -> Any:
            found = method(*given, **named)
            return list(found) if isinstance(found, Iterator) else found  # a listing ends here as well

        deadline = self._deadline
        if deadline is None:
            return self._timed(work)
        deadline.check()
        return deadline.call(work if deadline.left() <= self._seconds else lambda: self._timed(work))

    def _timed(self, work: Callable[[], object]) -> object:
        try:
            return Deadline(self._seconds).call(work)
        except OutOfTime:
            raise StoreError(
                f"{self.location}: the store did not answer within {self._seconds:g} seconds",
                hint="check the network, or the mount",
            ) from None


@dataclass(frozen=True, slots=True)
class Stores:
    """The sensitive half's store and the plain half's, which may be one."""

    sensitive: Storage
    plain: Storage

    def apart(self) -> list[Storage]:
        """The stores, one where both halves lie in one."""
        return list({id(each): each for each in (self.sensitive, self.plain)}.values())

    def limit(self, deadline: Deadline | None) -> None:
        """End every call to a store with `deadline`; None: with the store's own limit only."""
        for store in (self.sensitive, self.plain):
            if isinstance(store, Bounded):
                store.limit(deadline)

    def close(self) -> None:
        self.sensitive.close()
        self.plain.close()


def open_stores(where: str | Path, session: Callable[[], Session], endpoint: str | None = None) -> Stores:
    """Open stores whose every call is bounded.

    `where`: SENSITIVE[,PLAIN], each a folder or s3://bucket/prefix; a path is one folder, whatever its name holds.
    `endpoint`: an S3 that is not AWS's.

    Raises UsageError for what names no store, ServiceError where there are no credentials.
    """
    if isinstance(where, Path):
        if where.parts[:1] == (_S3.rstrip("/"),):  # Path("s3://bucket") is a folder called "s3:"
            raise UsageError("store: an S3 place must be text, not a path", hint="store='s3://bucket/prefix'")
        store = Bounded(Folder(where.expanduser()))
        return Stores(store, store)
    if not isinstance(where, str):
        raise UsageError(
            f"store: is {type(where).__name__}, not text or a path", hint="a folder, or s3://bucket/prefix"
        )
    places = where.split(",")
    if len(places) > 2 or not all(place.strip() for place in places):
        raise UsageError(
            "--store takes one place, or two with a comma: SENSITIVE,PLAIN",
            hint="each is a folder or s3://bucket/prefix",
        )
    one = cache(session)  # what it reads of S3's own description takes 100 ms
    opened = [Bounded(open_store(place.strip(), one, endpoint)) for place in places]
    return Stores(opened[0], opened[-1])


def open_store(place: str, session: Callable[[], Session], endpoint: str | None = None) -> Storage:
    if "://" not in place:
        return Folder(Path(place).expanduser())
    bucket, _, prefix = place.removeprefix(_S3).partition("/")
    if not place.startswith(_S3) or not bucket:
        raise UsageError(f"{place}: not a store", hint="a folder, or s3://bucket/prefix")
    if "results" in prefix.split("/"):
        raise UsageError(f"{place}: 'results' holds answers, which expire after a day", hint="name another prefix")
    opened = session()  # first: it says so where botocore is not installed
    from cleave.objects.s3 import Bucket  # noqa: PLC0415 - botocore takes 100 ms, and a folder needs none of it

    return Bucket(opened, bucket, prefix, endpoint)
