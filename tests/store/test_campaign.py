"""Twenty writers and four askers at once, in processes of their own; see tests/store/judging.py for what must hold.

One minute in all; with CLEAVE_CAMPAIGN up to ten.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import cleave
from cleave.ckks.key_file import create_key, open_key
from cleave.ckks.public_key import export_public, public_side
from cleave.store.identity import create_identity
from tests.campaign import FACTOR
from tests.store.campaigning import HEADER, LEAST, NOTE, ROLES, SCHEMA, Config, digest_of, some
from tests.store.commands import ROOT
from tests.store.conftest import BUCKET, aws_environment
from tests.store.judging import Call, Judge, few_in, line_of

SECONDS = 15.0 * min(FACTOR, 20)  # of each campaign
_PATIENCE = 900.0  # a guard against hanging: calls under way may take as long as a change tries again


def began(folder: Path, key_file: Path, store: str) -> Config:
    """A table of thirty rows, and who else has keys."""
    for name in ("journal", "state", "cache"):
        (folder / name).mkdir()
    for name in ("new", "dan"):
        create_key(folder / f"{name}.json", None)
    reader = open_key(folder / "dan.json", None)
    export_public(reader, public_side(reader), folder / "dan.json.pub")
    create_identity(folder / "carol.pem", analyst=True)
    (folder / "schema.toml").write_text(SCHEMA)
    (folder / "first.csv").write_text(HEADER + "".join(map(line_of, some("first", 0, 30))))
    config = Config(folder, store, key_file, folder / "new.json", SECONDS)
    by = {"by": ["ward", "sex"], "key_columns": ["name"], "schema": folder / "schema.toml"}
    cleave.put(folder / "first.csv", "trial", store=store, key=key_file, **by)
    return config


def made(config: Config) -> None:
    """Let all processes run, until the last has ended."""
    (path := config.folder / "config.json").write_text(config.dump())
    with subprocess.Popen([sys.executable, "-m", "tests.store.campaigning", str(path)], cwd=ROOT) as process:
        try:
            code = process.wait(config.seconds + _PATIENCE)
        finally:
            process.kill()  # its children die with it
    errors = [each.read_text() for each in (config.folder / "journal").glob("*.err")]
    assert code == 0, "\n".join(filter(None, errors))


def calls_of(config: Config) -> list[Call]:
    return [
        json.loads(line)
        for user in ROLES
        for line in (config.folder / "journal" / f"{user}.jsonl").read_text().splitlines()
    ]


def judged(config: Config, figures: list[str]) -> None:
    place: dict[str, Any] = {"store": config.store, "key": config.new_key}
    calls, log = calls_of(config), cleave.log("trial", **place)
    first = {each.name: each for each in some("first", 0, 30)}
    found = Judge(first, calls, log).judge()
    figures.append(f"campaign: {len(calls)} calls, {len(log)} records, {len(found.parts)} parts, {dict(found.counts)}")
    for each in calls:
        if each["what"] == "log" and each["code"] == 0:
            assert digest_of(log[: each["answer"]["count"]]) == each["answer"]["digest"], "a record changed"
    assert few_in(found.parts, LEAST) is None
    assert cleave.verify("trial", **place) == []
    last = cleave.pull("trial", **place).arrow().to_pylist()
    assert sorted((each["name"], str(each["bill"])) for each in last) == sorted(
        (each.name, each.bill) for each in found.states[-1].values()
    )
    for user in ROLES:  # what its machine remembers only grows
        remembered = json.loads((config.folder / "state" / user / "cleave" / "tables.json").read_text())
        own = max((each["number"] for each in log if each["user"] == user), default=0)
        assert own <= max(count for _, count in remembered.values()) <= len(log), user
    nonces = Counter[bytes]()
    for path in (config.folder / "journal").glob("*.nonces"):
        content = path.read_bytes()
        nonces.update(content[at : at + NOTE] for at in range(0, len(content), NOTE))
    assert len(nonces) > 300
    assert max(nonces.values()) == 1, "a key sealed twice with one nonce"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "own"))
    return tmp_path


@pytest.mark.slow
@pytest.mark.first
def test_twenty_writers_and_four_askers(folder: Path, key_file: Path, printed_figures: list[str]) -> None:
    config = began(folder, key_file, f"{folder / 's'},{folder / 'p'}")
    made(config)
    judged(config, printed_figures)


@pytest.mark.slow
@pytest.mark.first
def test_twenty_writers_and_four_askers_in_s3(
    folder: Path, key_file: Path, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch, printed_figures: list[str]
) -> None:
    for name, value in aws_environment(s3_endpoint).items():
        monkeypatch.setenv(name, value)
    place = f"s3://{BUCKET}/campaign/{folder.name}"
    config = began(folder, key_file, f"{place}/s,{place}/p")
    made(config)
    judged(config, printed_figures)
