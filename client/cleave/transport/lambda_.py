"""Services invoked as Lambda functions, without an API before them.

The event is the one that API Gateway's REST proxy integration would send, so a function needs no second entry point.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    ReadTimeoutError,
)
from botocore.session import Session

from cleave.transport import retry
from cleave.transport.aws import credentials_error, find_credentials, region_of
from cleave.transport.base import EnvelopeTransport, Service
from cleave.transport.proxy_event import proxy_event
from cleave.transport.responses import Response, excerpt
from cleave_shared.errors import InputError, ServiceError
from cleave_shared.wire import FRAMES_TYPE

_HINTS = {
    "ResourceNotFoundException": "check the function's name, and the region with --region",
    "AccessDeniedException": "the caller's policy must allow lambda:InvokeFunction on this function",
    "ExpiredTokenException": "log in again (aws sso login), or renew the session's credentials",
    "UnrecognizedClientException": "these AWS credentials are not known to AWS: check --profile",
    "InvalidSignatureException": "check the secret access key, and this machine's clock",
    "RequestTooLargeException": "ask about fewer columns at once, or about a smaller table",
    "TooManyRequestsException": "Lambda is throttling; ask again later, or raise the function's concurrency",
}


def read_functions(text: str) -> Mapping[Service, str]:
    """Function names or ARNs from `SENSITIVE,PLAIN`. Raises InputError."""
    names = [name.strip() for name in text.split(",")]
    if len(names) != 2 or not all(names):
        raise InputError("--lambda takes two function names or ARNs with a comma between: SENSITIVE,PLAIN")
    return {Service.SENSITIVE: names[0], Service.PLAIN: names[1]}


def connect_lambda(
    functions: Mapping[Service, str], session: Session, policy: retry.Policy = retry.REMOTE
) -> EnvelopeTransport:
    """Raises ServiceError if there are no credentials or no region."""
    find_credentials(session)
    config = Config(connect_timeout=10, read_timeout=60, max_pool_connections=16, retries={"total_max_attempts": 1})
    client = session.create_client("lambda", region_name=region_of(session), config=config)
    return EnvelopeTransport(Functions(client, functions), policy)


class Functions:
    """The carrier. `client` is botocore's for Lambda, with its own retries off."""

    def __init__(self, client: Any, functions: Mapping[Service, str]) -> None:
        self._client = client
        self._functions = functions

    def exchange(self, service: Service, body: bytes) -> Response:
        event = json.dumps(proxy_event(service.value, body, FRAMES_TYPE)).encode()
        try:
            reply = self._client.invoke(FunctionName=self._functions[service], Payload=event)
            payload: bytes = reply["Payload"].read()
        except ClientError as error:
            raise _refusal(service, error) from None
        except ReadTimeoutError:
            raise ServiceError(f"{service.label} did not answer in time", hint="its log tells") from None
        except (ConnectTimeoutError, EndpointConnectionError, ConnectionClosedError):
            raise retry.Interrupted(f"Lambda cannot be reached for {service.label}", hint="check the network") from None
        except BotoCoreError as error:
            raise credentials_error(error) from None
        if "FunctionError" in reply:
            raise _failure(service, payload)
        return _answer(service, payload)

    def close(self) -> None:
        self._client.close()


def _answer(service: Service, payload: bytes) -> Response:
    """The HTTP answer inside a proxy integration's reply. Raises ServiceError if it is none."""
    try:
        reply = json.loads(payload)
        headers = {name.lower(): value for name, value in (reply.get("headers") or {}).items()}
        for name, values in (reply.get("multiValueHeaders") or {}).items():
            headers.setdefault(name.lower(), values[-1])
        text = reply.get("body") or ""
        body = base64.b64decode(text, validate=True) if reply.get("isBase64Encoded") else text.encode()
        return Response(int(reply["statusCode"]), str(headers.get("content-type", "")), body)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        raise ServiceError(
            f"the function behind {service.label} gave no HTTP answer",
            hint="is it a Cleave function? --lambda takes SENSITIVE,PLAIN in this order",
        ) from None


def _failure(service: Service, payload: bytes) -> ServiceError:
    """The function itself failed: out of memory, out of time, or could not start. Only the error's type is told."""
    try:
        content = json.loads(payload)
    except ValueError:
        content = None
    kind = content.get("errorType") if isinstance(content, dict) else None
    told = f" ({excerpt(kind)})" if isinstance(kind, str) else ""
    return ServiceError(
        f"the function behind {service.label} failed{told}",
        hint="its log tells; most often it needs more memory or time",
    )


def _refusal(service: Service, error: ClientError) -> ServiceError:
    code = excerpt(str(error.response.get("Error", {}).get("Code", "unknown error")))
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    kind = retry.Interrupted if status and retry.worth_repeating(status) else ServiceError
    return kind(f"Lambda refused to invoke {service.label}: {code}", hint=_HINTS.get(code), status=status)
