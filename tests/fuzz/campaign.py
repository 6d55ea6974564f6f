"""Mutated messages for both services, every way in: `make fuzz`, and a short form of it in the suite.

Whatever a message is turned into, the answer comes in time and is one of: figures that are right or that the client
refuses (`tests.fuzz.truth`), or a 4xx of `error` and `hint`. No 5xx, no traceback, no value of the message in an error.
A frame whose digest is wrong is never answered. No process is left.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import io
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import httpx

from aws.serving import served
from cleave.ckks.secret_key import SecretKey
from cleave_services.plain.app import app as plain
from cleave_services.plain.app import handler as plain_handler
from cleave_services.sensitive.app import app as sensitive
from cleave_services.sensitive.app import handler as sensitive_handler
from cleave_shared import limits, wire
from cleave_shared.errors import WireError
from tests.functional.processes import descendants, met
from tests.fuzz import truth
from tests.fuzz.mutate import Message, mutated
from tests.fuzz.truth import Answer

IN_TIME = 29.0  # seconds: what API Gateway waits; the limits in the suite and in `main` are a third of it
CANARY = "4711-canary"


Way = Callable[[Message], Answer]


@dataclass
class Outcome:
    """How many messages were answered how, and what should not have been."""

    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)
    figures: Counter[str] = field(default_factory=Counter)  # of the answers of 200
    left: int = 0  # processes
    faults: list[str] = field(default_factory=list)
    slowest: float = 0.0
    messages: int = 0

    def __str__(self) -> str:
        rows = [f"  {way:8} {status}: {count:6}" for (way, status), count in sorted(self.statuses.items())]
        rows += [f"  figures of a 200, {what}: {count:6}" for what, count in self.figures.most_common()]
        told = f"fuzz: {self.messages} messages, slowest {self.slowest:.2f} s, {len(self.faults)} faults, "
        return "\n".join([f"{told}processes left behind: {self.left}", *rows, *self.faults[:20]])


def asgi(message: Message) -> Answer:
    async def send() -> Answer:
        app = plain if "plain" in message.path else sensitive
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service") as client:
            reply = await client.request(
                message.method, httpx.URL("http://service").copy_with(raw_path=message.path.encode()),
                content=message.body, headers=_latin(message.headers),
            )  # fmt: skip
            return Answer(reply.status_code, reply.headers.get("content-type", ""), reply.content)

    return asyncio.run(send())


def lambda_(message: Message) -> Answer:
    event: dict[str, Any] = {
        "resource": "/{proxy+}",
        "path": message.path,
        "httpMethod": message.method,
        "headers": message.headers,
        "multiValueHeaders": {name: [value] for name, value in message.headers.items()},
        "queryStringParameters": None,
        "multiValueQueryStringParameters": None,
        "requestContext": {"stage": "api", "requestId": "5ca1ab1e"},
        "body": base64.b64encode(message.body).decode(),
        "isBase64Encoded": True,
    }
    handler = plain_handler if "plain" in message.path else sensitive_handler
    with contextlib.redirect_stderr(io.StringIO()) as told:
        reply = handler(event, None)
    if "Traceback" in told.getvalue():
        return Answer(599, "", told.getvalue().encode())
    body = base64.b64decode(reply["body"]) if reply["isBase64Encoded"] else reply["body"].encode()
    headers: Mapping[str, str] = reply.get("headers") or {}
    return Answer(reply["statusCode"], headers.get("content-type", ""), body)


@contextlib.contextmanager
def http() -> Iterator[Way]:
    with served("--quiet") as (url, _), httpx.Client(trust_env=False, timeout=IN_TIME + 5) as client:

        def ask(message: Message) -> Answer:
            target = httpx.URL(url).copy_with(raw_path=message.path.encode())
            headers = _latin(message.headers)
            with contextlib.suppress(httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
                # a server that refuses a body before it has read it may close while it is still being sent
                reply = client.request(message.method, target, content=message.body, headers=headers)
                return Answer(reply.status_code, reply.headers.get("content-type", ""), reply.content)
            return Answer(0, "", b"")

        yield ask


def _latin(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]


def fault_of(message: Message, answer: Answer, seconds: float) -> str | None:
    """What is wrong with an answer to a damaged message, if anything."""
    if seconds > IN_TIME:
        return f"took {seconds:.1f} s"
    if answer.status >= 500:
        return f"{answer.status} {answer.body[:200]!r}"
    if b"Traceback" in answer.body or CANARY.encode() in answer.body:
        return f"quotes what it must not: {answer.body[:200]!r}"
    if answer.status >= 400 and message.method != "HEAD":
        problem = json.loads(answer.body)
        if not isinstance(problem.get("error"), str) or len(answer.body) > 4000:
            return f"{answer.status} without an error of its form: {answer.body[:200]!r}"
    framed = message.body[:4] == b"CLV1" and wire.media_type(message.kind) == wire.FRAMES_TYPE
    if answer.status == 200 and framed and message.method == "POST" and message.path.startswith("/v1/"):
        try:
            wire._split_frames(message.body)
        except WireError as error:
            return f"answered a body that it must not believe: {error.message}"
        if answer.kind == wire.FRAMES_TYPE and wire.answers(answer.body, answer.kind) != message.body[4:36]:
            return "names another request than the one it answers"
    return None


def figures_of(valid: Message, message: Message, answer: Answer) -> str | None:
    """What the client makes of an answer of 200 to what `valid` has been turned into; None where there is none."""
    if answer.status != 200 or message.method != "POST" or message.path != valid.path:
        return None
    found = truth.judged(message, answer)
    named = wire.answers(answer.body, answer.kind)
    if valid.kind == answer.kind == wire.FRAMES_TYPE and named != wire.mark(valid.body, valid.kind):
        return f"refused by digest (without it: {found})"
    return found


def run(key: SecretKey, messages: int, seed: int, ways: Mapping[str, Way]) -> Outcome:
    r, valid, outcome = Random(seed), truth.seeds(key), Outcome()
    for name, way in ways.items():
        for message in valid:
            assert truth.judged(message, way(message)) == truth.RIGHT, (name, message.path)
        before = len(descendants(os.getpid()))  # with what the first requests have started for all that follow
        for number in range(messages):
            sound = r.choice(valid)
            message = mutated(r, sound)
            started = time.perf_counter()
            answer = way(message)
            seconds = time.perf_counter() - started
            outcome.messages += 1
            outcome.statuses[name, answer.status] += 1
            outcome.slowest = max(outcome.slowest, seconds)
            fault = fault_of(message, answer, seconds)
            if not fault and (found := figures_of(sound, message, answer)):
                outcome.figures[found] += 1
                fault = found if truth.WRONG in found else None
            if fault:
                outcome.faults.append(
                    f"{name} seed {seed} message {number}: {message.method} {message.path[:60]}: {fault}"
                )
        for message in valid:  # and then as before
            assert truth.judged(message, way(message)) == truth.RIGHT, (name, message.path)
        outcome.left += _left(before)
    if outcome.left:
        outcome.faults.append(f"{outcome.left} processes left behind")
    return outcome


_SERVICES = 2


def _left(before: int) -> int:
    """How many more processes there are than `before`, and do not end: the kernel may take a while over a killed one.

    A child that answers one request and ends is replaced by one that waits for the next: of each service one may have
    been between the two when it was counted.
    """
    more = lambda: len(descendants(os.getpid())) - before  # noqa: E731
    return 0 if met(lambda: more() <= _SERVICES) else more()


def main() -> None:
    """python -m tests.fuzz.campaign [--messages EACH_WAY] [--seed N]"""
    from cleave.ckks.secret_key import fresh_key  # noqa: PLC0415
    from cleave_shared.params import DEFAULT_PROFILE  # noqa: PLC0415

    options = argparse.ArgumentParser(description=main.__doc__)
    options.add_argument("--messages", type=int, default=3400)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    limits.PLAIN_SECONDS = limits.SENSITIVE_SECONDS = 10.0
    with http() as over_http:
        outcome = run(
            fresh_key(DEFAULT_PROFILE), given.messages, given.seed, {"asgi": asgi, "lambda": lambda_, "http": over_http}
        )
    print(outcome)  # noqa: T201 - the figures
    sys.exit(bool(outcome.faults))


if __name__ == "__main__":
    main()
