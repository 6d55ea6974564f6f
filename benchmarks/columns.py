"""`make bench-columns`: what commands take for tables of 5 to 500 columns.

Processor time of each command as a whole process, its children included. A table has one plain column and encrypted
numbers, and every question names all of them. With BESIDE=FOLDER, another checkout of the project (git worktree add),
each command runs there too, in the same turns.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.start import START, installed, timed
from benchmarks.tables import figure, machine, markdown
from cleave.ckks.key_file import create_key

COLUMNS = (5, 50, 100, 200, 500)
ROWS = 5_000  # one segment, however many the columns are


def table(folder: Path, columns: int) -> Path:
    """Write a CSV of a column of letters and `columns` - 1 of numbers below 1,000."""
    rng = np.random.default_rng(columns)
    letters = np.array(list("ABCDEFGH"))[rng.integers(0, 8, ROWS)]
    cells = np.column_stack([letters, rng.integers(0, 1_000, (ROWS, columns - 1)).astype(str)])
    path = folder / f"wide{columns}.csv"
    header = ",".join(["ward", *(f"c{place}" for place in range(1, columns))])
    np.savetxt(path, cells, fmt="%s", delimiter=",", header=header, comments="")
    return path


def commands(path: Path, columns: int, folder: Path) -> dict[str, list[str]]:
    """Arguments of each command, in the order in which they can run. `folder` has the key and gets the store."""
    numbers = [f"c{number}" for number in range(1, columns)]
    sums, medians = (", ".join(f"{name}({each})" for each in numbers) for name in ("SUM", "MEDIAN"))
    schema, key = str(path.with_suffix(".schema.toml")), ["--key", str(folder / "key.json")]
    stored = ["--store", str(folder / "store"), *key]
    grouped = f"FROM {path.stem} GROUP BY ward"
    return {
        "schema": ["schema", str(path), "-o", schema, "--force", "--plain", "ward", "--encrypted", "c*"],
        "put": ["put", str(path), "--table", path.stem, "--by", "ward", "--replace", *stored],
        "query, file": ["query", str(path), f"SELECT ward, COUNT(*), {sums} {grouped}", *key],
        "query, totals": ["query", path.stem, f"SELECT ward, COUNT(*), {sums} {grouped}", "--cloud-only", *stored],
        "query, rows": ["query", path.stem, f"SELECT ward, {medians} {grouped}", *stored],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=3, help="of each command; their median is shown")
    parser.add_argument("--columns", type=int, nargs="+", default=COLUMNS)
    parser.add_argument("--beside", type=Path, help="another checkout of the project")
    given = parser.parse_args()
    checkouts = {"": Path(__file__).parents[1]}
    if given.beside is not None:
        checkouts[", beside"] = given.beside.resolve()
    taken: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as name:
        pythons = {}
        for number, (where, root) in enumerate(checkouts.items()):
            folder = Path(name, str(number))
            folder.mkdir()
            create_key(folder / "key.json", None)
            pythons[where] = folder, installed(folder / "venv", root)
        for columns in given.columns:
            works = {where: commands(table(folder, columns), columns, folder) for where, (folder, _) in pythons.items()}
            for what in works[""]:
                seconds: dict[str, list[float]] = {where: [] for where in pythons}
                for _ in range(given.runs):
                    for where, (_, python) in pythons.items():
                        seconds[where].append(timed([python, "-c", START, "--quiet", *works[where][what]])[1])
                for where, each in seconds.items():
                    taken.setdefault(f"`{what}`{where}", []).append(figure(statistics.median(each)))
    print(f"{machine()}; {ROWS:,} rows, processor time in seconds, medians of {given.runs}\n")
    print(markdown(["columns", *map(str, given.columns)], [[what, *figures] for what, figures in taken.items()]))


if __name__ == "__main__":
    main()
