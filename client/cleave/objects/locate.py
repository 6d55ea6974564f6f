"""`--store`: where a table's two halves are stored. Every call of a store ends, with its query's deadline or after a
limit.

botocore limits single waits only: a store that sends a byte now and then could block a reader forever. A folder on a
lost network file system has no limit at all. So each call runs in a daemon thread, which is abandoned when it is late.

`Folder` uses cleave_shared.folder_store. Its heads change under a lock. A file being written has the name
NAME-draft-... and is listed as an object that no manifest names. So the next writer deletes what a killed one left.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cleave.deadline import Deadline, OutOfTime
from cleave.files import expanded
from cleave.objects.retention import Retention
from cleave.objects.storage import (
    ConflictError,
    ForeignError,
    NotStoredError,
    Storage,
    StoreError,
    checked,
    too_large,
)
from cleave_shared import folder_store, limits
from cleave_shared.errors import InputError, UsageError
from cleave_shared.folder_store import ForeignEntry

if TYPE_CHECKING:
    from boto3.session import Session

CALL_SECONDS = 900.0  # 100 MB at 1 Mbit/s


class Bounded:
    """A store whose calls end in time; see Storage. It has the methods of `inside`."""

    def __init__(self, inside: Storage, seconds: float = CALL_SECONDS) -> None:
        self.location = inside.location
        self.inside = inside
        self._seconds = seconds
        self._deadline: Deadline | None = None

    def limit(self, deadline: Deadline | None) -> None:
        """Also end calls with `deadline`, raising its error; None removes it."""
        self._deadline = deadline

    def __getattr__(self, name: str) -> Any:
        member = getattr(self.inside, name)
        return partial(self._call, member) if callable(member) else member

    def close(self) -> None:
        self.inside.close()

    def _call(self, method: Callable[..., Any], *positional: Any, **named: Any) -> Any:
        def work() -> Any:
            result = method(*positional, **named)
            return list(result) if isinstance(result, Iterator) else result  # the listing is read here too

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """A kind of store. `prefix`: of its places, "" for a folder; `form`: how they are written.

    `open`: (place, AWS session, endpoint) -> store. `is_remote`: its objects come over a network, so they are cached,
    and requests are paid for; else services of this machine alone can read them. `runs_jobs`: Step Functions read and
    write there, see JobStorage.
    """

    prefix: str
    form: str
    open: Callable[[str, Callable[[], Session], str | None], Storage]
    is_remote: bool
    runs_jobs: bool


def _open_folder(place: str, _: Callable[[], Session], __: str | None) -> Storage:
    return Folder(expanded(place))


def _open_bucket(place: str, session: Callable[[], Session], endpoint: str | None) -> Storage:
    bucket, _, prefix = place.removeprefix("s3://").partition("/")
    if not bucket:
        raise _no_store(place)
    if "results" in prefix.split("/"):
        said = f"{place}: 'results' holds answers, which expire after a day"
        raise UsageError(said, hint="name another prefix", name="--store")
    opened = session()  # first: its error says if boto3 is not installed
    from cleave.objects.s3 import Bucket  # noqa: PLC0415 - boto3 takes 120 ms, and a folder needs none of it

    return Bucket(opened, bucket, prefix, endpoint)


_FOLDER = Scheme(prefix="", form="a folder", open=_open_folder, is_remote=False, runs_jobs=False)
_S3 = Scheme(prefix="s3://", form="s3://bucket/prefix", open=_open_bucket, is_remote=True, runs_jobs=True)
SCHEMES = (_FOLDER, _S3)
_FORMS = " or ".join(each.form for each in SCHEMES)


def scheme_of(place: str) -> Scheme:
    """The kind of store at a place, or at the location of a store. Raises UsageError if there is none."""
    place = place.strip()
    found = next((each for each in SCHEMES if each.prefix and place.startswith(each.prefix)), _FOLDER)
    if found is _FOLDER and "://" in place:
        raise _no_store(place)
    return found


def _no_store(place: str) -> UsageError:
    return UsageError(f"{place}: not a store", hint=_FORMS, name="--store")


@dataclass(frozen=True, slots=True)
class Stores:
    """The stores of the sensitive and the plain half, which may be the same."""

    sensitive: Storage
    plain: Storage

    @property
    def where(self) -> str:
        """Location of the sensitive half; for a folder its resolved path. A machine remembers a store under
        this name.
        """
        place = self.sensitive.location
        return place if scheme_of(place).is_remote else str(Path(place).resolve())

    def distinct(self) -> list[Storage]:
        """Each store once."""
        return list({id(each): each for each in (self.sensitive, self.plain)}.values())

    def flush(self, folders: Sequence[str]) -> None:
        """Let no power failure lose an object of `folders`, in either store. Call it before a head names them."""
        for each in self.distinct():
            each.flush(folders)

    def limit(self, deadline: Deadline | None) -> None:
        """End every call with `deadline`; None: only with the store's own limit."""
        for store in (self.sensitive, self.plain):
            if isinstance(store, Bounded):
                store.limit(deadline)

    def close(self) -> None:
        self.sensitive.close()
        self.plain.close()


def open_stores(where: str | Path, session: Callable[[], Session], endpoint: str | None = None) -> Stores:
    """Open stores whose calls are all limited in time.

    `where`: SENSITIVE[,PLAIN], each of a form of SCHEMES. A Path is one folder, whatever characters it has.
    `endpoint`: of an S3 that is not AWS's.

    Raises UsageError if `where` names no store, ServiceError without credentials.
    """
    if isinstance(where, Path):
        for each in SCHEMES:
            if where.parts[:1] == (each.prefix.rstrip("/"),):  # Path("s3://bucket") is a folder called "s3:"
                said = f"store: {each.form} must be text, not a path"
                raise UsageError(said, hint=f"store='{each.form}'", name="--store")
        store = Bounded(Folder(expanded(where)))
        return Stores(store, store)
    if not isinstance(where, str):
        raise UsageError(f"store: is {type(where).__name__}, not text or a path", hint=_FORMS, name="--store")
    places = where.split(",")
    if len(places) > 2 or not all(place.strip() for place in places):
        raise UsageError(
            "--store takes one place, or two with a comma: SENSITIVE,PLAIN",
            hint=f"each is {_FORMS}",
            name="--store",
        )
    one = cache(session)  # reading S3's service description takes 100 ms
    opened = [Bounded(open_store(place.strip(), one, endpoint)) for place in places]
    return Stores(opened[0], opened[-1])


def absolute(where: str) -> str:
    """`where`, as `open_stores` takes it, with absolute paths of folders."""
    return ",".join(
        place if scheme_of(place).is_remote else str(expanded(place.strip()).absolute()) for place in where.split(",")
    )


def open_store(place: str, session: Callable[[], Session], endpoint: str | None = None) -> Storage:
    return scheme_of(place).open(place, session, endpoint)


LOCK_SECONDS = 30.0
_LOCK = ".lock"
_HINTS = {
    errno.ENOTDIR: "there is a file where a folder should be: name another place",
    errno.ENOSPC: "make room there, then run the command again: the table is as it was",
    errno.EDQUOT: "make room there, then run the command again: the table is as it was",
    errno.EROFS: "tables there can be queried, but not changed",
}
_HINT = "see that it is a folder this user may read, and write where the table is changed"
_FOREIGN = "Cleave makes no such entry: find out who put it there, remove that entry itself, then run the command again"


class Folder:
    """A store in a folder; see Storage. The first write creates `root`. It may be a link; nothing below it may."""

    def __init__(self, root: Path) -> None:
        self.location = str(root)
        self._root = Path(os.path.realpath(root))
        if any(os.path.islink(each) for each in (self._root, *self._root.parents)):  # links that form a loop
            raise InputError(f"{root}: its links lead nowhere", hint="name the folder itself")

    def read(self, name: str, start: int = 0, stop: int | None = None, most: int = limits.MAX_OBJECT_BYTES) -> bytes:
        count = most + 1 if stop is None else stop - start
        with self._translated("read"):
            content = folder_store.read(str(self._root), checked(name), start, count)
        if stop is None and len(content) > most:
            raise too_large(self.location, name, most)
        return content

    def read_versioned(
        self,
        name: str,
        most: int = limits.MAX_HEAD_BYTES,
        earlier: tuple[bytes, str] | None = None,  # noqa: ARG002 - reading is as fast as checking the version
    ) -> tuple[bytes, str] | None:
        try:
            content = self.read(name, most=most)
        except NotStoredError:
            return None
        return content, _version(content)

    def write(self, name: str, content: bytes) -> None:
        with self._translated("written"):
            folder_store.write(str(self._root), checked(name), content)

    def flush(self, folders: Iterable[str]) -> None:
        with self._translated("written"):
            folder_store.flush_names(str(self._root), map(checked, folders))

    def replace(self, name: str, content: bytes, expected: str | None) -> str:
        with self._locked(folder := checked(name).rpartition("/")[0]):
            current = self.read_versioned(name, limits.MAX_MANIFEST_BYTES)
            if (current[1] if current else None) != expected:
                raise ConflictError(f"{self.location}: another process changed the table at the same time")
            with self._translated("written"):
                folder_store.write(str(self._root), name, content, overwrite=True)
                folder_store.flush_names(str(self._root), [folder])
        return _version(content)

    def exists(self) -> bool:
        with self._translated("listed"):
            return self._root.exists()

    def sizes(self, prefix: str) -> dict[str, int]:
        with self._translated("listed"):
            listed = folder_store.described(str(self._root), checked(prefix) if prefix else "")
        sizes = {}
        for name, status in listed:
            with contextlib.suppress(StoreError):  # locks are not objects
                sizes[checked(name)] = status.st_size
        return sizes

    def dates(self, prefix: str) -> dict[str, float]:
        with self._translated("listed"):
            listed = folder_store.described(str(self._root), checked(prefix) if prefix else "")
        dates = {}
        for name, status in listed:
            with contextlib.suppress(StoreError):  # as above
                dates[checked(name)] = status.st_mtime
        return dates

    def names(self, prefix: str) -> Iterator[str]:
        with self._translated("listed"):
            listed = folder_store.listed(str(self._root), checked(prefix) if prefix else "")
        names = []
        for name in listed:
            with contextlib.suppress(StoreError):  # as above
                names.append(checked(name))
        yield from names

    def delete(self, names: Iterable[str]) -> None:
        with self._translated("deleted"):
            folder_store.delete(str(self._root), map(checked, names))

    def retention(self) -> Retention:
        return Retention(keeps=False)

    def link(self, name: str, seconds: int) -> str:  # noqa: ARG002 - a path does not expire
        return (self._root / checked(name)).as_uri()

    put_link = link  # who can read the folder can write there

    @property
    def base(self) -> str:
        return f"{self._root.as_uri()}/"

    def close(self) -> None:
        pass

    @contextlib.contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        """Turn errors of the operating system into errors of the store."""
        try:
            yield
        except ForeignEntry as entry:
            raise ForeignError(self.location, entry.name, f"is {entry.kind}, not an object", _FOREIGN) from None
        except FileNotFoundError:
            raise NotStoredError(f"{self.location}: an object of the table is not there") from None
        except FileExistsError:
            raise ConflictError(f"{self.location}: an object of that name already exists") from None
        except OSError as error:
            hint = _HINTS.get(error.errno or 0, _HINT)
            raise StoreError(f"{self.location}: an object cannot be {what} ({error.strerror})", hint=hint) from None

    @contextlib.contextmanager
    def _locked(self, folder: str) -> Iterator[None]:
        """Lock a folder until the end of the block or of the process."""
        with contextlib.ExitStack() as stack:
            with self._translated("locked"):
                handle = stack.enter_context(folder_store.lock_file(str(self._root), folder, _LOCK))
                until = time.monotonic() + LOCK_SECONDS
                while True:
                    try:
                        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        break
                    except BlockingIOError:
                        if time.monotonic() > until:
                            raise ConflictError(f"{self.location}: another process is writing this table") from None
                        time.sleep(0.02)
            yield


def _version(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
