"""A small S3 in memory, which answers wrongly where it is told to: by operation, by key, and how."""

from __future__ import annotations

import contextlib
import hashlib
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

PAGE = b"<html><body><h1>Welcome to the hotel's network, canary-secret</h1></body></html>"
HEAD = r"/head$"
OBJECT = r"/[0-9a-f]{32}$"
ANY = r""
_DATE = "2026-11-29T12:00:00.000Z"  # of every object
_ENDLESS = 256 << 20  # bytes of an answer that does not end by itself: the kernel's buffers hold 40 MB of them
_PART = 1 << 16


@dataclass(frozen=True)
class Wrong:
    """`how` requests of the operation `what` (put, get, list, delete, or any) for keys like `key` are answered.

    Only number `at` of them, from 0; None: all.
    """

    what: str
    how: str
    key: str = ANY
    at: int | None = None


@dataclass
class Answer:
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut: int = 0  # bytes promised and not sent
    endless: bool = False


def error(status: int, code: str) -> Answer:
    text = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>canary-secret</Message></Error>'
    return Answer(status, text.encode())


class Stub:
    """`objects` by bucket and key. `asked`: operations and keys. `read_to_end`: if an endless answer was read whole."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.read_to_end = False
        self.asked: list[tuple[str, str]] = []
        self._stale: dict[str, bytes | None] = {}
        self._wrong: Wrong | None = None
        self._hits = 0
        self._lock = threading.Lock()
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # else an answer, which is sent in two parts, takes 40 ms

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name
                pass

            def _any(self) -> None:
                with contextlib.suppress(OSError):  # whom it answers has left
                    stub._serve(self)

            do_GET = do_PUT = do_POST = _any  # noqa: N815 - http.server's names

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Stub:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def arm(self, wrong: Wrong | None) -> None:
        with self._lock:
            self._wrong, self._hits, self.read_to_end = wrong, 0, False
            self.asked.clear()
            self._stale.clear()

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        url = urlsplit(handler.path)
        query = {name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        key = unquote(url.path)[1:]
        what = {"PUT": "put", "POST": "delete"}.get(handler.command, "list" if "list-type" in query else "get")
        with self._lock:
            self.asked.append((what, key))
            how = self._how(what, key)
            answer = self._answer(what, how, key, query, body, {k.lower(): v for k, v in handler.headers.items()})
        handler.send_response(answer.status)
        for name, value in {"Content-Type": "application/xml", **answer.headers}.items():
            handler.send_header(name, value)
        length = _ENDLESS if answer.endless else len(answer.body) + answer.cut
        handler.send_header("Content-Length", str(length))
        handler.end_headers()
        handler.wfile.write(answer.body)
        if answer.endless:
            self._send_endless(handler, _ENDLESS - len(answer.body))
        if answer.cut:
            handler.close_connection = True

    def _send_endless(self, handler: BaseHTTPRequestHandler, left: int) -> None:
        """Raises OSError once the client closes its connection."""
        while left > _PART:
            handler.wfile.write(b" " * _PART)
            left -= _PART
        self.read_to_end = True  # before the last part: whoever reads that looks here next
        handler.wfile.write(b" " * left)

    def _how(self, what: str, key: str) -> str:
        wrong = self._wrong
        if wrong is None or wrong.what not in (what, "any") or not re.search(wrong.key, key):
            return ""
        hit = wrong.at in (None, self._hits)
        self._hits += 1
        return wrong.how if hit else ""

    def _answer(
        self, what: str, how: str, key: str, query: dict[str, str], body: bytes, headers: dict[str, str]
    ) -> Answer:
        if how in ("page", "page of 404", "page with a tag"):
            tag = {"ETag": '"0123"'} if how == "page with a tag" else {}
            return Answer(404 if how == "page of 404" else 200, PAGE, {"Content-Type": "text/html", **tag})
        if how == "error body":
            return Answer(200, error(200, "InternalError").body)
        if how == "forbidden":
            return error(403, "AccessDenied")
        if how == "endless answer":
            return Answer(200, b"<ListBucketResult>", endless=True)
        if how == "endless error":
            return Answer(403, b"<Error>", endless=True)
        if what == "put":
            return self._put(how, key, body, headers)
        if what == "delete":
            return self._delete(how, key, body)
        return self._list(how, query) if what == "list" else self._get(how, key, headers)

    def _put(self, how: str, key: str, body: bytes, headers: dict[str, str]) -> Answer:
        tag, there = f'"{hashlib.md5(body).hexdigest()}"', self.objects.get(key)  # noqa: S324 - S3's
        match, none_match = headers.get("if-match"), headers.get("if-none-match")
        if how == "unknown condition" and (match or (none_match == "*" and there is not None)):
            return error(501, "NotImplemented")
        if none_match == "*" and there is not None and how != "no If-None-Match":
            return error(412, "AnotherText" if how == "another code" else "PreconditionFailed")
        if match and how != "no If-Match":
            if there is None:
                return error(404, "NoSuchKey")
            if match != f'"{hashlib.md5(there).hexdigest()}"':  # noqa: S324 - as above
                return error(412, "AnotherText" if how == "another code" else "PreconditionFailed")
        if how == "stale read":
            self._stale[key] = there
        if how == "half":
            body = body[: len(body) // 2]
        if how != "nothing":
            self.objects[key] = body
        return Answer(headers={"ETag": tag})

    def _get(self, how: str, key: str, headers: dict[str, str]) -> Answer:
        content = self._stale.get(key, self.objects.get(key))
        if content is None:
            return error(404, "NoSuchKey")
        tag = {"ETag": f'"{hashlib.md5(content).hexdigest()}"'}  # noqa: S324 - as above
        status = 200
        if match := re.fullmatch(r"bytes=(\d+)-(\d*)", headers.get("range", "")):
            start = int(match[1])
            whole, content = len(content), content[start : int(match[2]) + 1 if match[2] else None]
            status, tag["Content-Range"] = 206, f"bytes {start}-{start + len(content) - 1}/{whole}"
        half = content[: len(content) // 2]
        if how == "cut off":
            return Answer(status, half, tag, cut=len(content) - len(half))
        return Answer(status, half if how == "half" else content, tag)

    def _list(self, how: str, query: dict[str, str]) -> Answer:
        prefix = "" if how == "another folder" else query.get("prefix", "")
        if how == "endless list":
            number = int(query.get("continuation-token") or 0)
            keys = {f"{prefix}{number * 100 + place:032x}": b"" for place in range(100)}
            return _listed(keys, prefix, f"{number + 1}")
        found = {name.partition("/")[2]: content for name, content in sorted(self.objects.items())}
        found = {name: content for name, content in found.items() if name.startswith(prefix)}
        if how == "misses keys":
            found = {name: content for place, (name, content) in enumerate(found.items()) if place % 2}
        if how == "misses a key":
            found = {name: content for place, (name, content) in enumerate(found.items()) if place}
        if how == "miscounts":
            return _listed(found, prefix, counted=len(found) + 1)
        return _listed(found, prefix, "again" if how == "the same token" else "")

    def _delete(self, how: str, key: str, body: bytes) -> Answer:
        names = [each.text or "" for each in ElementTree.fromstring(body).iter() if each.tag.endswith("Key")]  # noqa: S314
        bucket, parts = key.partition("/")[0], []
        for place, name in enumerate(names):
            if how == "errors":
                parts.append(f"<Error><Key>{escape(name)}</Key><Code>AccessDenied</Code></Error>")
                continue
            if how == "half of it" and not place % 2:
                continue
            if how != "nothing":
                self.objects.pop(f"{bucket}/{name}", None)
            other = "other" if how == "other names" else ""
            parts.append(f"<Deleted><Key>{escape(name)}{other}</Key></Deleted>")
        return Answer(body=f"<DeleteResult>{''.join(parts)}</DeleteResult>".encode())


def _listed(found: dict[str, bytes], prefix: str, token: str = "", counted: int | None = None) -> Answer:
    contents = "".join(
        f"<Contents><Key>{escape(name)}</Key><Size>{len(content)}</Size><LastModified>{_DATE}</LastModified></Contents>"
        for name, content in found.items()
    )
    more = f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    text = (
        f"<ListBucketResult><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(found) if counted is None else counted}"
        f"</KeyCount><IsTruncated>{'true' if token else 'false'}</IsTruncated>{more}{contents}</ListBucketResult>"
    )
    return Answer(body=text.encode())
