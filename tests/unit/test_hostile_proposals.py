"""Files made to cost a proposal much."""

from __future__ import annotations

import io
import json
import tracemalloc
from pathlib import Path

import pytest

from cleave.propose import sniff
from cleave.propose.propose import propose
from cleave.propose.values import _is_part
from cleave.table.converted import json_text
from cleave.table.csv_text import open_text
from cleave.table.inputs import open_inputs
from cleave.table.schema import CsvDialect
from cleave_shared.errors import InputError


def test_widths_that_change_all_the_time_are_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a\nb,c\n" * 5000)
    (source,) = open_inputs([path], CsvDialect())
    assert sniff._runs(source, CsvDialect()) == ([], 0, [], 0)
    assert sniff.skipping(source, CsvDialect()) == ""
    with open_text(source, CsvDialect()) as file:
        assert file.readline() == "a\n"


def test_a_file_that_ends_within_a_character_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("a,b\n".encode("utf-16") + "1,2\n".encode("utf-16-le") * 3000 + b"1\x00,\x00\x00\xd8\n\x00")
    with pytest.raises(InputError):
        propose([path])


def test_long_texts_are_not_looked_up_word_by_word() -> None:
    assert not _is_part("blue " * 21, frozenset())


def test_names_of_many_dots_are_flattened() -> None:
    content = json.dumps([{"a": None, "b": None, "." * 20_000: 1}, {"a": {"x": 2}}]).encode()
    tracemalloc.start()
    try:
        path = json_text(lambda: io.BytesIO(content), "t.json", flatten=True)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert path.read_text().startswith('"b",')
    assert most < 20_000_000  # its beginnings take 200 MB together
