"""Both services on this machine over HTTP, at one address: what `cleave serve` runs.

/v1/sensitive/...  /v1/plain/...            the services, as behind API Gateway
/sensitive/...     /plain/...               each service alone, with its own /openapi.json and /v1/health
/  /health  /docs                           for people

Ciphertexts and SQL are read in children of two fork servers, one per service; a child answers one request. A request is
answered only if its Host is a loopback name or an allowed name, because a web page can point a name of its own to this
machine (DNS rebinding). Without given origins there are no CORS headers, so browsers show no answer to other pages.

cleave.front limits connections, and the framing, size and time of requests. An address other than loopback gets a share
of the requests at once; a proxy on this machine may send those of many clients.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from starlette.middleware.cors import CORSMiddleware
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from cleave.front.admission import ANYONE, Admission
from cleave.front.http import Limits, Server, admitted_of
from cleave.transport.addresses import in_url, is_loopback, listen
from cleave_services import links
from cleave_services.log import log_to_stderr
from cleave_services.openapi import Application
from cleave_services.plain import service as plain
from cleave_services.sensitive import service as sensitive
from cleave_services.sensitive import workers
from cleave_shared import limits, wire
from cleave_shared.errors import ServiceError
from cleave_shared.version import VERSION


def serve(
    host: str,
    port: int,
    ready: Callable[[str], None],
    *,
    log: bool,
    names: Sequence[str] = (),
    origins: Sequence[str] = (),
    stores: Sequence[str] = (),
) -> None:
    """Serve until SIGINT or SIGTERM. `ready` gets the base URL once connections are accepted. Port 0: any free one.

    `log`: write a line per request. `names`: host names that are also this machine's. `origins`: web origins that may
    read answers. `stores`: URLs of folders from which services may read stored tables.

    Raises InputError if listening fails.
    """
    sensitive.prepare()  # the processes that fork children start before there are threads and listeners
    workers.prepare(once=True)
    plain.prepare()
    links.allow(stores)
    if log:
        log_to_stderr()
    from cleave_services.plain.app import app as plain_app  # noqa: PLC0415 - FastAPI, which the children do not need
    from cleave_services.sensitive.app import app as sensitive_app  # noqa: PLC0415

    services = {"sensitive": sensitive_app, "plain": plain_app}
    listener, shown = listen(host, port), in_url(host)
    hosts = frozenset(each.lower() for each in (host, *names))
    application: ASGIApp = Limits(
        _Pages(Router(services), services),
        problem=problem,
        most_body=max(limits.MAX_BODY_BYTES, limits.MAX_JSON_BYTES),
        user_of=_user_of,
        is_name=hosts.__contains__,
        host_hint="cleave serve --allow-host NAME lets one in",
    )
    if origins:
        application = CORSMiddleware(
            application, allow_origins=origins, allow_methods=["GET", "POST"], allow_headers=["*"]
        )
    url = f"http://{shown}:{listener.getsockname()[1]}"
    server = Server(application, listener, Admission(limits.SERVE_REQUESTS), lambda: ready(url))
    try:
        server.run()
    finally:
        listener.close()
    if not server.started:
        raise ServiceError(f"nothing could be served at {shown}")


class Router:
    """Passes each request to the service named in its path, and any other to the first service, which answers 404.

    It removes Origin: the services let any web page read answers, but this server does not.
    """

    def __init__(self, services: Mapping[str, ASGIApp]) -> None:
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        _, *parts = scope["path"].split("/", maxsplit=3)
        name = next((each for each in self._services if each in parts[:1] or parts[:2] == ["v1", each]), None)
        scope = {**scope, "headers": [each for each in scope["headers"] if each[0] != b"origin"]}
        if parts[:1] == [name]:  # /plain/openapi.json is the plain service's /openapi.json
            scope["root_path"] = f"/{name}"
        await self._services[name or next(iter(self._services))](scope, receive, send)


def _user_of(scope: Scope) -> str:
    address = admitted_of(scope).address
    return ANYONE if is_loopback(address) else address


def problem(status: int, error: str, hint: str, headers: Mapping[str, str]) -> ASGIApp:
    """An error in the services' format."""
    content = wire.dump_json(wire.Problem(error=error, hint=hint))
    return Response(content, status, headers=headers, media_type=wire.JSON_TYPE)


_POLICY = {
    "content-security-policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
}


class _Pages:
    """Answers GET of its own paths, and passes other requests on."""

    def __init__(self, application: ASGIApp, services: Mapping[str, Application]) -> None:
        self._application = application
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        pages = {"/": self._index, "/health": self._health, "/docs": self._docs}
        application = self._application
        if scope["type"] == "http" and scope["path"] in pages and scope["method"] in ("GET", "HEAD"):
            application = pages[scope["path"]]()
        await application(scope, receive, send)

    def _index(self) -> Response:
        links = "".join(f'<li><a href="{path}">{path}</a>: {text}</li>' for path, text in _LINKS.items())
        return _page(f"<h1>Cleave {VERSION}</h1><p>{_ABOUT}</p><ul>{links}</ul>")

    def _health(self) -> Response:
        return JSONResponse({"version": VERSION, **dict.fromkeys(self._services, "ok")})

    def _docs(self) -> Response:
        return _page("".join(_service(each.openapi()) for each in self._services.values()))


_ABOUT = "Both services, for <code>cleave query --endpoint</code>. There is no authentication and no TLS here."
_LINKS = {
    "/health": "whether this server answers",
    "/docs": "what they take and return",
    "/sensitive/openapi.json": "the sensitive service, for programs",
    "/plain/openapi.json": "the plain service, for programs",
}


def _page(body: str) -> Response:
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>Cleave</title>'
    return HTMLResponse(f"{head}<body>{body}</body></html>", headers=_POLICY)


def _service(document: Mapping[str, Any]) -> str:
    """A service as HTML, from its OpenAPI document."""
    parts = [f"<h1>{_text(document['info']['title'])}</h1><p>{_text(document['info']['description'])}</p>"]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parts.append(
                f"<h2>{_text(method.upper())} {_text(path)}</h2><p>{_text(operation.get('description', ''))}</p>"
            )
            answers = operation["responses"].items()
            rows = "".join(f"<dt>{_text(status)}</dt><dd>{_text(each['description'])}</dd>" for status, each in answers)
            parts.append(f"<p>Takes {_models(operation.get('requestBody', {}))}. Answers:</p><dl>{rows}</dl>")
    for name, schema in document["components"]["schemas"].items():
        shown = _text(json.dumps(schema, indent=2, ensure_ascii=False))
        parts.append(f'<h3 id="{_text(name)}">{_text(name)}</h3><pre>{shown}</pre>')
    return "".join(parts)


def _models(body: Mapping[str, Any]) -> str:
    names = [each["schema"].get("$ref", "").rpartition("/")[2] for each in body.get("content", {}).values()]
    return (
        " or ".join(f'<a href="#{_text(name)}">{_text(name)}</a>' if name else "frames" for name in names) or "nothing"
    )


def _text(value: object) -> str:
    return escape(str(value))
