"""Services invoked as Lambda functions, without an API.

The event is the one that API Gateway's REST proxy integration would send, so a function needs no second entry point.
boto3 finds credentials, region and endpoint; botocore signs. The exchange uses `http`, with its limits, deadline and
TLS settings.

Source of the event: Amazon API Gateway, Developer Guide, "Input format of a Lambda function for proxy integration".
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import quote

from boto3.session import Session

from cleave.deadline import Deadline
from cleave.transport import retry
from cleave.transport.aws import find_credentials, open_client, region_of, sigv4_signer
from cleave.transport.base import Service, Transport
from cleave.transport.endpoint import is_local_url
from cleave.transport.http import Sender, Sign
from cleave.transport.responses import Response, excerpt, parsed
from cleave_shared.errors import ServiceError, UsageError
from cleave_shared.wire import FRAMES_TYPE, JSON_TYPE

_HINTS = {
    "ResourceNotFoundException": "check the function's name, and the region with --region",
    "AccessDeniedException": "the caller's policy must allow lambda:InvokeFunction on this function",
    "ExpiredTokenException": "log in again (aws sso login), or renew the session's credentials",
    "UnrecognizedClientException": "these AWS credentials are not known to AWS: check --profile",
    "InvalidSignatureException": "check the secret access key, and this machine's clock",
    "RequestTooLargeException": "select fewer columns, or query a smaller table",
    "TooManyRequestsException": "Lambda is throttling; try again later, or raise the function's concurrency",
}


def read_functions(text: str) -> Mapping[Service, str]:
    """Function names or ARNs from "SENSITIVE,PLAIN". Raises UsageError."""
    names = [name.strip() for name in text.split(",")]
    if len(names) != 2 or not all(names):
        said = "--lambda takes two function names or ARNs with a comma between: SENSITIVE,PLAIN"
        raise UsageError(said, name="--lambda")
    return {Service.SENSITIVE: names[0], Service.PLAIN: names[1]}


def connect_lambda(
    functions: Mapping[Service, str], session: Session, policy: retry.Policy = retry.REMOTE
) -> Transport:
    """Raises ServiceError if there are no credentials or no region."""
    find_credentials(session)
    region = region_of(session)
    client = open_client(session, "lambda", region)  # only used to find Lambda's endpoint
    endpoint = client.meta.endpoint_url.rstrip("/")
    client.close()
    # AWS_ENDPOINT_URL_LAMBDA may name one on this machine: sam local start-lambda
    sender = Sender(local=is_local_url(endpoint))
    return Transport(Functions(sender, endpoint, sigv4_signer(session, endpoint, "lambda"), functions), policy)


class Functions:
    """Carries requests by the operation Invoke (Lambda API reference, 2015-03-31) at `endpoint`."""

    def __init__(self, sender: Sender, endpoint: str, sign: Sign, functions: Mapping[Service, str]) -> None:
        self._sender = sender
        self._sign = sign
        self._urls = {
            service: f"{endpoint}/2015-03-31/functions/{quote(name, safe='')}/invocations"
            for service, name in functions.items()
        }

    def exchange(self, service: Service, path: str, body: bytes, deadline: Deadline) -> Response:
        url, label = self._urls[service], f"the function behind {service.label}"
        event = json.dumps(proxy_event(path, body, FRAMES_TYPE)).encode()
        headers = deadline.call(partial(self._sign, url, event, {"content-type": JSON_TYPE}))
        reply, reply_headers = self._sender.post(label, url, event, headers, deadline)
        if reply.status != 200:
            raise _refusal(service, reply, reply_headers.get("x-amzn-errortype", ""))
        if "x-amz-function-error" in reply_headers:
            raise _failure(service, reply)
        return _answer(service, reply)

    def close(self) -> None:
        self._sender.close()


def _answer(service: Service, reply: Response) -> Response:
    """The HTTP answer inside a proxy integration's reply. Raises ServiceError if there is none."""
    try:
        content = json.loads(reply.body)
        status = content["statusCode"]
        if type(status) is not int or not 100 <= status < 600:
            raise ValueError
        headers = {name.lower(): value for name, value in (content.get("headers") or {}).items()}
        for name, values in (content.get("multiValueHeaders") or {}).items():
            headers.setdefault(name.lower(), values[-1])
        text = content.get("body") or ""
        body = base64.b64decode(text, validate=True) if content.get("isBase64Encoded") else text.encode()
        wait = retry.retry_after(str(headers.get("retry-after", "")))
        return Response(status, str(headers.get("content-type", "")), body, reply.request_id, wait)
    # RecursionError: deeply nested JSON
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        raise ServiceError(
            reply.named(f"the function behind {service.label} gave no HTTP answer"),
            hint="is it a Cleave function? --lambda takes SENSITIVE,PLAIN in this order",
        ) from None


def _failure(service: Service, reply: Response) -> ServiceError:
    """The error of a function that failed: out of memory, out of time, or it could not start. It shows the error's type
    only.
    """
    content = parsed(reply.body)
    kind = content.get("errorType") if isinstance(content, dict) else None
    shown = f" ({excerpt(kind)})" if isinstance(kind, str) else ""
    return ServiceError(
        reply.named(f"the function behind {service.label} failed{shown}"),
        hint="see its log; most often it needs more memory or time",
    )


def _refusal(service: Service, reply: Response, kind: str) -> ServiceError:
    """Lambda's own error. `kind`: its name, perhaps followed by a colon and the URL of an explanation."""
    code = excerpt(kind.split(":", maxsplit=1)[0]) or f"status {reply.status}"
    error = retry.Interrupted if retry.worth_repeating(reply.status) else ServiceError
    refusal = error(
        reply.named(f"Lambda refused to invoke {service.label}: {code}"), hint=_HINTS.get(code), status=reply.status
    )
    if isinstance(refusal, retry.Interrupted):
        refusal.retry_after = reply.retry_after
    return refusal


def proxy_event(path: str, body: bytes, content_type: str) -> dict[str, Any]:
    """The event for a POST of `body`, without fields that an API would add."""
    binary = content_type == FRAMES_TYPE  # the template's BinaryMediaTypes
    sent = {"Accept": content_type if binary else JSON_TYPE, "Content-Type": content_type}
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
            "path": path,
            "protocol": "HTTP/1.1",
            "stage": "$default",
            "identity": {"sourceIp": None},
        },
        "body": base64.b64encode(body).decode("ascii") if binary else body.decode(),
        "isBase64Encoded": binary,
    }
