"""Heads of tables: small objects in the clear, signed by the owner. A head names a table's manifest, or another key.

The signature is Ed25519's (RFC 8032): the public key can verify a head but not write one.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import Field, ValidationError

from cleave import formats
from cleave.ckks.owner_key import OwnerKey, key_id_of
from cleave.store.identity import is_signed
from cleave.store.manifest import Count, Object, StoredModel
from cleave_shared.errors import DAMAGED, CheckFailed
from cleave_shared.version import VERSION as RELEASE
from cleave_shared.wire import Hex

_KIND = "cleave_table"
_MOST_BYTES = 4096


class Compatibility(StoredModel):
    """A head's members that say which releases may read and write it (cleave.formats)."""

    written_by: str = RELEASE
    lowest_reader: str = formats.LOWEST_READER
    lowest_writer: str = formats.LOWEST_WRITER

    def require_writable(self, what: str) -> None:
        """Raise AnotherRelease if this release may not change the object `what`."""
        formats.require_writable(self.written_by, self.lowest_writer, what)

    @property
    def extra(self) -> Literal["ignore", "forbid"]:
        """How to read members that this release does not know, of this head and of what its writer sealed with it."""
        return "ignore" if formats.is_later(self.written_by) else "forbid"


class LogHead(StoredModel):
    """The audit log of a table (cleave.store.log): the number of records, the digest of the last one, and the newest
    page.
    """

    count: Annotated[int, Field(ge=1)]
    last: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    page: Object


class MovedFrom(StoredModel):
    """The head of a table under the key that it leaves. `public`: of that key (Ed25519, hex); it verifies the head."""

    place: Annotated[str, Field(pattern=r"^tables/[0-9a-f]{32}$")]
    public: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class TableHead(Compatibility):
    """The head of a table, without its signature. `log.count` grows with every head. `views`: None without readers.
    `spent`: epsilon of its noisy releases, in millionths.

    `moving_from`: while a rotation copies a table here, the head that it had: this is no table until that one says that
    it moved here. `moving_to`: the key to which a table is moved, if others change it faster than it can be copied.
    """

    table_id: Hex
    version: Annotated[int, Field(ge=1)]
    manifest: Object
    log: LogHead
    views: Object | None = None
    spent: Count = 0
    moving_from: MovedFrom | None = None
    moving_to: str = ""


class Heads:
    """Heads of one owner's tables. `location`: the store's name in messages. A table is identified by its tag."""

    def __init__(self, public: bytes, location: str, signing: Ed25519PrivateKey | None = None) -> None:
        """`public`: the owner's, which verifies heads; `signing`: its secret half, which only owners have."""
        self._public = public
        self._location = location
        self._signing = signing

    @classmethod
    def of_owner(cls, key: OwnerKey, location: str) -> Heads:
        signing = key.signing_key()
        return cls(signing.public_key().public_bytes_raw(), location, signing)

    def dump(self, tag: str, head: dict[str, Any]) -> bytes:
        if self._signing is None:
            raise TypeError("only its owner signs the head of a table")
        head = {**formats.header(_KIND), "key_id": key_id_of(self._public), **head}
        return json.dumps({**head, "signature": self._signing.sign(_signed(tag, head)).hex()}).encode()

    def load(self, tag: str, content: bytes) -> dict[str, Any]:
        """Raises AnotherRelease for a head that this release may not read, CheckFailed for one that the owner did not
        sign, or signed for another table.
        """
        failed = CheckFailed("stored", f"{self._location}: a table's head is damaged", hint=DAMAGED)
        try:
            head: dict[str, Any] = _parsed(content)
            formats.require_readable(head, _KIND, self._a_table)
            signature = head.pop("signature")
            if not isinstance(signature, str) or not is_signed(self._public.hex(), signature, _signed(tag, head)):
                raise failed
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise failed from None
        return head

    def shown(self, head: dict[str, Any]) -> TableHead:
        """What a head says of its table. Raises CheckFailed if it lacks something."""
        try:
            return TableHead.model_validate({name: head[name] for name in TableHead.model_fields if name in head})
        except ValidationError:
            raise CheckFailed("stored", f"{self._location}: a table's head is damaged", hint=DAMAGED) from None

    def require_writable(self, head: dict[str, Any]) -> None:
        """Raise AnotherRelease if this release may not change the table of a head that `load` returned."""
        formats.require_writable(head["written_by"], head["lowest_writer"], self._a_table)

    @property
    def _a_table(self) -> str:
        return f"{self._location}: a table"


def _signed(tag: str, head: dict[str, Any]) -> bytes:
    return json.dumps(["cleave head", tag, head], sort_keys=True, separators=(",", ":")).encode()


def key_moved_to(head: dict[str, Any]) -> str | None:
    """The id of a moved table's new key; None for other heads."""
    key_id = head.get("moved_to")
    return key_id if isinstance(key_id, str) else None


def table_id_of(head: dict[str, Any]) -> str | None:
    table_id = head.get("table_id")
    return table_id if isinstance(table_id, str) else None


def place_before(head: dict[str, Any]) -> str | None:
    """The folder of a table before it moves where this head is; None if no rotation is under way."""
    moving_from = head.get("moving_from")
    place = moving_from.get("place") if isinstance(moving_from, dict) else None
    return place if isinstance(place, str) else None


def parsed(content: bytes) -> dict[str, Any]:
    """The fields of a head by any writer; {} for anything else."""
    try:
        head = _parsed(content)
    except (ValueError, RecursionError):
        return {}
    return head if isinstance(head, dict) else {}


def _parsed(content: bytes) -> Any:
    if len(content) > _MOST_BYTES:
        raise ValueError
    return json.loads(content)
