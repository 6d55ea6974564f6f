"""A cell without rows keeps no key: after a deletion no object holds the `by` values of the deleted rows.

Everything that is sealed is recorded with its content, so the search needs no key and no list of kinds of objects.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from cleave.ckks.owner_key import OwnerKey
from cleave.maintain.changes import delete_rows as delete
from cleave.maintain.changes import update_rows as update
from cleave.maintain.pull import find_damage as verify
from cleave.objects.locate import Folder
from cleave.store import sealed, vault
from cleave.store.compacting import compact
from cleave.table.progress import Silent
from tests.store.trial import World

CANARY = "Ward-canary-7f3a"
ROWS = f"SELECT range AS n, CASE WHEN range = 5 THEN '{CANARY}' ELSE 'Ward ' || range % 3 END AS ward FROM range(12)"
SCHEMA = """
[columns.n]
kind = "encrypted"
type = "BIGINT"
lower = 0
upper = 100
[columns.ward]
type = "VARCHAR"
kind = """
CHANGES: dict[str, Any] = {
    "delete": lambda world: delete(world.tables, "trial", "n = 5", Silent(), yes=True),
    "update": lambda world: update(world.tables, "trial", {"ward": "'Ward 0'"}, "n = 5", Silent(), yes=True),
}


class Sealing:
    """Every ciphertext that was made, with its content."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.contents: dict[bytes, bytes] = {}
        contents = self.contents

        class Recording:
            def __init__(self, key: bytes) -> None:
                self._cipher = AESGCM(key)
                self.decrypt = self._cipher.decrypt

            def encrypt(self, nonce: bytes, content: bytes, bound: bytes) -> bytes:
                made = self._cipher.encrypt(nonce, content, bound)
                contents[made] = bytes(content)
                return made

        for module in (sealed, vault):
            monkeypatch.setattr(module, "AESGCM", Recording)

    def having(self, folder: Path, word: str | bytes) -> set[str]:
        """The objects below `folder` that hold `word`."""
        names, raw = set[str](), word if isinstance(word, bytes) else word.encode()
        for path in (each for each in folder.rglob("*") if each.is_file()):
            stored = path.read_bytes()
            opened = [stored, *(content for made, content in self.contents.items() if made in stored)]
            if stored.startswith(b"PAR1"):
                opened.append(repr(duckdb.execute("FROM read_parquet(?)", [str(path)]).fetchall()).encode())
            names |= {path.name for each in opened if raw in each}
        return names


@pytest.mark.sampled(6)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", ["sealed", "plain"])
def test_no_object_holds_the_by_value_of_a_cell_without_rows(
    key: OwnerKey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, change: str
) -> None:
    made, store, schema = Sealing(monkeypatch), tmp_path / "store", f'{SCHEMA}"{kind}"\n'
    world = World(Folder(store), key, tmp_path)
    world.write(world.make(ROWS, schema), "ward")
    world.write(world.make("SELECT range AS n, 'Ward 9' AS ward FROM range(6, 9)", schema), append=True)
    assert len(made.having(store, CANARY)) > 1
    CHANGES[change](world)
    assert made.having(store, CANARY) == set()
    assert made.having(store, "Ward 9")
    world.write(world.make(ROWS, schema), append=True)  # the number of the empty cell is used again
    assert len(made.having(store, CANARY)) > 1
    CHANGES["delete"](world)
    compact(world.tables, "trial", Silent())
    assert made.having(store, CANARY) == set()
    assert verify(world.stored(), Silent()) == []
    counts = world.ask("SELECT ward, COUNT(*) FROM trial GROUP BY ward ORDER BY ward").result.rows
    assert counts == [["Ward 0", 8], ["Ward 1", 8], ["Ward 2", 6], ["Ward 9", 3]]
