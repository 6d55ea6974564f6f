"""The audit log of a table: one record per change and per export, sealed, signed and chained.

The log is a chain of pages, which are sealed objects of up to PAGE records. The table's signed head has the number of
records, the digest of the last one, and the newest page. A page names the full page before it. Every record has the
digest of its predecessor. So a removed, changed or moved record is detected, and so is a truncated log. Pages are read
to append or to read the log, never to open the table.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field, JsonValue, ValidationError

from cleave.ckks.owner_key import OwnerKey, key_id_of
from cleave.store.heads import LogHead
from cleave.store.identity import is_signed
from cleave.store.manifest import Object, StoredModel, now
from cleave.store.reader import Objects
from cleave.store.vault import Vault
from cleave_shared.errors import DAMAGED, CheckFailed

PAGE = 64  # records per page


class Record(StoredModel):
    """`rows`: added; negative: removed. `details`: names of contributors and other facts, never a value of the table.

    `version`: of the table after this. `user`: the user's name on the machine where it was done. `change`: the random
    id of a change; "" for an event. `owner`: random, of the process that committed it. `content`: keyed digest of what
    the change was asked for, and of its rows.
    """

    number: Annotated[int, Field(ge=1)]
    table: str
    version: Annotated[int, Field(ge=1)]
    at: str  # ISO 8601, UTC
    key: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]  # Ed25519, public
    user: str
    what: str
    rows: int
    details: dict[str, JsonValue]
    change: str = ""
    owner: str = ""
    content: str = ""
    before: str  # digest of the previous record; "" in the first
    signature: str = ""

    @property
    def key_id(self) -> str:
        return key_id_of(bytes.fromhex(self.key))

    def facts(self) -> dict[str, Any]:
        """The record as `cleave log --json` prints it."""
        shown = self.model_dump(include={"number", "version", "at", "user", "what", "rows", "details"})
        return {**shown, "key_id": self.key_id}


class LogPage(StoredModel):
    """`earlier`: the full page before this one."""

    earlier: Object | None = None
    records: Annotated[tuple[Record, ...], Field(min_length=1, max_length=PAGE)]


@dataclass(slots=True)
class Made:
    """What a record says of the change that it is of; of an event, nothing.

    `wrote`: names of objects that attempts to commit it wrote and that no head names. `expected`: versions of heads
    that they wanted to replace. `ids`: that they had, if it began anew.
    """

    change: str = ""
    owner: str = ""
    content: str = ""
    wrote: set[str] = field(default_factory=set)
    expected: set[str | None] = field(default_factory=set)
    ids: set[str] = field(default_factory=set)

    @property
    def fields(self) -> dict[str, str]:
        return {"change": self.change, "owner": self.owner, "content": self.content}

    def found_in(self, records: Iterable[Record]) -> Record | None:
        """The one of `records` that is of this change; None if none is."""
        ids = self.ids | {self.change} if self.change else self.ids
        return next((each for each in records if each.change in ids), None)


def extended(
    objects: Objects, folder: str, vault: Vault, log: LogHead | None, fields: dict[str, Any]
) -> tuple[LogHead, LogPage]:
    """Append one record to `log` and write its page. `fields`: the record, without its position in the chain.

    The page of `log` is not needed after that, unless the new page names it.
    """
    page = _page(objects, vault, log.page) if log else None
    record = _signed(
        objects.key, {**fields, "at": now(), "number": log.count + 1 if log else 1, "before": log.last if log else ""}
    )
    if log is None or page is None:
        page = LogPage(records=(record,))
    elif len(page.records) < PAGE:
        page = LogPage(earlier=page.earlier, records=(*page.records, record))
    else:
        page = LogPage(earlier=log.page, records=(record,))
    return LogHead(count=record.number, last=digest_of(record), page=_sealed(objects, folder, vault, page)), page


def records_of(objects: Objects, vault: Vault, log: LogHead) -> tuple[Record, ...]:
    """All records in order. Raises CheckFailed if they are not as written."""
    return records_after(objects, vault, log, 0)


def records_after(objects: Objects, vault: Vault, log: LogHead, number: int) -> tuple[Record, ...]:
    """The records after record `number`, in order. Pages before are not read. Raises as `records_of`."""
    pages: list[LogPage] = []
    for page in _pages(objects, vault, log):
        pages.insert(0, page)
        if page.records[0].number <= number + 1:
            break
    records = [each for page in pages for each in page.records]
    last, before = records[0].number - 1, records[0].before
    if number < last or (before and not last):
        raise _broken(f"record {records[0].number:,} is not the first, and none is before it")
    for record in records:
        if record.number != last + 1 or record.before != before:
            raise _broken(f"record {last + 1:,} does not fit the one before it")
        if not is_signed(record.key, record.signature, _content(record)):
            raise _broken(f"record {record.number:,} is not signed by the key that it names")
        last, before = record.number, digest_of(record)
    if (last, before) != (log.count, log.last):
        raise _broken(f"it ends with record {last:,}, which is not the last of {log.count:,}")
    return tuple(each for each in records if each.number > number)


def newest_records(objects: Objects, vault: Vault, log: LogHead) -> tuple[Record, ...]:
    """The newest PAGE records, or all if there are fewer; up to twice as many are read. Raises as `records_of`."""
    return records_after(objects, vault, log, max(0, log.count - PAGE))


def pages_of(objects: Objects, vault: Vault, log: LogHead) -> list[Object]:
    """The objects of all pages of a log. Reads all of them."""
    return [log.page, *(each.earlier for each in _pages(objects, vault, log) if each.earlier is not None)]


def _pages(objects: Objects, vault: Vault, log: LogHead) -> Iterator[LogPage]:
    """Pages from the newest to the first."""
    which: Object | None = log.page
    while which is not None:
        page = _page(objects, vault, which)
        yield page
        which = page.earlier


def copied(records: tuple[Record, ...], target: Objects, folder: str, vault: Vault) -> LogHead:
    """Seal the records of a log, unchanged, for another key."""
    earlier: Object | None = None
    for start in range(0, len(records), PAGE):
        earlier = _sealed(target, folder, vault, LogPage(earlier=earlier, records=records[start : start + PAGE]))
    if earlier is None:
        raise _broken("it has no record")
    return LogHead(count=len(records), last=digest_of(records[-1]), page=earlier)


def _sealed(objects: Objects, folder: str, vault: Vault, page: LogPage) -> Object:
    return objects.seal(folder, vault, "log", page.model_dump_json().encode())


def _page(objects: Objects, vault: Vault, which: Object) -> LogPage:
    try:
        return LogPage.model_validate_json(vault.open("log", which.name, objects.read(which, cached=False)))
    except ValidationError:
        raise _broken("a page is not of this release") from None


def _signed(key: OwnerKey, fields: dict[str, Any]) -> Record:
    signing = key.signing_key()
    record = Record.model_validate({**fields, "key": signing.public_key().public_bytes_raw().hex()})
    return record.model_copy(update={"signature": signing.sign(_content(record)).hex()})


def _content(record: Record) -> bytes:
    return _canonical(["cleave log", record.model_dump(exclude={"signature"})])


def digest_of(record: Record) -> str:
    return hashlib.sha256(_canonical(record.model_dump())).hexdigest()


def _canonical(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def _broken(why: str) -> CheckFailed:
    return CheckFailed("stored", f"the log of the table is damaged: {why}", hint=DAMAGED)
