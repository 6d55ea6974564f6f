"""Encryptions made ahead: whatever happens to their files and processes, none is used twice."""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import signal
import stat
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cleave.ckks import file_identity, filling, pool
from cleave.ckks.cipher import Cipher, Form
from cleave.ckks.encryptors import PROCESSES
from cleave.ckks.pool import TOGETHER, Pool
from cleave.ckks.secret_key import SecretKey
from cleave.transport.deadline import Deadline
from cleave_shared import children
from cleave_shared.errors import InputError

KILLS = 6 * int(os.environ.get("CLEAVE_CAMPAIGN", "1"))
FORM: Form = "coefficients"
SIZE = 40  # of the stand-ins for encryptions: the files are the matter here
MOVED, DAMAGED = "copied", "damaged"


def stand_ins() -> list[bytes]:
    return [os.urandom(SIZE) for _ in range(TOGETHER)]


def seeds(zeros: list[memoryview]) -> list[bytes]:
    return [bytes(each) for each in zeros]


@pytest.fixture
def folder(tmp_path: Path, key: SecretKey) -> Path:
    return tmp_path / "pool" / key.key_id


@pytest.fixture
def one(folder: Path, key: SecretKey) -> Path:
    """The file of one pack."""
    Pool(folder, key).add(FORM, stand_ins())
    (path,) = (folder / FORM).iterdir()
    return path


def notes(from_: Pool) -> str:
    return " ".join(pool.total([from_.told()]).notes)


def test_each_encryption_is_given_once_and_its_file_is_gone(folder: Path, key: SecretKey) -> None:
    made = [stand_ins() for _ in range(3)]
    for each in made:
        Pool(folder, key).add(FORM, each)
    here, there = Pool(folder, key), Pool(folder, key)
    found = seeds(here.take(FORM, 5) + there.take(FORM, TOGETHER + 1) + here.take(FORM, 2) + here.take(FORM, 1000))
    assert len(found) == len(set(found)) == 2 * TOGETHER + 1  # of the second pack of `there` the rest is lost with it
    assert set(found) <= {zero for each in made for zero in each}
    assert not list((folder / FORM).iterdir())
    assert here.take(FORM, 1) == []
    assert pool.total([here.told(), there.told()]).taken == len(found)


def test_only_its_owner_can_read_it_and_only_with_the_key(folder: Path, key: SecretKey, other_key: SecretKey) -> None:
    made = stand_ins()
    Pool(folder, key).add(FORM, made)
    (path,) = (folder / FORM).iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((folder / FORM).stat().st_mode) == stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not any(zero in path.read_bytes() for zero in made)
    thief = Pool(folder, other_key)
    assert thief.take(FORM, 1) == []
    assert MOVED in notes(thief)


@pytest.mark.parametrize("mode", [0o701, 0o740, 0o770, 0o777])
def test_a_folder_that_others_may_use_is_not_used(one: Path, folder: Path, key: SecretKey, mode: int) -> None:
    one.parent.chmod(mode)
    opened = Pool(folder, key)
    assert opened.take(FORM, 1) == []
    assert "not yours alone" in notes(opened)
    with pytest.raises(InputError, match="others may use this folder"):
        opened.add(FORM, stand_ins())


def test_a_restored_backup_is_not_used(one: Path, folder: Path, key: SecretKey, tmp_path: Path) -> None:
    shutil.copy2(one, tmp_path / "backup")
    assert len(Pool(folder, key).take(FORM, 99)) == TOGETHER
    shutil.copy2(tmp_path / "backup", one)
    again = Pool(folder, key)
    assert again.take(FORM, 1) == []
    assert MOVED in notes(again)
    assert not one.exists()


def test_a_hard_link_kept_as_a_backup_is_empty_once_it_was_used(
    one: Path, folder: Path, key: SecretKey, tmp_path: Path
) -> None:
    os.link(one, tmp_path / "backup")
    assert len(Pool(folder, key).take(FORM, 99)) == TOGETHER
    assert not (tmp_path / "backup").read_bytes()
    os.link(tmp_path / "backup", one)
    again = Pool(folder, key)
    assert again.take(FORM, 1) == []
    assert DAMAGED in notes(again)


def test_a_file_that_another_process_is_claiming_is_left_to_it(one: Path, folder: Path, key: SecretKey) -> None:
    with one.open("rb+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert Pool(folder, key).take(FORM, 1) == []
        assert one.exists()
    assert len(Pool(folder, key).take(FORM, 99)) == TOGETHER


def test_after_the_machine_was_started_anew_none_is_used(
    one: Path, folder: Path, key: SecretKey, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As a snapshot of its disk would be."""
    monkeypatch.setenv(pool.VARIABLE, str(folder.parent))
    assert pool.count(key.key_id, FORM) == TOGETHER
    (tmp_path / "boot").write_text("another")
    monkeypatch.setattr(file_identity, "_BOOT", tmp_path / "boot")
    assert pool.count(key.key_id, FORM) == 0
    assert pool.open_pool(key) is None
    later = Pool(folder, key)
    assert later.take(FORM, 1) == []
    assert MOVED in notes(later)
    assert not one.exists()
    Pool(folder, key).add(FORM, stand_ins())
    (made,) = (folder / FORM).iterdir()
    monkeypatch.undo()
    made.rename(made.with_name(one.name))  # even under a name of this start
    assert Pool(folder, key).take(FORM, 1) == []


def test_what_was_made_before_the_machine_was_started_is_swept(
    one: Path, folder: Path, key: SecretKey, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(pool.VARIABLE, str(folder.parent))
    (tmp_path / "boot").write_text("another")
    monkeypatch.setattr(file_identity, "_BOOT", tmp_path / "boot")
    pool.sweep(key.key_id)
    assert not one.exists()


def renamed(path: Path) -> None:
    path.rename(path.with_name(path.name[:8] + "0" * 32 + ".zeros"))


def of_the_other_form(path: Path) -> None:
    (path.parent.parent / "ntt").mkdir(mode=0o700)
    path.rename(path.parent.parent / "ntt" / path.name)


@pytest.mark.parametrize("move", [renamed, of_the_other_form])
def test_a_file_opens_as_what_it_was_written_as_only(
    one: Path, folder: Path, key: SecretKey, move: Callable[[Path], None]
) -> None:
    move(one)
    opened = Pool(folder, key)
    assert opened.take(FORM, 1) == opened.take("ntt", 1) == []
    assert MOVED in notes(opened)


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(content)


def shortened(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def emptied(path: Path) -> None:
    os.truncate(path, 0)


def of_text(path: Path) -> None:
    path.write_bytes(b"CLZ1")


@pytest.mark.parametrize("harm", [flipped, shortened, emptied, of_text])
def test_a_damaged_file_is_deleted_and_told_of(
    one: Path, folder: Path, key: SecretKey, harm: Callable[[Path], None]
) -> None:
    harm(one)
    opened = Pool(folder, key)
    assert opened.take(FORM, 1) == []
    assert DAMAGED in notes(opened)
    assert not one.exists()


def test_what_is_no_file_is_neither_followed_nor_waited_for(
    one: Path, folder: Path, key: SecretKey, tmp_path: Path
) -> None:
    one.rename(tmp_path / "elsewhere")
    one.symlink_to(tmp_path / "elsewhere")
    os.mkfifo(one.with_name(f"{one.name[:8]}-pipe.zeros"))
    one.with_name(f"{one.name[:8]}-folder.zeros").mkdir()
    assert Pool(folder, key).take(FORM, 1) == []
    assert (tmp_path / "elsewhere").stat().st_size  # what a link names is no matter of ours


def test_what_was_claimed_before_a_fork_is_the_parents(one: Path, folder: Path, key: SecretKey) -> None:
    del one
    Pool(folder, key).add(FORM, stand_ins())
    here = Pool(folder, key)
    first = seeds(here.take(FORM, 1))

    def work(channel: children.Channel) -> None:
        channel.send([*seeds(here.take(FORM, 99)), here.told()])

    with children.fork(work) as child:
        *theirs, told = child.receive(20)
    ours = seeds(here.take(FORM, 99))
    assert len(first + ours) == len(theirs) == TOGETHER
    assert not set(first + ours) & set(theirs)
    assert pool.total([told]).taken == TOGETHER  # and not the parent's besides
    assert pool.total([here.told()]).taken == TOGETHER


def test_processes_that_race_and_are_killed_use_none_twice(folder: Path, key: SecretKey, tmp_path: Path) -> None:
    """Some take, some fill, and each is killed at any moment. What is taken is written down before it could be used."""
    made = KILLS * 3
    for _ in range(made):
        Pool(folder, key).add(FORM, stand_ins())
    log = os.open(tmp_path / "taken", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def take(_: children.Channel) -> None:
        while True:
            for zero in Pool(folder, key).take(FORM, random.randint(1, 2 * TOGETHER)):
                os.write(log, zero)

    def fill(_: children.Channel) -> None:
        while True:
            Pool(folder, key).add(FORM, stand_ins())

    kills = 0
    while kills < KILLS:
        alive = [children.fork(take) for _ in range(3)] + [children.fork(fill)]
        for child in random.sample(alive, len(alive)):
            time.sleep(random.uniform(0.0, 0.02))
            os.kill(child.pid, signal.SIGKILL)
            child.__exit__(None, None, None)
            kills += 1
    os.close(log)
    left = seeds(Pool(folder, key).take(FORM, 1 << 20))
    content = (tmp_path / "taken").read_bytes()
    taken = [content[start : start + SIZE] for start in range(0, len(content), SIZE)] + left
    assert len(taken) > made
    assert len(set(taken)) == len(taken)
    assert not [name for name in os.listdir(folder / FORM) if name.endswith(".zeros")]


def test_what_killed_processes_left_is_swept(
    one: Path, folder: Path, key: SecretKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(pool.VARIABLE, str(folder.parent))
    draft = one.with_name("a.draft")
    draft.write_bytes(b"x")
    pool.sweep(key.key_id)
    assert draft.exists()  # another process may be at it
    pool.sweep(key.key_id, seconds=-1)
    assert not draft.exists()
    assert one.exists()


@pytest.mark.parametrize("form", pool.FORMS)
def test_encryptions_are_filled_used_and_shown(
    folder: Path, key: SecretKey, monkeypatch: pytest.MonkeyPatch, form: Form
) -> None:
    monkeypatch.setenv(pool.VARIABLE, str(folder.parent))
    assert pool.open_pool(key) is None
    told: list[int] = []
    filling.fill(Pool(folder, key), key, form, TOGETHER + 1, Deadline(60), told.append)
    filling.fill(Pool(folder, key), key, form, TOGETHER, Deadline(60), told.append)  # there are enough
    packs = 1 + PROCESSES
    assert told == packs * [TOGETHER]
    assert pool.count(key.key_id, form) == packs * TOGETHER
    assert pool.size(key.key_id, form) / (packs * TOGETHER) == pytest.approx(65_720, abs=20)
    opened = pool.open_pool(key)
    assert opened is not None
    cipher = Cipher(key, opened)
    sent = np.random.default_rng(1).integers(-(2**50), 2**50, (3, 8192))
    blobs = cipher.encrypt(sent) if form == "ntt" else cipher.encrypt_to_add(sent)
    assert np.abs(cipher.decrypt(blobs) - sent).max() <= 21
    assert pool.total([opened.told()]).taken == 3
    assert pool.drop(key.key_id) == PROCESSES * TOGETHER
    assert not folder.exists()


def test_where_it_lies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert pool.folder_of("k", {}) == tmp_path / ".cache" / "cleave" / "pool" / "k"
    assert pool.folder_of("k", {"XDG_CACHE_HOME": "/c"}) == Path("/c/cleave/pool/k")
    assert pool.folder_of("k", {"XDG_CACHE_HOME": "relative"}) == tmp_path / ".cache" / "cleave" / "pool" / "k"
    assert pool.folder_of("k", {"CLEAVE_POOL": "/p"}) == Path("/p/k")
    assert pool.folder_of("k", {"CLEAVE_POOL": "off"}) is None


@pytest.mark.parametrize("values", [0, (1 << 17) * 8176 + 1])
def test_a_pool_of_no_or_too_many_values_is_refused(key: SecretKey, values: int) -> None:
    with pytest.raises(InputError, match="a pool holds at most"):
        filling.chunks_of(values, key.profile)
