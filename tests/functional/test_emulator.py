"""Both handlers under the real runtime client: warm and cold, too much, too slow, and without shared memory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from aws import many_chunks
from aws.events import MOMENTS, TABLE, Event, decrypt_totals, make_events, rest_event
from aws.runtime_api import Function, FunctionError
from cleave.ckks.secret_key import SecretKey
from cleave_shared import limits, wire
from tests.functional.processes import descendants

SENSITIVE, PLAIN = "cleave_services.sensitive.app.handler", "cleave_services.plain.app.handler"
NO_SHARED_MEMORY = ("unshare", "-m", "sh", "-c", 'mount -t tmpfs -o ro,size=4k none /dev/shm && exec "$@"', "sh")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the runtime client is for Linux")


@pytest.fixture(scope="module")
def events(key: SecretKey) -> dict[str, Event]:
    return make_events(key)


@pytest.fixture(scope="module")
def sensitive() -> Iterator[Function]:
    with Function(SENSITIVE, memory=3538) as function:
        yield function


@pytest.fixture(scope="module")
def plain() -> Iterator[Function]:
    with Function(PLAIN) as function:
        yield function


def test_one_warm_process_answers_event_after_event(
    sensitive: Function, plain: Function, key: SecretKey, events: dict[str, Event]
) -> None:
    for function in (sensitive, plain):
        if function.process is None:
            function.invoke(events["plain-not-json"].event)
    starts = sensitive.starts, plain.starts
    for _ in range(2):
        for name, case in events.items():
            function = sensitive if name.startswith("sensitive") else plain
            reply = function.invoke(case.event)
            assert reply["statusCode"] == case.status, name
            if name == "sensitive-moments":
                assert decrypt_totals(key, reply) == {ward: sum(ages) for ward, ages in TABLE.items()}
            if name == "plain-operation":
                assert json.loads(reply["body"])["result"] == {"age": [54.0, 80.0]}
    assert (sensitive.starts - starts[0], plain.starts - starts[1]) == (0, 0)


@pytest.mark.slow  # the process after one that hangs is a cold start too, and answers alike
def test_a_cold_start_answers_like_a_warm_process(plain: Function, events: dict[str, Event]) -> None:
    event = events["plain-operation"].event
    warm, starts = plain.invoke(event), plain.starts
    plain.stop()
    cold = plain.invoke(event)
    assert plain.starts == starts + 1
    assert (cold["statusCode"], cold["body"]) == (warm["statusCode"], warm["body"])


@pytest.mark.parametrize(
    ("size", "content_type"),
    [(limits.MAX_BODY_BYTES + 1, wire.FRAMES_TYPE), (limits.MAX_JSON_BYTES + 1, wire.JSON_TYPE)],
)
def test_a_body_over_the_limit_is_refused_with_advice(sensitive: Function, size: int, content_type: str) -> None:
    reply = sensitive.invoke(rest_event(MOMENTS, b" " * size, content_type))
    assert reply["statusCode"] == 413
    problem = wire.load(wire.Problem, reply["body"].encode(), wire.JSON_TYPE)
    assert "over" in problem.error
    assert problem.hint


def test_the_largest_body_we_send_fits_an_event(sensitive: Function) -> None:
    reply = sensitive.invoke(rest_event(MOMENTS, b" " * limits.MAX_BODY_BYTES, wire.FRAMES_TYPE))
    assert reply["statusCode"] == 422  # read whole, and found to be no frame


def test_what_lambda_itself_refuses_never_reaches_the_function(sensitive: Function) -> None:
    with pytest.raises(FunctionError, match="RequestTooLarge"):
        sensitive.invoke(rest_event(MOMENTS, b" " * 4_720_000, wire.FRAMES_TYPE))


def test_a_process_that_hangs_is_killed_and_the_next_event_meets_a_new_one(
    plain: Function, events: dict[str, Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    event = events["plain-operation"].event
    warm = plain.invoke(event)
    assert plain.process is not None
    starts = plain.starts
    plain.process.send_signal(signal.SIGSTOP)
    monkeypatch.setattr(plain, "seconds", 0.3)
    with pytest.raises(FunctionError, match="Timedout"):
        plain.invoke(event)
    monkeypatch.undo()
    cold = plain.invoke(event)
    assert (cold["statusCode"], cold["body"]) == (warm["statusCode"], warm["body"])
    assert cold["statusCode"] == 200
    assert plain.starts == starts + 1


def test_the_fork_server_of_the_plain_service_is_forked_at_init(plain: Function, events: dict[str, Event]) -> None:
    """While there is one thread; a new interpreter would add its start to the first event's time."""
    plain.invoke(events["plain-operation"].event)
    assert plain.process
    forked = descendants(plain.process.pid)  # the server, and a child that waits for the next request
    assert forked
    for each in forked:
        with suppress(FileNotFoundError):  # the child that answered has ended meanwhile
            assert b"-I" not in Path(f"/proc/{each}/cmdline").read_bytes().split(b"\0")


def test_a_handler_that_is_not_there_is_an_error() -> None:
    with (
        Function("json.nothing") as function,  # a module that is soon imported
        pytest.raises(FunctionError, match="HandlerNotFound"),
    ):
        function.invoke({})


@pytest.mark.slow  # quick: test_http.py, of lines on Lambda
def test_one_log_line_a_request_with_its_id_and_nothing_of_its_body(plain: Function, events: dict[str, Event]) -> None:
    replies = [plain.invoke(events[name].event) for name in ("plain-operation", "plain-not-json")]
    lines = [json.loads(line) for line in plain.log()]  # of all that tests have asked
    ids = [reply["headers"]["x-request-id"] for reply in replies]
    assert [line["request_id"] for line in lines[-2:]] == ids
    assert len({line["request_id"] for line in lines}) == len(lines)
    assert [line["status"] for line in lines[-2:]] == [200, 422]
    assert "ward" not in json.dumps(lines)


@pytest.mark.slow  # tests/unit/test_workers.py and tests/functional/test_workers.py have processes and pipes
def test_totals_without_shared_memory(key: SecretKey) -> None:
    """As in Lambda /dev/shm cannot be used; the workers get by with processes and pipes."""
    if os.geteuid() != 0 or subprocess.run([*NO_SHARED_MEMORY, "true"], check=False, capture_output=True).returncode:
        pytest.skip("needs root and the right to unshare mounts; tests/aws runs it in a container")
    with Function(SENSITIVE, memory=3538, prefix=NO_SHARED_MEMORY) as function:
        reply = function.invoke(many_chunks.event(key))
        (line,) = map(json.loads, function.log())
    assert reply["statusCode"] == 200
    assert line["peak_worker_kb"] > 0, "no second process was used"
    assert many_chunks.total(key, reply) == many_chunks.TOTAL
