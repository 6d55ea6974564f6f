"""Texts are read in a worker, in time by their length. Where all clients are served, no step is taken per character."""

from __future__ import annotations

import ast
import asyncio
import re
import signal
import socket
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from cleave.front.admission import Admission
from cleave.front.certificates import Certificate
from cleave.gateway import commands
from cleave.gateway import http as over_http
from cleave.gateway.commands import MOST_STATEMENTS, command_of, commands_of
from cleave.gateway.postgres import Client, Clients
from cleave.gateway.refusal import Refused
from cleave.gateway.session import Command, SessionSettings
from cleave.gateway.wire import ClientStream, Fields
from cleave.gateway.work import Request
from cleave.gateway.workers import Reply
from cleave.logins.users import User, Users
from tests.campaign import FULL

MOST = 1 << 18
GATEWAY = Path(commands.__file__).parent
FRONT = [
    *(
        GATEWAY / f"{name}.py"
        for name in ("http", "postgres", "queries", "refusal", "serve", "session", "wire", "workers")
    ),
    *GATEWAY.with_name("front").glob("*.py"),
]
FILES = {*map(str, FRONT)}
WORDS = [*commands._COMMANDS, "select", "drop", "explain", "copy a", "copy (", "declare c", "set a =", ""]
FILLS = [" ", "\t\n", "'", "''", '"', '""', "/*", "/**/", "--\n", "-- ;", "(", ")", ") ", "()"]
FILLS += ["$$", "$a$", ";", "a;", "a,"]


class Late(BaseException):
    """The statement takes longer than any linear reading of it."""


def late(*_: int | FrameType | None) -> None:
    raise Late


@contextmanager
def linear() -> Iterator[None]:
    """Five seconds of processor time: a hang is an error here."""
    before = signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, 5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def filled(word: str, fill: str, size: int) -> str:
    return f"{word} {fill * (size // len(fill))}("


@pytest.mark.parametrize(
    "sql",
    [
        f"COPY t ({'a' * 60}!",
        f"COPY t ({'a ' * 60}!",
        f"COPY t ({'a, ' * (MOST // 3 - 10)}!",
        f"COPY ({') TO STDOUT ' * (MOST // 12 - 10)};x",
        f"COPY ({')' * (MOST - 10)}",
        f'COPY "{chr(34) * (MOST - 10)}',
        f"COPY a{' ' * (MOST - 10)}(",
        f"DECLARE c {'NO SCROLL ' * (MOST // 10 - 10)}",
        f"SET a = {'1.' * 2000}!",
        f"SET a = {'x, ' * 1300}!",
    ],
    ids=lambda sql: re.sub(r"(.)\1{9,}", r"\1", sql)[:24],
)
def test_no_pattern_goes_back_and_forth(sql: str) -> None:
    with linear():
        assert command_of(sql).refusal


@pytest.mark.parametrize("word", WORDS)
def test_every_text_is_read_in_time_by_its_length(word: str) -> None:
    for fill in FILLS:
        for power in range(10, 19) if FULL else (16,):
            with linear():
                try:
                    assert len(commands_of(filled(word, fill, 1 << power))) <= MOST_STATEMENTS
                except Refused as error:
                    assert "statements" in error.message  # noqa: PT017 - or it is read


def test_columns_and_options_of_copy() -> None:
    done = command_of('COPY t ( a ,"b c", d ) TO STDOUT WITH (FORMAT csv, HEADER)')
    assert (done.tag, done.sql, done.form) == ("COPY", 'SELECT "a", "b c", "d" FROM "t"', "csv header")
    for sql in ("COPY t (a b) TO STDOUT", "COPY t (a,) TO STDOUT", "COPY t () TO STDOUT"):
        assert command_of(sql).refusal


def test_settings_have_one_meaning() -> None:
    """That is read once: after a rollback the old one counts again."""
    settings = SessionSettings("u", 1)

    def run(sql: str) -> None:
        for each in commands_of(sql):
            settings.execute(each)

    run("SET statement_timeout = '2s'; BEGIN; SET statement_timeout = 300; SET cleave_bounds = on")
    assert (settings.seconds, settings.bounds, settings.shown["statement_timeout"]) == (0.3, True, "300")
    run("ROLLBACK")
    assert (settings.seconds, settings.bounds, settings.shown["statement_timeout"]) == (2, False, "2s")
    run("BEGIN; SET LOCAL statement_timeout = '1min'; COMMIT; RESET ALL")
    assert settings.seconds is None
    settings.status = "E"
    for sql in ("SELECT 1", "SAVEPOINT a", "DROP TABLE t", "SET nosuch = 1"):
        with pytest.raises(Refused, match="aborted"):
            run(sql)
    run("ROLLBACK TO a")
    assert settings.status == "T"


def test_a_message_has_a_number_of_statements() -> None:
    assert len(commands_of("RESET jit;" * MOST_STATEMENTS)) == MOST_STATEMENTS
    with pytest.raises(Refused, match="at most 1,024 statements"):
        commands_of("a;" * (MOST_STATEMENTS + 1))


def test_the_serving_process_has_no_pattern() -> None:
    """Nor a parser. Texts are read by what is imported in workers only."""
    for path in FRONT:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [each for each in names if each in ("re", "difflib") or each.startswith("cleave.sql")], path


class Steps:
    """Counts steps of the serving process's own code, and names what it calls of a text or of a pattern."""

    def __init__(self) -> None:
        self.count = 0
        self.called: set[str] = set()

    def __enter__(self) -> Steps:
        sys.settrace(self._trace)
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "call" and frame.f_code.co_filename not in FILES:
            return None
        frame.f_trace_opcodes = True
        self.count += event == "opcode"
        return self._trace

    def _profile(self, frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and frame.f_code.co_filename in FILES:
            of = getattr(called, "__self__", None)
            if isinstance(of, re.Pattern) or (isinstance(of, str | bytes) and len(of) > 1000):
                self.called.add(called.__name__)


class Handed:
    """In the place of workers: what they are given."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    async def read(self, _: str, text: str) -> list[Command]:
        self.texts.append(text)
        return []

    async def ask(self, _: str, __: User, request: Request) -> Reply:
        self.texts.append(request.sql)
        return Reply([], [], [], [], 0)


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run what waits for nothing."""
    with pytest.raises(StopIteration):
        coroutine.send(None)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    workers: Any = Handed()
    here, there = socket.socketpair()
    with here, there:
        clients = Clients(workers, Users, Certificate(None, None))
        yield Client(clients, ClientStream(here), Admission(1).enter("127.0.0.1", here.close), 1)


TEXTS = [(word, fill) for word in WORDS for fill in FILLS]


@pytest.mark.parametrize("kind", [b"Q", b"P"])
def test_the_serving_process_hands_each_text_on_unread(client: Client, kind: bytes) -> None:
    """It takes as many steps for a long text as for a short one, and calls nothing of a text but its decoding."""
    counts, workers = set(), client._server.workers
    assert isinstance(workers, Handed)
    run(client._answer(b"P", Fields(b"\0SELECT 1\0\0\0")))  # the others find its name
    for word, fill in TEXTS:
        for power in range(10, 19) if FULL else (10, 17):
            text = filled(word, fill, 1 << power)[: 1 << 18]
            content = text.encode() + b"\0"
            answer = client._answer(kind, Fields(content if kind == b"Q" else b"\0" + content + b"\0\0"))
            with Steps() as steps:
                run(answer)
            assert workers.texts.pop() == text
            assert steps.called <= {"index", "decode"}, (word, fill)  # to the NUL, as the message is laid out
            counts.add(steps.count)
    assert len(counts) == 1, counts


def test_the_serving_process_hands_each_text_of_http_on_unread() -> None:
    workers: Any = Handed()
    application = over_http.application(workers)

    async def known(scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"] = {"user": ("u", User())}
        await application(scope, receive, send)

    async def ask() -> set[int]:
        counts = set()
        transport = httpx.ASGITransport(known)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            await client.post("/v1/query", json={"sql": "SELECT 1"})  # it makes what later ones find
            for power in (10, 18):
                for fill in (" ", "(", ";"):
                    text = filled("COPY a", fill, 1 << power)
                    with Steps() as steps:
                        assert (await client.post("/v1/query", json={"sql": text})).status_code == 200
                    assert workers.texts[-1] == text
                    assert not steps.called
                    counts.add(steps.count)
        return counts

    assert len(asyncio.run(ask())) == 1
