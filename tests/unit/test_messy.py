"""Messy CSV: what is read is what Python's reader finds, or the file is refused."""

from __future__ import annotations

import csv
import gzip
import io
import random
from pathlib import Path

import pytest

from cleave.table.csv_text import column_names, header_of
from cleave.table.inputs import open_inputs
from cleave.table.schema import Column, CsvDialect, Kind, Schema
from cleave.table.stream import open_table
from cleave_shared.errors import InputError
from tests.campaign import FACTOR

FIELDS = (
    *("", "1", "x y", " z", "z ", "'", "NULL", "\0", '5" pipe', 'a"b"', '"a"b', '"unclosed', '\\"'),
    *('"q"', '"a,b"', '"l\nm"', '"l\r\nm"', '"\r"', '"d""e"', '""', '"a\\"'),
)
ENDS = ("\n", "\r\n", "\r")


def written(chance: random.Random, width: int) -> str:
    """A header, and rows of which a few are ragged, blank, or end otherwise than the others."""
    usual = chance.choice(ENDS)

    def field() -> str:
        return chance.choice(FIELDS) if chance.random() < 0.2 else chance.choice("ab1")

    lines = [",".join(f'"h\r\n{n}"' if chance.random() < 0.1 else f"h{n}" for n in range(width))]
    for _ in range(chance.choice((0, 1, 2, 5, 30))):
        fields = width if chance.random() < 0.97 else chance.randint(1, 4)
        lines.append(",".join(field() for _ in range(fields)) + "," * (chance.random() < 0.03))
        if chance.random() < 0.04:
            lines.append(chance.choice(("", "  ", "\t", "," * (width - 1))))
    text = "".join(line + (usual if chance.random() < 0.99 else chance.choice(ENDS)) for line in lines)
    return text if chance.random() < 0.7 else text.rstrip("\r\n")


def expected(text: str, width: int, quote: str) -> list[tuple[str | None, ...]]:
    """Python's records; one empty field too many at the end of a record is a delimiter too many."""
    quoting = csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE
    records = list(
        csv.reader(io.StringIO(text, newline=""), quotechar=quote or None, quoting=quoting, skipinitialspace=False)
    )
    rows = [record or [""] for record in records[1:] if record or width == 1]
    return [tuple(field or None for field in (row[:width] if row[width:] == [""] else row)) for row in rows]


@pytest.mark.parametrize("start", range(0, 1000 * FACTOR, 25))
@pytest.mark.sampled(40, 4)
def test_a_messy_file_is_read_as_python_reads_it_or_refused(tmp_path: Path, start: int) -> None:
    refused: list[str] = []
    for seed in range(start, start + 25):
        chance = random.Random(seed)
        width, quote = chance.randint(1, 3), chance.choice('""" ').strip()
        text, encoding = written(chance, width), chance.choice(("utf-8", "utf-8-sig", "utf-16", "cp1252"))
        content = text.encode(encoding)
        (tmp_path / "t.csv").write_bytes(gzip.compress(content) if chance.random() < 0.3 else content)
        dialect = CsvDialect(encoding=encoding, quote=quote)
        try:
            names = column_names(header_of(open_inputs(tmp_path / "t.csv", CsvDialect())[0], dialect), dialect)
            schema = Schema(tuple(Column(name, Kind.SEALED, "VARCHAR") for name in names), dialect)
            with open_table([tmp_path / "t.csv"], schema) as table:
                rows = table.connection.execute(f"FROM {table.relation}").fetchall()
        except InputError as error:
            refused.append(error.message)
            continue
        assert [tuple(field or None for field in row) for row in rows] == expected(text, len(names), quote), (
            seed,
            text,
        )
    assert len(refused) < 20
    assert not [message for message in refused if "second count" in message]
