"""A service must not learn from a query's end which of its answers failed, nor be asked again without a word."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cleave.ckks import job
from cleave.ckks.key_file import change_passphrase, describe_key, mark_suspect, open_key
from cleave.local.embedded import embedded_services
from cleave.transport.base import Carrier, EnvelopeTransport, Service, Transport
from cleave.transport.deadline import Deadline
from cleave.transport.responses import Response
from cleave.verdict import Verdict
from cleave_shared import limits
from cleave_shared.errors import CheckFailed, ServiceError
from tests.cli.runner import Cli
from tests.functional.scripted import Reply, scripted
from tests.security.canaries import QUESTION, canaries
from tests.security.faulty import flipped, remade


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return canaries().write(tmp_path_factory.mktemp("table"))


@pytest.fixture
def own_key(key_file: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "own.key.json"
    copy.write_bytes(key_file.read_bytes())
    copy.chmod(0o600)
    return copy


def test_a_verdict_holds_the_first_failure_only() -> None:
    verdict = Verdict()
    verdict.settle()
    with pytest.raises(ServiceError), verdict.holding():
        raise ServiceError("not a check")
    verdict.settle()
    with ThreadPoolExecutor(4) as pool:

        def fail(number: int) -> None:
            with verdict.holding():
                raise CheckFailed("sentinel", f"number {number}")

        pool.submit(fail, 0).result()
        list(pool.map(fail, range(1, 50)))
    with pytest.raises(CheckFailed, match="number 0"):
        verdict.settle()


def test_a_mark_stays_and_harms_nothing_that_is_stored(own_key: Path) -> None:
    before = open_key(own_key, lambda: b"")
    assert describe_key(own_key).suspect is None
    mark_suspect(own_key, "sentinel")
    first = describe_key(own_key).suspect
    assert first
    mark_suspect(own_key, "total")
    assert json.loads(own_key.read_text())["suspect"] == {"since": first, "check": "sentinel"}
    assert own_key.stat().st_mode & 0o777 == 0o600
    change_passphrase(own_key, lambda: b"", b"a long new passphrase")
    assert describe_key(own_key).suspect == first
    assert open_key(own_key, lambda: b"a long new passphrase").secret == before.secret


@pytest.mark.parametrize("mark", [None, True, {}, {"since": 1}])
def test_a_mark_that_cannot_be_read_is_one(mark: object, own_key: Path) -> None:
    own_key.write_text(json.dumps({**json.loads(own_key.read_text()), "suspect": mark}))
    assert describe_key(own_key).suspect == "an unknown time"


@pytest.mark.parametrize("way", ["--endpoint", "--lambda"])
def test_a_suspect_key_asks_no_remote_service_without_a_word(
    cli: Cli, table: Path, own_key: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark_suspect(own_key, "sentinel")
    with scripted(Reply(403)) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_LAMBDA", server.url)
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
            monkeypatch.setenv(name, "x")
        services = [way, server.url if way == "--endpoint" else "one,other"]
        told = cli.fails(5, "query", table, QUESTION, "--key", own_key, *services)
        assert "is suspect since" in told
        assert "cleave key new" in told
        assert server.asked == []
        assert "403" in cli.fails(6, "query", table, QUESTION, "--key", own_key, *services, "--suspect-key")
        assert server.asked
    assert cli.run("query", table, QUESTION, "--key", own_key).exit_code == 0, "embedded: nobody learns anything"
    assert "suspect     since" in cli.run("key", "show", "--key", own_key).stdout


@pytest.mark.parametrize(("check", "marked"), [("sentinel", True), ("residual", True), ("plain rows", False)])
@pytest.mark.parametrize("remote", [True, False])
def test_a_failed_check_marks_the_key(
    check: str, marked: bool, remote: bool, cli: Cli, table: Path, own_key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise CheckFailed(check, "as it happens")

    monkeypatch.setattr("cleave.pipeline.run_query", fails)
    services = ["--endpoint", "http://127.0.0.1:1"] if remote else []
    told = cli.fails(7, "query", table, QUESTION, "--key", own_key, *services)
    assert (describe_key(own_key).suspect is not None) is (marked and remote)
    assert ("cleave key new" in told) is (marked and remote)


class Wrong:
    """Of the sensitive service's answers, makes the `first` wrong, digest and all; or answers all rightly (None)."""

    def __init__(self, inner: Carrier, wrong: int | None, then: ServiceError | None = None) -> None:
        self.inner = inner
        self.wrong = wrong
        self.then = then  # how the service treats the requests that follow
        self.asked: list[int] = []
        self.lock = threading.Lock()
        self.mine = threading.local()  # `number` of the answer that this thread has

    def exchange(self, service: Service, path: str, body: bytes, deadline: Deadline) -> Response:
        answer = self.inner.exchange(service, path, body, deadline)
        if service == Service.PLAIN:
            return answer
        with self.lock:
            self.mine.number = number = len(self.asked)
            self.asked.append(len(body))
        if self.then and self.wrong is not None and number > self.wrong:
            raise self.then
        if number != self.wrong:
            return answer
        return remade(service, answer, lambda model: model.model_copy(update={"totals": [*map(flipped, model.totals)]}))

    def close(self) -> None:
        self.inner.close()


def asked_of(
    cli: Cli, table: Path, key: Path, wrong: int | None, then: ServiceError | None = None
) -> tuple[int, Wrong]:
    carriers: list[Wrong] = []

    def open_transport() -> Transport:
        transport = embedded_services()
        assert isinstance(transport, EnvelopeTransport)
        carriers.append(Wrong(transport._carrier, wrong, then))
        return EnvelopeTransport(carriers[0])

    cli.embedded = open_transport
    code = cli.run("query", table, QUESTION, "--key", key).exit_code
    return code, carriers[0]


@pytest.fixture
def several_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_REQUEST_CHUNKS", 1)


@pytest.mark.usefixtures("several_requests")
@pytest.mark.parametrize("wrong", [0, 1, 2])
@pytest.mark.sampled(3)
def test_a_service_sees_the_same_whichever_answer_fails(wrong: int, cli: Cli, tmp_path: Path, own_key: Path) -> None:
    """Counting requests until a query ended read sentinel bits 20 times of 20."""
    table = canaries(20_000).write(tmp_path)
    code, sound = asked_of(cli, table, own_key, None)
    assert code == 0
    assert len(sound.asked) > 3
    code, seen = asked_of(cli, table, own_key, wrong)
    assert code == 7
    assert len(seen.asked) == len(sound.asked)


class InOrder(Wrong):
    """The first answer is wrong, and no other comes before the client has found that out."""

    def __init__(self, inner: Carrier, events: list[str], found_out: threading.Event) -> None:
        super().__init__(inner, 0)
        self.events = events
        self.found_out = found_out

    def exchange(self, service: Service, path: str, body: bytes, deadline: Deadline) -> Response:
        answer = super().exchange(service, path, body, deadline)
        if service == Service.SENSITIVE and self.mine.number > 0:
            assert self.found_out.wait(120)
        self.events.append(f"{service.name} answered")
        return answer


@pytest.mark.usefixtures("several_requests")
def test_a_failed_check_is_told_after_all_answers(
    cli: Cli, tmp_path: Path, own_key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the order of events, not by the clock."""
    table = canaries(20_000).write(tmp_path)
    _, sound = asked_of(cli, table, own_key, None)
    events: list[str] = []
    found_out = threading.Event()
    check = job.check_sentinels

    def checking(*of: Any) -> None:
        try:
            check(*of)
        except CheckFailed:
            events.append("check failed")
            found_out.set()
            raise

    monkeypatch.setattr(job, "check_sentinels", checking)
    carriers = [InOrder(embedded_services()._carrier, events, found_out)]  # type: ignore[attr-defined]
    cli.embedded = lambda: EnvelopeTransport(carriers[0])
    assert cli.run("query", table, QUESTION, "--key", own_key).exit_code == 7
    events.append("told")
    events = [event for event in events if event != "PLAIN answered"]
    later = ["SENSITIVE answered"] * (len(sound.asked) - 1)
    assert len(later) > 2
    assert events == ["SENSITIVE answered", "check failed", *later, "told"]


@pytest.mark.usefixtures("several_requests")
def test_a_service_cannot_hide_a_failed_check_behind_another_error(cli: Cli, tmp_path: Path, own_key: Path) -> None:
    """Else it would read a bit from every query and leave no mark on the key."""
    table = canaries(20_000).write(tmp_path)
    code, _ = asked_of(cli, table, own_key, 0, ServiceError("gone", hint="its log tells"))
    assert code == 7
