"""The pool that `make bench-pool` measures: the same answer, each encryption used once."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from benchmarks.pool import COLUMNS, PooledCipher, ask, write_table
from cleave.ask.here import HereSource
from cleave.ask.options import Access
from cleave.ask.session import Session
from cleave.ckks.encryptors import MIN_CHUNKS_TO_FORK
from cleave.ckks.secret_key import SecretKey
from cleave.local.embedded import embedded_services
from cleave.table.lazy import of_files

ROWS = 30_000


def test_a_question_with_a_pool_has_the_same_answer(key: SecretKey, key_file: Path, tmp_path: Path) -> None:
    sums = ", ".join(f"SUM(e{number})" for number in range(COLUMNS))
    with Session(HereSource(of_files([write_table(tmp_path, ROWS)]), Access(key_file), embedded_services)) as session:
        without = ask(session, f"SELECT g, {sums} FROM rows GROUP BY g ORDER BY g")
        cipher = PooledCipher(key, without.usage.chunks - 1)
        assert without.usage.chunks > MIN_CHUNKS_TO_FORK, "several processes share the pool"
        with_ = ask(session, f"SELECT g, {sums} FROM rows GROUP BY g ORDER BY g", cipher)
    assert cipher.left == 0
    assert with_.result.rows == [pytest.approx(row, rel=1e-14) for row in without.result.rows]


def test_no_two_processes_get_the_same_encryption(key: SecretKey) -> None:
    cipher = PooledCipher(key, 6)
    messages = np.zeros((4, key.profile.degree), np.int64)
    read, written = os.pipe()
    if os.fork() == 0:
        os.write(written, b"".join(each[-64:] for each in cipher.encrypt_to_add(messages)))
        os._exit(0)
    os.wait()
    with os.fdopen(read, "rb", closefd=True) as pipe:
        os.close(written)
        seeds = pipe.read()
    here = cipher.encrypt_to_add(messages)
    every = {*(seeds[at : at + 64] for at in range(0, len(seeds), 64)), *(each[-64:] for each in here)}
    assert (len(every), cipher.left) == (8, 0), "six of the pool, two fresh ones"
    assert np.abs(cipher.decrypt(here)).max() == pytest.approx(0, abs=21)
