"""Every process of `cleave serve`, the shell and Python's embedded services is killed once while they are asked."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

import cleave
from aws.serving import ROOT, served
from cleave.ckks.key_file import create_key
from tests.campaign import sampled
from tests.functional.killing import kill_each
from tests.functional.processes import descendants
from tests.samples import write_schema

ROWS = 150_000  # 19 chunks of two lanes: encrypted by a forked process
FILE = "SELECT ward, SUM(pay) AS s, COUNT(*) AS n, MAX(ward) AS w FROM t GROUP BY ward ORDER BY ward"
STORED = (
    "SELECT ward, SUM(pay) AS s FROM small GROUP BY ward ORDER BY ward",  # totals of two segments, by the service
    "SELECT ward, COUNT(*) AS n, MAX(ward) AS w FROM small GROUP BY ward ORDER BY ward",  # the plain service
    "SELECT MIN(pay) AS a, MAX(pay) AS b FROM small",  # rows
)
SERVICES = STORED[:2]  # asked with `cloud_only`: else rows take the place of a plain service in the same process
Texts = list[list[str]]
# Asks each line of its standard input, and answers with a line. A session would hold the totals that it read.
SESSION = """
import json, sys
import cleave
for line in sys.stdin:
    try:
        with cleave.connect(**json.loads(sys.argv[1])) as connection:
            said = [[str(each) for each in row] for row in connection.execute(line).fetchall()]
    except cleave.CleaveError as error:
        said = f"{type(error).__name__}: {error}"
    print(json.dumps(said), flush=True)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of many rows, and a stored table of two segments of its first ones."""
    folder = tmp_path_factory.mktemp("killed")
    create_key(folder / "key.json", None)
    sql = f"SELECT 'w' || i % 7 AS ward, (i % 1000 + i % 89 / 100)::DECIMAL(10, 2) AS pay FROM range({ROWS}) r(i)"
    duckdb.sql(f"COPY ({sql}) TO '{folder}/t.csv'")
    write_schema(folder / "t.csv", {"ward": "plain VARCHAR", "pay": "encrypted DECIMAL(10,2)"})
    given = {"store": folder / "store", "key": folder / "key.json"}
    for part, schema in ((40_000, {"ward": "plain", "pay": "encrypted"}), (20_000, None)):
        frame = duckdb.sql(f"{sql} LIMIT {part}").to_arrow_table()
        if schema:
            cleave.put(frame, "small", schema=schema, by=["ward"], **given)
        else:
            cleave.append(frame, "small", **given)
    return folder


def truth(folder: Path, sql: str) -> Texts:
    """DuckDB's, over the file itself."""
    read = f"read_csv('{folder}/t.csv', types={{'pay': 'DECIMAL(10, 2)'}})"
    small = f"(FROM (FROM {read} LIMIT 40_000) UNION ALL FROM (FROM {read} LIMIT 20_000))"
    rows = duckdb.sql(sql.replace("FROM t ", f"FROM {read} ").replace("FROM small", f"FROM {small}")).fetchall()
    return [list(map(str, row)) for row in rows]


class FailedError(Exception):
    """A question was answered with an error."""


@contextmanager
def session(**asking: object) -> Iterator[tuple[int, Callable[[str], Texts]]]:
    """A process, and how it is asked."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", SESSION, json.dumps(asking, default=str)], stdin=pipe, stdout=pipe, text=True, cwd=ROOT
    ) as process:

        def ask(sql: str) -> Texts:
            assert process.stdin
            assert process.stdout
            print(sql, file=process.stdin, flush=True)
            said = json.loads(process.stdout.readline())
            if isinstance(said, str):
                raise FailedError(said)
            return said

        yield process.pid, ask
        process.stdin.close()  # type: ignore[union-attr]
        assert process.wait() == 0


@pytest.mark.parametrize("rounds", sampled(1, 2, 40))
def test_services_of_a_process(folder: Path, rounds: int) -> None:
    stored = [truth(folder, sql) for sql in SERVICES]
    with session(store=folder / "store", key=folder / "key.json", cloud_only=True) as (pid, ask):
        for seed in range(rounds):
            found = kill_each(pid, lambda: [ask(sql) for sql in SERVICES], stored, seed, FailedError)
            assert found > 2
    assert not descendants(pid)


@pytest.mark.parametrize("rounds", sampled(1, 2, 40))
@pytest.mark.slow  # the test above has the same servers of processes
def test_encrypting_workers_of_a_process(folder: Path, rounds: int) -> None:
    with session(data=folder / "t.csv", key=folder / "key.json") as (pid, ask):
        for seed in range(rounds):
            assert kill_each(pid, lambda: ask(FILE), truth(folder, FILE), seed, FailedError) > 2
    assert not descendants(pid)


@pytest.mark.parametrize("rounds", sampled(1, 2, 40))
@pytest.mark.slow  # tests/functional/test_serve.py kills all at once
def test_serve_answers_after_any_of_its_processes_is_killed(folder: Path, rounds: int) -> None:
    with (
        served("--quiet", "--store", str(folder / "store")) as (url, process),
        session(store=folder / "store", key=folder / "key.json", endpoint=url) as (_, ask),
    ):
        stored = [truth(folder, sql) for sql in STORED]
        for seed in range(rounds):
            assert kill_each(process.pid, lambda: [ask(sql) for sql in STORED], stored, seed, FailedError) > 1
        assert process.poll() is None


@pytest.mark.slow  # its services are those of the first test
def test_the_shell_answers_after_any_of_its_processes_is_killed(folder: Path) -> None:
    """Between statements: the first error would end it."""
    given = (*("shell", "--store", folder / "store", "--key", folder / "key.json", "--quiet", "--cloud-only"),)
    command = [sys.executable, "-c", "from cleave.local.main import main; main()", *given]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as process:
        assert process.stdin
        assert process.stdout
        print(".format csv", file=process.stdin)

        def ask(sql: str) -> Texts:
            assert process.stdin
            assert process.stdout
            print(f"{sql};\n.format", file=process.stdin, flush=True)
            names, *rows = csv.reader(iter(process.stdout.readline, "csv\n"))
            return [[each for name, each in zip(names, row, strict=True) if "_bound" not in name] for row in rows]

        stored = [truth(folder, sql) for sql in SERVICES]
        found = kill_each(process.pid, lambda: [ask(sql) for sql in SERVICES], stored, 0, (), at_work=False)
        assert found > 2
        process.stdin.close()
        assert process.wait() == 0
