"""The event that API Gateway's REST proxy integration hands to a function: the only place that spells it.

Source: Amazon API Gateway, Developer Guide, "Input format of a Lambda function for proxy integration".
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from cleave_shared.wire import FRAMES_TYPE, JSON_TYPE


def proxy_event(
    path: str,
    body: bytes,
    content_type: str,
    *,
    stage: str = "$default",
    headers: Mapping[str, str] | None = None,
    context: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A POST of `body`. `headers` and `context` are what an API adds on the way; a direct invocation has neither."""
    binary = content_type == FRAMES_TYPE  # the template's BinaryMediaTypes
    sent = {"Accept": content_type if binary else JSON_TYPE, "Content-Type": content_type, **(headers or {})}
    return {
        "resource": path,
        "path": path,
        "httpMethod": "POST",
        "headers": sent,
        "multiValueHeaders": {name: [value] for name, value in sent.items()},
        "queryStringParameters": None,
        "multiValueQueryStringParameters": None,
        "pathParameters": None,
        "stageVariables": None,
        "requestContext": {
            "resourcePath": path,
            "httpMethod": "POST",
            "path": path if stage == "$default" else f"/{stage}{path}",
            "protocol": "HTTP/1.1",
            "stage": stage,
            "identity": {"sourceIp": None},
            **(context or {}),
        },
        "body": base64.b64encode(body).decode("ascii") if binary else body.decode(),
        "isBase64Encoded": binary,
    }
