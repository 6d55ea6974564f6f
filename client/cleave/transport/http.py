"""Services over HTTP, signed with SigV4 where AWS checks who asks."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

import httpx

from cleave.transport import retry
from cleave.transport.base import EnvelopeTransport, Service
from cleave.transport.endpoint import is_loopback
from cleave.transport.responses import Response
from cleave_shared import limits
from cleave_shared.errors import ServiceError
from cleave_shared.wire import FRAMES_TYPE

Sign = Callable[[str, bytes, Mapping[str, str]], Mapping[str, str]]
"""(URL, body, headers) -> the headers to send."""

# API Gateway gives up after 29 s; a service elsewhere may take its time.
TIMEOUT = httpx.Timeout(60.0, connect=10.0)
_CONNECTIONS = 16
_LONGEST_ANSWER = 2 * limits.MAX_JSON_BYTES


def connect_http(
    urls: Mapping[Service, str],
    signers: Mapping[Service, Sign] | None = None,
    policy: retry.Policy = retry.REMOTE,
    timeout: httpx.Timeout = TIMEOUT,
) -> EnvelopeTransport:
    """A transport to `urls`, one full URL a service (see endpoint.read_endpoints)."""
    return EnvelopeTransport(_Http(urls, signers or {}, timeout), policy)


class _Http:
    def __init__(self, urls: Mapping[Service, str], signers: Mapping[Service, Sign], timeout: httpx.Timeout) -> None:
        self._urls = urls
        self._signers = signers
        self._client = httpx.Client(
            headers={"accept-encoding": "identity"},  # ciphertexts do not compress
            timeout=timeout,
            limits=httpx.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS),
            follow_redirects=False,  # a signed request must not wander to another host
            trust_env=not all(map(is_loopback, urls.values())),  # no proxy stands before one's own machine
        )

    def exchange(self, service: Service, body: bytes) -> Response:
        url = self._urls[service]
        headers: Mapping[str, str] = {"content-type": FRAMES_TYPE, "accept": FRAMES_TYPE}
        if service in self._signers:
            headers = self._signers[service](url, body, headers)
        try:
            with self._client.stream("POST", url, content=body, headers=headers) as response:
                return Response(
                    response.status_code, response.headers.get("content-type", ""), _drain(service, response)
                )
        except httpx.HTTPError as error:
            raise _translated(service, url, error) from None

    def close(self) -> None:
        self._client.close()


def _drain(service: Service, response: httpx.Response) -> bytes:
    parts, size = [], 0
    for part in response.iter_bytes():
        size += len(part)
        if size > _LONGEST_ANSWER:
            raise ServiceError(
                f"{service.label} sent more than {_LONGEST_ANSWER:,} bytes, more than any answer takes",
                hint="is the endpoint a Cleave service?",
                status=response.status_code,
            )
        parts.append(part)
    return b"".join(parts)


def _translated(service: Service, url: str, error: httpx.HTTPError) -> ServiceError:
    """A broken exchange as an error; Interrupted where the next attempt may fare better.

    Only host and port of `url` are told.
    """
    place = f"{service.label} at {urlsplit(url).netloc}"
    cause = _root(error)
    if isinstance(error, httpx.ReadTimeout | httpx.WriteTimeout):
        # what was too slow once would be too slow again
        return ServiceError(f"{place} did not answer in time", hint="its log tells whether it is still at work")
    if isinstance(error, httpx.TimeoutException):
        return retry.Interrupted(f"{place} cannot be reached in time", hint="check the URL, the network and the proxy")
    if isinstance(cause, ssl.SSLCertVerificationError):
        return ServiceError(
            f"{place} has no certificate to trust: {cause.verify_message}",
            hint="check the URL; SSL_CERT_FILE names further authorities to trust",
        )
    if isinstance(cause, ssl.SSLError):
        return ServiceError(f"no TLS with {place}: {cause.reason}", hint="does the endpoint speak https at all?")
    if isinstance(cause, socket.gaierror):
        if cause.errno == socket.EAI_AGAIN:
            return retry.Interrupted(f"the name of {place} cannot be looked up now", hint="check the network")
        return ServiceError(f"no host has the name of {place}", hint="check the URL")
    if isinstance(cause, ConnectionRefusedError):
        return retry.Interrupted(f"{place} refuses connections", hint="is it running? cleave serve starts one here")
    if isinstance(error, httpx.ConnectError | httpx.ProxyError):
        return retry.Interrupted(f"{place} cannot be reached", hint="check the URL, the network and the proxy")
    if isinstance(error, httpx.NetworkError | httpx.RemoteProtocolError):
        return retry.Interrupted(f"{place} cut the connection", hint="its log tells; a proxy may cap the size")
    return ServiceError(f"the exchange with {place} failed ({type(error).__name__})")


def _root(error: BaseException) -> BaseException:
    """The first cause: httpx wraps httpcore, which wraps what the system said."""
    while (below := error.__cause__ or error.__context__) is not None:
        error = below
    return error
