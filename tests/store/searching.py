"""Searches everything that a store holds for words, under every key that the owner has for a table.

The search knows no kinds of objects. Each object is decrypted with each key, without a look at its tag: AES-GCM is
AES-CTR, so what a key does not open is noise, in which no word of eight bytes occurs by chance. So it also finds what
no version, list or draft names. Names of objects, and ids from which keys follow, come from what was decrypted.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import product
from pathlib import Path

import duckdb
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from cleave.ckks.owner_key import OwnerKey

PURPOSES = ("manifest", "cells", "rows", "ckks", "draft", "job", "release", "log", "readers")  # docs/key-file.md
_ID = re.compile(rb'"name":"[^"]*","id":"([0-9a-f]{32})"|"id":"([0-9a-f]{32})","name":"')
_CIPHERTEXTS = b"CLO1"
_PARQUET = b"PAR1"
_SEALED = b"CLS3"
_NONCE, _TAG = 12, 16
Opened = dict[str, list[bytes]]  # by name: the content as it is stored, and decrypted with each key


def _expanded(key: bytes, info: str) -> bytes:
    return HKDFExpand(SHA256(), 32, info.encode()).derive(key)


def _decrypted(key: bytes, sealed: bytes) -> bytes:
    """The content of a nonce, a ciphertext and a tag: GCM's counter of the first block is 2."""
    counter = sealed[:_NONCE] + (2).to_bytes(4, "big")
    return Cipher(algorithms.AES(key), modes.CTR(counter)).decryptor().update(sealed[_NONCE:-_TAG])


class Search:
    """What is below `root`, opened with the keys of `owners` for tables `table_ids`, which have the name `table`.

    No segment may have more than 65,536 rows: of each object the first block is opened.
    """

    def __init__(self, root: Path, owners: Collection[OwnerKey], table: str, table_ids: Collection[str]) -> None:
        places = [(each, id_) for each in owners for id_ in table_ids]
        drafts = [(each, f"draft {each.tag(f'stored table {table.lower()}')}") for each in owners]
        secrets = [
            each.derive(f"store/{purpose}/{place}") for purpose, (each, place) in product(PURPOSES, (*places, *drafts))
        ]
        self.opened: Opened = {}
        files = {str(each.relative_to(root)): each.read_bytes() for each in root.rglob("*") if each.is_file()}
        for file, content in files.items():
            self.opened[file] = [content, *_rows_of(root / file, content), *_opened(secrets, file, content)]
        ids = {(one or two).decode() for each in self._every() for one, two in _ID.findall(each)}
        ids.add("0" * 32)  # of marks
        keys = [_expanded(each.derive(f"store/rows/{of}"), f"column/{id_}") for (each, of), id_ in product(places, ids)]
        keys += [_expanded(each.derive(f"store/readers/{of}"), id_) for (each, of), id_ in product(places, ids)]
        for file, content in files.items():
            self.opened[file] += _opened(keys, file, content)

    def _every(self) -> Iterator[bytes]:
        for contents in self.opened.values():
            yield from contents

    def having(self, word: str | bytes) -> set[str]:
        """The objects that hold a word. It is in no name."""
        raw = word if isinstance(word, bytes) else word.encode()
        assert len(raw) >= 8, "shorter ones occur by chance"
        assert not any(raw in file.encode() for file in self.opened)
        return {file for file, contents in self.opened.items() if any(raw in each for each in contents)}


def _opened(secrets: Collection[bytes], file: str, content: bytes) -> list[bytes]:
    """What an object may be, with the keys that follow from `secrets`. The first folder of `file` is a store."""
    if content.startswith((_CIPHERTEXTS, _PARQUET)) or len(content) < len(_SEALED) + _NONCE + _TAG:
        return []
    name = file.partition("/")[2]
    return [_decrypted(_expanded(each, name), content.removeprefix(_SEALED)) for each in secrets]


def _rows_of(path: Path, content: bytes) -> list[bytes]:
    if not content.startswith(_PARQUET):
        return []
    return [repr(duckdb.execute("FROM read_parquet(?)", [str(path)]).fetchall()).encode()]
