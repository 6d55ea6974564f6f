"""The OpenAPI document of a service, made when somebody reads it."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from cleave_services.operations import HEALTH, Health, Operation
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
_SERVERS: list[dict[str, Any]] = [
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


def document(name: str, description: str, operations: Sequence[Operation]) -> dict[str, Any]:
    """All operations, their models and the way to sign."""
    models: dict[type[BaseModel], JsonSchemaMode] = {Health: "serialization", wire.Problem: "serialization"}
    health = {"summary": "Health", "operationId": "health", "responses": {"200": _answer(_content(Health))}}
    paths: dict[str, Any] = {HEALTH: {"get": health}}
    for operation in operations:
        request, response = operation.models
        models[response] = "serialization"
        models[request] = "validation"  # which is how a model is shown that is both
        paths[operation.path] = {"post": _post(operation, request, response)}
    _, schemas = models_json_schema([*models.items()], ref_template=_REFERENCE)
    return {
        "openapi": "3.1.0",
        "info": {"title": name, "description": description, "version": str(wire.VERSION)},
        "servers": _SERVERS,
        "paths": paths,
        "components": {"schemas": schemas["$defs"], "securitySchemes": {"sigv4": _SIGV4}},
        "security": [{}, {"sigv4": []}],
    }


def _post(operation: Operation, request: type[BaseModel], response: type[BaseModel]) -> dict[str, Any]:
    name = operation.work.__name__
    return {
        "summary": name.replace("_", " ").capitalize(),
        "description": (inspect.getdoc(operation.work) or "").partition("\n\n")[0],
        "operationId": name,
        **({"parameters": [_SET]} if operation.pattern.groups else {}),
        "requestBody": {"required": True, "content": _content(request) | _FRAMES},
        "responses": {
            "200": _answer(_content(response) | _FRAMES),
            **{str(status): _answer(_content(wire.Problem), meaning) for status, meaning in _PROBLEMS.items()},
        },
    }


def _answer(content: dict[str, Any], meaning: str = "The answer") -> dict[str, Any]:
    return {"description": meaning, "content": content}


def _content(model: type[BaseModel]) -> dict[str, Any]:
    return {wire.JSON_TYPE: {"schema": {"$ref": _REFERENCE.format(model=model.__name__)}}}
