"""Check the store's lists before a sweep deletes objects, and turn later errors into warnings.

Nothing is deleted until three things hold: the new head was read back, all objects that it needs are listed with the
right size, and the list has the older objects that are known. After a head is written, errors only cause a warning.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable, Iterator, Sequence

from cleave.objects.locate import Stores
from cleave.objects.storage import NotStoredError, Storage, StoreError
from cleave.processes.deadline import OutOfTime
from cleave.store.manifest import Object
from cleave_shared.errors import CleaveWarning

Listed = list[tuple[Storage, dict[str, int]]]  # of each store the objects in some folders, with their sizes


def listed(stores: Stores, folders: Sequence[str]) -> Listed:
    return [
        (store, {name: size for folder in folders for name, size in store.sizes(folder).items()})
        for store in stores.distinct()
    ]


def require_listed(stores: Stores, objects: Listed, new: Iterable[Object], old: Iterable[str] = ()) -> None:
    """Raise StoreError if the list lacks a `new` object, has another size for it, or lacks an `old` one that is there.

    An old object that is lost is no fault of the list.
    """
    sizes = {name: size for _, each in objects for name, size in each.items()}
    wrong = sum(sizes.get(each.name) != each.bytes for each in new)
    if wrong or unlisted(stores, objects, old):
        raise StoreError(
            f"{stores.sensitive.location}: the store does not list what was written there; nothing is changed",
            hint="its lists leave objects out, or it stored them in part: docs/stored.md says what a store must do",
        )


def unlisted(stores: Stores, objects: Listed, names: Iterable[str]) -> list[str]:
    """Return those of `names` that are in a store but missing from the list."""
    present = {name for _, each in objects for name in each}
    return [name for name in names if name not in present and _is_there(stores, name)]


def _is_there(stores: Stores, name: str) -> bool:
    for store in stores.distinct():
        with contextlib.suppress(NotStoredError):
            store.read(name, 0, 1)
            return True
    return False


@contextlib.contextmanager
def cleaning() -> Iterator[None]:
    """Turn a store's error into a warning: the change is made, and the next change deletes what stays."""
    try:
        yield
    except (StoreError, OutOfTime) as error:
        text = f"the change is made, but older objects stay in the store until the next change: {error.message}"
        warnings.warn(text, CleaveWarning, stacklevel=2)
