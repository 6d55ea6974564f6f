"""Tables of which a reader has the keys of some columns (cleave.share.bundle, cleave.store.views).

A reader names its tables, since a store does not show whose they are. What it opens is signed by their owner, whose
fingerprint it compares once. It notices an older state of a store as owners do. Nothing is cached on its disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from cleave.ask.owners import Owner, tag_of
from cleave.ckks.key_file import open_key
from cleave.ckks.owner_key import OwnerKey
from cleave.ckks.public_key import public_side
from cleave.objects.locate import Stores
from cleave.objects.storage import read_twice, require_place
from cleave.share.addressed import MOST_HEAD, place_of
from cleave.share.bundle import Bundle, open_bundle
from cleave.store.heads import Heads, TableHead
from cleave.store.manifest import Object
from cleave.store.newest import Newest
from cleave.store.reader import Opened
from cleave.store.seen_versions import SeenVersions
from cleave.store.vault import key_of_object, open_record
from cleave.store.views import MOST_PLACES, open_view, view_in
from cleave.text.quantities import counted
from cleave_shared import limits
from cleave_shared.errors import CheckFailed, InputError

if TYPE_CHECKING:
    from cleave.ask.options import Access


@dataclass(frozen=True, slots=True)
class _Rights:
    """Content of a bundle: the tag of a table, and the key of the reader's views. `floor`: records of its log."""

    bundle: Bundle
    tag: str
    key: bytes
    floor: int

    def require(self, head: TableHead, location: str) -> None:
        """Raises InputError for the head of another table, CheckFailed for one that is older than the bundle."""
        if head.table_id != self.bundle.table_id:
            raise InputError(
                f"{location}: another table has this name now", hint="ask its owner for: cleave reader add"
            )
        if head.log.count < self.floor:
            raise CheckFailed(
                "stored",
                f"{location}: shows an older state of a table: its log has {counted(head.log.count, 'record')}, and "
                f"its owner states at least {self.floor:,}",
                hint="an old state of the store was restored: its owner runs `cleave reader add` again if it is right",
            )


class ReaderTables(Newest):
    """Tables that the holder of `key` reads columns of."""

    has_totals = False
    MOVED = (
        "its owner put it under another key: run the command again, or open the session again in Python, with the "
        "--fingerprint (fingerprint=) that the owner says"
    )
    GONE = "its owner dropped it, or the store was harmed: ask the owner"

    def __init__(self, stores: Stores, key: OwnerKey, memory: SeenVersions, owner: Owner) -> None:
        super().__init__(stores, key, memory)
        self._memory = memory
        self._holder = public_side(key)
        self._owner = owner
        self._rights: dict[str, _Rights] = {}  # by name in lower case
        self._by_tag: dict[str, _Rights] = {}

    def tag(self, name: str) -> str:
        rights = self._rights_on(name)
        if rights is None:
            raise self.no_table(name)
        return rights.tag

    def find(self, name: str, held: Opened | None = None) -> Opened | None:
        return super().find(name, held) if self._rights_on(name) else None

    def all(self, held: Iterable[Opened] = ()) -> Iterator[Opened]:
        for each in held:
            yield self.open(each.manifest.table)

    def no_table(self, name: str) -> InputError:
        require_place(self.stores.sensitive)
        return InputError(
            f"{self.stores.sensitive.location}: there is no table {name!r} for this reader",
            hint="its owner adds the reader with: cleave reader add NAME --to FILE.pub --columns ...",
            name=name,
        )

    def accept(self, name: str, version: int) -> None:
        """Accept version `version` of a table on this machine, whatever was seen here. It must be the one in the store.

        Raises InputError if it is not, CheckFailed as opening it does.
        """
        opened = self.shown(name)
        if opened.manifest.version != version:
            there = f"table {name!r} has version {opened.manifest.version}, not {version}"
            raise InputError(
                f"{self.stores.sensitive.location}: {there}",
                hint="accept only the version that the table's owner names",
            )
        self.memory.accept(self.tag(name))

    def _accepting(self, table: str, version: int) -> str:
        return f"`cleave reader accept {table} --version {version} --reader FILE`"

    def _heads(self, tag: str) -> Heads:
        return Heads(self._by_tag[tag].bundle.owner.signing, self.stores.sensitive.location)

    def _rights_on(self, name: str) -> _Rights | None:
        """Rights according to the stored bundle; None if there never was one. Raises CheckFailed, KeyFileError."""
        rights = self._rights.get(name.lower())
        if rights is not None:
            return rights
        place, location = place_of(Bundle, self._holder, name), self.stores.sensitive.location

        def opened(stored: tuple[bytes, str] | None) -> tuple[Bundle, str, bytes] | None:
            return open_bundle(self.key, self._holder, name, stored[0]) if stored else None

        there = read_twice(lambda: self.stores.sensitive.read_versioned(f"{place}/head", MOST_HEAD), opened)
        noted = tag_of("owner of columns", place, self.stores.where)
        if there is None and self._memory.newest(noted):
            raise CheckFailed(
                "stored",
                f"{location}: the columns of table {name!r} are no longer open to this reader",
                hint="the owner revoked them, or the table is gone: ask the owner",
            )
        if there is None:
            return None
        bundle, tag, key = there
        if tag in self._by_tag:
            raise CheckFailed(
                "stored", f"{location}: the bundle of table {name!r} leads to another table", hint=Bundle.HINT
            )
        fingerprint = bundle.owner.fingerprint
        self._owner.require(f"columns of table {name!r}", noted, self._memory, fingerprint, bundle.number)
        self._memory.remember(noted, fingerprint, 1)
        rights = _Rights(bundle, tag, key, max(bundle.number, self._owner.floor))
        self._rights[name.lower()] = self._by_tag[tag] = rights
        return rights

    def _open(self, tag: str, head: TableHead, stored: str) -> Opened:
        rights, location = self._by_tag[tag], self.stores.sensitive.location
        rights.require(head, location)
        if head.views is None or head.views.bytes > MOST_PLACES:
            which = None
        else:
            which = view_in(self.read(head.views), rights.bundle.reader)
        if which is None:
            self._rights = {name: each for name, each in self._rights.items() if each is not rights}  # reads new ones
            del self._by_tag[tag]
            raise InputError(
                f"{location}: the columns of this table are no longer open to this reader",
                hint="the owner revoked them: ask the owner",
            )
        if which.bytes > limits.MAX_MANIFEST_BYTES:
            raise CheckFailed("stored", f"{location}: a view is larger than {limits.MAX_MANIFEST_BYTES:,} bytes")
        view = open_view(rights.key, head, which, self.read(which))
        manifest = self._with_pages(tag, view.manifest, partial(self._page, rights.key), head)
        return Opened(manifest, view.vault, head, stored, others=view.others)

    def _page(self, key: bytes, which: Object) -> bytes:
        """The content of a page of a view."""
        return open_record(key_of_object(key, which.name), which.name, self.read(which))


def open_reader(stores: Stores, access: Access, memory: SeenVersions | None = None) -> ReaderTables:
    """The tables of a reader, whose key may be asked its passphrase. Raises KeyFileError."""
    owner = Owner.parse(access.fingerprint)
    key = open_key(access.key, access.passphrase, access.kms)
    return ReaderTables(stores, key, memory or SeenVersions(), owner)
