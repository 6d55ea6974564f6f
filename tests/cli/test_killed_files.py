"""Commands that write a file or a folder, killed at every change of the disk, and run again: no draft is left.

A draft of a key is a whole key. What a live writer writes is never removed by another writer of the same file.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cleave.ckks.key_file import create_key, open_key
from cleave.files import atomically, fill_atomically, require_target, write_atomically
from cleave_shared.errors import InputError
from tests.store.commands import Commands, Death

FIRST, SECOND = "seventeen quiet herons", "eleven loud ibises"


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    state = tmp_path_factory.mktemp("state")
    with Commands(state, XDG_STATE_HOME=str(state), XDG_CONFIG_HOME=str(state)) as started:
        yield started


def files(folder: Path) -> list[str]:
    return sorted(str(each.relative_to(folder)) for each in folder.rglob("*"))


SHARES = ["shares", *(f"shares/share-{number}-of-3.txt" for number in (1, 2, 3))]
CASES = {  # the words, and what the folder has before and after them
    "new": ("key new --key {0}/new.json", ["key.json"], ["key.json", "new.json"]),
    "wrap": ("key wrap --key {0}/key.json --passphrase", ["key.json"], ["key.json"]),
    "split": ("key split {0}/key.json --shares 3 -o {0}/shares", ["key.json", SHARES[0]], ["key.json", *SHARES]),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", CASES)
def test_a_killed_command_leaves_nothing_when_it_is_run_again(commands: Commands, tmp_path: Path, case: str) -> None:
    words, before, after = CASES[case]

    def begin(name: str) -> Path:
        (folder := tmp_path / name).mkdir()
        if "shares" in before:
            (folder / "shares").mkdir()
        create_key(folder / "key.json", None if case == "wrap" else FIRST.encode())
        return folder

    environment = {"CLEAVE_NEW_PASSPHRASE": SECOND} if case == "wrap" else {"CLEAVE_PASSPHRASE": FIRST}
    whole = begin("whole")
    done = commands.run(*words.format(whole).split(), environment=environment)
    assert done.code == 0, done
    assert files(whole) == after
    assert done.changes >= 3
    left = set()
    for at in range(done.changes):
        for made in (False, True):
            folder = begin(f"{at} {made}".replace(" ", "-"))
            ended = commands.run(*words.format(folder).split(), death=Death(at, made), environment=environment)
            assert ended.code == -9 or (made and not ended.code), ended  # its last change found nothing to remove
            found = [each for each in files(folder) if not each.startswith(".")]
            assert found in (before, after), found  # all or nothing
            left.update(each for each in files(folder) if each.startswith("."))
            again = commands.run(*words.format(folder).split(), environment=environment)
            assert again.code == 0 or (again.code == 5 and found == after), again  # it was done
            assert files(folder) == after
            assert open_key(folder / "key.json", (SECOND if case == "wrap" else FIRST).encode())
    assert left  # at least one kill left a draft


def test_writers_of_one_file_at_once_leave_each_others_drafts(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    with atomically(path, error=InputError, overwrite=True) as slow:
        slow.write(b"slow")
        write_atomically(path, b"quick", error=InputError, overwrite=True)
        require_target(path, overwrite=True)
        assert path.read_bytes() == b"quick"
        assert len(files(tmp_path)) == 2
    assert path.read_bytes() == b"slow"
    assert files(tmp_path) == ["a.csv"]


def test_many_writers_of_one_file_all_end(tmp_path: Path) -> None:
    path, failures = tmp_path / "a.csv", []

    def write() -> None:
        try:
            for _ in range(50):
                write_atomically(path, b"x", error=InputError, overwrite=True)
        except InputError as error:
            failures.append(error)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failures
    assert files(tmp_path) == ["a.csv"]


def test_only_drafts_of_this_file_are_removed(tmp_path: Path) -> None:
    mine = f".a.csv.cleave-{'0' * 16}"
    others = [f".b.csv.cleave-{'0' * 16}", f".a.csv.cleave-{'0' * 15}", ".a.csv.old", f"a.csv.cleave-{'0' * 16}"]
    for name in (mine, *others):
        (tmp_path / name).write_bytes(b"")
    os.mkfifo(tmp_path / (pipe := f".a.csv.cleave-{'1' * 16}"))
    write_atomically(tmp_path / "a.csv", b"x", error=InputError)
    assert files(tmp_path) == sorted(["a.csv", pipe, *others])


def test_a_folder_is_filled_only_if_it_is_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder := tmp_path / "shares").mkdir()
    (link := tmp_path / "link").symlink_to("shares")
    monkeypatch.chdir(folder)
    cases = {"/": "is not empty", ".": "is the current folder", "none": "there is no folder none"}
    for name, said in cases.items():
        with pytest.raises(InputError, match=said), fill_atomically(Path(name), error=InputError):
            pytest.fail("entered")
    monkeypatch.chdir(tmp_path)
    with fill_atomically(link, error=InputError) as draft:
        (draft / "one").write_bytes(b"1")
        assert not files(folder)
    assert files(tmp_path) == ["link", "shares", "shares/one"]
    with pytest.raises(InputError, match="not empty: it has one"), fill_atomically(folder, error=InputError):
        pytest.fail("entered")


def test_what_came_into_the_folder_meanwhile_stays(tmp_path: Path) -> None:
    (folder := tmp_path / "shares").mkdir()

    def fill() -> None:
        with fill_atomically(folder, error=InputError) as draft:
            (draft / "one").write_bytes(b"1")
            (folder / "two").write_bytes(b"2")

    with pytest.raises(InputError, match=r"shares: cannot be written \(Directory not empty\)"):
        fill()
    assert files(tmp_path) == ["shares", "shares/two"]
