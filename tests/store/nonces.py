"""Every key and nonce with which something of a store is sealed: no pair of them may ever come again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from cleave.store import sealed, vault


@contextmanager
def noted(note: Callable[[bytes, bytes], object]) -> Iterator[None]:
    """In the block, `note` gets the key and the nonce of everything that this process seals."""

    class Noting:
        def __init__(self, key: bytes) -> None:
            self._key, self._cipher = key, AESGCM(key)
            self.decrypt = self._cipher.decrypt

        def encrypt(self, nonce: bytes, content: bytes, bound: bytes | None) -> bytes:
            note(self._key, nonce)
            return self._cipher.encrypt(nonce, content, bound)

    with pytest.MonkeyPatch.context() as patch:
        for module in (sealed, vault):
            patch.setattr(module, "AESGCM", Noting)
        yield


@contextmanager
def never_twice(*, seals: bool = True) -> Iterator[None]:
    """Require, at the end of the block, that no key sealed twice with one nonce. `seals`: that any did."""
    seen: list[tuple[bytes, bytes]] = []
    with noted(lambda key, nonce: seen.append((key, nonce))):
        yield
    assert seen or not seals
    assert len({*seen}) == len(seen)
