"""`python -m benchmarks.ring`: ring packing of results, beside what HERMES published; Markdown for docs/performance.md.

A result is a ciphertext of which one coefficient matters, as a masked sum is. Processor time of one thread: of the
packing itself, and of all of a service's share: results read from files, packed, and written.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import numpy as np

from cleave.ckks.key_file import create_key
from cleave.local.embedded import embedded_services
from cleave.session import Access, Silent
from cleave.store.folder import Folder
from cleave.store.locate import Stores
from cleave.store.memory import Memory
from cleave.store.put import put
from cleave.store.services import Services
from cleave.store.session import StoredSession, open_tables
from cleave.table.schema import load_schema
from cleave.table.table import open_table
from cleave_shared import limits, seal
from cleave_shared.packing import Packer, PackingKey, elements
from cleave_shared.params import SUM60_PACK, Profile

LEVELS = (4, 6, 8, 10)
RUNS = 5
ROWS = 100_000
SCHEMA = """
[columns.day]
kind = "plain"
type = "BIGINT"
[columns.bill]
kind = "encrypted"
type = "DECIMAL(9,2)"
lower = 0
upper = 1000
[columns.age]
kind = "encrypted"
type = "BIGINT"
lower = 0
upper = 127
"""
HERMES = "| HERMES, as published | 4096 | | | 0.31 | | 5 | | |"
SMALL = Profile(  # for this table only: what is stored has the other one
    name="ring-4096",
    degree=4096,
    prime_bits=(53, 53),
    estimated_bits=(129, 122, 87),
    source="docs/ckks.md section 6",
)


@dataclass(frozen=True, slots=True)
class Line:
    profile: Profile
    results: int
    pack: Sequence[float]  # seconds
    whole: Sequence[float]
    seeded: int  # bytes of the key
    expanded: int
    answer: int
    apart: int

    def markdown(self) -> str:
        each = [1e3 * seconds / self.results for seconds in self.pack]
        whole = [1e3 * seconds / self.results for seconds in self.whole]
        primes = ", ".join(map(str, self.profile.prime_bits))
        return (
            f"| [{primes}] | {self.profile.degree} | {self.results} | {1e3 * statistics.median(self.pack):.0f} "
            f"| {statistics.median(each):.2f} ({min(each):.2f} to {max(each):.2f}) | {statistics.median(whole):.2f} "
            f"| {self.seeded / 1e6:.2f} ({self.expanded / 1e6:.1f}) "
            f"| {self.answer / 1e3:.0f} | {self.apart / 1e3:,.0f} |"
        )


def measured(profile: Profile, levels: int) -> Line:
    ring = seal.Ring(profile)
    generator = seal.api.KeyGenerator(ring.context)
    encryptor = seal.api.Encryptor(ring.context, generator.secret_key())
    key_file = seal.save(generator.create_galois_keys(elements(levels)))
    key = PackingKey(ring, key_file, levels)
    packer, results = Packer(ring, key), (1 << levels) - 1
    files = [_result(ring, encryptor, at) for at in range(min(results, 15))]
    files = [files[at % len(files)] for at in range(results)]
    shifts = [3] * results

    def read() -> list[Any]:
        return [ring.ciphertext(each) for each in files]

    packer.pack(read(), shifts)  # what is kept from then on
    answer = packer.file(packer.pack(read(), shifts))
    return Line(
        profile,
        results,
        [_seconds(partial(packer.pack, read(), shifts)) for _ in range(RUNS)],
        [_seconds(lambda: packer.file(packer.pack(read(), shifts))) for _ in range(RUNS)],
        len(key_file),
        len(seal.save(key.keys)),
        len(answer),
        sum(map(len, files)),
    )


def _result(ring: seal.Ring, encryptor: Any, number: int) -> bytes:
    ciphertext = seal.api.Ciphertext()
    polynomial = np.full(ring.degree, number, np.int64)
    polynomial[0] = number + 1
    encryptor.encrypt_symmetric(ring.plaintexts([polynomial])[0], ciphertext)
    return ring.truncated(ciphertext, 1)


def _seconds(work: Callable[[], object]) -> float:
    """Of processor time: one thread does it all, and others' load counts less so."""
    started = time.process_time()
    work()
    return time.process_time() - started


def scans() -> list[str]:
    """One question of a stored table, its sums packed and one by one, in turns."""
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        folder = Path(place)
        session = stack.enter_context(_stored(folder))
        lines = []
        for days in (30, 6):
            sql = f"SELECT day // {days} AS d, SUM(bill), SUM(age) FROM visits GROUP BY d"
            found: dict[bool, list[tuple[float, float, int, int]]] = {True: [], False: []}
            for _ in range(RUNS + 1):
                for packed, of in found.items():
                    of.append(_asked(session, sql, packed=packed))
            for packed, of in found.items():
                wall, cpu, received, calls = (statistics.median(each[at] for each in of[1:]) for at in range(4))
                way = "packed" if packed else "one by one"
                figures = f"{calls:.0f} | {wall:.2f} | {cpu:.2f} | {received / 1e6:.2f}"
                lines.append(f"| {-(-365 // days)} | {way} | {figures} |")
        return lines


def _asked(session: StoredSession, sql: str, *, packed: bool) -> tuple[float, float, int, int]:
    """Seconds, of them of processors with all children, bytes that came back, calls."""
    # packed as if the services were not in this process, where nothing is
    with (
        mock.patch.object(limits, "PACKED_RESULTS", 16 if packed else 1 << 30),
        mock.patch.object(Services, "elsewhere", packed),
    ):
        plan = session.plan(sql, cloud_only=True)
        wall, cpu = time.perf_counter(), _processors()
        usage = session.ask(plan).usage
        return time.perf_counter() - wall, _processors() - cpu, usage.bytes_received, usage.sensitive_requests


def _processors() -> float:
    return sum(os.times()[:4])


def _stored(folder: Path) -> StoredSession:
    key, csv = folder / "key.json", folder / "visits.parquet"
    create_key(key, None)
    duckdb.execute(
        f"COPY (SELECT (i * 7919) % 365 AS day, ((i * 104729) % 100000 / 100)::DECIMAL(9,2) AS bill, i % 97 AS age "
        f"FROM range({ROWS}) r(i)) TO '{csv}' (FORMAT PARQUET)"
    )
    (folder / "visits.schema.toml").write_text(SCHEMA)
    access, memory = Access(key), Memory(folder / "tables.json")
    stores = Stores(Folder(folder / "s"), Folder(folder / "p"))
    tables, opened = open_tables(stores, access, memory)
    with open_table([csv], load_schema(folder / "visits.schema.toml")) as table:
        put(tables, stores, opened, table, "visits", (), Silent(), scan=True)
    return StoredSession("visits", stores, access, memory=memory, embedded=embedded_services)


def main() -> None:
    print(f"Processor time of one thread; median of {RUNS} runs, least and most beside it.")
    print(f"Load at the start: {os.getloadavg()[0]:.1f}\n")
    print(
        "| moduli | N | results | ms in all | ms each | ms each, files and all | key, MB (expanded) "
        "| answer, KB | one by one, KB |\n|---|---|---|---|---|---|---|---|---|"
    )
    for profile in (SMALL, SUM60_PACK):
        for levels in LEVELS:
            print(measured(profile, levels).markdown(), flush=True)
    print(HERMES)
    print(f"\nA stored table of {ROWS:,} rows, 2 measures by groups, in one process with its services.")
    print(f"Median of {RUNS}; processor seconds with all processes'.\n")
    print("| groups | sums come back | calls | s | processor s | MB received |\n|---|---|---|---|---|---|")
    print("\n".join(scans()))


if __name__ == "__main__":
    main()
