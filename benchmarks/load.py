"""`make bench-load`: many users at once, for a bounded time, of services that are small; one table of what each saw.

    steady    questions over a file and over a stored table, mixed, to `cleave serve`
    restarts  the same, while that server is ended by SIGTERM and started again, over and over
    lambda    those over the file, to both handlers under the real Lambda runtime client, one event at a time each

A user is a thread that sends a question, waits for the answer and sends the next; all have the same questions in
turn. Over the file it keeps key, table and connection; over the stored table each question opens all again. Somebody
appends to the stored table all the while. Clients and services share the machine.

Every answer is compared, to the last digit, with DuckDB's over the rows in the clear: one over the stored table with
those of every version that could be read between its question and its end. An error is counted by its message.
"""

from __future__ import annotations

import argparse
import base64
import collections
import contextlib
import json
import multiprocessing
import os
import queue
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import duckdb

import cleave
from aws.events import http_event
from aws.runtime_api import Function, FunctionError
from aws.serving import served
from benchmarks.memory import tree_mb
from benchmarks.tables import figure, machine, markdown
from cleave.ckks.key_file import create_key

SAMPLE = Path(__file__).parents[1] / "tests" / "samples"
COPIES = 2  # of the sample in the stored table at first
_PROCESSES = 4  # that the users share: Python runs one thread at a time
_START_SECONDS = 120.0
_GATEWAY_SECONDS = 29.0
_RESTART_SECONDS = 12.0  # from one restart to the next

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Question:
    """One that users send over and over; `stored`: over the stored table `trial`, else over the file `patients`.

    `cloud_only`: no row is fetched, which for a table of this size would be the cheaper way.
    """

    name: str
    sql: str
    stored: bool = False
    cloud_only: bool = False


QUESTIONS = (
    Question(
        "file, by ward",
        "SELECT ward, COUNT(*), SUM(bill), AVG(age) FROM patients GROUP BY ward ORDER BY ward",
    ),
    Question(
        "stored, totals",
        "SELECT ward, COUNT(*), SUM(bill), AVG(age) FROM trial GROUP BY ward ORDER BY ward",
        stored=True,
        cloud_only=True,
    ),
    Question(
        "file, chosen rows",
        "SELECT COUNT(*), SUM(bill), SUM(age) FROM patients WHERE admitted >= DATE '2025-01-15'",
    ),
    Question(
        "stored, plain columns",
        "SELECT ward, MAX(admitted) FROM trial WHERE admitted >= DATE '2025-01-15' GROUP BY ward ORDER BY ward",
        stored=True,
        cloud_only=True,
    ),
    Question(
        "stored, rows",
        "SELECT COUNT(*), SUM(bill), MEDIAN(age) FROM trial WHERE admitted >= DATE '2025-01-15'",
        stored=True,
    ),
)


@dataclass(frozen=True)
class Reply:
    """What one user got for one question: rows, or an error. Times are seconds since the epoch."""

    user: int
    question: Question
    started: float
    ended: float
    rows: Rows
    error: str | None = None

    @property
    def seconds(self) -> float:
        return self.ended - self.started


@dataclass(frozen=True)
class Load:
    """One phase: what `users` saw together in `seconds`; `wrong` are answers that are not the oracle's."""

    name: str
    users: int
    seconds: float
    replies: tuple[Reply, ...]
    wrong: int
    notes: tuple[str, ...] = ()

    @property
    def answered(self) -> list[Reply]:
        return [each for each in self.replies if each.error is None]

    @property
    def errors(self) -> dict[str, int]:
        return dict(collections.Counter(each.error for each in self.replies if each.error))

    @property
    def fairness(self) -> float:
        """Median of the slowest user over that of the fastest; infinite where one got no answer at all."""
        times: dict[int, list[float]] = {user: [] for user in range(self.users)}
        for each in self.answered:
            times[each.user].append(each.seconds)
        medians = [statistics.median(each) if each else float("inf") for each in times.values()]
        return max(medians) / min(medians)

    def rows(self) -> list[list[str]]:
        """Of the table: the whole phase, then each question."""
        refused = sum(self.errors.values())
        whole = [f"{len(self.answered) / self.seconds:.1f}", *_times(self.answered), f"{self.fairness:.2f}"]
        rows = [[f"**{self.name}**", str(len(self.answered)), str(refused), str(self.wrong), *whole]]
        for question in QUESTIONS:
            if own := [each for each in self.replies if each.question == question]:
                good = [each for each in own if each.error is None]
                counts = [str(len(good)), str(len(own) - len(good)), ""]
                rows.append([question.name, *counts, f"{len(good) / self.seconds:.1f}", *_times(good), ""])
        return rows

    def report(self) -> str:
        errors = [f"{count} x {error}" for error, count in self.errors.items()]
        return f"- {self.name}: {'; '.join([*self.notes, *errors]) or 'nothing to note'}"


HEAD = ["phase", "answers", "errors", "wrong", "a second", "p50, s", "p99, s", "slowest user / fastest"]


def _times(replies: Sequence[Reply]) -> list[str]:
    if not replies:
        return ["", ""]
    times = sorted(each.seconds for each in replies)
    return [figure(statistics.median(times)), figure(times[min(len(times) - 1, round(0.99 * len(times)))])]


@dataclass(frozen=True)
class Place:
    """A folder with the sample, a key, and a store of two folders."""

    root: Path

    @property
    def key(self) -> Path:
        return self.root / "key.json"

    @property
    def file(self) -> Path:
        return self.root / "patients.csv"

    @property
    def store(self) -> str:
        return f"{self.root / 'store' / 's'},{self.root / 'store' / 'p'}"

    @property
    def serving(self) -> list[str]:
        """Options of `cleave serve`."""
        return ["--quiet", *(word for folder in self.store.split(",") for word in ("--store", folder))]

    def put(self, *words: str) -> None:
        """Raises CalledProcessError."""
        command = [sys.executable, "-c", "from cleave.local.main import main; main()", "--quiet", "put", str(self.file)]
        command += ["--table", "trial", "--store", self.store, "--key", str(self.key), *words]
        subprocess.run(command, check=True, capture_output=True)


@contextlib.contextmanager
def place() -> Iterator[Place]:
    """The stored table holds COPIES of the sample, a segment each: of several the sensitive service adds up totals."""
    with tempfile.TemporaryDirectory() as folder:
        made = Place(Path(folder))
        for name in ("patients.csv", "patients.schema.toml"):
            shutil.copy(SAMPLE / name, made.root)
        create_key(made.key, None)
        os.environ["XDG_STATE_HOME"] = str(made.root / "state")
        made.put("--by", "ward")
        for _ in range(COPIES - 1):
            made.put("--append", "--again")
        yield made


class Oracle:
    """DuckDB over the rows in the clear."""

    def __init__(self, file: Path) -> None:
        self._connection = duckdb.connect()
        self._connection.execute(
            "CREATE TABLE patients AS SELECT ward, admitted::DATE AS admitted, age::BIGINT AS age, "
            "bill::DECIMAL(18,2) AS bill FROM read_csv($file, all_varchar = true)",
            {"file": str(file)},
        )

    @cache  # noqa: B019 - one oracle lives as long as the benchmark
    def answer(self, question: Question, copies: int) -> Rows:
        """Of a table that holds the file so many times."""
        self._connection.execute(f"CREATE OR REPLACE VIEW trial AS SELECT p.* FROM patients p, range({copies})")
        return self._connection.execute(question.sql).fetchall()


class Growth:
    """Appends the file to the stored table, again and again, and knows which versions could be read when."""

    def __init__(self, where: Place) -> None:
        self._where = where
        self._begun, self._done = [time.time()] * COPIES, [time.time()] * COPIES  # of each copy of the file
        self._over = threading.Event()

    @property
    def appends(self) -> int:
        return len(self._done) - COPIES

    @contextlib.contextmanager
    def going_on(self) -> Iterator[None]:
        writer = threading.Thread(target=self._append)
        self._over.clear()
        writer.start()
        try:
            yield
        finally:
            self._over.set()
            writer.join()

    def versions(self, reply: Reply) -> range:
        """How many copies a reader may have seen: those done when it began to those begun when it ended."""
        least = sum(at <= reply.started for at in self._done)
        return range(least, sum(at <= reply.ended for at in self._begun) + 1)

    def _append(self) -> None:
        while not self._over.is_set():
            self._begun.append(time.time())
            self._where.put("--append", "--again")
            self._done.append(time.time())


def wrong_answers(replies: Sequence[Reply], oracle: Oracle, growth: Growth) -> int:
    """How many answers are not those of any version they may be of."""
    return sum(
        all(each.rows != oracle.answer(each.question, copies) for copies in _versions(each, growth))
        for each in replies
        if each.error is None
    )


def _versions(reply: Reply, growth: Growth) -> Sequence[int]:
    return growth.versions(reply) if reply.question.stored else [1]


class Server:
    """`cleave serve` at one address, whatever process answers there."""

    def __init__(self, where: Place) -> None:
        self._where, self._stack = where, contextlib.ExitStack()
        self.url, self._process = self._stack.enter_context(served(*where.serving))
        self.megabytes = [tree_mb(self._process.pid)]  # once a second

    def restart(self) -> float:
        """End it by SIGTERM and start it again; the seconds for which nothing listened or it was ending."""
        started = time.monotonic()
        self._stack.close()
        port = self.url.rpartition(":")[2]
        self.url, self._process = self._stack.enter_context(served(*self._where.serving, "--port", port))
        return time.monotonic() - started

    def sample(self) -> None:
        self.megabytes.append(tree_mb(self._process.pid))

    def close(self) -> None:
        self._stack.close()


@contextlib.contextmanager
def every(seconds: float, act: Callable[[], object]) -> Iterator[None]:
    """Meanwhile, in a thread, `act` after each so many seconds."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(seconds):
            act()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def steady(where: Place, growth: Growth, users: int, seconds: float) -> Load:
    """Mixed questions to one server, whose memory is sampled."""
    with contextlib.closing(Server(where)) as server:
        before = growth.appends
        with growth.going_on(), every(1.0, server.sample):
            replies = crowd(where, server.url, QUESTIONS, users, seconds)
        server.sample()
        idle, *_, end = server.megabytes
        notes = (
            f"{growth.appends - before} appends meanwhile",
            f"memory of the server {idle:.0f} MB before, {max(server.megabytes):.0f} at most, {end:.0f} after",
        )
    return Load("steady", users, seconds, replies, wrong_answers(replies, Oracle(where.file), growth), notes)


def restarts(where: Place, growth: Growth, users: int, seconds: float, pause: float) -> Load:
    """Mixed questions to a server that is restarted after each `pause`; at the end, each question once more."""
    down: list[float] = []
    with contextlib.closing(Server(where)) as server:
        url = server.url
        with growth.going_on(), every(pause, lambda: down.append(server.restart())):
            replies = crowd(where, url, QUESTIONS, users, seconds)
        replies += crowd(where, url, QUESTIONS, min(users, len(QUESTIONS)), 0.0)
    taken = f", {figure(statistics.median(down))} s each from SIGTERM to ready" if down else ""
    wrong = wrong_answers(replies, Oracle(where.file), growth)
    return Load("restarts", users, seconds, replies, wrong, (f"restarts: {len(down)}{taken}",))


def over_lambda(where: Place, growth: Growth, users: int, seconds: float, copies: int) -> Load:
    """Questions over the file to `copies` of each function."""
    with emulated(copies) as url:
        replies = crowd(where, url, [each for each in QUESTIONS if not each.stored], users, seconds)
    wrong = wrong_answers(replies, Oracle(where.file), growth)
    return Load("lambda", users, seconds, replies, wrong, (f"{copies} of each function",))


def crowd(where: Place, url: str, questions: Sequence[Question], users: int, seconds: float) -> tuple[Reply, ...]:
    """All replies to `users` who ask within `seconds`, each at least once, from several processes."""
    context = multiprocessing.get_context("spawn")
    ready, replies = context.Barrier(min(_PROCESSES, users) + 1, timeout=_START_SECONDS), context.Queue()
    processes = [
        context.Process(
            target=_users,
            args=(where, url, questions, range(first, users, _PROCESSES), seconds, ready, replies),
            daemon=True,
        )
        for first in range(min(_PROCESSES, users))
    ]
    for process in processes:
        process.start()
    ready.wait()
    gathered = [each for _ in processes for each in replies.get(timeout=seconds + _START_SECONDS)]
    for process in processes:
        process.join(_START_SECONDS)
    return tuple(gathered)


def _users(
    where: Place, url: str, questions: Sequence[Question], users: range, seconds: float, ready: Any, replies: Any
) -> None:
    """One process's share of them."""
    own: list[Reply] = []
    ready.wait()
    until = time.monotonic() + seconds

    def use(user: int) -> None:
        turn = user
        with cleave.connect(where.file, key=where.key, endpoint=url, timeout=120, progress=False) as kept:
            while turn == user or time.monotonic() < until:
                question = questions[turn % len(questions)]
                turn += 1
                started, rows, error = time.time(), [], None
                try:
                    rows = _stored(where, url, question) if question.stored else kept.execute(question.sql).fetchall()
                except (cleave.CleaveError, cleave.Error) as failure:
                    error = f"{type(failure).__name__}: {_without_id(str(failure))}"
                own.append(Reply(user, question, started, time.time(), rows, error))

    threads = [threading.Thread(target=use, args=(user,)) for user in users]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    replies.put(own)


def _stored(where: Place, url: str, question: Question) -> Rows:
    asking: dict[str, Any] = {
        "store": where.store,
        "key": where.key,
        "endpoint": url,
        "cloud_only": question.cloud_only,
    }
    with cleave.connect(**asking, timeout=120, progress=False) as opened:
        return opened.execute(question.sql).fetchall()


def _without_id(message: str) -> str:
    return message.rpartition(": ")[2].partition(" [request id")[0]


@contextlib.contextmanager
def emulated(copies: int) -> Iterator[str]:
    """The URL of what stands for API Gateway and Lambda: copies of each function, each with one event at a time.

    A request that waits longer than API Gateway would gets 503.
    """
    with contextlib.ExitStack() as stack:
        pools: dict[str, queue.Queue[Function]] = {}
        for half in ("sensitive", "plain"):
            pools[half] = queue.Queue()
            for _ in range(copies):
                pools[half].put(stack.enter_context(Function(f"cleave_services.{half}.app.handler", memory=1769)))

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name
                pass

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                event = http_event(self.path, body, self.headers["Content-Type"])
                reply: dict[str, Any] = {"statusCode": 503, "body": json.dumps({"message": "Service Unavailable"})}
                pool = pools["sensitive" if self.path.startswith("/v1/sensitive") else "plain"]
                with contextlib.suppress(queue.Empty, FunctionError):
                    function = pool.get(timeout=_GATEWAY_SECONDS)
                    try:
                        reply = function.invoke(event)
                    finally:
                        pool.put(function)
                self._answer(reply)

            def _answer(self, reply: dict[str, Any]) -> None:
                text = reply.get("body", "")
                content = base64.b64decode(text) if reply.get("isBase64Encoded") else text.encode()
                self.send_response(reply["statusCode"])
                for name, value in reply.get("headers", {}).items():
                    if name.lower() != "content-length":
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        server = _Gateway(("127.0.0.1", 0), Handler)
        stack.callback(server.server_close)
        stack.callback(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"


class _Gateway(ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True


def phases(users: int, seconds: float, copies: int, pause: float = _RESTART_SECONDS) -> list[Load]:
    """All three of them, over one stored table."""
    with place() as where:
        growth = Growth(where)
        return [
            steady(where, growth, users, seconds),
            restarts(where, growth, users, seconds, pause),
            over_lambda(where, growth, users, seconds, copies),
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=50.0, help="of each phase")
    parser.add_argument("--copies", type=int, default=2, help="of each function under the runtime client")
    chosen = parser.parse_args()
    print(f"{chosen.users} users, {chosen.seconds:g} s each phase; {machine()}\n", flush=True)
    loads = phases(chosen.users, chosen.seconds, chosen.copies)
    print(markdown(HEAD, [row for load in loads for row in load.rows()]))
    print("\n" + "\n".join(load.report() for load in loads))
    if wrong := sum(load.wrong for load in loads):
        sys.exit(f"{wrong} wrong answers")


if __name__ == "__main__":
    main()
