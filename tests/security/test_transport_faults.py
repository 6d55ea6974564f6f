"""Every fault of tests/vectors/transport-faults.toml under `cleave query`, and bits flipped anywhere, many times over.

Whatever happens on the way, the command gives the right answer, or an error and no number.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from cleave.ckks import encryptors
from cleave.local.embedded import embedded_services
from cleave.sql import split
from cleave.transport.base import Service, Transport
from cleave.transport.responses import Response
from cleave_shared import limits
from tests.cli.runner import Cli
from tests.security import faulty
from tests.security.canaries import QUESTION, canaries
from tests.security.faulty import Faulty
from tests.security.ways import Record, recorded

FAULTS = tomllib.loads((Path(__file__).parents[1] / "vectors" / "transport-faults.toml").read_text())["fault"]
UNGROUPED = "SELECT COUNT(*) AS n, MAX(visits) AS v, SUM(hiddenpay) AS s FROM t WHERE visits > 0"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return canaries().write(tmp_path_factory.mktemp("table"))


@pytest.fixture(scope="module")
def long_table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return canaries(4000).write(tmp_path_factory.mktemp("table"))


@pytest.fixture(scope="module")
def earlier(table: Path, key_file: Path) -> dict[Service, Response]:
    """The answers to another query about the same table."""
    record = Record()
    cli = Cli(recorded("embedded", record, ""))
    assert cli.run("query", table, QUESTION.replace("> 0", "< 0"), "--key", key_file).exit_code == 0
    assert not record.requests(Service.SENSITIVE), "nothing is selected"
    assert cli.run("query", table, QUESTION.replace("> 0", "> 1"), "--key", key_file).exit_code == 0
    return {each.service: each.answer for each in record.exchanges}


def services(fault: dict[str, Any], earlier: dict[Service, Response]) -> Callable[[], Transport]:
    def open_transport() -> Transport:
        transport = embedded_services()
        assert isinstance(transport, Transport)
        # of its own, for it packs bodies as if they went somewhere
        return Transport(Faulty(transport._carrier, fault["name"], fault["service"], earlier))

    return open_transport


def several_requests(patch: pytest.MonkeyPatch) -> None:
    """Of either service at once, and of equal sizes, so that nothing but the digest tells them apart."""
    patch.setattr(split, "_MOST_ROWS", 2000)
    patch.setattr(limits, "MAX_REQUEST_CHUNKS", 1)
    patch.setattr(encryptors, "MIN_CHUNKS_TO_FORK", 1)


CASES = [
    {**fault, "service": service}
    for fault in FAULTS
    for service in (("plain", "sensitive") if fault["service"] == "both" else (fault["service"],))
]


@pytest.mark.parametrize("fault", CASES, ids=lambda fault: f"{fault['name']}-{fault['service']}")
@pytest.mark.sampled(6, 2)
def test_a_fault_on_the_way_is_found_by_its_check(
    fault: dict[str, Any],
    cli: Cli,
    table: Path,
    long_table: Path,
    key_file: Path,
    earlier: dict[Service, Response],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cli.embedded = services(fault, earlier)
    question = UNGROUPED if "none was asked for" in fault["name"] else QUESTION
    if "two requests" in fault["name"]:
        several_requests(monkeypatch)
        table = long_table
    if not fault["code"]:
        assert cli.run("query", table, question, "--key", key_file).exit_code == 0
        return
    told = cli.fails(fault["code"], "query", table, question, "--key", key_file)
    assert fault["error"] in told.splitlines()[0]
    assert "hint: " in told


def test_every_fault_is_carried_out() -> None:
    known = {*faulty.ANSWERS, *faulty.REQUESTS, *faulty.MADE, *faulty.OTHERS}
    assert {fault["name"] for fault in FAULTS} == known
    assert len(FAULTS) == len(known)
    assert {fault["name"] for fault in FAULTS if fault["kind"] == "service"} == set(faulty.MADE)


def test_several_requests_are_answered_rightly(
    cli: Cli, long_table: Path, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the exchanges above start from."""
    several_requests(monkeypatch)
    record = Record()
    cli.embedded = recorded("embedded", record, "")
    result = cli.run("query", long_table, QUESTION, "--key", key_file, "--json")
    assert result.exit_code == 0, result.output
    assert len(record.requests(Service.PLAIN)) == 2
    assert len(record.requests(Service.SENSITIVE)) > 1
    assert_right(json.loads(result.stdout, parse_float=Decimal), long_table)


def assert_right(answer: dict[str, Any], table: Path, question: str = QUESTION) -> None:
    types = "{'hiddenpay': 'DECIMAL(18,2)', 'hiddendose': 'DOUBLE', 'hiddencount': 'BIGINT', 'visits': 'BIGINT'}"
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE t AS FROM read_csv('{table}', types = {types})")
        expected = connection.execute(question).fetchall()
    assert len(answer["rows"]) == len(expected)
    for row, bounds, truth in zip(answer["rows"], answer["bounds"], expected, strict=True):
        assert row[:3] == list(truth[:3])
        for figure, bound, true in zip(row[3:], bounds[3:], truth[3:], strict=True):
            lost = abs(Decimal(true)) * Decimal("1e-12")  # by the float64 of DuckDB itself, at most
            assert abs(Decimal(figure) - Decimal(true)) <= Decimal(bound) + lost
