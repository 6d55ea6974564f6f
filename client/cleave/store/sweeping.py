"""What may be deleted, and whether what was written is stored.

A commit names what it deletes in the manifest, and only that is deleted afterwards. `compact` and `delete` look for
objects that nobody names; other changes do so at most once a day. Errors while deleting only cause a warning: whoever
changes the table next goes on.
"""

from __future__ import annotations

import contextlib
import datetime
import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from cleave.deadline import OutOfTime
from cleave.objects.locate import Stores
from cleave.objects.storage import NotStoredError, Storage, StoreError
from cleave.store.manifest import Manifest, Object
from cleave.store.paged import read_pages
from cleave.store.pages import pages_of, unreadable
from cleave.store.reader import Opened
from cleave_shared.errors import CleaveWarning

ObjectSizes = list[tuple[Storage, dict[str, int]]]  # of each store the objects in some folders, with their sizes

DAY = 24 * 3600.0  # seconds
_THREADS = 8
_HINT = "it stored them in part, or not at all: docs/stored.md says what a store must do"


def listed(stores: Stores, folders: Sequence[str]) -> ObjectSizes:
    return [
        (store, {name: size for folder in folders for name, size in store.sizes(folder).items()})
        for store in stores.distinct()
    ]


@dataclass(frozen=True, slots=True)
class ObjectNames:
    """Names of objects in the sensitive and the plain store, which may be one."""

    sensitive: frozenset[str] = frozenset()
    plain: frozenset[str] = frozenset()

    def __or__(self, other: ObjectNames) -> ObjectNames:
        return ObjectNames(self.sensitive | other.sensitive, self.plain | other.plain)

    def __sub__(self, other: ObjectNames) -> ObjectNames:
        return ObjectNames(self.sensitive - other.sensitive, self.plain - other.plain)

    def __bool__(self) -> bool:
        return bool(self.sensitive or self.plain)

    def delete(self, stores: Stores) -> None:
        """Delete them: the plain ones last, since what is sealed says what they belong to. Raises StoreError."""
        for store, names in ((stores.sensitive, self.sensitive), (stores.plain, self.plain)):
            if names:
                store.delete(sorted(names))


def changed_names(old: Manifest, new: Manifest) -> tuple[ObjectNames, ObjectNames]:
    """What only the `old` of two versions names, and what only the `new` one. Pages that both name are not read."""
    common = pages_of(old).keys() & pages_of(new).keys()
    before, after = names_of(old, common), names_of(new, common)
    return before - after, after - before


def names_of(manifest: Manifest, without: Collection[str] = ()) -> ObjectNames:
    """All objects that a version names, except pages of segments in `without` and the objects of these."""
    pages = [each for each in manifest.segments.pages if each.stored is None or each.stored.name not in without]
    read_pages(pages)
    segments = [*(segment for each in pages for segment in each.items), *manifest.segments.last]
    plain = frozenset(each.plain.name for each in segments if each.plain is not None)
    return ObjectNames(frozenset(each.name for each in manifest.parts(without)) - plain, plain)


def readable_names(opened: Opened | None) -> set[str]:
    """Return the names of all objects that a table's head leads to, as far as its pages can be read."""
    if opened is None:
        return set()
    head = opened.head
    views = {head.views.name} if head.views else set()
    failures = unreadable(opened.manifest)
    there = {each.name for each in opened.manifest.parts(failures)}
    return {*failures, *there, head.manifest.name, head.log.page.name, *views}


def doomed_of(manifest: Manifest) -> ObjectNames:
    """Objects that are deleted, or will be, and that no version from this one on names."""
    return ObjectNames(frozenset(manifest.doomed), frozenset(manifest.doomed_plain))


def unstored(stores: Stores, objects: Iterable[Object], plain: Collection[str] = ()) -> list[Object]:
    """Those of `objects` whose last byte the store does not return. `plain`: names of those in the plain store.

    Raises StoreError for other faults.
    """

    def is_there(each: Object) -> bool:
        store = stores.plain if each.name in plain else stores.sensitive
        try:
            return len(store.read(each.name, max(0, each.bytes - 1), each.bytes)) == min(1, each.bytes)
        except NotStoredError:
            return False

    every = list(objects)
    with ThreadPoolExecutor(_THREADS) as pool:
        return [each for each, there in zip(every, pool.map(is_there, every), strict=True) if not there]


def not_all_stored(stores: Stores) -> StoreError:
    """The error for a store that does not have what was just written there."""
    return StoreError(
        f"{stores.sensitive.location}: the store does not have what was written there; nothing is changed", hint=_HINT
    )


def require_listed(stores: Stores, objects: ObjectSizes, new: Iterable[Object], old: Iterable[str] = ()) -> None:
    """Raise StoreError if the list lacks a `new` object, has another size for it, or lacks an `old` one that is there.

    An old object that is lost is no fault of the list.
    """
    sizes = {name: size for _, each in objects for name, size in each.items()}
    wrong = sum(sizes.get(each.name) != each.bytes for each in new)
    if wrong or unlisted(stores, objects, old):
        raise _unlisted(stores)


def _unlisted(stores: Stores) -> StoreError:
    return StoreError(
        f"{stores.sensitive.location}: the store does not list what was written there; nothing is changed",
        hint="its lists leave objects out, or it stored them in part: docs/stored.md says what a store must do",
    )


def unlisted(stores: Stores, objects: ObjectSizes, names: Iterable[str]) -> list[str]:
    """Return those of `names` that are in a store but missing from the list."""
    present = {name for _, each in objects for name in each}
    return [name for name in names if name not in present and _is_there(stores, name)]


def _is_there(stores: Stores, name: str) -> bool:
    for store in stores.distinct():
        with contextlib.suppress(NotStoredError):
            store.read(name, 0, 1)
            return True
    return False


def unnamed(
    stores: Stores, folders: Sequence[str], named: Collection[str], just_written: Collection[str], *, everything: bool
) -> ObjectNames:
    """Objects in `folders` that nobody names. `named`: names that stay. `just_written`: an object of each store.

    Only those that are a day older than it count, by each store's own clock: others may still be written. `everything`:
    all that are listed count, and a list that lacks a name that is there raises StoreError.
    """
    found, every = [], set[str]()
    for store in (stores.sensitive, stores.plain):
        dates = {name: date for folder in folders for name, date in store.dates(folder).items()}
        latest = max((dates[each] for each in just_written if each in dates), default=None)
        old = {
            name
            for name, date in dates.items()
            if name not in named and (everything or (latest is not None and date < latest - DAY))
        }
        found.append(frozenset(old))
        every |= dates.keys()
        if stores.plain is stores.sensitive:
            break
    missing = [each for each in named if each not in every and each.rpartition("/")[0] in folders]
    if everything and any(_is_there(stores, each) for each in missing):
        raise _unlisted(stores)
    return ObjectNames(*found)


def is_due(manifest: Manifest) -> bool:
    """True if a day has passed since somebody looked for objects that nobody names."""
    try:
        last = datetime.datetime.fromisoformat(manifest.swept)
    except ValueError:
        return True
    return datetime.datetime.now(datetime.UTC) - last > datetime.timedelta(days=1)


def delete_doomed(stores: Stores, manifest: Manifest, *, strict: bool = False) -> bool:
    """Delete the objects that a version says are to be deleted. True if the stores have confirmed it.

    `strict`: raise StoreError on an error; else it causes a warning.
    """
    doomed = doomed_of(manifest)
    try:
        doomed.delete(stores)
    except StoreError as error:
        if strict:
            text = f"version {manifest.version} is made, but older objects are still there: {error.message}"
            raise StoreError(text, hint=error.hint, status=error.status) from None
        with cleaning():
            raise
        return False
    return True


@contextlib.contextmanager
def cleaning() -> Iterator[None]:
    """Turn a store's error into a warning: the change is made, and the next change deletes what stays."""
    try:
        yield
    except (StoreError, OutOfTime) as error:
        text = f"the change is made, but older objects stay in the store until the next change: {error.message}"
        warnings.warn(text, CleaveWarning, stacklevel=2)
