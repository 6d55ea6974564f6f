"""Pages of `cleave serve` for people: `/` and `/docs` as pages that load nothing, `/health` of both halves as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cleave_shared import wire
from cleave_shared.version import VERSION

_HTML = "text/html; charset=utf-8"
_POLICY = b"default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


class Pages:
    """Answers GET of its own paths, and hands every other request on. `halves`: the services, by name."""

    def __init__(self, application: ASGIApp, halves: Mapping[str, ASGIApp]) -> None:
        self._application = application
        self._halves = halves

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        pages = {"/": self._index, "/health": self._health, "/docs": self._docs}
        if scope["type"] != "http" or scope["path"] not in pages or scope["method"] not in ("GET", "HEAD"):
            await self._application(scope, receive, send)
            return
        status, kind, content = await pages[scope["path"]](scope)
        headers = [(b"content-type", kind.encode()), (b"content-length", str(len(content)).encode())]
        headers += [(b"content-security-policy", _POLICY), (b"x-content-type-options", b"nosniff")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else content})

    async def _index(self, _: Scope) -> tuple[int, str, bytes]:
        links = "".join(f'<li><a href="{path}">{path}</a>: {text}</li>' for path, text in _LINKS.items())
        return 200, _HTML, _page(f"<h1>Cleave {VERSION}</h1><p>{_ABOUT}</p><ul>{links}</ul>")

    async def _health(self, scope: Scope) -> tuple[int, str, bytes]:
        """200 where both halves answer, else 503."""
        answers = {name: (await _asked(half, scope, f"/{name}/v1/health"))[0] for name, half in self._halves.items()}
        well = all(status == 200 for status in answers.values())
        halves = {name: "ok" if status == 200 else "does not answer" for name, status in answers.items()}
        return 200 if well else 503, wire.JSON_TYPE, json.dumps({"version": VERSION, **halves}).encode()

    async def _docs(self, scope: Scope) -> tuple[int, str, bytes]:
        found = [await _asked(half, scope, f"/{name}/openapi.json") for name, half in self._halves.items()]
        if any(status != 200 for status, _ in found):
            return 502, _HTML, _page("<p>A service does not answer; ask again: it is started again when it dies.</p>")
        return 200, _HTML, _page("".join(_service(json.loads(content)) for _, content in found))


_ABOUT = "Both services, for <code>cleave query --endpoint</code>. There is no authentication and no TLS here."
_LINKS = {
    "/health": "whether both services answer",
    "/docs": "what they take and return",
    "/sensitive/openapi.json": "the sensitive service, for programs",
    "/plain/openapi.json": "the plain service, for programs",
}


def _page(body: str) -> bytes:
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>Cleave</title>'
    return f"{head}<body>{body}</body></html>".encode()


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


async def _asked(half: ASGIApp, scope: Scope, path: str) -> tuple[int, bytes]:
    """Status and body of a GET of a service."""
    status, parts = 0, []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        else:
            parts.append(message.get("body", b""))

    asked = {**scope, "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b"", "headers": []}
    await half(asked, receive, send)
    return status, b"".join(parts)
