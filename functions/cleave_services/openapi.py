"""The OpenAPI document of a service, made at the first request for it, not when the service starts.

Routes read and answer bodies themselves (cleave_services.http): FastAPI would build unused validators.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode

from cleave_services.operations import Operation
from cleave_services.web import APIRoute, FastAPI, get_openapi
from cleave_shared import wire
from cleave_shared.messages import Message
from cleave_shared.requests import SET

_FRAMES = {wire.FRAMES_TYPE: {"schema": {"type": "string", "format": "binary"}}}
_PROBLEMS = {
    400: "Not a valid HTTP request",
    408: "`cleave serve`: the request did not arrive within 30 s",
    413: "Request or answer too large",
    415: "Neither JSON nor binary frames, or a content encoding",
    422: "Malformed, inconsistent or refused request",
    429: "API Gateway or Lambda is throttling; Retry-After says how long",
    431: "`cleave serve`: more than 64 KB of headers",
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
HEALTH = "/v1/health"
_REFERENCE = "#/components/schemas/{model}"


@dataclass(frozen=True, kw_only=True)
class Health(Message):
    service: str
    version: int


class Application(FastAPI):
    """FastAPI that documents `operations` by their own models."""

    def __init__(self, title: str, description: str, operations: Sequence[Operation]) -> None:
        super().__init__(
            title=title,
            description=description,
            version=str(wire.VERSION),
            servers=_SERVERS,
            docs_url=None,
            redoc_url=None,
        )
        self._operations = operations

    def openapi(self) -> dict[str, Any]:
        """The document, with the schemas of all models, and how to sign."""
        if not self.openapi_schema:
            models: dict[type[Message], JsonSchemaMode] = {wire.Problem: "serialization"}
            for request, response in (each.models for each in self._operations):
                models[response] = "serialization"
                models[request] = "validation"  # overrides the mode of a model that is also a response
            models[Health] = "serialization"
            health = APIRoute(HEALTH, _undone, name="health", responses=_answers(Health), response_model=None)
            document = get_openapi(
                title=self.title,
                version=self.version,
                description=self.description,
                servers=self.servers,
                routes=[health, *map(_documented, self._operations)],
            )
            adapters = [(model.__name__, mode, TypeAdapter(model)) for model, mode in models.items()]
            _, schemas = TypeAdapter.json_schemas(adapters, ref_template=_REFERENCE)
            components = document.setdefault("components", {})
            components.setdefault("schemas", {}).update(schemas["$defs"])
            components["securitySchemes"] = {"sigv4": _SIGV4}
            self.openapi_schema = document | {"security": [{}, {"sigv4": []}]}
        return self.openapi_schema


def _documented(operation: Operation) -> APIRoute:
    request, response = operation.models
    extra: dict[str, Any] = {"requestBody": {"required": True, "content": {**_content(request), **_FRAMES}}}
    if "{set}" in operation.path:
        extra["parameters"] = [_SET]
    answers = _answers(response, _FRAMES)
    for status, meaning in _PROBLEMS.items():
        answers[status] = {"description": meaning, "content": _content(wire.Problem)}
    return APIRoute(
        operation.path,
        _undone,
        methods=["POST"],
        name=operation.name,
        description=(inspect.getdoc(operation.work) or "").partition("\n\n")[0],
        response_model=None,
        openapi_extra=extra,
        responses=answers,
    )


def _undone() -> None:  # a placeholder for a route's work; a docstring would be in the document
    pass


def _answers(model: type[Message], more: Mapping[str, Any] | None = None) -> dict[int | str, dict[str, Any]]:
    return {200: {"description": "Successful Response", "content": {**_content(model), **(more or {})}}}


def _content(model: type[Message]) -> dict[str, Any]:
    return {wire.JSON_TYPE: {"schema": {"$ref": _REFERENCE.format(model=model.__name__)}}}
