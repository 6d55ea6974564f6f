"""The OpenAPI document of a service: put together when it is first asked for, never while the service starts.

FastAPI is told of paths and references alone. Of a model it would build one more validator that nothing uses, since
routes read and answer bodies themselves (`cleave_services.http`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from cleave_services.operations import Operation
from cleave_services.web import FastAPI
from cleave_shared import wire
from cleave_shared.stored import SET

_FRAMES = {wire.FRAMES_TYPE: {"schema": {"type": "string", "format": "binary"}}}
_PROBLEMS = {
    400: "No HTTP request, or odd framing",
    408: "`cleave serve` waits 30 s for a request to arrive",
    413: "Request or answer too large",
    415: "Neither JSON nor binary frames, or with a content encoding",
    422: "Malformed, inconsistent or refused request",
    429: "API Gateway or Lambda is throttling; Retry-After says how long",
    431: "`cleave serve` takes 64 KB of headers",
    500: "The service failed; its log has the request id",
    502: "The function behind API Gateway could not answer",
    503: "API Gateway or Lambda is not available, or `cleave serve` has 32 requests under way (Retry-After)",
    504: "The request took longer than 29 s, or than the service's own limit",
}
_SERVERS: list[dict[str, str | Any]] = [
    {"url": "http://127.0.0.1:8000", "description": "cleave serve"},
    {
        "url": "https://{api}.execute-api.{region}.amazonaws.com/api",
        "description": "the stack of template.yaml",
        "variables": {"api": {"default": "abcdefghij"}, "region": {"default": "eu-central-1"}},
    },
]
_SIGV4 = {
    "type": "apiKey",
    "name": "Authorization",
    "in": "header",
    "description": "AWS Signature Version 4; only API Gateway asks for it",
    "x-amazon-apigateway-authtype": "awsSigv4",
}
_SET = {
    "name": "set",
    "in": "path",
    "required": True,
    "description": "the folder of the stored table's objects",
    "schema": {"type": "string", "pattern": f"^{SET}$"},
}
_REFERENCE = "#/components/schemas/{model}"
_Route = Callable[[Callable[..., Any]], Callable[..., Any]]


class Application(FastAPI):
    """FastAPI whose `operation`s and `information` name their models for the document only."""

    def __init__(self, title: str, description: str) -> None:
        super().__init__(
            title=title,
            description=description,
            version=str(wire.VERSION),
            servers=_SERVERS,
            docs_url=None,
            redoc_url=None,
        )
        self._models: dict[type[BaseModel], JsonSchemaMode] = {wire.Problem: "serialization"}

    def operation(self, operation: Operation) -> _Route:
        """A POST route."""
        path, (request, response) = operation.path, operation.models
        self._models[response] = "serialization"
        self._models[request] = "validation"  # which is how a model is shown that is both
        body = {"required": True, "content": {**_content(request), **_FRAMES}}
        answered = {"description": "Successful Response", "content": {**_content(response), **_FRAMES}}
        answers: dict[int | str, dict[str, Any]] = {
            status: {"description": meaning, "content": _content(wire.Problem)} for status, meaning in _PROBLEMS.items()
        }
        extra: dict[str, Any] = {"requestBody": body}
        if "{set}" in path:  # said here: to hear of it from a signature FastAPI builds validators that nothing uses
            extra["parameters"] = [_SET]
        return self.post(
            path,
            name=operation.work.__name__,
            description=(inspect.getdoc(operation.work) or "").partition("\n\n")[0],
            response_model=None,
            openapi_extra=extra,
            responses={200: answered, **answers},
        )

    def information(self, path: str, response: type[BaseModel]) -> _Route:
        """A GET route of a function that answers with a `response`."""
        self._models[response] = "serialization"
        answered = {"description": "Successful Response", "content": _content(response)}
        return self.get(path, response_model=None, responses={200: answered})

    def openapi(self) -> dict[str, Any]:
        """The document, with the schemas of all models and the way to sign."""
        document = super().openapi()
        if "security" not in document:  # FastAPI keeps it
            _, schemas = models_json_schema([*self._models.items()], ref_template=_REFERENCE)
            components = document.setdefault("components", {})
            components.setdefault("schemas", {}).update(schemas["$defs"])
            components["securitySchemes"] = {"sigv4": _SIGV4}
            document["security"] = [{}, {"sigv4": []}]
        return document


def _content(model: type[BaseModel]) -> dict[str, Any]:
    return {wire.JSON_TYPE: {"schema": {"$ref": _REFERENCE.format(model=model.__name__)}}}
