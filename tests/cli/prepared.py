"""What tests start from, made once and copied back for each."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

Made = TypeVar("Made")


class Prepared:
    """One folder that tests use in turn: a machine knows a store by its path, so that a copy elsewhere is another."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._made: dict[str, tuple[Path, object]] = {}

    @contextlib.contextmanager
    def used(self) -> Iterator[Path]:
        """The folder, empty; removed at the end."""
        self.root.mkdir()
        try:
            yield self.root
        finally:
            shutil.rmtree(self.root)

    def bring(self, name: str, make: Callable[[], Made]) -> Made:
        """What `make` returns and leaves in the empty folder; it is called at the first use of `name`."""
        if name in self._made:
            left, made = self._made[name]
            shutil.copytree(left, self.root, dirs_exist_ok=True)
            return made  # type: ignore[return-value] # what `make` returned
        made = make()
        left = self.root.with_name(f"{self.root.name}-{len(self._made)}")
        shutil.copytree(self.root, left)
        self._made[name] = left, made
        return made


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return Prepared(tmp_path_factory.mktemp("prepared") / "root")
