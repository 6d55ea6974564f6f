"""`cleave warm`, and questions and puts that use up what it made."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cleave.ckks import pool
from cleave.ckks.encryptors import PROCESSES
from cleave.ckks.key_file import describe_key
from cleave.ckks.pool import TOGETHER
from tests.cli.runner import Cli

ROWS = 100_000  # 13 ciphertexts
EXACT = "SELECT g, SUM(n) AS n FROM rows GROUP BY g ORDER BY g"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("warm") / "rows.csv"
    random = np.random.default_rng(3)
    values = np.stack([random.integers(0, 5, ROWS), random.integers(0, 1 << 40, ROWS)], axis=1)
    np.savetxt(path, values, "%d", delimiter=",", header="g,n", comments="")
    path.with_suffix(".schema.toml").write_text(
        '[csv]\ndelimiter = ","\nquote = "\\""\nencoding = "utf-8"\nheader = true\ndecimal = "."\n'
        '[columns.g]\nkind = "plain"\ntype = "BIGINT"\nreason = "test"\nnullable = false\n'
        '[columns.n]\nkind = "encrypted"\ntype = "BIGINT"\nreason = "test"\nnullable = false\n'
        f"lower = 0\nupper = {1 << 40}\n"
    )
    return path


@pytest.fixture
def ready(cli: Cli, key_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    monkeypatch.setenv(pool.VARIABLE, str(tmp_path / "pool"))
    cli.environment["CLEAVE_KEY"] = str(key_file)
    yield cli
    pool.drop(describe_key(key_file).key_id)


def asked(cli: Cli, table: Path) -> tuple[dict[str, Any], str]:
    result = cli.run("query", table, EXACT, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout), result.stderr


def packs(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "pool").rglob("*.zeros"))


def test_a_warm_answer_is_the_cold_one(ready: Cli, table: Path, key_file: Path) -> None:
    cold, _ = asked(ready, table)
    made = ready.run("warm", "--values", ROWS)
    assert made.exit_code == 0, made.output
    assert f"for query: {pool.count(describe_key(key_file).key_id, 'coefficients')} ciphertexts" in made.stdout
    assert "saves about" in made.stdout
    planned = ready.run("plan", table, EXACT)
    assert "13 ciphertexts (cleave warm)" in planned.stdout
    warm, said = asked(ready, table)
    assert warm["rows"] == cold["rows"]
    assert warm["bounds"] == cold["bounds"]
    assert warm["checks"] == cold["checks"]
    assert (cold["plan"]["chunks_made_ahead"], warm["plan"]["chunks_made_ahead"]) == (0, warm["plan"]["chunks"])
    assert said == ""
    again, _ = asked(ready, table)
    assert again["rows"] == cold["rows"]
    assert again["plan"]["chunks_made_ahead"] <= TOGETHER  # one pack is to spare for each further process


def test_a_damaged_file_costs_time_and_a_note_but_no_answer(ready: Cli, table: Path, tmp_path: Path) -> None:
    ready.run("warm", "--values", ROWS)
    for pack in packs(tmp_path):
        content = bytearray(pack.read_bytes())
        content[len(content) // 2] ^= 1
        pack.write_bytes(content)
    answer, said = asked(ready, table)
    assert said.startswith("note: a file of encryptions made ahead was damaged")
    assert answer["plan"]["chunks_made_ahead"] == 0
    assert not packs(tmp_path)


def test_off_uses_none(ready: Cli, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new, store = tmp_path / "new.json", ("--store", tmp_path / "store")
    ready.run("key", "new", "--key", new, "--no-passphrase")
    ready.run("warm", "--values", ROWS)
    ready.run("warm", "--for", "put", "--values", ROWS)
    ready.run("warm", "--for", "put", "--values", ROWS, "--key", new)
    before = packs(tmp_path)
    monkeypatch.setenv(pool.VARIABLE, "off")
    answer, _ = asked(ready, table)
    assert answer["plan"]["chunks_made_ahead"] == 0
    assert ready.run("put", table, "--table", "rows", "--by", "g", *store).exit_code == 0
    assert ready.run("key", "rotate", "rows", "--new-key", new, *store).exit_code == 0
    stored = ready.run("query", "rows", EXACT, "--json", "--key", new, *store)
    assert json.loads(stored.stdout)["rows"] == answer["rows"]
    assert packs(tmp_path) == before
    for option in ("--values=1", "--show", "--drop"):
        assert "CLEAVE_POOL is off" in ready.fails(3, "warm", option)


def test_a_put_uses_its_own(ready: Cli, table: Path, tmp_path: Path) -> None:
    ready.run("warm", "--for", "put", "--values", ROWS)
    before = packs(tmp_path)
    store = ("--store", tmp_path / "store")
    put = ready.run("put", table, "--table", "rows", "--by", "g", *store)
    assert put.exit_code == 0, put.output
    assert len(packs(tmp_path)) < len(before) - 1
    stored = ready.run("query", "rows", EXACT, "--json", *store)
    assert json.loads(stored.stdout)["rows"] == asked(ready, table)[0]["rows"]
    assert ready.run("verify", "rows", *store).exit_code == 0


def test_it_is_shown_and_dropped(ready: Cli, tmp_path: Path, key_file: Path) -> None:
    assert "for query: 0 ciphertexts" in ready.run("warm", "--show").stdout
    ready.run("warm", "--values", 1)
    facts = json.loads(ready.run("warm", "--show", "--json").stdout)
    assert facts["query"]["ciphertexts"] == TOGETHER * PROCESSES
    assert facts["query"]["bytes"] > TOGETHER * 65_000
    assert facts["put"] == {"ciphertexts": 0, "bytes": 0, "cpu_seconds_saved": 0.0}
    assert facts["key_id"] == describe_key(key_file).key_id
    assert f"{TOGETHER * PROCESSES} encryptions made ahead deleted" in ready.run("warm", "--drop").stderr
    assert not list((tmp_path / "pool").rglob("*.zeros"))
    assert ready.run("warm", "--drop", "--show").exit_code == ready.run("warm", "--show", "--values", 1).exit_code == 2


def test_a_folder_others_may_use_is_refused(ready: Cli, tmp_path: Path) -> None:
    ready.run("warm", "--values", 1)
    for each in (tmp_path / "pool").rglob("coefficients"):
        each.chmod(0o755)
    assert "others may use this folder" in ready.fails(3, "warm", "--values", 1_000_000)


@pytest.mark.parametrize("harmed", [False, True])
@pytest.mark.sampled(2)
def test_a_rotation_uses_those_of_the_new_key_and_says_what_is_wrong_with_them(
    ready: Cli, table: Path, tmp_path: Path, key_file: Path, *, harmed: bool
) -> None:
    new, store = tmp_path / "new.json", ("--store", tmp_path / "store")
    ready.run("key", "new", "--key", new, "--no-passphrase")
    ready.run("put", table, "--table", "rows", "--by", "g", *store)
    for each in (key_file, new):
        ready.run("warm", "--for", "put", "--values", ROWS, "--key", each)
    before = packs(tmp_path)
    for each in before if harmed else ():
        os.truncate(each, each.stat().st_size - 1)
    rotated = ready.run("key", "rotate", "rows", "--new-key", new, *store)
    assert rotated.exit_code == 0, rotated.output
    assert rotated.stderr.startswith("note: a file of encryptions made ahead was damaged") == harmed
    gone = {*before} - {*packs(tmp_path)}
    assert len(gone) > 1
    assert {each.parts[-3] for each in gone} == {describe_key(new).key_id}
    assert ready.run("verify", "rows", "--key", new, *store).exit_code == 0
    stored = ready.run("query", "rows", EXACT, "--json", "--key", new, *store)
    assert json.loads(stored.stdout)["rows"] == asked(ready, table)[0]["rows"]
