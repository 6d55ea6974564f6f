"""AWS through boto3: its session finds profile, credentials and region, and makes clients; botocore signs requests.

Everything they can raise while they look for credentials leaves here as a ServiceError without their values.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from cleave.transport.endpoint import execute_api_region
from cleave.transport.http import Sign
from cleave_shared.errors import ServiceError, extra

with extra("aws", "S3, Lambda and signed requests"):  # imported before all others that need boto3
    from boto3.session import Session
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import RefreshableCredentials
    from botocore.exceptions import (
        BotoCoreError,
        ConfigParseError,
        CredentialRetrievalError,
        LoginError,
        PartialCredentialsError,
        ProfileNotFound,
        SSOError,
        TokenRetrievalError,
    )

    from cleave.transport.bounded import bounded

if TYPE_CHECKING:
    from botocore.config import Config

LOG_IN = "log in again (aws sso login), or renew the session's credentials"


def open_session(profile: str | None, region: str | None) -> Session:
    """A boto3 session. Raises ServiceError if `profile` is in no configuration file."""
    try:
        return Session(profile_name=profile, region_name=region or None)
    except BotoCoreError as error:
        raise credentials_error(error) from None


def open_client(
    session: Session, service: str, region: str, config: Config | None = None, endpoint: str | None = None
) -> Any:
    """The one place that makes clients of AWS. `endpoint`: a service that is not AWS's. Answers have a size limit."""
    return bounded(session.client(service, region_name=region, endpoint_url=endpoint, config=config))


def find_credentials(session: Session) -> Any:
    """The session's credentials, which renew themselves. Raises ServiceError if there are none."""
    try:
        credentials = session.get_credentials()
    except BotoCoreError as error:
        raise credentials_error(error) from None
    if credentials is None:
        raise ServiceError(
            "no AWS credentials were found to sign with",
            hint="set AWS_PROFILE or name one with --profile; aws configure makes one",
        )
    return credentials


def session_ends(session: Session) -> datetime | None:
    """When the session's credentials end: `datetime.max` for access keys of a user; None if nothing tells.

    botocore knows the end of a role's or SSO's credentials, of `credential_process`, and AWS_CREDENTIAL_EXPIRATION.
    """
    credentials = find_credentials(session)
    try:
        frozen = credentials.get_frozen_credentials()  # renews what is about to end
    except BotoCoreError as error:
        raise credentials_error(error) from None
    if isinstance(credentials, RefreshableCredentials):
        end: datetime | None = credentials._expiry_time  # botocore shows it nowhere else
        return end
    return None if frozen.token else datetime.max.replace(tzinfo=UTC)


def region_of(session: Session, url: str | None = None) -> str:
    """The region in an API Gateway host name; boto3's (--region, AWS_DEFAULT_REGION, the profile's); else AWS_REGION.

    AWS_REGION is last because boto3 does not read it. Raises ServiceError if no region is known.
    """
    region = (url and execute_api_region(url)) or session.region_name or os.environ.get("AWS_REGION")
    if not region:
        raise ServiceError("the AWS region is not known", hint="name it with --region, or set AWS_DEFAULT_REGION")
    return str(region)


def sigv4_signer(session: Session, url: str, name: str = "execute-api") -> Sign:
    """Signs requests to `url` for the AWS service `name`. Raises ServiceError at once if that is impossible."""
    credentials = find_credentials(session)
    region = region_of(session, url)

    def sign(target: str, body: bytes, headers: Mapping[str, str]) -> Mapping[str, str]:
        try:
            frozen = credentials.get_frozen_credentials()
            request = AWSRequest("POST", target, headers=dict(headers), data=body)
            SigV4Auth(frozen, name, region).add_auth(request)
        except BotoCoreError as error:
            raise credentials_error(error) from None
        return dict(request.headers.items())

    return sign


def credentials_error(error: BotoCoreError) -> ServiceError:
    """Describe the fault of profile, configuration or credentials, without botocore's own text, which may quote
    them.
    """
    if isinstance(error, ProfileNotFound):
        return ServiceError("no AWS profile of that name is configured", hint="aws configure list-profiles shows them")
    if isinstance(error, PartialCredentialsError):
        return ServiceError("the AWS credentials are incomplete", hint="both access key id and secret key are needed")
    if isinstance(error, SSOError | LoginError | TokenRetrievalError | CredentialRetrievalError):
        return ServiceError("the AWS credentials have expired or cannot be fetched", hint=LOG_IN)
    if isinstance(error, ConfigParseError):
        return ServiceError("the AWS configuration file cannot be read", hint="check AWS_CONFIG_FILE, or ~/.aws/config")
    return ServiceError(f"the AWS credentials cannot be used ({type(error).__name__})", hint=LOG_IN)
