"""`make bench-encrypted`: a stored table of TPC-H's lineitem beside files of others that are encrypted as a whole.

The same eight columns go into a stored table, into an encrypted database of DuckDB and into Parquet with modular
encryption (pyarrow; DuckDB computes over what it reads). Writing starts from the clear Parquet; a query's time starts
before the file is opened. Answers are compared. The rows printed are those of docs/performance.md.
"""

from __future__ import annotations

import argparse
import secrets
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from cryptography.hazmat.primitives.keywrap import aes_key_unwrap, aes_key_wrap
from pyarrow.parquet import encryption

from benchmarks.store import KINDS, QUESTIONS, Bench, each_scale
from benchmarks.tables import figure, machine, markdown

ASKED = [question for question in QUESTIONS if question.name in ("Q1", "Q6")]


class Kms(encryption.KmsClient):  # type: ignore[misc]  # pyarrow has no types
    """Wraps keys under one in memory."""

    def __init__(self, key: bytes) -> None:
        super().__init__()
        self._key = key

    def wrap_key(self, key_bytes: bytes, _: str) -> bytes:
        return aes_key_wrap(self._key, key_bytes).hex().encode()

    def unwrap_key(self, wrapped_key: str | bytes, _: str) -> bytes:
        text = wrapped_key if isinstance(wrapped_key, str) else wrapped_key.decode()
        return aes_key_unwrap(self._key, bytes.fromhex(text))


class Encrypted(Bench):
    """`measured`: lines of the page's table."""

    def __init__(self, folder: Path, scale: str, stack: ExitStack) -> None:
        super().__init__(folder, scale, stack)
        self.measured: list[list[str]] = []
        self._database, self._file = folder / "encrypted.db", folder / "encrypted.parquet"
        self._secret = secrets.token_hex(32)
        kms_key = secrets.token_bytes(32)
        self._factory = encryption.CryptoFactory(lambda _: Kms(kms_key))
        self._connection = encryption.KmsConnectionConfig()

    def _postgres(self, _: ExitStack) -> None:
        return None

    def compare(self, repeats: int) -> None:
        put = ("put", str(self._parquet), "--table", "lineitem", "--by", self.by, "--store", str(self._store))
        started = time.perf_counter()
        self._run("--quiet", *put)
        written = time.perf_counter() - started
        self._add("Cleave", written, size(self._store), self._of_cleave, repeats)
        started = time.perf_counter()
        cipher = self._write_database()
        written = time.perf_counter() - started
        self._add(f"DuckDB, {cipher}", written, size(self._database), self._of_database, repeats)
        started = time.perf_counter()
        self._write_parquet()
        written = time.perf_counter() - started
        self._add("Parquet, modular encryption", written, size(self._file), self._of_parquet, repeats)

    def _add(self, name: str, written: float, held: int, ask: Callable[[str], list[Any]], repeats: int) -> None:
        figures = []
        for question in ASKED:
            known = self._in_duckdb(question, "hot")
            taken = []
            for _ in range(repeats):
                started = time.perf_counter()
                found = ask(question.sql)
                taken.append(time.perf_counter() - started)
                check(f"{name}, {question.name}", found, known)
            figures.append(figure(statistics.median(taken)))
        self.measured.append([name, figure(held / 1e6), figure(written), *figures])

    def _of_cleave(self, sql: str) -> list[Any]:
        with ExitStack() as stack:
            session = self.open(stack)
            return list(session.ask(session.plan(sql)).result.rows)

    def _write_database(self) -> str:
        """Returns which library encrypted."""
        with duckdb.connect() as connection:
            library = crypto(connection)
            connection.execute(f"ATTACH '{self._database}' AS sealed (ENCRYPTION_KEY '{self._secret}')")
            clear = f"SELECT {', '.join(KINDS)} FROM read_parquet('{self._parquet}')"
            connection.execute(f"CREATE TABLE sealed.lineitem AS {clear}")
            connection.execute("DETACH sealed")
        return library

    def _of_database(self, sql: str) -> list[Any]:
        with duckdb.connect() as connection:
            crypto(connection)
            connection.execute(f"ATTACH '{self._database}' AS sealed (ENCRYPTION_KEY '{self._secret}', READ_ONLY)")
            return connection.execute(sql.replace("FROM lineitem", "FROM sealed.lineitem")).fetchall()

    def _write_parquet(self) -> None:
        settings = encryption.EncryptionConfiguration(
            footer_key="footer", column_keys={"columns": list(KINDS)}, cache_lifetime=timedelta(minutes=5)
        )
        keys = self._factory.file_encryption_properties(self._connection, settings)
        pq.write_table(pq.read_table(self._parquet, columns=list(KINDS)), self._file, encryption_properties=keys)

    def _of_parquet(self, sql: str) -> list[Any]:
        keys = self._factory.file_decryption_properties(self._connection)
        columns = [name for name in KINDS if name in sql]
        lineitem: pa.Table = pq.read_table(self._file, columns=columns, decryption_properties=keys)
        with duckdb.connect() as connection:
            connection.register("lineitem", lineitem)
            return connection.execute(sql).fetchall()


def crypto(connection: duckdb.DuckDBPyConnection) -> str:
    """OpenSSL where DuckDB's extension is installed. Else DuckDB's own code, whose random numbers it calls unsafe."""
    try:
        connection.execute("LOAD httpfs")
    except duckdb.Error:
        connection.execute("SET force_mbedtls_unsafe = 'true'")
        return "Mbed TLS"
    return "OpenSSL"


def size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(each.stat().st_size for each in files if each.is_file())


def check(name: str, found: list[Any], known: list[Any]) -> None:
    """Raise SystemExit unless the rows are equal, means to within the rounding of doubles."""
    if len(found) != len(known) or any(len(ours) != len(theirs) for ours, theirs in zip(found, known, strict=True)):
        raise SystemExit(f"{name}: another shape than the clear table's answer")
    for ours, theirs in zip(found, known, strict=True):
        for value, right in zip(ours, theirs, strict=True):
            near = isinstance(right, float) and abs(value - right) <= 1e-12 * abs(right)
            if not near and value != right:
                raise SystemExit(f"{name}: not the clear table's answer")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scales", default="1", help="TPC-H scale factors")
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()

    def run(scale: str, folder: Path, stack: ExitStack) -> None:
        bench = Encrypted(folder, scale, stack)
        bench.compare(given.repeats)
        print(f"{machine()}; lineitem at scale {scale}: {bench.rows:,} rows; medians of {given.repeats}\n")
        print(markdown(["encrypted by", "MB", "write, s", "Q1, s", "Q6, s"], bench.measured), flush=True)

    each_scale(given.scales, run)


if __name__ == "__main__":
    main()
