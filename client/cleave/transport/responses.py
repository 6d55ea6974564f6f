"""Meaning of an answer that is no envelope: our own Problem, API Gateway's message, a proxy's page, or
anything else.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cleave_shared.errors import ServiceError

_LONGEST_MESSAGE = 300  # a signature mismatch comes with pages of canonical request
_TITLE = re.compile(r"<title[^>]*>([^<]{1,200})</title>", re.IGNORECASE)

# most useful first: the function's log, API Gateway's access log, Lambda's own answers
_REQUEST_IDS = ("x-request-id", "x-amzn-requestid", "x-amz-apigw-id")
_REQUEST_ID = re.compile(r"[\w=.:-]{1,128}", re.ASCII)

_BY_STATUS = {
    401: "the endpoint requires authentication; add --profile or --sign for an AWS one",
    403: "the caller may not invoke this API: check the credentials' policy, the region and the path of the endpoint",
    404: "is this the base URL, stage included and without /v1/...?",
    405: "is this the base URL, stage included and without /v1/...?",
    413: "the service or a proxy before it takes less than Cleave sends",
    415: "client and service must be of the same release",
    422: "client and service must be of the same release",
    429: "the service is throttling; try again later, or raise the API's limits",
    502: "the function failed or its answer was over 6 MB; see its log",
    503: "the service is not available at the moment; try again later",
    504: "the service took longer than 29 s; give the function more memory",
}

# What AWS says in its message (API Gateway, "InvalidSignatureException" and related), and what to do.
_BY_MESSAGE = (
    ("signature expired", "check this machine's clock"),
    ("signature not yet current", "check this machine's clock"),
    ("expired", "the AWS credentials have expired: log in again (aws sso login), or renew the session"),
    ("valid region", "the request was signed for another region: name the API's own with --region"),
    ("missing authentication token", "the request was not signed, or the path is not part of the API: check the URL"),
    (
        "security token included in the request is invalid",
        "these AWS credentials are not known to AWS: check --profile",
    ),
    ("signature we calculated does not match", "check the secret access key, and that no proxy rewrites the request"),
    ("not authorized to perform", "the caller's policy must allow execute-api:Invoke on this API"),
)


@dataclass(frozen=True, slots=True)
class Response:
    """Response of a service, or of a proxy in front of it."""

    status: int
    content_type: str
    body: bytes = field(repr=False)  # asyncio makes the repr of a task's result even if it is not logged
    request_id: str = ""  # identifies the request in the service's log
    retry_after: float | None = None  # seconds

    def named(self, message: str) -> str:
        """`message` with the id of the request in the service's log."""
        return f"{message} [request id {self.request_id}]" if self.request_id else message


def request_id(headers: Mapping[str, str]) -> str:
    """The request's id at the service, API Gateway or Lambda; "" if none can be shown.

    `headers`: by lower-case name.
    """
    for name in _REQUEST_IDS:
        value = headers.get(name, "")
        if _REQUEST_ID.fullmatch(value):
            return value
    return ""


def problem(service: str, answer: Response) -> ServiceError:
    """The error for an answer with a status other than 200."""
    status = answer.status
    said, hint = _read(answer.body)
    if 300 <= status < 400:
        return ServiceError(
            answer.named(f"{service} answered {status}: it has moved, and redirects are not followed"),
            hint="name the final URL yourself",
            status=status,
        )
    message = answer.named(f"{service} answered {status}" + (f": {said}" if said else ""))
    return ServiceError(message, hint=hint or _advice(said, status), status=status)


def damaged_on_the_way(answer: Response) -> bool:
    """True if the service says that the request was damaged in transit."""
    content = parsed(answer.body)
    return answer.status == 422 and isinstance(content, dict) and content.get("code") == "damaged"


def refuse_stray_error(service: str, answer: Response) -> None:
    """Raise ServiceError for an error with status 200, as HTTP APIs and Lambda send them."""
    body = answer.body
    if not body.startswith((b"{", b"<")) or len(body) > 100_000:
        return
    content = parsed(body)
    if isinstance(content, dict) and "version" in content:
        return
    said, hint = _read(body)
    if said or hint or body.startswith(b"<"):
        raise ServiceError(
            answer.named(f"{service} answered 200 with an error: {said or 'a page, no envelope'}"),
            hint=hint or "its answer may have been over 6 MB; see its log",
            status=200,
        )


def excerpt(text: str) -> str:
    """A foreign text as one line without control characters, safe for a terminal or a log."""
    flat = "".join(" " if unicodedata.category(char)[0] in "CZ" else char for char in text)
    flat = " ".join(flat.split())
    return flat if len(flat) <= _LONGEST_MESSAGE else flat[:_LONGEST_MESSAGE] + "..."


def _read(body: bytes) -> tuple[str, str | None]:
    """(Message, hint) of an error body: {"error", "hint"}, {"message"}, {"errorMessage"}, a page's title, or
    nothing.
    """
    content = parsed(body)
    if isinstance(content, dict):
        hint = content.get("hint")
        for name in ("error", "message", "Message", "errorMessage", "detail"):
            if isinstance(content.get(name), str):
                return excerpt(content[name]), excerpt(hint) if isinstance(hint, str) else None
        return "", None
    title = _TITLE.search(body[:10_000].decode("utf-8", "replace"))
    return (f"a web page titled '{excerpt(title[1])}'" if title else ""), None


def parsed(body: bytes) -> Any:
    """Parse JSON; None if it is none."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _advice(said: str, status: int) -> str:
    lowered = said.lower()
    for fragment, hint in _BY_MESSAGE:
        if fragment in lowered:
            return hint
    return _BY_STATUS.get(status, "see its log" if status >= 500 else "client and service must be of the same release")
