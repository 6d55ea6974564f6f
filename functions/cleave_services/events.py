"""A service as a Lambda function: REST proxy events (1.0) and HTTP API or function URL events (2.0) of AWS."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from pydantic import BaseModel, ConfigDict, ValidationError

from cleave_services import bodies
from cleave_services.log import log_to_stderr
from cleave_services.service import Exchange, Service
from cleave_shared import wire
from cleave_shared.errors import WireError

_NO_EVENT = WireError(
    "the event is not an HTTP request",
    hint="invoke the function through API Gateway or a function URL, or with an event like those in events/",
    status=400,
)


class _Call(BaseModel):
    method: str


class _Context(BaseModel):
    stage: str = "$default"
    http: _Call | None = None


class _Event(BaseModel):
    """Fields by AWS's names, where there are any."""

    model_config = ConfigDict(strict=True, defer_build=True)

    requestContext: _Context  # noqa: N815
    version: str | None = None
    httpMethod: str | None = None  # noqa: N815
    path: str = ""
    rawPath: str = ""  # noqa: N815
    headers: dict[str, str] | None = None
    multiValueHeaders: dict[str, wire.Each[str]] | None = None  # noqa: N815
    body: str | None = None
    isBase64Encoded: bool = False  # noqa: N815

    @property
    def place(self) -> tuple[str, str]:
        """Method and path. Raises WireError (400)."""
        call, stage = self.requestContext.http, self.requestContext.stage
        if self.version == "2.0" and call is not None:
            prefix = "" if stage == "$default" else f"/{stage}"  # which HTTP APIs leave in the path, REST APIs do not
            return call.method, unquote(self.rawPath.removeprefix(prefix))
        if self.httpMethod is None:
            raise _NO_EVENT
        return self.httpMethod, unquote(self.path)

    @property
    def all_headers(self) -> dict[str, str]:
        """By names in lower case."""
        several = {name: values[-1] for name, values in (self.multiValueHeaders or {}).items() if values}
        return {name.lower(): value for name, value in (several | (self.headers or {})).items()}

    @property
    def content(self) -> bytes:
        """Raises WireError (400)."""
        try:
            text = (self.body or "").encode()
            return base64.b64decode(text, validate=True) if self.isBase64Encoded else text
        except ValueError:
            raise _NO_EVENT from None


def lambda_handler(service: Service) -> Callable[[Any, Any], dict[str, Any]]:
    """The Lambda entry point; anything but JSON is returned as base64. What is no event is answered 400.

    Lambda's runtime starts a thread before the first event: what a service prepares is prepared before that, and
    nowhere but there. Otherwise importing a service does nothing.
    """
    if "AWS_LAMBDA_RUNTIME_API" in os.environ:
        service.start()

    def handler(event: Any, context: Any) -> dict[str, Any]:
        log_to_stderr()
        exchange = Exchange(service, "", "", {}, _id(context))
        try:
            sent = _read(event)
            content = sent.content
            exchange = Exchange(service, *sent.place, sent.all_headers, _id(context))
            bodies.check_size(len(content), exchange.most() or len(content))
        except WireError as error:
            return _returned(exchange.refuse(error))
        return _returned(exchange.answer(content))

    return handler


def _read(event: Any) -> _Event:
    """Raises WireError (400) unless `event` has the types of an event of API Gateway or a function URL."""
    if not isinstance(event, dict) or "requestContext" not in event:
        raise _NO_EVENT
    try:
        return _Event.model_validate(event)
    except ValidationError as error:
        raise WireError(f"event: {wire.describe(error)}", hint=_NO_EVENT.hint, status=400) from None


def _id(context: Any) -> str | None:
    found = getattr(context, "aws_request_id", None)
    return found if isinstance(found, str) else None


def _returned(reply: bodies.Reply) -> dict[str, Any]:
    binary = reply.kind == wire.FRAMES_TYPE
    return {
        "statusCode": reply.status,
        "headers": {"content-type": reply.kind, **reply.headers},
        "body": base64.b64encode(reply.content).decode("ascii") if binary else reply.content.decode(),
        "isBase64Encoded": binary,
    }
