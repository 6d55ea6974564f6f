"""A transport from a command's options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cleave_shared.errors import UsageError

if TYPE_CHECKING:
    from cleave.transport.base import Transport


@dataclass(frozen=True, slots=True)
class Target:
    """Where the services are: in this process if neither `endpoint` nor `functions` is set."""

    endpoint: str | None = None  # URL or SENSITIVE_URL,PLAIN_URL
    functions: str | None = None  # SENSITIVE,PLAIN
    profile: str | None = None
    region: str | None = None
    sign: bool = False
    insecure_http: bool = False
    usual_profile: str | None = None  # does not request signing

    @property
    def aws(self) -> tuple[str | None, str | None]:
        return self.profile or self.usual_profile, self.region

    @property
    def remote(self) -> bool:
        return self.endpoint is not None or self.functions is not None


def connect(target: Target, embedded: Callable[[], Transport] | None) -> Transport:
    """Raises UsageError for contradicting options, ServiceError without AWS credentials."""
    if target.endpoint is not None and target.functions is not None:
        raise UsageError("--endpoint and --lambda exclude each other", name="--lambda")
    if target.functions is not None:
        return _lambda(target, target.functions)
    if target.endpoint is not None:
        return _http(target, target.endpoint)
    if target.profile or target.region or target.sign:
        raise UsageError(
            "--profile, --region and --sign are about a remote service: name it with --endpoint or --lambda"
        )
    if embedded is None:
        raise UsageError("there are no services in this process: name them with --endpoint or --lambda")
    return embedded()


def _http(target: Target, endpoint: str) -> Transport:
    from cleave.transport.endpoint import execute_api_region, read_endpoints  # noqa: PLC0415 - pydantic takes 50 ms
    from cleave.transport.http import connect_http  # noqa: PLC0415 - httpx: 90 ms; embedded services need none

    urls = read_endpoints(endpoint, insecure_http=target.insecure_http)
    signs_all = target.sign or target.profile is not None or target.region is not None
    signed = {service: url for service, url in urls.items() if signs_all or execute_api_region(url)}
    if not signed:
        return connect_http(urls)
    from cleave.transport.aws import open_session, sigv4_signer  # noqa: PLC0415 - boto3 takes 120 ms

    session = open_session(*target.aws)
    return connect_http(urls, {service: sigv4_signer(session, url) for service, url in signed.items()})


def _lambda(target: Target, functions: str) -> Transport:
    from cleave.transport.aws import open_session  # noqa: PLC0415 - boto3 takes 120 ms
    from cleave.transport.lambda_ import connect_lambda, read_functions  # noqa: PLC0415

    return connect_lambda(read_functions(functions), open_session(*target.aws))
