"""Whole questions, as a user asks them: `cleave query` in a process of its own, over tables made from a fixed seed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cleave.bench.primitive import WrongResultError
from cleave.bench.profiler import Ran, counters, profile
from cleave_shared.dataclass import dataclass

CLEAVE = (sys.executable, "-c", "from cleave.local.main import main; main()")
_SEED = 13
_RELATIVE = 1e-9  # of an answer, to what numpy adds up
_SCHEMA_HEAD = '[csv]\ndelimiter = ","\nquote = "\\""\nencoding = "utf-8"\nheader = true\ndecimal = "."\n'

Rows = list[list[Any]]
Columns = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Asked:
    """The words after `cleave`, and whether the rows of its JSON are right."""

    words: tuple[str, ...]
    is_right: Callable[[Rows], bool]


@dataclass(frozen=True, slots=True)
class Workload:
    """`prepare` makes the data in a folder, with the key file there; that is not timed."""

    name: str
    told: str
    prepare: Callable[[Path, Path], Asked]


@dataclass(frozen=True, slots=True)
class Observed:
    """A workload's runs; of two more, by what slows them, memory and counters. Bytes are of messages, both services."""

    name: str
    told: str
    runs: tuple[Ran, ...]
    peak_mb: float | None
    counters: dict[str, float | None]
    bytes_sent: int
    bytes_received: int


def workloads() -> tuple[Workload, ...]:
    return (
        Workload("6,000 x 8 sum", "CSV of 6,000 rows, 8 columns, 4 encrypted float64: SUM of each", _small_sum),
        Workload("1M x 4 by 20 groups", "CSV of 1,000,000 rows, 4 encrypted float64: SUM of each by 20 groups", _few),
        Workload("1M x 4 by 100,000 groups", "the same by 100,000 groups", _many),
        Workload("product of a column", "CSV of 100,000 rows: PRODUCT of an encrypted float64", _product),
    )


def observe(workload: Workload, asked: Asked, folder: Path, key: Path, runs: int) -> Observed:
    """Run it so often, and twice more. Raises WrongResultError, CommandFailedError."""
    command, environment = [*CLEAVE, *asked.words], surroundings(folder, key)
    plan: dict[str, Any] = {}

    def once(*, sampled: bool = False) -> Ran:
        ran, output = profile(command, environment, sampled=sampled)
        answer = json.loads(output)
        if not asked.is_right(answer["rows"]):
            raise WrongResultError(f"{workload.name}: not the right answer")
        plan.update(answer["plan"])
        return ran

    seen = once(sampled=True)  # which brings the files into memory, too
    found = [once() for _ in range(runs)]
    return Observed(
        workload.name,
        workload.told,
        tuple(found),
        seen.peak_mb,
        counters(command, environment),
        plan["bytes_sent"],
        plan["bytes_received"],
    )


def surroundings(folder: Path, key: Path) -> dict[str, str]:
    """The environment of every command: nothing of the user's own settings, keys or tables."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CLEAVE_", "XDG_", "AWS_"))}
    return kept | {"CLEAVE_KEY": str(key), "XDG_STATE_HOME": str(folder / "state")}


def new_key(folder: Path) -> Path:
    key = folder / "key.json"
    profile([*CLEAVE, "--quiet", "key", "new", "--no-passphrase", "--key", str(key)], surroundings(folder, key))
    return key


def _small_sum(folder: Path, _: Path) -> Asked:
    random = np.random.default_rng(_SEED)
    plain = {f"p{place}": random.integers(0, 5, 6_000) for place in range(4)}
    return _sums(folder, "small", plain, _normal(random, 6_000))


def _few(folder: Path, _: Path) -> Asked:
    return _by_groups(folder, 20)


def _many(folder: Path, _: Path) -> Asked:
    return _by_groups(folder, 100_000)


def _by_groups(folder: Path, groups: int) -> Asked:
    random = np.random.default_rng(_SEED)
    keys = random.permutation(np.arange(1_000_000) % groups)
    return _sums(folder, f"by{groups}", {"g": keys}, _normal(random, len(keys)), "g")


def _product(folder: Path, _: Path) -> Asked:
    x = np.exp(np.random.default_rng(_SEED).normal(0.0, 0.01, 100_000))
    table = write_table(folder, "factors", {}, {"x": x})
    wanted = float(np.prod(x.astype(np.longdouble)))
    return _query(table, "SELECT PRODUCT(x) AS p FROM factors", lambda rows: _near([[wanted]], rows, 1e-6))


def _normal(random: np.random.Generator, rows: int) -> Columns:
    return {f"e{place}": np.clip(random.normal(100.0, 20.0, rows), 2, 256) for place in range(4)}


def _sums(folder: Path, name: str, plain: Columns, encrypted: Columns, by: str = "") -> Asked:
    """SUM of every encrypted column; by column `by`, whose values are 0, 1, ... without a gap."""
    table = write_table(folder, name, plain, encrypted)
    sums = ", ".join(f"SUM({each}) AS {each}" for each in encrypted)
    if not by:
        wanted = [[float(values.sum()) for values in encrypted.values()]]
        return _query(table, f"SELECT {sums} FROM {name}", lambda rows: _near(wanted, rows))
    keys = plain[by]
    columns = [np.arange(keys.max() + 1), *(np.bincount(keys, values) for values in encrypted.values())]
    groups = [list(row) for row in zip(*columns, strict=True)]
    sql = f"SELECT {by}, {sums} FROM {name} GROUP BY {by} ORDER BY {by}"
    return _query(table, sql, lambda rows: _near(groups, rows))


def _query(table: Path, sql: str, is_right: Callable[[Rows], bool]) -> Asked:
    return Asked(("query", str(table), sql, "--json"), is_right)


def _near(wanted: Sequence[Sequence[float]], rows: Rows, relative: float = _RELATIVE) -> bool:
    got = np.array(rows, float)
    return got.shape == (len(wanted), len(wanted[0])) and bool(np.allclose(got, wanted, rtol=relative, atol=0))


def write_table(folder: Path, name: str, plain: Columns, encrypted: Columns) -> Path:
    """A CSV and its schema: whole numbers are plain, doubles encrypted, none with declared bounds."""
    from cleave_shared import duckdb  # noqa: PLC0415 - writes a million rows ten times as fast as numpy

    columns = {**plain, **encrypted}
    path = folder / f"{name}.csv"
    with duckdb.connect() as connection:
        connection.register("made", columns)
        connection.execute(f"COPY (FROM made) TO '{path}' (HEADER)")
    schema = [_SCHEMA_HEAD]
    for each in columns:
        kind, type_ = ("plain", "BIGINT") if each in plain else ("encrypted", "DOUBLE")
        schema += [f'[columns.{each}]\nkind = "{kind}"\ntype = "{type_}"\nnullable = false\nreason = "benchmark"\n']
    path.with_suffix(".schema.toml").write_text("".join(schema))
    return path
