"""Encryptions made ahead, from Python."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cleave
from cleave.ckks.encryptors import PROCESSES
from cleave.ckks.pool import TOGETHER

ROWS = 100_000  # 13 ciphertexts
SQL = "SELECT SUM(n) AS n FROM frame"
KINDS = {"n": {"kind": "encrypted", "lower": 0, "upper": 1 << 40, "nullable": False}}
PASSPHRASE = "correct horse battery staple"


@pytest.fixture(autouse=True)
def place(key_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEAVE_POOL", str(tmp_path / "pool"))
    monkeypatch.setenv("CLEAVE_KEY", str(key_file))
    monkeypatch.delenv("CLEAVE_PASSPHRASE", raising=False)


def test_it_is_made_told_of_used_and_dropped(tmp_path: Path) -> None:
    frame = pd.DataFrame({"n": np.random.default_rng(3).integers(0, 1 << 40, ROWS)})
    made = cleave.warm(ROWS)
    assert (made.use, made.ciphertexts) == ("query", (1 + PROCESSES) * TOGETHER)
    assert made.values == made.ciphertexts * 8176
    assert made.bytes == sum(each.stat().st_size for each in (tmp_path / "pool").rglob("*.zeros"))
    assert made.cpu_seconds_saved > 0
    assert cleave.pool("put") == cleave.MadeAhead("put", 0, 0, 0, 0.0)
    assert cleave.warm(ROWS).ciphertexts == made.ciphertexts, "there were enough"
    answer = cleave.query(frame, SQL, schema=KINDS)
    assert answer.rows == [(int(frame["n"].sum()),)]
    assert answer.usage.chunks_made_ahead == 13
    left = cleave.pool().ciphertexts
    assert left <= made.ciphertexts - 2 * TOGETHER
    assert cleave.drop_pool() == left
    for use in ("put", "query"):
        assert cleave.warm(1, use).ciphertexts == PROCESSES * TOGETHER
    assert cleave.drop_pool() == 2 * PROCESSES * TOGETHER
    assert cleave.pool() == cleave.MadeAhead("query", 0, 0, 0, 0.0)


def test_turned_off_there_is_none_and_questions_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEAVE_POOL", "off")
    for call in (cleave.warm, cleave.pool, cleave.drop_pool):
        with pytest.raises(cleave.InputError, match="CLEAVE_POOL is off") as raised:
            call()
        assert raised.value.hint == "CLEAVE_POOL names a folder for it"
    assert cleave.query(pd.DataFrame({"n": [1, 2]}), SQL, schema=KINDS).rows == [(3,)]


def test_what_cannot_be_made_is_refused_before_the_key_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    cleave.create_key(path, PASSPHRASE.encode())
    with pytest.raises(cleave.InputError, match="not made ahead for 'puts'") as raised:
        cleave.warm(1, "puts", key=path)  # type: ignore[arg-type]
    assert raised.value.hint == "one of query, put"
    with pytest.raises(cleave.InputError, match="a pool holds at most"):
        cleave.warm(1 << 40, key=path)
    with pytest.raises(cleave.KeyFileError, match="no passphrase was given"):
        cleave.warm(1, key=path)
    assert cleave.warm(1, key=path, passphrase=PASSPHRASE).ciphertexts == cleave.drop_pool(key=path)
    assert cleave.pool(key=path).ciphertexts == 0, "none are there to be tried out"
