"""`make bench-load`: many askers at once, for a bounded time, of services that are small; what each saw, in figures.

    files     questions over a file, to `cleave serve`
    emulator  the same, to both handlers under the real Lambda runtime client: copies of each, one event at a time
    stored    questions over a stored table, with `cleave serve --store`, while somebody appends to it without a pause

An asker is a thread that asks, waits for the answer, checks it and asks again. Over a file it keeps key, table and
connection; over a stored table each question opens all anew, as another user's would. Clients and services share the
machine. Answers are the truth or count as wrong. A stored answer is of one version:
all its figures are of one number of appends, no fewer than were done when it was asked and no more than were begun when
it was answered.
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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import cleave
from cleave.ckks.key_file import create_key
from tests.functional.gateway import http_event
from tests.functional.runtime_api import Function, FunctionError
from tests.functional.serving import served

SAMPLE = Path(__file__).parents[1] / "tests" / "samples"
FILES = "SELECT ward, COUNT(*), SUM(bill) FROM patients GROUP BY ward ORDER BY ward"
STORED = "SELECT COUNT(*), SUM(bill), SUM(age) FROM trial"
_SAMPLE_ROWS = 600
_PROCESSES = 4  # that the askers share: Python runs one thread at a time
_START_SECONDS = 120.0
_GATEWAY_SECONDS = 29.0


@dataclass(frozen=True)
class Place:
    """Where everything lies: the sample, a key, a store of two folders."""

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
        """What `cleave serve` takes."""
        return ["--quiet", *(word for folder in self.store.split(",") for word in ("--store", folder))]

    def put(self, *words: str) -> None:
        """Raises CalledProcessError."""
        command = [sys.executable, "-c", "from cleave.local.main import main; main()", "--quiet", "put", str(self.file)]
        command += ["--table", "trial", "--store", self.store, "--key", str(self.key), *words]
        subprocess.run(command, check=True, capture_output=True)


@dataclass(frozen=True)
class Asked:
    """One question: when, how long, and what went wrong; of a stored table the copies of the sample it counted."""

    started: float
    ended: float
    error: str | None
    copies: int = 0


@dataclass(frozen=True)
class Load:
    """What `askers` saw together in `seconds`."""

    name: str
    askers: int
    seconds: float
    asked: tuple[Asked, ...]
    appends: int = 0

    @property
    def errors(self) -> dict[str, int]:
        return dict(collections.Counter(each.error for each in self.asked if each.error))

    def told(self) -> str:
        times = sorted(each.ended - each.started for each in self.asked if not each.error) or [float("nan")]
        p99 = times[min(len(times) - 1, round(0.99 * len(times)))]
        rate = len(times) / self.seconds
        line = (
            f"{self.name:9} {self.askers} askers, {self.seconds:.0f} s: {rate:.1f} answers a second, "
            f"p50 {statistics.median(times):.2f} s, p99 {p99:.2f} s, most {times[-1]:.2f} s; {len(times)} answered, "
            f"{sum(self.errors.values())} not"
        )
        if self.appends:
            versions = len({each.copies for each in self.asked if not each.error})
            line += f"; {self.appends} appends meanwhile, answers of {versions} versions"
        return "\n".join([line, *(f"          {count} x {error}" for error, count in self.errors.items())])


@contextlib.contextmanager
def place() -> Iterator[Place]:
    with tempfile.TemporaryDirectory() as folder:
        found = Place(Path(folder))
        for name in ("patients.csv", "patients.schema.toml"):
            shutil.copy(SAMPLE / name, found.root)
        create_key(found.key, None)
        os.environ["XDG_STATE_HOME"] = str(found.root / "state")
        yield found


def over_files(where: Place, name: str, url: str, askers: int, seconds: float) -> Load:
    return Load(name, askers, seconds, _crowd(where, url, stored=False, askers=askers, seconds=seconds))


def over_stored(where: Place, url: str | None, askers: int, seconds: float) -> Load:
    """With appends all the while, one after the other."""
    where.put("--by", "ward")
    begun, done = [time.time()], [time.time()]  # of each copy of the sample
    over = threading.Event()

    def append() -> None:
        while not over.is_set():
            begun.append(time.time())
            where.put("--append", "--again")
            done.append(time.time())

    writer = threading.Thread(target=append)
    writer.start()
    try:
        asked = _crowd(where, url, stored=True, askers=askers, seconds=seconds)
    finally:
        over.set()
        writer.join()
    checked = tuple(_of_one_version(each, begun, done) for each in asked)
    return Load("stored", askers, seconds, checked, len(done) - 1)


def _of_one_version(asked: Asked, begun: Sequence[float], done: Sequence[float]) -> Asked:
    least = sum(at <= asked.started for at in done)
    most = sum(at <= asked.ended for at in begun)
    if asked.error or least <= asked.copies <= most:
        return asked
    return Asked(asked.started, asked.ended, f"of version {asked.copies}, not of {least} to {most}")


def _crowd(where: Place, url: str | None, *, stored: bool, askers: int, seconds: float) -> tuple[Asked, ...]:
    """Everything that `askers` asked within `seconds`, in several processes."""
    context = multiprocessing.get_context("spawn")
    ready, found = context.Barrier(min(_PROCESSES, askers) + 1, timeout=_START_SECONDS), context.Queue()
    shares = [askers // _PROCESSES + (number < askers % _PROCESSES) for number in range(_PROCESSES)]
    processes = [
        context.Process(target=_askers, args=(where, url, stored, share, seconds, ready, found), daemon=True)
        for share in shares
        if share
    ]
    for process in processes:
        process.start()
    ready.wait()
    asked = [each for _ in processes for each in found.get(timeout=seconds + _START_SECONDS)]
    for process in processes:
        process.join(_START_SECONDS)
    return tuple(asked)


def _askers(where: Place, url: str | None, stored: bool, askers: int, seconds: float, ready: Any, found: Any) -> None:
    """One process's share of them."""
    right = None if stored else _ask(where, None, stored=False)
    one = _one(where) if stored else ()
    ready.wait()
    until = time.monotonic() + seconds
    asked: list[Asked] = []

    def ask() -> None:
        kept = None if stored else cleave.connect(where.file, key=where.key, endpoint=url, timeout=120, progress=False)
        while time.monotonic() < until:
            started = time.time()
            error: str | None = None
            copies = 0
            try:
                rows = kept.execute(FILES).fetchall() if kept else _ask(where, url, stored=stored)
                if stored:
                    copies = int(rows[0][0]) // _SAMPLE_ROWS
                    error = None if rows[0] == tuple(copies * each for each in one) else "figures of different versions"
                elif rows != right:
                    error = "a wrong answer"
            except (cleave.CleaveError, cleave.Error) as failure:
                error = f"{type(failure).__name__}: {_without_id(str(failure))}"
            asked.append(Asked(started, time.time(), error, copies))
        if kept:
            kept.close()

    threads = [threading.Thread(target=ask) for _ in range(askers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found.put(asked)


def _without_id(message: str) -> str:
    return message.rpartition(": ")[2].partition(" [request id")[0]


def _one(where: Place) -> tuple[Any, ...]:
    """What STORED is of one copy of the sample."""
    sql = STORED.replace("trial", "patients")
    return tuple(cleave.query(where.file, sql, key=where.key, progress=False).rows[0])


def _ask(where: Place, url: str | None, *, stored: bool) -> list[tuple[Any, ...]]:
    sql = STORED if stored else FILES
    store = where.store if stored else None
    table = "trial" if stored else where.file
    return list(cleave.query(table, sql, store=store, key=where.key, endpoint=url, timeout=120, progress=False).rows)


@contextlib.contextmanager
def emulated(copies: int) -> Iterator[str]:
    """The URL of what stands for API Gateway and Lambda: copies of each function, each with one event at a time.

    Who waits longer than API Gateway would is told 503.
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--askers", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--copies", type=int, default=2, help="of each function under the emulator")
    chosen = parser.parse_args()
    with place() as where:
        with served(*where.serving) as (url, _):
            print(over_files(where, "files", url, chosen.askers, chosen.seconds).told(), flush=True)
            print(over_stored(where, url, chosen.askers, chosen.seconds).told(), flush=True)
        with emulated(chosen.copies) as url:
            print(over_files(where, "emulator", url, chosen.askers, chosen.seconds).told(), flush=True)


if __name__ == "__main__":
    main()
