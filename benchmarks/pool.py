"""`make bench-pool`: a question over a file with and without encryptions made ahead, as pairs in one run, as Markdown.

A ciphertext is an encryption of zero plus the message, and encrypting zero takes most of the time. Here the zeros are
made before the question and held in memory; each is used once. The product has no such pool: a zero on a disk is used
again when the disk is set back, and then two ciphertexts give the difference of their messages.

1,000,000 rows x 4 encrypted float64 columns, in an open session with embedded services. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import tempfile
import time
from pathlib import Path
from unittest import mock

import duckdb

from benchmarks.tables import machine, markdown, spread
from benchmarks.thesis.measured import usage
from cleave.ask.here import HereSource
from cleave.ask.options import Access
from cleave.ask.session import Session
from cleave.ask.source import Result
from cleave.ckks.cipher import Cipher
from cleave.ckks.secret_key import SecretKey, fresh_key
from cleave.local.embedded import embedded_services, prepare_embedded
from cleave.table.lazy import of_files
from cleave_shared.params import DEFAULT_PROFILE

COLUMNS = 4
GROUPS = 20


class PooledCipher(Cipher):
    """A cipher with `count` encryptions of zero made ahead; once they are used up it makes fresh ones.

    Threads and forked processes share the pool: each zero is given to one of them.
    """

    def __init__(self, key: SecretKey, count: int) -> None:
        super().__init__(key)
        self._zeros = super().encrypted_zeros(count)
        self._taken = multiprocessing.get_context("fork").Value("q", 0)

    @property
    def left(self) -> int:
        """Encryptions of zero that are not used yet."""
        return max(0, len(self._zeros) - self._taken.value)

    def encrypted_zeros(self, count: int) -> list[bytes]:
        with self._taken.get_lock():
            first = self._taken.value
            self._taken.value += count
        ahead = self._zeros[first : first + count]
        return ahead + super().encrypted_zeros(count - len(ahead))


def ask(session: Session, sql: str, cipher: Cipher | None = None) -> Result:
    """Ask a question over a file, which `cipher` encrypts if it is given."""
    if cipher is None:
        return session.ask(session.plan(sql))
    with mock.patch("cleave.ask.here_sums.Cipher", return_value=cipher):
        return session.ask(session.plan(sql))


def write_table(folder: Path, rows: int) -> Path:
    path = folder / "rows.parquet"
    values = ", ".join(f"100 + 40 * random() AS e{number}" for number in range(COLUMNS))
    connection = duckdb.connect()
    connection.execute("SELECT setseed(0.5)")
    connection.execute(f"COPY (SELECT i % {GROUPS} AS g, {values} FROM range({rows}) r(i)) TO '{path}'")
    lines = ['[columns.g]\nkind = "plain"\ntype = "BIGINT"']
    lines += [f'[columns.e{number}]\nkind = "encrypted"\ntype = "DOUBLE"' for number in range(COLUMNS)]
    path.with_suffix(".schema.toml").write_text("\n".join(lines) + "\n")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--rows", type=int, default=1_000_000)
    asked = parser.parse_args()
    sums = ", ".join(f"SUM(e{number})" for number in range(COLUMNS))
    questions = {
        f"by {GROUPS} groups": f"SELECT g, {sums} FROM rows GROUP BY g",
        "all rows": f"SELECT {sums} FROM rows",
    }
    prepare_embedded()
    with tempfile.TemporaryDirectory() as name:
        key_file = Path(name) / "key.json"
        key = fresh_key(DEFAULT_PROFILE)
        with Session(
            HereSource(of_files([write_table(Path(name), asked.rows)]), Access(key_file), embedded_services)
        ) as session:
            print(f"{machine()}; {asked.rows:,} rows x {COLUMNS}, {asked.pairs} pairs: medians (least-most)\n")
            rows = [row for what, sql in questions.items() for row in _pairs(session, key, what, sql, asked.pairs)]
    head = ["", "without, s", "with, s", "with / without", "made ahead, s"]
    print(markdown(head, rows))
    print(f"\nLoad at the end: {os.getloadavg()[0]:.1f}.")


def _pairs(session: Session, key: SecretKey, what: str, sql: str, count: int) -> list[list[str]]:
    chunks = ask(session, sql).usage.chunks  # what is read and compiled once
    found: dict[tuple[str, bool], list[float]] = {}
    filled = []
    for _ in range(count):
        started = time.perf_counter()
        cipher = PooledCipher(key, chunks)
        filled.append(time.perf_counter() - started)
        for pooled in (False, True):
            before = usage()
            answer = ask(session, sql, cipher if pooled else None)
            taken = {name: after - before[name] for name, after in usage().items() if name in {"wall", "cpu_all"}}
            for name, seconds in (
                ("encrypted and answered", answer.timings["sensitive"]),
                ("whole question", taken["wall"]),
                ("its processor time", taken["cpu_all"]),
            ):
                found.setdefault((name, pooled), []).append(seconds)
        if cipher.left:
            raise SystemExit(f"{cipher.left} encryptions made ahead were not used")
    lines = []
    for name in dict.fromkeys(name for name, _ in found):
        without, with_ = found[name, False], found[name, True]
        ratio = statistics.median(with_) / statistics.median(without)
        lines.append([f"{what}: {name}", spread(without), spread(with_), f"{ratio:.2f}", spread(filled)])
    return lines


if __name__ == "__main__":
    main()
