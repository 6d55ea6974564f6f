"""Code around both services' work: reading and answering envelopes, errors, logs, the Lambda handler.

Bodies are measured while they arrive, and read by cleave_services.bodies. Every request leaves one log line.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import resource
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cleave_services import bodies, links
from cleave_services.bodies import Received, ServiceAnswer
from cleave_services.log import log, log_to_stderr
from cleave_services.openapi import HEALTH, Application, Health
from cleave_services.operations import Operation, ServiceHandler
from cleave_services.web import Mangum, Request, RequestValidationError, Response
from cleave_shared import wire
from cleave_shared.errors import CleaveError, WireError
from cleave_shared.messages import Each
from cleave_shared.messages import Message as Model
from cleave_shared.requests import SET

_REQUEST_ID = re.compile(r"[\w=.:-]{1,128}")


_NO_EVENT = WireError(
    "the event is not an HTTP request",
    hint="invoke the function through API Gateway or a function URL, or with an event like those in events/",
    code="event",
)


class _Call(BaseModel):
    method: str


class _Context(BaseModel):
    stage: str | None = None
    http: _Call | None = None
    identity: dict[str, Any] | None = None


class _Event(BaseModel):
    """The fields, with AWS's names, that Mangum reads in REST (1.0) and HTTP API (2.0) events."""

    model_config = ConfigDict(strict=True, defer_build=True)

    requestContext: _Context  # noqa: N815
    version: str | None = None
    httpMethod: str = ""  # noqa: N815
    path: str = ""
    rawPath: str = ""  # noqa: N815
    rawQueryString: str = ""  # noqa: N815
    headers: dict[str, str] | None = None
    multiValueHeaders: dict[str, Each[str]] | None = None  # noqa: N815
    queryStringParameters: dict[str, str] | None = None  # noqa: N815
    multiValueQueryStringParameters: dict[str, Each[str]] | None = None  # noqa: N815
    cookies: Each[str] | None = None
    body: str | None = None
    isBase64Encoded: bool = False  # noqa: N815


def create_app(service: ServiceHandler) -> Application:
    """The service's operations behind FastAPI, with health, OpenAPI, error answers, CORS and the request log."""
    app = Application(service.name, service.description, service.operations)
    app.add_middleware(_RequestLog)
    app.add_middleware(CORSMiddleware, allow_origins=["*"], allow_methods=["GET", "POST"], allow_headers=["*"])
    app.add_exception_handler(CleaveError, _refuse)
    app.add_exception_handler(RequestValidationError, _refuse)
    app.add_exception_handler(HTTPException, _refuse)

    @app.get(HEALTH)
    async def health() -> Response:
        return Response(wire.dump_json(Health(service=service.name, version=wire.VERSION)), media_type=wire.JSON_TYPE)

    for operation in service.operations:
        app.post(operation.path)(_route(operation))
    return app


async def read(request: Request, model: type[Model]) -> Received:
    """The request in a body.

    Raises WireError: 415 for a content type that is neither JSON nor frames, and for any content encoding, whose size
    would be unknown; 413 above the limit, counted while the body arrives; 422 for other errors.
    """
    if request.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise WireError("a content encoding is not accepted", hint="send the body as it is", code="media_type")
    kind = _content_type(request)
    limit = bodies.limit_of(kind)
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and len(announced) < 20:
        bodies.check_size(int(announced), limit)
    content = bytearray()  # a list of one-byte parts would take sixty times their size
    async for part in request.stream():
        bodies.check_size(len(content) + len(part), limit)
        content += part
    return bodies.load(bytes(content), kind, model)


def _route(operation: Operation) -> Callable[[Request], Awaitable[Response]]:
    """A handler of POSTs: `read`, then work in a thread. Raises their errors.

    The answer has the form that the request accepts, by default the request's own.
    """

    async def respond(request: Request) -> Response:
        received = await read(request, operation.models[0])

        def work() -> Response:
            table_set = request.path_params.get("set")
            # numbers (rows, groups, chunks, seconds by stage) for the request's log line
            note = request.state.facts.update
            result = operation.answer(received, note, table_set, links.own)
            return _response(received.answer(result, _accepted(request)))

        return await run_in_threadpool(work)

    return respond


def lambda_handler(
    app: Application, prepare: Callable[[], None] = lambda: None
) -> Callable[[Any, Any], dict[str, Any]]:
    """The Lambda entry point for REST proxy events and HTTP API events. Answers other than JSON are returned as base64.

    Other events, and events with a wrong type in a field, are answered with 400.

    Lambda's runtime starts a thread before the first event; `prepare` is called earlier, and only on Lambda. Nothing
    else happens before the first event, so importing a service does not touch loggers or event loops.
    """
    if "AWS_LAMBDA_RUNTIME_API" in os.environ:
        prepare()

    def handler(event: Any, context: Any) -> dict[str, Any]:
        log_to_stderr()
        # Mangum logs the path as sent; disabling "mangum" would not affect "mangum.http"
        logging.getLogger("mangum").setLevel(logging.CRITICAL)
        try:
            _require_event(event)
            with asyncio.Runner() as runner:
                runner.get_loop()  # Mangum uses the thread's current loop; this creates and sets one
                mangum = Mangum(
                    app, lifespan="off", text_mime_types=[wire.JSON_TYPE], api_gateway_base_path=_stage_prefix(event)
                )
                response: dict[str, Any] = mangum(event, context)
        except WireError as error:
            return _refused_event(bodies.refusal(error))
        except Exception:  # noqa: BLE001 - the application handles its own errors, so Mangum could not read the event
            return _refused_event(bodies.refusal(_NO_EVENT))
        return response

    return handler


def _require_event(event: Any) -> None:
    """Raises WireError (400) unless `event` has the types of an event from API Gateway or a function URL."""
    if not isinstance(event, dict) or "requestContext" not in event:
        raise _NO_EVENT
    try:
        _Event.model_validate(event)
    except ValidationError as error:
        raise WireError(f"event: {wire.describe(error)}", hint=_NO_EVENT.hint, code="event") from None


def _refused_event(answer: ServiceAnswer) -> dict[str, Any]:
    log({"request_id": uuid.uuid4().hex, "status": answer.status, "error": "WireError"})
    headers = {"content-type": answer.kind}
    return {"statusCode": answer.status, "headers": headers, "body": answer.content.decode(), "isBase64Encoded": False}


class _RequestLog:
    """Counts, times and logs each request. An unexpected error is answered with 500 and its class.

    Nothing may be raised from here: Starlette, Mangum and uvicorn would log tracebacks, whose messages may quote
    values.
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
        except Exception as error:  # noqa: BLE001 - the last handler before other loggers
            facts["error"] = type(error).__name__
            if line["status"] is None:
                await _response(bodies.refusal(error))(scope, receive, counted_send)
        finally:
            line["route"] = getattr(scope.get("route"), "path", None)
            if re.fullmatch(SET, table_set := scope.get("path_params", {}).get("set", "")):
                line["set"] = table_set
            line["seconds"] = round(time.perf_counter() - started, 6)
            line["peak_kb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            line["peak_worker_kb"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
            log(line | facts)


def _stage_prefix(event: dict[str, Any]) -> str:
    """The stage in the path: HTTP APIs leave it there, REST APIs do not."""
    stage = event.get("requestContext", {}).get("stage", "$default")
    return "/" if event.get("version") != "2.0" or stage == "$default" else f"/{stage}"


def _request_id(scope: Scope) -> str:
    """The request id: AWS's, else one sent by the client, else a new one."""
    context = scope.get("aws.context")
    sent = dict(scope["headers"]).get(b"x-amzn-requestid", b"").decode("latin-1")
    for candidate in (getattr(context, "aws_request_id", None), sent):
        if candidate and _REQUEST_ID.fullmatch(candidate):
            return str(candidate)
    return uuid.uuid4().hex


def _content_type(request: Request) -> str:
    return wire.media_type(request.headers.get("content-type", ""))


def _accepted(request: Request) -> str:
    accepted = request.headers.get("accept", "").lower()
    for kind in (wire.JSON_TYPE, wire.FRAMES_TYPE):
        if kind in accepted:
            return kind
    return _content_type(request)


def _refuse(request: Request, error: Exception) -> Response:
    request.state.facts["error"] = type(error).__name__
    if isinstance(error, HTTPException):
        return _response(bodies.problem(error.status_code, error.detail), error.headers)
    if isinstance(error, RequestValidationError):
        faults = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
        return _response(bodies.problem(422, faults))
    if isinstance(error, CleaveError):
        return _response(bodies.refusal(error))
    raise error


def _response(answer: ServiceAnswer, headers: Mapping[str, str] | None = None) -> Response:
    return Response(answer.content, answer.status, headers=headers, media_type=answer.kind)
