"""The table every case adds up: 6,000 rows of 8 columns, 4 sensitive, small enough for BGV's and BFV's modulus."""

from __future__ import annotations

import csv
import random
from pathlib import Path

ROWS = 6_000
PLAIN = [f"p{number}" for number in range(4)]
SENSITIVE = [f"e{number}" for number in range(4)]
COLUMNS = [*PLAIN, *SENSITIVE]
MOST = 80  # 6,000 of them stay below half of the plaintext modulus 1,032,193


def write(path: Path) -> None:
    """The CSV, and its schema for Cleave: sensitive columns are DOUBLE without bounds, which packs worst."""
    of = random.Random(6_000)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows([of.randint(0, MOST) for _ in COLUMNS] for _ in range(ROWS))
    lines = ["[csv]", 'delimiter = ","', 'quote = "\\""', 'encoding = "utf-8"', "header = true", 'decimal = "."']
    for name in COLUMNS:
        kind, of_type = ("plain", "BIGINT") if name in PLAIN else ("encrypted", "DOUBLE")
        lines += [f"[columns.{name}]", f'kind = "{kind}"', f'type = "{of_type}"', 'reason = "benchmark"']
        lines += ["nullable = false"]
    path.with_suffix(".schema.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def read(path: Path, rows: int) -> dict[str, list[int]]:
    """The first `rows` rows, as columns."""
    with path.open(newline="", encoding="utf-8") as file:
        records = list(csv.DictReader(file))[:rows]
    return {name: [int(record[name]) for record in records] for name in COLUMNS}
