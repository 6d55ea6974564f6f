"""Run a function as Lambda does, without Docker: serve the Runtime API over HTTP to the real runtime client.

The runtime interface client ("awslambdaric", which runs inside Lambda) is started as its own process, asks this server
for events and posts the replies. As in Lambda, there is one event at a time, and the process stays warm between them.
Events and replies are limited to 6 MB. A process that does not answer in time is killed, and the next event gets a new
one.
Source: AWS Lambda developer guide, "Using the Lambda runtime API" (version 2018-06-01).
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
MAX_PAYLOAD = 6 * 1024 * 1024 + 100  # bytes; what Lambda says when it refuses one
START_SECONDS = 60.0  # what an importing process may take on a busy machine


class FunctionError(Exception):
    """The function gave no reply: it raised an error, ended, or ran out of time. `kind` is the errorType of Lambda."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


@dataclass(frozen=True)
class _Posted:
    route: str  # "response" or "error"
    body: bytes


class Function:
    """A function with at most one warm process. Use it as a context manager."""

    def __init__(
        self, handler: str, memory: int = 1769, seconds: float = 29.0, prefix: Sequence[str] = (), **extra: str
    ) -> None:
        self.handler, self.seconds, self._prefix = handler, seconds, prefix
        self.starts = 0
        self.ready_at = 0.0  # time.time() when the latest process first asked for an event
        self.handed_at = self.posted_at = 0.0  # and when it was handed its latest one, and had posted what came of it
        self.process: subprocess.Popen[bytes] | None = None
        self._events: queue.Queue[tuple[str, bytes]] = queue.Queue()
        self._posted: queue.Queue[_Posted] = queue.Queue()
        self._asked = threading.Event()  # set once the process is ready for an event
        self._server = _Server(("127.0.0.1", 0), _routes(self))
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{self._server.server_port}",
            "AWS_LAMBDA_FUNCTION_NAME": "function",
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(memory),
            "AWS_LAMBDA_LOG_FORMAT": "JSON",
            "AWS_EXECUTION_ENV": "AWS_Lambda_python3.13",
            "LAMBDA_TASK_ROOT": str(ROOT),
            "TZ": ":UTC",
            **extra,
        }
        self._log = bytearray()

    def __enter__(self) -> Function:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._server.shutdown()
        self._server.server_close()

    def invoke(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Send an event and return the function's reply. Raises FunctionError."""
        payload = json.dumps(event).encode()
        if len(payload) > MAX_PAYLOAD:
            raise FunctionError("RequestTooLarge", f"{len(payload)} bytes")
        if self.process is None:
            self._start()
        self._events.put((str(uuid.uuid4()), payload))
        deadline = time.monotonic() + self.seconds
        while True:
            try:
                posted = self._posted.get(timeout=0.05)
                break
            except queue.Empty:
                if self.process.poll() is not None:  # type: ignore[union-attr] # started above
                    self.stop()
                    raise FunctionError("Runtime.ExitError", "the process ended") from None
                if time.monotonic() > deadline:
                    self.stop()
                    raise FunctionError("Sandbox.Timedout", f"after {self.seconds} s") from None
        body = json.loads(posted.body)
        if posted.route == "error":
            raise FunctionError(body["errorType"], body["errorMessage"])
        if len(posted.body) > MAX_PAYLOAD:
            raise FunctionError("Function.ResponseSizeTooLarge", f"{len(posted.body)} bytes")
        reply: dict[str, Any] = body
        return reply

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            output, _ = self.process.communicate()
            self._log += output
            self.process = None
        self._asked.clear()
        self._events, self._posted = queue.Queue(), queue.Queue()

    def log(self) -> list[str]:
        """Return what the processes have written so far, and stop the warm one."""
        self.stop()
        return self._log.decode("utf-8", "replace").splitlines()

    def command(self) -> list[str]:
        return [*self._prefix, sys.executable, "-m", "awslambdaric", self.handler]

    def _start(self) -> None:
        self.starts += 1
        self.process = subprocess.Popen(
            self.command(), cwd=ROOT, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        deadline = time.monotonic() + START_SECONDS
        while not self._asked.wait(0.05):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise FunctionError("Runtime.InitError", "\n".join(self.log()))

    def next_event(self) -> tuple[str, bytes]:
        events = self._events
        if not self._asked.is_set():
            self.ready_at = time.time()
            self._asked.set()
        event = events.get()
        self.handed_at = time.time()
        return event

    def post(self, route: str, body: bytes) -> None:
        self.posted_at = time.time()
        self._posted.put(_Posted(route, body))


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Ignore the error: a killed process resets its connection."""


def _routes(function: Function) -> type[BaseHTTPRequestHandler]:
    class Routes(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # an event would wait 40 ms for the acknowledgement of its headers

        def do_GET(self) -> None:  # /2018-06-01/runtime/invocation/next
            request_id, payload = function.next_event()
            self.send_response(200)
            self.send_header("Lambda-Runtime-Aws-Request-Id", request_id)
            self.send_header("Lambda-Runtime-Deadline-Ms", str(int((time.time() + function.seconds) * 1000)))
            self.send_header(
                "Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:eu-central-1:123456789012:function:f"
            )
            # the runtime client crashes without one
            self.send_header("Lambda-Runtime-Trace-Id", "Root=1-5bef4de7-ad49b0e87f6ef6c87fc2e700;Sampled=0")
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def do_POST(self) -> None:  # .../invocation/{id}/response, .../invocation/{id}/error, .../init/error
            if self.headers.get("Transfer-Encoding") == "chunked":
                body = b"".join(iter(self._chunk, b""))
            else:
                body = self.rfile.read(int(self.headers["Content-Length"]))
            if "/invocation/" in self.path:
                function.post(self.path.rpartition("/")[2], body)
            self.send_response(202)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def _chunk(self) -> bytes:
            size = int(self.rfile.readline(), 16)
            data = self.rfile.read(size)
            self.rfile.readline()
            return data

        def log_message(self, *_: object) -> None:
            """Print nothing: these threads may outlive the test whose stderr pytest captures."""

    return Routes
