"""The audit log of a table: one record per change and per export, sealed, signed and chained.

The log is a chain of pages, which are sealed objects of up to PAGE records. The table's signed head has the number of
records, the digest of the last one, and the newest page, which names the full pages before it. Every record has the
digest of its predecessor. So a removed, changed or moved record is detected, and so is a truncated log. Pages are read
to append or to read the log, never to open the table.
"""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any

from pydantic import Field, JsonValue, ValidationError

from cleave.ckks.owner_key import OwnerKey, key_id_of
from cleave.store.identity import is_signed
from cleave.store.manifest import LogHead, Object, StoredModel, now
from cleave.store.reader import Objects
from cleave.store.vault import Vault
from cleave_shared.errors import DAMAGED, CheckFailed

PAGE = 64  # records per page


class Record(StoredModel):
    """`rows`: added; negative: removed. `details`: names of contributors and other facts, never a value of the table.

    `version`: of the table after this. `user`: the user's name on the machine where it was done.
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
    before: str  # digest of the previous record; "" in the first
    signature: str = ""

    @property
    def key_id(self) -> str:
        return key_id_of(bytes.fromhex(self.key))

    def facts(self) -> dict[str, Any]:
        """The record as `cleave log --json` prints it."""
        shown = self.model_dump(include={"number", "version", "at", "user", "what", "rows", "details"})
        return {**shown, "key_id": self.key_id}


class Page(StoredModel):
    """`pages`: the full pages before this one."""

    pages: tuple[Object, ...] = ()
    records: Annotated[tuple[Record, ...], Field(min_length=1, max_length=PAGE)]


def extended(
    objects: Objects, folder: str, vault: Vault, log: LogHead | None, fields: dict[str, Any]
) -> tuple[LogHead, Page]:
    """Append one record to `log` and write its page. `fields`: the record, without its position in the chain."""
    page = _page(objects, vault, log.page) if log else None
    record = _signed(
        objects.key, {**fields, "at": now(), "number": log.count + 1 if log else 1, "before": log.last if log else ""}
    )
    if log is None or page is None:
        page = Page(records=(record,))
    elif len(page.records) < PAGE:
        page = Page(pages=page.pages, records=(*page.records, record))
    else:
        page = Page(pages=(*page.pages, log.page), records=(record,))
    return LogHead(count=record.number, last=digest_of(record), page=_sealed(objects, folder, vault, page)), page


def records_of(objects: Objects, vault: Vault, log: LogHead) -> tuple[Record, ...]:
    """All records in order. Raises CheckFailed if they are not as written."""
    newest = _page(objects, vault, log.page)
    records = [each for which in newest.pages for each in _page(objects, vault, which).records]
    records += newest.records
    before = ""
    for number, record in enumerate(records, 1):
        if record.number != number or record.before != before:
            raise _broken(f"record {number:,} does not fit the one before it")
        if not is_signed(record.key, record.signature, _content(record)):
            raise _broken(f"record {number:,} is not signed by the key that it names")
        before = digest_of(record)
    if (len(records), before) != (log.count, log.last):
        raise _broken(f"it ends with record {len(records):,}, which is not the last of {log.count:,}")
    return tuple(records)


def copied(records: tuple[Record, ...], target: Objects, folder: str, vault: Vault) -> LogHead:
    """Seal the records of a log, unchanged, for another key."""
    pages = list[Object]()
    for start in range(0, len(records), PAGE):
        page = Page(pages=tuple(pages), records=records[start : start + PAGE])
        pages.append(_sealed(target, folder, vault, page))
    return LogHead(count=len(records), last=digest_of(records[-1]), page=pages[-1])


def _sealed(objects: Objects, folder: str, vault: Vault, page: Page) -> Object:
    return objects.seal(folder, vault, "log", page.model_dump_json().encode())


def _page(objects: Objects, vault: Vault, which: Object) -> Page:
    try:
        return Page.model_validate_json(vault.open("log", which.name, objects.read(which, cached=False)))
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
