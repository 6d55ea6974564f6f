"""A rotation is killed, and done again beside a put; all take encryptions made ahead, and none is used twice."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import numpy as np
import pytest

from cleave.ckks.cipher import Cipher
from cleave.ckks.key_file import create_key, open_key
from cleave.ckks.pool import TOGETHER, Pool
from cleave.ckks.secret_key import SecretKey
from cleave.store.chunks import split
from cleave.store.memory import Memory
from cleave.store.stored import Stored
from cleave.store.tables import Tables
from cleave_shared import seal
from cleave_shared.errors import CheckFailed
from tests.store.asking import ask
from tests.store.commands import Commands, Death
from tests.store.contributing import HEADER, SCHEMA, World
from tests.store.test_contributors import SUMS, expected

pytestmark = pytest.mark.slow
ROWS = 100_000  # 50 ciphertexts a table, for which processes are forked
PACKS = 5  # fewer: whoever comes second wants what the first has


@pytest.fixture
def new(tmp_path: Path) -> SecretKey:
    create_key(tmp_path / "new.json", None)
    return open_key(tmp_path / "new.json", None)


def mask_of(key: SecretKey, ciphertext: bytes) -> bytes:
    """What is uniform in it and comes with the encryption of zero: of two ciphertexts the same only if that is."""
    ring = seal.ring(key.profile.name)
    return ring._polynomials(ring.ciphertext(ciphertext))[1, :8].tobytes()


def masks_in(world: World, key: SecretKey, folder: str) -> dict[bytes, bytes]:
    """Those of every ciphertext in a folder of the store; one that is there twice, as a draft too, is one."""
    found, store = {}, world.sensitive()
    for name in store.names(folder):
        with contextlib.suppress(CheckFailed):  # sealed
            found |= {each: mask_of(key, each) for each in split(store.read(name))}
    return found


def masks_ahead(key: SecretKey, zeros: list[bytes] | list[memoryview]) -> set[bytes]:
    ring, nothing = seal.ring(key.profile.name), np.zeros(key.profile.degree, np.uint64)
    return {mask_of(key, ring.seeded(each, nothing, ntt_form=True)) for each in zeros}


def fill(pool: Pool, key: SecretKey) -> set[bytes]:
    packs = [Cipher(key).fresh("ntt", TOGETHER) for _ in range(PACKS)]
    for each in packs:
        pool.add("ntt", each)
    return masks_ahead(key, [zero for each in packs for zero in each])


def test_of_all_that_was_ever_stored_no_two_share_an_encryption(tmp_path: Path, key_file: Path, new: SecretKey) -> None:
    world = World(tmp_path / "world", key_file)
    numbers = np.random.default_rng(7).integers(0, 100, (ROWS, 2)).tolist()
    rows = "".join(f"{'ABC'[age % 3]},f,{age},{bill}.25,{bill}.5,x\n" for age, bill in numbers)
    world.put(rows)
    (world.root / "other.csv").write_text(HEADER + rows)
    (world.root / "other.schema.toml").write_text(SCHEMA)
    store = ["--store", f"{world.root / 's'},{world.root / 'p'}"]
    rotate = ["key", "rotate", "trial", "--new-key", tmp_path / "new.json", "--key", key_file, *store]
    put = ["put", world.root / "other.csv", "--table", "other", "--by", "ward", "--key", tmp_path / "new.json", *store]
    environment = {"XDG_STATE_HOME": str(tmp_path / "state"), "CLEAVE_POOL": str(tmp_path / "pool")}
    pool = Pool(tmp_path / "pool" / new.key_id, new)
    tables = Tables(world.stores(), new, Memory(tmp_path / "seen.json"))
    with Commands(tmp_path, **environment) as one, Commands(tmp_path, **environment) as other:
        ahead = fill(pool, new)
        one.run(*rotate, death=Death(at=random.randint(10, 60)))
        found = masks_in(world, new, tables.folder("trial"))
        ahead |= fill(pool, new)
        one.start(*rotate)
        for ended in (other.run(*put), one.result()):
            assert ended.code == 0, ended
    for name in ("trial", "other"):
        found |= masks_in(world, new, tables.folder(name))
    masks = set(found.values())
    assert len(masks) == len(found) > len(ahead)
    assert ahead & masks
    assert not masks_ahead(new, pool.take("ntt", len(ahead))) & masks
    stored = Stored(tables, tables.open("trial"), new)
    assert ask(stored, SUMS).result.rows == expected(world, rows, SUMS)
