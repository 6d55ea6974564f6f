"""Tables and queries for the oracle: made from a few drawn numbers, so that a failing case shrinks and repeats."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
from hypothesis import strategies as st

TYPES = {
    "g": "VARCHAR",
    "p": "BIGINT",
    "q": "DOUBLE",
    "i": "BIGINT",
    "d": "DECIMAL(18,2)",
    "f": "DOUBLE",
    "b": "BOOLEAN",
}
PLAIN = ("g", "p", "q")
SHAPES = {
    "unit": (0.0, 1.0),
    "offset": (1e6, 1.0),
    "far offset": (-1e9, 0.5),
    "huge": (0.0, 1e200),
    "tiny": (0.0, 1e-200),
    "constant": (1e6, 0.0),
    "zero": (0.0, 0.0),
    "wide": (0.0, None),  # magnitudes from 1e-12 to 1e12
}
# The row's number decides: what has been answered wrongly before.
SEQUENCES = {
    "ramp": lambda k: 100 + 0.01 * k,
    "timestamps": lambda k: 1.7e9 + 0.1 * k,
    "Julian days": lambda k: 2460310.5 + k / 86400,
    "constant but one": lambda k: np.where(k == 0, 72.5, 1e6 + 0.1),
    "minus zero": lambda k: np.where(k % 3 == 0, -0.0, (k % 5 - 2) * 0.1),
    "1e200 beside 1e-200": lambda k: np.where(k % 2, 1e200, 1e-200) * (1 - 2 * (k % 3 == 1)),
}
AGGREGATES = ("COUNT", "SUM", "AVG", "VAR_SAMP", "VAR_POP", "STDDEV_SAMP", "STDDEV_POP")


@dataclass(frozen=True)
class Draw:
    seed: int
    rows: int
    groups: int
    nulls: float
    shape: str
    integers: int  # magnitude of integers, in bits
    where: str | None
    grouped: bool


draws = st.builds(
    Draw,
    seed=st.integers(0, 2**32 - 1),
    rows=st.sampled_from([1, 2, 3, 7, 50, 400, 3000, 8176, 8177, 50_000]),
    groups=st.sampled_from([1, 2, 5, 40, 200]),
    nulls=st.sampled_from([0.0, 0.0, 0.2, 1.0]),
    shape=st.sampled_from(sorted([*SHAPES, *SEQUENCES])),
    integers=st.sampled_from([1, 7, 20, 40, 56]),
    where=st.sampled_from([None, None, "p < 5", "p < 0", "q > 0.0 AND g <> 'g1'", "p IS NULL OR p = 3"]),
    grouped=st.booleans(),
)


def _floats(shape: str, rows: int, random: np.random.Generator) -> np.ndarray:
    if shape in SEQUENCES:
        return random.permutation(SEQUENCES[shape](np.arange(rows)))
    mean, spread = SHAPES[shape]
    if spread is None:
        return random.normal(size=rows) * 10.0 ** random.uniform(-12, 12, rows)
    return mean + spread * random.normal(size=rows)


def columns(draw: Draw) -> dict[str, list[str]]:
    """The table's cells as text, "" for NULL."""
    random = np.random.default_rng(draw.seed)
    n = draw.rows
    floats = _floats(draw.shape, n, random)
    # a group of its own for some rows, and groups that a WHERE empties
    groups = random.integers(0, draw.groups, n)
    groups[: min(n, 2)] = draw.groups
    limit = 2**draw.integers
    cells = {
        "g": [f"g{value}" for value in groups],
        "p": [str(value) for value in random.integers(0, 10, n)],
        "q": [repr(float(value)) for value in random.normal(size=n)],
        "i": [str(value) for value in random.integers(-limit, limit, n)],
        "d": [f"{value // 100}.{value % 100:02d}" for value in random.integers(0, min(limit, 2**40), n)],
        "f": [repr(float(value)) for value in floats],
        "b": [("false", "true")[value] for value in random.integers(0, 2, n)],
    }
    for name, column in cells.items():
        missing = random.random(n) < draw.nulls
        # groups and plain columns too: NULL is a group of its own
        cells[name] = ["" if gone else cell for gone, cell in zip(missing, column, strict=True)]
    return cells


def write(folder: Path, draw: Draw) -> Path:
    """table.csv and its schema."""
    cells = columns(draw)
    path = folder / "table.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(cells)
        writer.writerows(zip(*cells.values(), strict=True))
    lines = ["[csv]", 'delimiter = ","', 'quote = "\\""', 'encoding = "utf-8"', "header = true", 'decimal = "."']
    for name, kind in TYPES.items():
        lines += [f"[columns.{name}]", f'kind = "{"plain" if name in PLAIN else "encrypted"}"', f'type = "{kind}"']
        lines += ["decimals = 2"] * (name == "d") + ['reason = "test"']
    path.with_suffix(".schema.toml").write_text("\n".join(lines) + "\n")
    return path


def oracle(path: Path) -> duckdb.DuckDBPyConnection:
    """The unsplit table in a DuckDB of its own, read by DuckDB alone."""
    connection = duckdb.connect()
    types = ", ".join(f"'{name}': '{kind}'" for name, kind in TYPES.items())
    connection.execute(
        f"CREATE TABLE \"table\" AS SELECT * FROM read_csv('{path}', header=true, auto_detect=false, delim=',', "
        f"quote='\"', columns={{{types}}})"
    )
    return connection


ENCRYPTED = [
    ("SUM", "i * p"),
    ("SUM", "d + 1"),
    ("COUNT", "b"),
    ("SUM", "b::INT"),
    ("SUM", "CASE WHEN p > 8 THEN f ELSE 0 END"),
]
ENCRYPTED += [(aggregate, name) for name in "idf" for aggregate in AGGREGATES]
PLAIN_ITEMS = ["COUNT(*)", "SUM(p)", "AVG(q)", "MIN(g)"]


def query(draw: Draw) -> str:
    """Every aggregate over every column, encrypted and plain: the group first and plain items, then ENCRYPTED."""
    items = ["g"] if draw.grouped else []
    items += PLAIN_ITEMS + [f"{aggregate}({expression})" for aggregate, expression in ENCRYPTED]
    return f"SELECT {', '.join(items)} {_rest(draw)}"


def lists(draw: Draw, expressions: Sequence[str]) -> str:
    """The values that each group's figures are of."""
    items = [f"list({expression}) FILTER (WHERE ({expression}) IS NOT NULL)" for expression in expressions]
    return f"SELECT {', '.join(items)} {_rest(draw)}"


def _rest(draw: Draw) -> str:
    where = f"WHERE {draw.where}" if draw.where else ""
    return f'FROM "table" {where} {"GROUP BY g ORDER BY g" if draw.grouped else ""}'
