"""The opener of folder stores: nothing below the root leads elsewhere or holds its reader up."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cleave_shared import folder_store
from cleave_shared.folder_store import ForeignEntry

NAME = "tables/set/object"
CANARY = b"the owner's own file"


def _lock(root: str) -> None:
    with folder_store.lock_file(root, "tables/set", "object"):
        pass


USES: dict[str, Callable[[str], object]] = {
    "read": lambda root: folder_store.read(root, NAME, 0, 100),
    "overwrite": lambda root: folder_store.write(root, NAME, b"new", overwrite=True),
    "write": lambda root: folder_store.write(root, "tables/set/other", b"new"),
    "list": lambda root: folder_store.listed(root, "tables"),
    "list the folder": lambda root: folder_store.listed(root, "tables/set"),
    "delete": lambda root: folder_store.delete(root, [NAME]),
    "lock": _lock,
}


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    (folder / "set").mkdir(parents=True)
    for each in (folder / "object", folder / "set/object"):
        each.write_bytes(CANARY)
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder_store.write(str(tmp_path / "store"), NAME, b"content")
    return tmp_path / "store"


def untouched(outside: Path) -> bool:
    files = [each for each in outside.rglob("*") if each.is_file()]
    return len(files) == 2 and all(each.read_bytes() == CANARY for each in files)


@contextmanager
def in_place(path: Path, make: Callable[[Path], object]) -> Iterator[None]:
    aside = path.parent.parent / f"{path.name} aside"
    path.rename(aside)
    make(path)
    try:
        yield
    finally:
        path.unlink()
        aside.rename(path)


@pytest.mark.parametrize("use", USES)
def test_no_folder_is_entered_through_a_link(root: Path, outside: Path, use: str) -> None:
    for folder, target in (("tables", outside), ("tables/set", outside)):
        with in_place(root / folder, lambda path, target=target: path.symlink_to(target)):  # type: ignore[misc]
            with pytest.raises(ForeignEntry, match=f"{folder} is a symbolic link"):
                USES[use](str(root))
            assert untouched(outside)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(path))


def test_only_regular_files_are_objects(root: Path, outside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)  # a socket's path has 108 bytes
    kinds: dict[str, Callable[[Path], object]] = {
        "a symbolic link": lambda path: path.symlink_to(outside / "object"),
        "a pipe": os.mkfifo,
        "a socket": _socket,
    }
    for kind, make in kinds.items():
        with in_place(root / NAME, make):
            for use in ("read", "list", "list the folder", "lock"):
                with pytest.raises(ForeignEntry, match=f"{NAME} is {kind}"):
                    USES[use](str(root))
            with pytest.raises(FileExistsError):
                folder_store.write(str(root), NAME, b"new")
        assert untouched(outside)
    assert folder_store.read(str(root), NAME, 0, 100) == b"content"


def test_a_link_in_an_objects_place_is_deleted_and_written_over_alone(root: Path, outside: Path) -> None:
    for change in ("delete", "overwrite"):
        (root / NAME).unlink()
        (root / NAME).symlink_to(outside / "object")
        USES[change](str(root))
        assert not (root / NAME).is_symlink()
        assert untouched(outside)
        folder_store.write(str(root), NAME, b"content", overwrite=True)


def test_a_folder_is_no_object_and_folders_have_an_end(root: Path) -> None:
    (root / "tables/folder").mkdir()
    with pytest.raises(ForeignEntry, match="tables/folder is a folder"):
        folder_store.read(str(root), "tables/folder", 0, 1)
    (root / "/".join(["tables"] * 20)).mkdir(parents=True)
    with pytest.raises(ForeignEntry, match="far below"):
        folder_store.listed(str(root), "tables")


def test_the_root_may_be_a_link(root: Path) -> None:
    (root.parent / "link").symlink_to(root)
    assert folder_store.read(str(root.parent / "link"), NAME, 0, 100) == b"content"
    assert folder_store.listed(str(root.parent / "link"), "") == [NAME]


def test_no_more_is_read_than_was_wanted_and_no_memory_taken_for_what_is_not_there(root: Path) -> None:
    os.truncate(root / NAME, 6 << 30)
    assert folder_store.read(str(root), NAME, 0, 9) == b"content\0\0"
    assert folder_store.read(str(root), "tables/set/object", 7 << 30, 9) == b""
    os.truncate(root / NAME, 7)
    assert folder_store.read(str(root), NAME, 3, 1 << 60) == b"tent"
    with folder_store.opened(str(root), NAME) as (_, size):
        assert size == 7


def test_nothing_is_left_of_what_cannot_be_written(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for overwrite in (False, True):
        with pytest.raises(OSError, match="No space"):
            folder_store.write(str(root), NAME if overwrite else "tables/set/new", b"x", overwrite=overwrite)
    assert folder_store.listed(str(root), "") == [NAME]
    assert folder_store.read(str(root), NAME, 0, 100) == b"content"
