"""Heads of tables: small clear objects that name a table's manifest, or another key, and bear its owner's mark."""

from __future__ import annotations

import hmac
import json
from typing import Any

from cleave.ckks.secret_key import SecretKey
from cleave.store.manifest import FORMAT
from cleave_shared.errors import DAMAGED, CheckFailed

_MOST_BYTES = 4096


class Heads:
    """Of the tables of `key` at `location`, a name for messages. A table is known by its tag."""

    def __init__(self, key: SecretKey, location: str) -> None:
        self._mac = key.derive("store/head")
        self._location = location

    def dump(self, tag: str, head: dict[str, Any]) -> bytes:
        head = {"cleave_table": FORMAT, **head}
        return json.dumps({**head, "mac": self._mark(tag, head)}).encode()

    def load(self, tag: str, content: bytes) -> dict[str, Any]:
        """Raises CheckFailed for a head that does not bear the mark, or bears it for another table."""
        failed = CheckFailed("stored", f"{self._location}: a table's head is damaged", hint=DAMAGED)
        try:
            head: dict[str, Any] = _parsed(content)
            mark = head.pop("mac")
            if head["cleave_table"] != FORMAT:
                raise failed
            if not hmac.compare_digest(str(mark), self._mark(tag, head)):
                raise failed
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise failed from None
        return head

    def _mark(self, tag: str, head: dict[str, Any]) -> str:
        text = json.dumps([tag, head], sort_keys=True, separators=(",", ":"))
        return hmac.digest(self._mac, text.encode(), "sha256").hex()


def key_moved_to(head: dict[str, Any]) -> str | None:
    """The id of the key that the table was put under, of a head that is left to say so."""
    found = head.get("moved_to")
    return found if isinstance(found, str) else None


def parsed(content: bytes) -> dict[str, Any]:
    """Return what a head says, whoever wrote it; nothing for what is no head."""
    try:
        head = _parsed(content)
    except (ValueError, RecursionError):
        return {}
    return head if isinstance(head, dict) else {}


def _parsed(content: bytes) -> Any:
    if len(content) > _MOST_BYTES:
        raise ValueError
    return json.loads(content)
