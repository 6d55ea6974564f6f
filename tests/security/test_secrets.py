"""No cell, name of a sensitive column, passphrase or key byte in anything but the answer itself.

Canaries (see canaries.py) go down every way to the services, in questions that are answered and in ones that fail.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

from aws.serving import served
from cleave.ask.ways import encrypted
from cleave.ckks import encryptors
from cleave.transport.base import Service
from cleave_services.sensitive import workers
from cleave_shared import wire
from cleave_shared.requests import PlainRequest, SumsRequest
from tests.cli.runner import Cli
from tests.security.canaries import NAMES, PASSPHRASE, PLAIN, QUESTION, Canaries, canaries, traces
from tests.security.conftest import Places, WrappedKey
from tests.security.ways import WAYS, Record, recorded

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-c", "from cleave.local.main import main; main()"]


@pytest.mark.parametrize("way", WAYS)
def test_what_crosses_the_wire_in_a_good_query(
    way: str,
    cli: Cli,
    service: str,
    wrapped: WrappedKey,
    table: Canaries,
    places: Places,
    lines: list[str],
) -> None:
    record = Record()
    cli.embedded = recorded(way, record, service)
    cli.environment |= {"CLEAVE_KEY": str(wrapped.path), "CLEAVE_PASSPHRASE": PASSPHRASE}
    path = table.write(places.here)
    before = places.listing()
    result = cli.run("query", path, QUESTION, "--json")
    assert result.exit_code == 0, result.output
    assert len(json.loads(result.stdout)["rows"]) == 3

    log = (result.stderr + "\n".join(lines)).encode()
    assert traces(log, table.all) == []
    assert not wrapped.traces.found_in(log)
    assert places.listing() == before

    assert {each.service for each in record.exchanges} == set(Service)
    assert traces(record.everything(), table.sensitive | {PASSPHRASE.encode()}) == []
    assert traces(b"\n".join(record.requests(Service.SENSITIVE)), table.all) == []
    assert traces(record.everything(), {b"WardCanary-7f3a-1"}), "the search itself finds what is there"
    assert len(wrapped.traces.ckks) == 1
    assert not wrapped.traces.found_in(record.everything())


def test_the_plain_half_holds_the_plain_columns_only(
    cli: Cli, service: str, key_file: Path, table: Canaries, places: Places, tmp_path: Path
) -> None:
    record = Record()
    cli.embedded = recorded("embedded", record, service)
    result = cli.run("query", table.write(places.here), QUESTION, "--key", key_file)
    assert result.exit_code == 0, result.output
    (body,) = record.requests(Service.PLAIN)
    request = wire.load(PlainRequest, body, wire.FRAMES_TYPE)
    (content,) = request.objects
    (half := tmp_path / "half.parquet").write_bytes(bytes(content))
    with duckdb.connect() as connection:
        relation = connection.sql(f"FROM '{half}'")
        assert sorted(relation.columns) == sorted(PLAIN)
        cells = str(relation.fetchall()).encode()
        metadata = str(connection.sql(f"FROM parquet_metadata('{half}')").fetchall()).encode()
    assert traces(cells + metadata, table.sensitive) == []
    assert traces(cells, {b"WardCanary-7f3a-1"})


def test_a_plain_column_that_no_one_asks_about_stays_here(
    cli: Cli, service: str, key_file: Path, table: Canaries, places: Places
) -> None:
    record = Record()
    cli.embedded = recorded("embedded", record, service)
    assert cli.run("query", table.write(places.here), "SELECT SUM(hiddenpay) FROM t", "--key", key_file).exit_code == 0
    assert traces(record.everything(), table.all | {name.encode() for name in (*PLAIN, *NAMES)}) == []


def test_two_identical_questions_share_no_ciphertext(
    cli: Cli, service: str, key_file: Path, table: Canaries, places: Places
) -> None:
    path = table.write(places.here)
    blobs: list[set[bytes]] = []
    for _ in range(2):
        record = Record()
        cli.embedded = recorded("embedded", record, service)
        assert cli.run("query", path, QUESTION, "--key", key_file).exit_code == 0
        loaded = [wire.load(SumsRequest, body, wire.FRAMES_TYPE) for body in record.requests(Service.SENSITIVE)]
        # 16 bytes in a row, past the head that all ciphertexts of a profile share
        blobs.append(
            {c[i : i + 16] for each in loaded for c in map(bytes, each.objects) for i in range(128, len(c) - 15, 16)}
        )
    assert len(blobs[0]) > 1000
    assert not blobs[0] & blobs[1]


@dataclass(frozen=True)
class Failure:
    """What is done to the table or asked of it, and the exit code it must end with."""

    code: int
    sql: str = QUESTION
    spoil: tuple[str, str] | None = None
    bounds: str = ""
    prepare: Callable[[pytest.MonkeyPatch, Path], None] = lambda _patch, _path: None
    rows: int = 12


def _die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _no_header(_: pytest.MonkeyPatch, path: Path) -> None:
    path.write_text(path.read_text().split("\n", 1)[1])


def _ragged(_: pytest.MonkeyPatch, path: Path) -> None:
    path.write_text(path.read_text() + "WardCanary-7f3a-1,918273645000,827364518000000\n")


def _unclosed_quote(_: pytest.MonkeyPatch, path: Path) -> None:
    path.write_text(path.read_text() + '"WardCanary-7f3a-1,918273645000\n')


def _not_utf8(_: pytest.MonkeyPatch, path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"WardCanary-7f3a-1\xff,918273645000\n")


def _kill_evaluating_workers(patch: pytest.MonkeyPatch, _: Path) -> None:
    patch.setattr(workers, "MIN_WORK", 1)
    patch.setattr(workers, "processors", lambda: 4)
    patch.setattr(workers, "_evaluate", _die)


def _kill_encrypting_processes(patch: pytest.MonkeyPatch, _: Path) -> None:
    patch.setattr(encryptors, "MIN_CHUNKS_TO_FORK", 1)
    patch.setattr(encryptors, "_serve", _die)


def _break_the_engine(patch: pytest.MonkeyPatch, _: Path) -> None:
    def broken(*_: object) -> None:
        raise ValueError("WardCanary-7f3a-1 827364518000000")

    patch.setattr("cleave_services.plain.contained.run", broken)


def _break_the_client(patch: pytest.MonkeyPatch, _: Path) -> None:
    def broken(*_: object) -> None:
        raise ValueError("WardCanary-7f3a-1 827364518000000")

    patch.setattr(encrypted, "plan_packing", broken)


FAILURES = {
    "text in an encrypted integer": Failure(3, spoil=("hiddencount", "CellCanary-31337")),
    "digits that are no number": Failure(3, spoil=("hiddenpay", "7364518000.91.4711")),
    "too many decimals": Failure(3, spoil=("hiddenpay", "7364518000.914711")),
    "an integer of more than 64 bits": Failure(3, spoil=("hiddencount", "92233720368547758074711")),
    "text in a plain integer": Failure(3, spoil=("visits", "VisitCanary-4711")),
    "text in a local double": Failure(3, spoil=("hiddenlevel", "LevelCanary-4711")),
    "above its bound": Failure(3, bounds="lower = 0\nupper = 5\n"),
    "a row too short": Failure(3, prepare=_ragged),
    "a quote never closed": Failure(3, prepare=_unclosed_quote),
    "not UTF-8": Failure(3, prepare=_not_utf8),
    "no header": Failure(3, prepare=_no_header),
    "a question that is refused": Failure(4, "SELECT SUM(hiddenpay * random()) FROM t WHERE hiddencount > 0"),
    "arithmetic that fails on the answer": Failure(
        4, "SELECT CAST(MAX(plainward) AS INTEGER) + SUM(hiddenpay) AS x FROM t GROUP BY plainward"
    ),
    "a cast that fails in the plain service": Failure(
        6, "SELECT MAX(CAST(plainward AS INTEGER)), SUM(hiddenpay) FROM t"
    ),
    "a service that breaks": Failure(6, prepare=_break_the_engine),
    "a worker killed": Failure(6, prepare=_kill_evaluating_workers, rows=4100),
    "an encrypting process killed": Failure(6, prepare=_kill_encrypting_processes),
    "a defect of the client": Failure(1, prepare=_break_the_client),
}
IN_THIS_PROCESS = {"a service that breaks", "a worker killed"}  # cannot be done to `cleave serve` from here
NO_SERVICE = {name for name, each in FAILURES.items() if each.code in (3, 4) and "answer" not in name}


@pytest.mark.parametrize(
    ("name", "way"),
    [
        (name, way)
        for name in FAILURES
        for way in WAYS
        if not (way == "http" and name in IN_THIS_PROCESS) and not (way != "embedded" and name in NO_SERVICE)
    ],
)
@pytest.mark.sampled(4)
def test_what_a_failure_shows(
    name: str,
    way: str,
    cli: Cli,
    service: str,
    wrapped: WrappedKey,
    places: Places,
    lines: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failure = FAILURES[name]
    table = canaries(failure.rows)
    record = Record()
    cli.embedded = recorded(way, record, service)
    cli.environment |= {"CLEAVE_KEY": str(wrapped.path), "CLEAVE_PASSPHRASE": PASSPHRASE}
    path = table.write(places.here, dict([failure.spoil]) if failure.spoil else None, failure.bounds)
    failure.prepare(monkeypatch, path)
    before = places.listing()
    result = cli.run("query", path, failure.sql)
    assert (result.exit_code, result.stdout) == (failure.code, ""), result.output
    errors = [line for line in result.stderr.splitlines() if not line.startswith("{")]  # a handler logs to stderr
    assert errors[0].startswith("error: "), errors
    assert all(line.startswith("hint: ") for line in errors[1:]), errors

    told = (result.stderr + "\n".join(lines)).encode()
    spoilt = {failure.spoil[1].encode()} if failure.spoil else set()
    forbidden = canaries().all | spoilt
    assert traces(told, forbidden) == []
    assert not wrapped.traces.found_in(told)
    refused = [each.answer.body for each in record.exchanges if each.answer.status != 200]
    assert traces(b"\n".join(refused), forbidden) == []
    sent = b"\n".join(each.request for each in record.exchanges)
    assert traces(sent, canaries().sensitive | {PASSPHRASE.encode()}) == []
    assert not wrapped.traces.found_in(sent)
    assert places.listing() == before


class ProcessWatch(threading.Thread):
    """Reads what /proc tells of a process and of all it starts, for as long as it runs."""

    def __init__(self, root: int) -> None:
        super().__init__()
        self.root = root
        self.seen: dict[int, bytes] = {}
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.003):
            for process in [self.root, *self._children(self.root)]:
                try:
                    told = b"".join(Path(f"/proc/{process}/{name}").read_bytes() for name in ("cmdline", "environ"))
                except OSError:
                    continue
                self.seen[process] = self.seen.get(process, b"") if told in self.seen.get(process, b"") else told

    def _children(self, process: int) -> list[int]:
        try:
            tasks = list(Path(f"/proc/{process}/task").iterdir())
            return [int(child) for task in tasks for child in (task / "children").read_text().split()]
        except OSError:
            return []


def asking_process(
    places: Places, wrapped: WrappedKey, *words: str, passphrase: str = PASSPHRASE
) -> tuple[subprocess.Popen[str], ProcessWatch]:
    """`cleave query` or `cleave shell` in a process of its own, its passphrase through a pipe."""
    reading, writing = os.pipe()
    os.write(writing, passphrase.encode() + b"\n")
    os.close(writing)
    process = subprocess.Popen(
        [*COMMAND, *words, "--key", str(wrapped.path), "--passphrase-fd", str(reading)],
        cwd=places.here,
        env={**os.environ, **places.environment, "PYTHONPATH": str(ROOT)},  # type: ignore[dict-item]
        pass_fds=[reading],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(reading)
    watch = ProcessWatch(process.pid)
    watch.start()
    return process, watch


@pytest.mark.parametrize("case", ["answered", "bad cell", "wrong passphrase"])
@pytest.mark.sampled(3)
def test_whole_processes_leave_nothing(case: str, wrapped: WrappedKey, places: Places) -> None:
    """Client and server as processes of their own: their logs, files, arguments and environments."""
    table = canaries(16_000 if case == "answered" else 12)
    path = table.write(places.here, {"hiddencount": "CellCanary-31337"} if case == "bad cell" else None)
    forbidden = canaries().all | {b"CellCanary-31337", b"OtherPassCanary-9d"}
    before = places.listing()
    system = set(os.listdir(tempfile.gettempdir())) if case == "answered" else set()
    with served() as (url, server):
        passphrase = "OtherPassCanary-9d" if case == "wrong passphrase" else PASSPHRASE
        words = ("query", str(path), QUESTION, "--endpoint", url, "--json")
        if case == "wrong passphrase":  # of a stored table: a question over a file asks for none
            words = ("query", "t", QUESTION, "--store", str(places.here))
        process, watch = asking_process(places, wrapped, *words, passphrase=passphrase)
        output, told = process.communicate(timeout=120)
        watch.over.set()
        watch.join()
        server.terminate()
        log = server.communicate(timeout=120)[1]
    assert process.returncode == {"answered": 0, "bad cell": 3, "wrong passphrase": 5}[case], told
    assert bool(output) == (case == "answered")
    assert traces((told + log).encode(), forbidden) == []
    assert not wrapped.traces.found_in((told + log).encode())
    assert places.listing() == before
    assert process.pid in watch.seen
    for seen in watch.seen.values():
        assert traces(seen, forbidden) == []
    if case == "answered":
        assert len(watch.seen) > 1, "encrypting processes were to be seen"
        assert log.count('"status": 200') >= 2
        assert not {name for name in os.listdir(tempfile.gettempdir()) if "duckdb" in name.lower()} - system


def test_a_shell_leaves_nothing(wrapped: WrappedKey, places: Places) -> None:
    """Questions answered, planned and failed: no log, no file, no history, no argument and no environment tells."""
    path = canaries().write(places.here)
    before = places.listing()
    failing = "SELECT SUM(CAST(hiddensealed AS INTEGER)) FROM t"
    with served() as (url, server):
        process, watch = asking_process(places, wrapped, "shell", str(path), "--endpoint", url)
        output, told = process.communicate(f".plan {QUESTION}\n{QUESTION};\n{failing};\n", timeout=120)
        watch.over.set()
        watch.join()
        server.terminate()
        log = server.communicate(timeout=120)[1]
    assert process.returncode in (3, 4), told
    assert "WardCanary-7f3a-0" in output
    assert traces((told + log).encode(), canaries().all) == []
    assert not wrapped.traces.found_in((output + told + log).encode())
    assert places.listing() == before
    for seen in watch.seen.values():
        assert traces(seen, canaries().all) == []


def test_schema_and_plan_quote_no_cell(cli: Cli, table: Canaries, places: Places) -> None:
    path = table.write(places.here)
    proposed = places.here / "proposed.toml"
    shown = cli.run("schema", path, "--yes", "-o", proposed).output + proposed.read_text()
    for options in ([], ["--verbose"], ["--json"]):
        result = cli.run("plan", path, QUESTION, *options)
        assert result.exit_code == 0, result.output
        shown += result.output
    assert traces(shown.encode(), table.all) == []
