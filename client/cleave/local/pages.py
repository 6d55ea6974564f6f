"""Pages of `cleave serve` for people: `/` and `/docs` as pages that load nothing, `/health` as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any

from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from cleave_services.openapi import Application
from cleave_shared.version import VERSION

_POLICY = {
    "content-security-policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
}


class Pages:
    """Answers GET of its own paths, and hands every other request on."""

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
    """One service as HTML, by its OpenAPI document."""
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
