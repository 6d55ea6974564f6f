"""How long the operations of `cleave.model` take on this machine: what `cleave bench --calibrate` measures.

Those on ciphertexts are primitives, timed one by one. Those of DuckDB's and Python's are told apart by the stages of
small questions: what a stage takes of hardly a row is its fixed part, what it takes more of ROWS rows is of values.
What stored tables alone need is scaled from the shipped timings by how this machine compares at the rest, and so is
what a busy machine's noise hides. Some seconds.
"""

from __future__ import annotations

import secrets
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from cleave.bench import suite
from cleave.bench.coefficients import coefficients
from cleave.ckks.cipher import generate
from cleave.ckks.secret_key import SecretKey
from cleave.model.operations import SHARED, Operation
from cleave.model.timings import SHIPPED, Timings
from cleave.pipeline import run_query
from cleave.session import Silent
from cleave.sql.plan import QueryPlan
from cleave.sql.planner import plan_query
from cleave.table.schema import Schema, load_schema
from cleave.table.table import open_table
from cleave.transport.base import Transport
from cleave.transport.deadline import Deadline
from cleave_shared import duckdb
from cleave_shared.dataclass import dataclass
from cleave_shared.params import SUM60_PACK

ROWS = 200_000
_FEW, _GROUPS, _REPEATS, _SECONDS = 50, 5_000, 5, 60.0
_COLUMNS = 4
_BUSY = 2.0  # times as long as the shortest of the same
_SCHEMA = "".join(
    f'[columns.{name}]\nkind = "{kind}"\ntype = "BIGINT"\nlower = 0\nupper = 1000000000\nnullable = false\n'
    for name, kind in (("k", "plain"), ("p", "plain"), ("x", "encrypted"), ("y", "encrypted"))
)
_TOTALS = "SELECT SUM(x), SUM(y) FROM made"
_GROUPED = "SELECT k, SUM(x), SUM(y) FROM made GROUP BY k"
_PLAIN = "SELECT SUM(p), SUM(k), SUM(x) FROM made"


@dataclass(frozen=True, slots=True)
class _Took:
    """Seconds: of reading the file, of each stage, of all after reading. Ciphertexts that were sent."""

    read: float
    stages: dict[str, float]
    all: float
    chunks: int


def calibrate(embedded: Callable[[], Transport], say: Callable[[str], None] = lambda _: None) -> Timings:
    """`embedded` opens the services of this process. Raises WrongResultError, and what a question may."""
    say("single operations on ciphertexts")
    found = _primitives()
    say(f"questions over {ROWS:,} rows")
    with TemporaryDirectory() as name:
        told = _of_questions(Path(name), embedded(), found, say)
    hidden = [each for each, seconds in told.items() if seconds <= 0]
    if hidden:
        say(f"hidden by noise, so taken from the shipped timings: {', '.join(hidden)}")
    found |= {each: seconds for each, seconds in told.items() if each not in hidden}
    taken = {each: SHIPPED.seconds[each] * _pace(found, shared=each in SHARED) for each in Operation}
    return Timings(taken | found, f"calibrated on this machine, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC")


def _pace(found: dict[Operation, float], *, shared: bool) -> float:
    """Times as long as the shipped timings say, at ciphertexts or at the rest."""
    return statistics.geometric_mean(
        [found[each] / SHIPPED.seconds[each] for each in found if (each in SHARED) == shared]
    )


def _primitives() -> dict[Operation, float]:
    family = coefficients(SUM60_PACK)
    names = ("encode", "encrypt, seeded", "save, seeded", "mask encode", "multiply by plaintext", "add", "load, seeded")
    told = suite.primitives(suite.Effort(0.03, 5), names, of=lambda: iter([family]))
    seconds = {each.name: each.seconds for each in told}
    encrypt = seconds["encode"] + seconds["encrypt, seeded"] + seconds["save, seeded"]
    return {
        Operation.ENCRYPT: encrypt,
        Operation.ENCRYPT_ALONE: encrypt,
        Operation.ADD: seconds["load, seeded"] + seconds["add"],
        Operation.MASK: seconds["mask encode"],
        Operation.MULTIPLY: seconds["multiply by plaintext"] + seconds["add"],
    }


def _of_questions(
    folder: Path, services: Transport, known: dict[Operation, float], say: Callable[[str], None]
) -> dict[Operation, float]:
    """What is not more than 0 is not known."""
    (folder / "made.schema.toml").write_text(_SCHEMA)
    schema = load_schema(folder / "made.schema.toml")
    files = {rows: folder / str(rows) / "made.csv" for rows in (_FEW, ROWS)}
    with duckdb.connect() as connection:
        for rows, path in files.items():
            path.parent.mkdir()
            connection.execute(
                f"COPY (SELECT i % {_GROUPS} AS k, i AS p, (i * 7919) % 1000000000 AS x, "
                f"(i * 104729) % 1000000000 AS y FROM range({rows}) r(i)) TO '{path}' (HEADER)"
            )
    secret, _ = generate(SUM60_PACK)
    key = SecretKey(secrets.token_hex(16), SUM60_PACK, secret, secrets.token_bytes(32))

    spreads: list[float] = []

    def took(sql: str, rows: int) -> _Took:
        runs = [_asked(files[rows], schema, sql, key, services) for _ in range(_REPEATS)]
        spreads.append(max(each.all for each in runs) / min(each.all for each in runs))
        return _least(runs)

    took(_PLAIN, _FEW)  # imports what a first question does
    spreads.clear()
    few, many, grouped = took(_TOTALS, _FEW), took(_TOTALS, ROWS), took(_GROUPED, ROWS)
    plain_few, plain = took(_PLAIN, _FEW), took(_PLAIN, ROWS)
    if max(spreads) > _BUSY:
        say(f"this machine is busy: one question took up to {max(spreads):.1f} times as long; repeat when it rests")
    cores = Timings.cores()

    def more(stage: str, values: int) -> float:
        return (many.stages[stage] - few.stages[stage]) / values

    together = cores * (many.stages["ask"] - few.stages["ask"]) / max(1, many.chunks - few.chunks)
    return {
        Operation.READ: (many.read - few.read) / (ROWS * _COLUMNS),
        Operation.SPLIT: more("split", 2 * ROWS),
        Operation.ENCODE: more("encode", 2 * ROWS),
        Operation.ADD: max(known[Operation.ADD], together - known[Operation.ENCRYPT]),
        Operation.ASK: few.all + few.read,
        Operation.GROUP: (grouped.all - many.all) / (_GROUPS * 3),
        Operation.PLAIN: plain_few.all - few.all,
        Operation.PLAIN_VALUE: (plain.stages["plain"] - plain_few.stages["plain"]) / (ROWS * 2),
    }


def _asked(path: Path, schema: Schema, sql: str, key: SecretKey, services: Transport) -> _Took:
    plan = plan_query(sql, schema, "made")
    if not isinstance(plan, QueryPlan):
        raise TypeError("a question that services answer")
    started = time.perf_counter()
    with open_table([path], schema) as table:
        read = time.perf_counter()
        deadline = Deadline(_SECONDS)
        result = run_query(table, plan, key, services.begin(deadline), Silent(), deadline=deadline)
        done = time.perf_counter()
    return _Took(read - started, {"plain": 0.0, **result.timings}, done - read, result.usage.chunks)


def _least(runs: list[_Took]) -> _Took:
    stages = {name: min(each.stages[name] for each in runs) for name in runs[0].stages}
    return _Took(min(each.read for each in runs), stages, min(each.all for each in runs), runs[0].chunks)
