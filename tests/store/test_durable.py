"""What a head names survives a power failure: contents and names are on the disk before the head is.

Calls of the operating system are recorded in their order. A file whose content is not flushed may be damaged after a
power failure; a name in a folder that is not flushed may be gone.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cleave.ckks.owner_key import OwnerKey
from cleave.objects.locate import Folder
from tests.store.every_change import EVERY_CHANGE, Change
from tests.store.trial import World


class Disk:
    """`os` under `root`, with what a power failure could undo. `flushed`: calls of fsync, of files and of folders."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.flushed: Counter[str] = Counter()
        self.heads = 0
        self._root = str(root)
        self._contents: set[tuple[int, int]] = set()  # files that are flushed
        self._names: dict[str, set[str]] = {}  # in each folder, those that are not
        real = {name: getattr(os, name) for name in ("link", "mkdir", "replace")}

        def fsync(handle: int) -> None:
            path, status = os.readlink(f"/proc/self/fd/{handle}"), os.fstat(handle)
            if path.startswith(self._root):
                self.flushed["folder" if os.path.isdir(path) else "file"] += 1
            self._contents.add((status.st_dev, status.st_ino))
            self._names.pop(path, None)

        def link(source: Any, to: Any, **how: Any) -> None:
            real["link"](source, to, **how)
            if "dst_dir_fd" in how:
                self._named(how["dst_dir_fd"], to)

        def mkdir(name: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
            real["mkdir"](name, mode, dir_fd=dir_fd)
            if dir_fd is not None:
                self._names.setdefault(os.readlink(f"/proc/self/fd/{dir_fd}"), set()).add(name)

        def replace(source: Any, to: Any, **how: Any) -> None:
            if to == "head":
                self.heads += 1
                own = os.readlink(f"/proc/self/fd/{how['dst_dir_fd']}")  # made for the head, and flushed with it
                assert {f"{folder}/{name}" for folder, names in self.lost.items() for name in names} <= {own}
            real["replace"](source, to, **how)
            if "dst_dir_fd" in how:
                self._named(how["dst_dir_fd"], to)

        for new in (fsync, link, mkdir, replace):
            monkeypatch.setattr(os, new.__name__, new)

    def _named(self, folder: int, name: str) -> None:
        status = os.stat(name, dir_fd=folder)
        assert (status.st_dev, status.st_ino) in self._contents, f"{name}: its content is not on the disk"
        self._names.setdefault(os.readlink(f"/proc/self/fd/{folder}"), set()).add(name)

    @property
    def lost(self) -> dict[str, set[str]]:
        """The names of stored objects that a power failure could undo now, by folder."""
        return {folder: names for folder, names in self._names.items() if folder.startswith(self._root)}


@pytest.mark.sampled(16)
@EVERY_CHANGE
def test_what_a_head_names_is_on_the_disk_before_it(
    tmp_path: Path, key_file: Path, change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = change.begin(tmp_path / "place", key_file)
    disk = Disk(place.root, monkeypatch)
    change.work(place, place.stores())
    assert disk.heads or change.name in ("drop", "release")  # which has nothing new to publish
    assert not any("head" in names for names in disk.lost.values())


def test_a_folder_is_flushed_once_for_all_its_objects(
    tmp_path: Path, key: OwnerKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(Folder(tmp_path / "s"), key, tmp_path, Folder(tmp_path / "p"))
    disk = Disk(tmp_path, monkeypatch)
    world.put("ward", replace=True)
    objects = sum(1 for store in world.stores.distinct() for _ in store.names(""))
    assert disk.flushed["file"] < objects + 6
    assert disk.flushed["folder"] < objects
