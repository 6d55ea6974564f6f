"""Base URLs of the services: which are accepted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from cleave.transport.addresses import is_loopback
from cleave.transport.base import Service
from cleave_shared.errors import UsageError

_EXECUTE_API = re.compile(r"(?:^|\.)execute-api\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?$")


def read_endpoints(text: str, *, insecure_http: bool) -> Mapping[Service, str]:
    """Base URL of each service from "URL" or "SENSITIVE_URL,PLAIN_URL".

    Raises UsageError: not a base URL, or plain http to another machine.
    """
    bases = [_checked(part.strip(), insecure_http=insecure_http) for part in text.split(",")]
    if len(bases) > 2:
        said = "--endpoint takes one URL, or two with a comma between: the sensitive and the plain service's"
        raise UsageError(said, name="--endpoint")
    return {Service.SENSITIVE: bases[0], Service.PLAIN: bases[-1]}


def execute_api_region(url: str) -> str | None:
    """The region in the host name of an API Gateway endpoint; None for other hosts."""
    match = _EXECUTE_API.search(urlsplit(url).hostname or "")
    return match[1] if match else None


def is_local_url(url: str) -> bool:
    """True if the URL's host is this machine's loopback."""
    return is_loopback(urlsplit(url).hostname or "")


def _checked(base: str, *, insecure_http: bool) -> str:
    wanted = "an endpoint is a base URL like https://HOST/STAGE or http://127.0.0.1:8000"
    try:
        parts = urlsplit(base)
        parts.port  # noqa: B018 - reading it checks it
    except ValueError:
        raise UsageError("the endpoint is not a URL", hint=wanted, name="--endpoint") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError("the endpoint is not an http or https URL", hint=wanted, name="--endpoint")
    if parts.username is not None or parts.query or parts.fragment:
        said = "the endpoint carries a user name, a query or a fragment"
        raise UsageError(said, hint=wanted, name="--endpoint")
    if parts.scheme == "http" and not is_local_url(base) and not insecure_http:
        raise UsageError(
            "the endpoint is plain http to another machine: anyone on the way could read the plain half",
            hint="use https, or say --insecure-http if the network itself is private",
            name="--endpoint",
        )
    return base.rstrip("/")
