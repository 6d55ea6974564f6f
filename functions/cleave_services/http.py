"""What both services need around their one job: reading and answering envelopes, errors, logs, the Lambda handler.

Bodies are JSON or binary frames (cleave_shared.wire) and are measured before they are parsed. Errors carry names of
fields and rules, never values; an error nobody expected is told by its class alone. Every request leaves one line of
JSON on the logger `cleave.service`: numbers, no names, no SQL, no bodies.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import resource
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cleave_services.openapi import Application
from cleave_services.web import Mangum, Request, RequestValidationError, Response
from cleave_shared import limits, wire
from cleave_shared.errors import CleaveError, ServiceError, WireError

Model = TypeVar("Model", bound=BaseModel)

_log = logging.getLogger("cleave.service")
_log.addHandler(logging.NullHandler())  # embedded in the client a service says nothing; see `log_to_stderr`
_REQUEST_ID = re.compile(r"[\w=.:-]{1,128}")
_LONGEST_ERROR = 1000


class Health(BaseModel):
    service: str
    version: int


def create_app(title: str, description: str) -> Application:
    """An application with health, OpenAPI, error answers, CORS and the request log; services add their routes."""
    app = Application(title, description)
    app.add_middleware(_RequestLog)
    app.add_middleware(CORSMiddleware, allow_origins=["*"], allow_methods=["GET", "POST"], allow_headers=["*"])
    app.add_exception_handler(CleaveError, _refuse)
    app.add_exception_handler(RequestValidationError, _refuse)
    app.add_exception_handler(HTTPException, _refuse)

    @app.information("/v1/health", Health)
    async def health() -> Response:
        return Response(wire.dump_json(Health(service=title, version=wire.VERSION)), media_type=wire.JSON_TYPE)

    return app


async def read(request: Request, model: type[Model]) -> Model:
    """The envelope in a request's body.

    Raises WireError: 415 for a content type that is neither JSON nor frames and for any content encoding, since what
    unpacks has no size one can see; 413 over the limit of either, counted while it arrives, whatever content-length
    says; 422 for anything else.
    """
    if request.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise WireError("a content encoding is not accepted", hint="send the body as it is", status=415)
    kind = _content_type(request)
    if kind not in (wire.JSON_TYPE, wire.FRAMES_TYPE):
        raise WireError(f"content type must be {wire.JSON_TYPE} or {wire.FRAMES_TYPE}", status=415)
    limit = limits.MAX_BODY_BYTES if kind == wire.FRAMES_TYPE else limits.MAX_JSON_BYTES
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and len(announced) < 20 and int(announced) > limit:
        raise _too_large("request", limit)
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise _too_large("request", limit)
        parts.append(part)
    body = b"".join(parts)
    envelope = wire.load(model, body, kind)
    request.state.mark = wire.mark(body, kind)
    return envelope


def answer(request: Request, model: BaseModel) -> Response:
    """`model`, after `read`, in the form the request asks for in Accept, else in the request's own.

    Raises WireError (413) where it is over what Lambda can return, which the caller would see as a bare 502.
    """
    if _wants_frames(request):
        frames = wire.dump_frames(model, request.state.mark)
        if len(frames) > limits.MAX_BODY_BYTES:
            raise _too_large("answer", limits.MAX_BODY_BYTES)
        return Response(frames, media_type=wire.FRAMES_TYPE)
    body = wire.dump_json(model)
    # Lambda returns the body as a JSON string, in which each of these takes two bytes
    if len(body) + body.count(b'"') + body.count(b"\\") > limits.MAX_JSON_BYTES:
        raise _too_large("answer", limits.MAX_JSON_BYTES)
    return Response(body, media_type=wire.JSON_TYPE)


def note(request: Request, **numbers: float | Mapping[str, float]) -> None:
    """Add numbers (rows, groups, chunks, timings in seconds) to the request's log line."""
    request.state.facts.update(numbers)


def lambda_handler(
    app: Application, prepare: Callable[[], None] = lambda: None
) -> Callable[[dict[str, Any], Any], dict[str, Any]]:
    """The Lambda entry point: REST proxy events and HTTP API events; anything but JSON is returned as base64.

    Lambda's runtime starts a thread before the first event: `prepare` is called before that, and nowhere but there.
    Otherwise nothing happens before the first event, so that importing a service leaves loggers and event loops alone.
    """
    if "AWS_LAMBDA_RUNTIME_API" in os.environ:
        prepare()

    def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
        log_to_stderr()
        with asyncio.Runner() as runner:
            runner.get_loop()  # Mangum takes the thread's current loop; this makes one and sets it
            mangum = Mangum(
                app, lifespan="off", text_mime_types=[wire.JSON_TYPE], api_gateway_base_path=_stage_prefix(event)
            )
            answered: dict[str, Any] = mangum(event, context)
        return answered

    return handler


def log_to_stderr() -> None:
    """Send the request log to stderr, a line of bare JSON each, past whatever the root logger does."""
    _log.handlers = [_Stderr()]
    _log.setLevel(logging.INFO)
    _log.propagate = False
    # its second line would hold the path as it was sent; disabling "mangum" would not reach "mangum.http"
    logging.getLogger("mangum").setLevel(logging.CRITICAL)


class _Stderr(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(record.getMessage() + "\n")


class _RequestLog:
    """Counts, times and logs each request; answers 500 with a class name for what nobody expected.

    Nothing may escape from here: Starlette, Mangum and uvicorn all log tracebacks, whose messages may quote values.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        line: dict[str, Any] = {"request_id": _request_id(scope), "status": None, "bytes_in": 0, "bytes_out": 0}
        facts = scope.setdefault("state", {})["facts"] = {}

        async def counted_receive() -> Message:
            message = await receive()
            line["bytes_in"] += len(message.get("body", b""))
            return message

        async def counted_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                line["status"] = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", line["request_id"].encode())]
            line["bytes_out"] += len(message.get("body", b""))
            await send(message)

        try:
            await self.app(scope, counted_receive, counted_send)
        except Exception as error:  # noqa: BLE001 - the last place before the loggers of others
            facts["error"] = type(error).__name__
            if line["status"] is None:
                await _problem(500, f"internal error: {type(error).__name__}")(scope, receive, counted_send)
        finally:
            line["route"] = getattr(scope.get("route"), "path", None)
            line["seconds"] = round(time.perf_counter() - started, 6)
            line["peak_kb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            line["peak_worker_kb"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
            _log.info(json.dumps(line | facts))


def _stage_prefix(event: dict[str, Any]) -> str:
    """HTTP APIs leave the stage in the path, REST APIs do not."""
    stage = event.get("requestContext", {}).get("stage", "$default")
    return "/" if event.get("version") != "2.0" or stage == "$default" else f"/{stage}"


def _request_id(scope: Scope) -> str:
    """AWS's own id where there is one; one sent along; or a new one."""
    context = scope.get("aws.context")
    sent = dict(scope["headers"]).get(b"x-amzn-requestid", b"").decode("latin-1")
    for candidate in (getattr(context, "aws_request_id", None), sent):
        if candidate and _REQUEST_ID.fullmatch(candidate):
            return str(candidate)
    return uuid.uuid4().hex


def _content_type(request: Request) -> str:
    return wire.media_type(request.headers.get("content-type", ""))


def _wants_frames(request: Request) -> bool:
    accepted = request.headers.get("accept", "").lower()
    for kind in (wire.JSON_TYPE, wire.FRAMES_TYPE):
        if kind in accepted:
            return kind == wire.FRAMES_TYPE
    return _content_type(request) == wire.FRAMES_TYPE


def _too_large(what: str, limit: int) -> WireError:
    hint = "send fewer rows per request" if what == "request" else "ask for fewer groups per request"
    return WireError(f"the {what} is over {limit:,} bytes", hint=hint, status=413)


def _refuse(request: Request, error: Exception) -> Response:
    request.state.facts["error"] = type(error).__name__
    if isinstance(error, HTTPException):
        return _problem(error.status_code, error.detail, headers=error.headers)
    if isinstance(error, RequestValidationError):
        return _problem(422, "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()))
    if isinstance(error, CleaveError):
        status = error.status if isinstance(error, WireError | ServiceError) else 422
        return _problem(status or 500, error.message, error.hint)
    raise error


def _problem(status: int, error: str, hint: str | None = None, headers: Mapping[str, str] | None = None) -> Response:
    # field names are the sender's: of any length, and not always Unicode
    text = error[:_LONGEST_ERROR].encode(errors="replace").decode()
    body = wire.dump_json(wire.Problem(error=text, hint=hint))
    return Response(body, status, headers=headers, media_type=wire.JSON_TYPE)
