"""Twice the columns take twice the work, not four times."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TypeVar

import pytest

from cleave.store import columns
from cleave.table.batches import open_stream
from tests.cli.runner import Cli

COLUMNS = (12, 24, 48)
MOST = 2.1  # what the last 24 columns take, in multiples of what the 12 before them do
T = TypeVar("T")
COMMANDS = ("schema", "put", "plan", "query a file", "query totals", "query rows", "pull", "derived")


class Calls:
    """Counts calls of functions while it is entered, those in threads that are started meanwhile included."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._before = sys.getprofile()

    @property
    def count(self) -> int:
        """Can be read once."""
        return next(self._numbers)

    def each(self, batches: Iterator[T]) -> Iterator[T]:
        """The same batches. DuckDB takes them in the thread that asks or in one of its own, of which Python knows
        nothing.
        """
        while True:
            sys.setprofile(self._profile)
            if (batch := next(batches, None)) is None:
                return
            yield batch

    def __enter__(self) -> Calls:
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self._before)
        threading.setprofile(None)  # type: ignore[arg-type]

    def _profile(self, _: FrameType, event: str, __: object) -> None:
        if event in ("call", "c_call"):
            next(self._numbers)


class Wide:
    """A table of one plain column and `number` encrypted ones."""

    def __init__(self, cli: Cli, folder: Path, number: int) -> None:
        self.cli = cli
        self.file, self.output = folder / f"wide{number}.csv", folder / f"pulled{number}.csv"
        self.schema = self.file.with_suffix(".schema.toml")
        self.numbers = [f"c{place}" for place in range(number)]
        rows = [["ward", *self.numbers], *([ward, *(str(97 * i % 89) for i in range(number))] for ward in "AABB")]
        self.file.write_text("".join(f"{','.join(row)}\n" for row in rows))
        self.store = ["--store", folder / "store", "--key", folder / "key.json"]

    def run(self, command: str) -> None:
        name = self.file.stem
        sums, medians = (", ".join(f"{each}({number})" for number in self.numbers) for each in ("SUM", "MEDIAN"))
        grouped = f"FROM {name} GROUP BY ward"
        if command == "derived":
            with self.schema.open("a") as schema:
                schema.writelines(f'[derived.d{each}]\nsql = "{each} + 1"\n' for each in self.numbers)
            sums, command = ", ".join(f"SUM(d{each})" for each in self.numbers), "query a file"
        arguments = {
            "schema": ["schema", self.file, "--plain", "ward", "--encrypted", "c*", "-o", self.schema],
            "put": ["put", self.file, "--table", name, "--by", "ward", *self.store],
            "plan": ["plan", self.file, f"SELECT {sums} {grouped}"],
            "query a file": ["query", self.file, f"SELECT {sums} {grouped}"],
            "query totals": ["query", name, f"SELECT {sums} {grouped}", "--cloud-only", *self.store],
            # by a condition that no totals answer: else it is planned once or twice, as bytes have it
            "query rows": ["query", name, f"SELECT {medians} FROM {name} WHERE c0 >= 0", *self.store],
            "pull": ["pull", name, "-o", self.output, *self.store],
        }[command]
        result = self.cli.run(*arguments)
        assert result.exit_code == 0, result.stderr


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[int]]:
    """Calls of each command for each number of columns."""
    folder, cli = tmp_path_factory.mktemp("wide"), Cli()
    assert cli.run("key", "new", "--key", folder / "key.json", "--no-passphrase").exit_code == 0
    first, *others = (Wide(cli, folder, number) for number in (8, *COLUMNS))
    for command in COMMANDS:
        first.run(command)  # imports, and what is made once
    return {command: [calls_of(each, command) for each in others] for command in COMMANDS}


def calls_of(wide: Wide, command: str) -> int:
    with Calls() as calls, pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            columns, "open_stream", lambda schema, rows, failed: open_stream(schema, calls.each(rows), failed)
        )
        wide.run(command)
    return calls.count


@pytest.mark.parametrize("command", COMMANDS)
def test_work_grows_with_the_columns(calls: dict[str, list[int]], command: str) -> None:
    few, more, most = calls[command]
    assert most - more <= MOST * (more - few)
