"""A table, a passphrase and a key full of values that nothing but the answer may ever show, and the search for them.

Every cell is recognisable in whatever form it might leak: as text, as digits, as the bytes of an integer or a double.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cleave.ckks.owner_key import OwnerKey
from cleave.ckks.secret_key import SecretKey
from cleave_shared import seal

PASSPHRASE = "PassCanary-5d1e-horse"
QUESTION = (
    "SELECT plainward, COUNT(*) AS n, MAX(visits) AS v, SUM(hiddenpay) AS s, AVG(hiddendose) AS d, "
    "VAR_SAMP(hiddencount) AS c FROM t WHERE visits > 0 GROUP BY plainward ORDER BY plainward"
)
# Names of the sensitive half are secret too: on the wire they are numbers.
_KINDS = {
    "plainward": ("plain", "VARCHAR"),
    "visits": ("plain", "BIGINT"),
    "hiddencount": ("encrypted", "BIGINT"),
    "hiddenpay": ("encrypted", "DECIMAL(18,2)"),
    "hiddendose": ("encrypted", "DOUBLE"),
    "hiddensealed": ("sealed", "VARCHAR"),
    "hiddenserial": ("sealed", "BIGINT"),
    "hiddennote": ("local", "VARCHAR"),
    "hiddenlevel": ("local", "DOUBLE"),
}
_PUBLIC_HEAD = 128  # bytes of a SEAL file that name its parameters: ciphertexts begin with them too
PLAIN = ("plainward", "visits")
NAMES = tuple(name for name in _KINDS if name.startswith("hidden"))


@dataclass(frozen=True)
class Canaries:
    """`cells` by column, `rows` of them; `write` makes the CSV and its schema."""

    cells: dict[str, list[str]]

    @property
    def rows(self) -> int:
        return len(self.cells["visits"])

    def write(self, folder: Path, spoil: dict[str, str] | None = None, bounds: str = "") -> Path:
        """`spoil` replaces the cell of a column in row 2; `bounds` are lines for the schema of hiddencount."""
        path = folder / "t.csv"
        lines = [",".join(self.cells)]
        for row in range(self.rows):
            spoilt = spoil if spoil and row == 1 else {}
            lines.append(",".join(spoilt.get(name, column[row]) for name, column in self.cells.items()))
        path.write_text("\n".join(lines) + "\n")
        tables = [
            f'[columns.{name}]\nkind = "{kind}"\ntype = "{type_}"\n' + (bounds if name == "hiddencount" else "")
            for name, (kind, type_) in _KINDS.items()
        ]
        path.with_suffix(".schema.toml").write_text("\n".join(tables))
        return path

    def forms(self, columns: Iterable[str]) -> set[bytes]:
        """Every form that a cell of these columns could take, 8 bytes or more each."""
        found: set[bytes] = set()
        for name in columns:
            for cell in self.cells[name]:
                found |= set(_forms(cell, _KINDS[name][1]))
        return found

    @cached_property
    def sensitive(self) -> set[bytes]:
        return self.forms(NAMES) | {name.encode() for name in NAMES}

    @cached_property
    def all(self) -> set[bytes]:
        """What no log, error or file may hold: cells of every column, and the passphrase."""
        return self.forms(_KINDS) | {PASSPHRASE.encode()}


def canaries(rows: int = 12) -> Canaries:
    cells: dict[str, list[str]] = {name: [] for name in _KINDS}
    for row in range(rows):
        cells["plainward"].append(f"WardCanary-7f3a-{row % 3}")
        cells["visits"].append(str(918273645_000 + row))
        cells["hiddencount"].append(str(827364518_000_000 + 7 * row))
        cells["hiddenpay"].append(f"{7364518000 + row}.{91 + row % 9}")
        cells["hiddendose"].append(repr(59182736.4518 + row / 8))
        cells["hiddensealed"].append(f"SealedCanary-88c1-{row}")
        cells["hiddenserial"].append(str(661122334455_000 + row))
        cells["hiddennote"].append(f"NoteCanary-e02b-{row}")
        cells["hiddenlevel"].append(repr(445566.7788 + row))
    return Canaries(cells)


def _forms(cell: str, type_: str) -> Iterator[bytes]:
    yield cell.encode()
    if type_ == "VARCHAR":
        return
    number = Decimal(cell)
    yield struct.pack("<d", float(number))
    whole = int(number)
    yield struct.pack("<q", whole)
    if "." in cell:
        yield cell.replace(".", "").encode()
        yield struct.pack("<q", int(number * 100))
    for text in (f"{whole:,}", f"{float(number):.8g}", repr(float(number))):
        if len(text) >= 8:
            yield text.encode()


class Needles:
    """Finds any of many texts of at least 4 bytes: each 4 bytes of what is searched are looked up among their heads."""

    def __init__(self, texts: Iterable[bytes] = ()) -> None:
        self._heads = np.zeros(1 << 22, bool)  # by the first 22 bits
        self._texts: dict[bytes, list[bytes]] = {}
        self.add(texts)

    def add(self, texts: Iterable[bytes]) -> None:
        for text in texts:
            assert len(text) >= 4, text
            self._heads[int.from_bytes(text[:4], "little") & 0x3FFFFF] = True
            if text not in (alike := self._texts.setdefault(text[:4], [])):
                alike.append(text)

    def found_in(self, data: bytes) -> Iterator[bytes]:
        for shift in range(4):
            if count := max(len(data) - shift, 0) // 4:
                words = np.frombuffer(data, "<u4", count, shift)
                for place in 4 * np.flatnonzero(self._heads[words & 0x3FFFFF]) + shift:
                    for text in self._texts.get(data[place : place + 4], ()):
                        if data.startswith(text, place):
                            yield text


_needles = cache(Needles)


def traces(data: bytes, forms: Iterable[bytes]) -> list[bytes]:
    """Which of `forms` stand in `data`, as they are or in base64 that starts anywhere."""
    needles = _needles(frozenset(forms))
    return sorted({found for text in (data, *_decoded(data)) for found in needles.found_in(text)})


def _decoded(data: bytes) -> Iterator[bytes]:
    """`data` read as base64 from each of four places, where it is that at all: a Lambda event, JSON of the wire."""
    letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    for word in data.translate(bytes(c if c in letters else 32 for c in range(256))).split():
        if len(word) >= 12:
            for start in range(4):
                part = word[start:]
                yield base64.b64decode(part[: len(part) // 4 * 4])


class KeyTraces:
    """Finds any 32 bytes in a row of keys' secrets, raw, in base64 or in hexadecimal.

    32 bytes in a row hold a whole block of 16 that starts at a multiple of 16: only those are looked up, by a number of
    64 bits each. A key has a hundred thousand of them.
    """

    def __init__(self, owner: OwnerKey) -> None:
        self.ckks: list[SecretKey] = []
        self._heads = np.zeros(1 << 22, bool)  # by the first 22 bits
        self._numbers = np.empty(0, np.uint64)
        blocks = _blocks(owner._master)
        assert len(blocks) >= 10
        self._look_for(blocks)

    def add(self, key: SecretKey) -> None:
        """Look for a CKKS key too."""
        self.ckks.append(key)
        secrets = [key._master, *(file[_PUBLIC_HEAD:] for file in (key.secret, seal._unwrap(key.secret)))]
        found = np.concatenate([_blocks(each) for each in secrets])
        assert len(found) > 1000
        self._look_for(found)

    def _look_for(self, blocks: NDArray[np.uint8]) -> None:
        self._heads[blocks.view("<u4")[:, 0] & 0x3FFFFF] = True
        self._numbers = np.sort(np.concatenate([self._numbers, _numbers(blocks)]))

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        """Look for every CKKS key that is made in this process from now on."""
        made = SecretKey.__init__

        def noted(key: SecretKey, *arguments: Any) -> None:
            made(key, *arguments)
            if key.secret not in [each.secret for each in self.ckks]:
                self.add(key)

        patch.setattr(SecretKey, "__init__", noted)

    def found_in(self, data: bytes) -> bool:
        if len(data) < 16:
            return False
        windows = np.lib.stride_tricks.sliding_window_view(np.frombuffer(data, np.uint8), 16)
        for shift in range(4):
            words = np.frombuffer(data, "<u4", (len(data) - shift) // 4, shift)
            places = 4 * np.flatnonzero(self._heads[words & 0x3FFFFF]) + shift
            numbers = _numbers(windows[places[places < len(windows)]])
            at = np.searchsorted(self._numbers, numbers).clip(max=len(self._numbers) - 1)
            if (self._numbers[at] == numbers).any():
                return True
        return False


def _blocks(secret: bytes) -> NDArray[np.uint8]:
    """Rows of 16 bytes."""
    spelled = [secret, secret.hex().encode(), *(base64.b64encode(secret[shift:]) for shift in range(3))]
    rows = np.concatenate([np.frombuffer(text, np.uint8, len(text) // 16 * 16).reshape(-1, 16) for text in spelled])
    different = (np.diff(np.sort(rows, axis=1), axis=1) > 0).sum(axis=1) + 1
    found: NDArray[np.uint8] = rows[different >= 8]  # headers and padding are no secret
    return found


def _numbers(blocks: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """One for each block; two blocks share one once in 2^64 times."""
    first, second = np.ascontiguousarray(blocks).view("<u8").T
    mixed: NDArray[np.uint64] = first * np.uint64(0x9E3779B97F4A7C15) + second * np.uint64(0xC2B2AE3D27D4EB4F)
    return mixed
