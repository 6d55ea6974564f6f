"""Write the store beside it again: two small tables in format 3 under a bare key (docs/format.md).

    python tests/vectors/store-3/make_vectors.py

Secrets, ids and nonces are new each time; the rows are the same. `trial` has a segment of 5 rows and one of 1,200, so
its texts are padded both ways; both are in a page. `blocks` has more rows than one block, and no page.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent
PAGED = "from cleave.store.manifest import Segments; Segments.MOST = 2"
CLEAVE = [sys.executable, "-c", f"{PAGED}; from cleave.local.main import main; main()"]

TRIAL = """
[columns.ward]
kind = "plain"
type = "VARCHAR"
[columns.age]
kind = "encrypted"
type = "INTEGER"
lower = 0
upper = 127
nullable = false
[columns.name]
kind = "sealed"
type = "VARCHAR"
[columns.stay]
kind = "sealed"
type = "INTERVAL"
[columns.flag]
kind = "sealed"
type = "BOOLEAN"
nullable = false
[columns.code]
kind = "sealed"
type = "SMALLINT"
[columns.price]
kind = "sealed"
type = "DECIMAL(12,2)"
lower = -5000
upper = 5000
[columns.wide]
kind = "sealed"
type = "DECIMAL(30,4)"
[columns.weight]
kind = "sealed"
type = "DOUBLE"
[columns.ratio]
kind = "sealed"
type = "FLOAT"
[columns.born]
kind = "sealed"
type = "DATE"
[columns.clock]
kind = "sealed"
type = "TIME"
[columns.seen]
kind = "sealed"
type = "TIMESTAMP"
[columns.zoned]
kind = "sealed"
type = "TIMESTAMP WITH TIME ZONE"
"""

BLOCKS = """
[columns.code]
kind = "sealed"
type = "TINYINT"
[columns.flag]
kind = "sealed"
type = "BOOLEAN"
nullable = false
"""


def trial(row: int) -> str:
    """Line of the CSV file, every eleventh with all nullable fields empty."""
    ward = "AB"[row * 7 % 3 % 2]
    if row % 11 == 3:
        return f"{ward},{row % 128},,,true,,,,,,,,,"
    second = f"{row % 24:02}:{row % 60:02}:00.{row:06}"
    fields = (
        ward,
        row % 128,
        "Zoë" * (row % 5),
        f"{row % 30} days",
        "true" if row % 3 else "false",
        row - 600,
        f"{row - 600}.{row % 100:02}",
        f"-{10**20 + row}.0001",
        f"{row}.1",
        f"{row / 8}",
        f"{1900 + row % 150}-02-03",
        second,
        f"1969-07-20 {second}",
        f"2026-07-20 {second}+02:00",
    )
    return ",".join('""' if each == "" else str(each) for each in fields)


def main() -> None:
    header = ",".join(line[9:-1] for line in TRIAL.splitlines() if line.startswith("[columns."))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)

        def cleave(*words: str) -> None:
            env = {"HOME": temporary, "PYTHONPATH": os.pathsep.join(sys.path)}
            subprocess.run([*CLEAVE, *words], cwd=folder, check=True, env=env)

        def write(name: str, lines: list[str], schema: str) -> None:
            (folder / f"{name}.csv").write_text("\n".join(lines) + "\n", "utf-8")
            (folder / f"{name}.schema.toml").write_text('[csv]\ndelimiter = ","\n' + schema, "utf-8")

        write("few", [header, *map(trial, range(5))], TRIAL)
        write("more", [header, *map(trial, range(5, 1205))], TRIAL)
        rows = ["" if row % 5 == 4 else str(row % 128) for row in range(70_000)]
        write("blocks", ["code,flag", *(f"{code},{row % 3 == 0}" for row, code in enumerate(rows))], BLOCKS)
        common = ("--key", "owner.json", "--store", "store")
        cleave("key", "new", "--no-passphrase", "--key", "owner.json")
        cleave("put", "few.csv", "--table", "trial", "--by", "ward", *common)
        cleave("put", "more.csv", "--table", "trial", "--append", *common)
        cleave("put", "blocks.csv", "--table", "blocks", *common)
        shutil.rmtree(FOLDER / "store", ignore_errors=True)
        shutil.copytree(folder / "store", FOLDER / "store", ignore=shutil.ignore_patterns(".lock"))
        shutil.copyfile(folder / "owner.json", FOLDER / "owner.json")


if __name__ == "__main__":
    main()
