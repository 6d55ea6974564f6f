"""Services over HTTP, signed with SigV4 if AWS checks callers.

The other side is not trusted: no redirects, no compressed answers, a limit on bytes, and at least TLS 1.2. No wait
exceeds the query's deadline, however slowly bytes arrive.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cache, partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx

from cleave.deadline import Deadline, Stopped
from cleave.transport import retry
from cleave.transport.base import Service, Transport
from cleave.transport.endpoint import is_local_url
from cleave.transport.foreign import HTTP, ForeignSetting, opening, variables, way_hint
from cleave.transport.responses import Response, request_id
from cleave_shared import limits
from cleave_shared.errors import ServiceError
from cleave_shared.wire import FRAMES_TYPE

Sign = Callable[[str, bytes, Mapping[str, str]], Mapping[str, str]]
"""(URL, body, headers) -> the headers to send."""

# Seconds without a byte. API Gateway gives up after 29 s; other services may need longer.
TIMEOUT = httpx.Timeout(60.0, connect=10.0)
_CONNECTIONS = 16
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")  # variables that httpx reads
_LONGEST_ANSWER = 2 * limits.MAX_JSON_BYTES


def connect_http(
    urls: Mapping[Service, str],
    signers: Mapping[Service, Sign] | None = None,
    policy: retry.Policy = retry.REMOTE,
    timeout: httpx.Timeout = TIMEOUT,
) -> Transport:
    """A transport to `urls`, a base URL per service (see endpoint.read_endpoints)."""
    return Transport(_Endpoints(urls, signers or {}, timeout), policy)


class _Endpoints:
    """Carries requests over HTTP."""

    def __init__(self, urls: Mapping[Service, str], signers: Mapping[Service, Sign], timeout: httpx.Timeout) -> None:
        self._urls = urls
        self._signers = signers
        self._sender = Sender(timeout, local=all(map(is_local_url, urls.values())))

    def exchange(self, service: Service, path: str, body: bytes, deadline: Deadline) -> Response:
        url = self._urls[service] + path
        headers: Mapping[str, str] = {"content-type": FRAMES_TYPE, "accept": FRAMES_TYPE}
        if sign := self._signers.get(service):
            headers = deadline.call(partial(sign, url, body, headers))  # credentials may have to be renewed
        answer, _ = self._sender.post(service.label, url, body, headers, deadline)
        return answer

    def close(self) -> None:
        self._sender.close()


class Sender:
    """POSTs bodies and returns any answer. Thread-safe."""

    def __init__(self, timeout: httpx.Timeout = TIMEOUT, *, local: bool) -> None:
        """`local`: send to this machine only, without a proxy."""
        self._loop = Loop()
        self._local = local
        with opening("the HTTP client", lambda: variables(HTTP)):
            self._client = httpx.AsyncClient(
                headers={"accept-encoding": "identity"},  # ciphertexts do not compress
                timeout=timeout,
                limits=httpx.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS),
                follow_redirects=False,  # a signed request must not reach another host
                trust_env=not local,
                verify=_tls(*map(os.environ.get, _CERTIFICATES)),
            )

    def post(
        self, label: str, url: str, body: bytes, headers: Mapping[str, str], deadline: Deadline
    ) -> tuple[Response, Mapping[str, str]]:
        """Returns the answer, and its headers by lower-case name.

        Raises Interrupted if another attempt may help, else ServiceError. Errors show only host and port of `url`.
        """
        try:
            return self._loop.run(self._post(label, url, body, headers), deadline)
        except httpx.HTTPError as error:
            raise _translated(label, url, error, [] if self._local else variables(HTTP)) from None

    async def _post(
        self, label: str, url: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[Response, Mapping[str, str]]:
        async with self._client.stream("POST", url, content=body, headers=headers) as response:
            got = {name.lower(): value for name, value in response.headers.items()}
            answer = Response(
                response.status_code,
                got.get("content-type", ""),
                await _drain(label, response),
                request_id(got),
                retry.retry_after(got.get("retry-after")),
            )
        return answer, got

    def close(self) -> None:
        self._loop.close(self._client.aclose())


@cache
def _tls(*_: str | None) -> ssl.SSLContext:
    """Load the trusted certificates (20 ms), once for each value of the variables that name them."""
    context = httpx.create_ssl_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2  # even if the system's OpenSSL accepts older versions
    return context


async def _drain(label: str, response: httpx.Response) -> bytes:
    """The body as sent, counted while it arrives: 45 compressed bytes can unpack to gigabytes."""
    if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        if response.status_code != 200:
            return b""  # a proxy's page; its status is enough
        raise ServiceError(
            f"{label} sent a compressed answer, which is not accepted",
            hint="Cleave's services do not compress: turn compression off in the proxy between",
            status=response.status_code,
        )
    parts, size = [], 0
    async for part in response.aiter_raw():
        size += len(part)
        if size > _LONGEST_ANSWER:
            raise ServiceError(
                f"{label} sent more than {_LONGEST_ANSWER:,} bytes, more than any answer has",
                hint="is the endpoint a Cleave service?",
                status=response.status_code,
            )
        parts.append(part)
    return b"".join(parts)


def _translated(label: str, url: str, error: httpx.HTTPError, settings: Sequence[ForeignSetting]) -> ServiceError:
    """The error for a failed exchange; Interrupted if another attempt may help. `settings`: of the network."""
    place, way = f"{label} at {urlsplit(url).netloc}", f"check the URL; {way_hint(settings)}"
    cause = _root(error)
    if isinstance(error, httpx.ReadTimeout | httpx.WriteTimeout):
        # a request that was too slow would be too slow again
        return ServiceError(f"{place} did not answer in time", hint="see in its log whether it is still at work")
    if isinstance(error, httpx.TimeoutException):
        return retry.Interrupted(f"{place} cannot be reached in time", hint=way)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return ServiceError(
            f"{place} has no certificate to trust: {cause.verify_message}",
            hint="check the URL; SSL_CERT_FILE names further authorities to trust",
        )
    if isinstance(cause, ssl.SSLError):
        return ServiceError(
            f"no TLS with {place}: {cause.reason}", hint="does the endpoint speak https, and TLS 1.2 or later?"
        )
    if isinstance(cause, socket.gaierror):
        if cause.errno == socket.EAI_AGAIN:
            return retry.Interrupted(f"the name of {place} cannot be looked up now", hint=way)
        return ServiceError(f"no host has the name of {place}", hint=way)
    if isinstance(cause, ConnectionRefusedError) and not settings:  # with settings it may be a proxy that refuses
        return retry.Interrupted(f"{place} refuses connections", hint="is it running? cleave serve starts one here")
    if isinstance(error, httpx.ConnectError | httpx.ProxyError):
        return retry.Interrupted(f"{place} cannot be reached", hint=way)
    if isinstance(error, httpx.NetworkError | httpx.RemoteProtocolError):
        return retry.Interrupted(f"{place} cut the connection", hint="see its log; a proxy may limit the size")
    return ServiceError(f"the exchange with {place} failed ({type(error).__name__})")


def _root(error: BaseException) -> BaseException:
    """The innermost cause: httpx wraps httpcore, which wraps anyio, which wraps the system's error."""
    while True:
        if isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        elif (below := error.__cause__ or error.__context__) is not None:
            error = below
        else:
            return error


T = TypeVar("T")


class Loop:
    """An event loop in a thread. It starts at first use, so no thread exists where a process forks earlier.
    Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def run(self, work: Coroutine[Any, Any, T], deadline: Deadline) -> T:
        """Run `work` and return its result or raise its error. If the deadline's `check` raises first, `work` is
        cancelled.
        """
        with self._lock:
            if self._closed:
                work.close()
                raise Stopped("the connection to the services is closed")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                # a daemon: a waiting call must not keep the process from ending
                self._thread = threading.Thread(target=self._serve, args=[self._loop], name="transport", daemon=True)
                self._thread.start()
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        return deadline.result(future)

    def close(self, last: Coroutine[Any, Any, None]) -> None:
        """Cancel running work, then run `last` and end. Takes a second at most."""
        with self._lock:
            self._closed = True
            loop, self._loop = self._loop, None
        if loop is None or self._thread is None:
            last.close()
            return
        future = asyncio.run_coroutine_threadsafe(self._end(last), loop)
        try:
            future.result(0.5)
        except TimeoutError:
            future.cancel()
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join(0.5)
        if not self._thread.is_alive():
            last.close()  # if it never ran

    @staticmethod
    def _serve(loop: asyncio.AbstractEventLoop) -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:  # this cancels the rest when the loop stops
            runner.get_loop().run_forever()

    @staticmethod
    async def _end(last: Coroutine[Any, Any, None]) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await last
