"""Identity of the caller on AWS: the credentials chain and SigV4 signatures, by botocore.

Everything botocore can raise while it looks for credentials leaves here as a ServiceError without their values.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from cleave.transport.endpoint import execute_api_region
from cleave.transport.http import Sign
from cleave_shared.errors import ServiceError, extra

with extra("aws", "S3, Lambda and signed requests"):  # imported before all others that need botocore
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
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
    from botocore.session import Session

LOG_IN = "log in again (aws sso login), or renew the session's credentials"


def open_session(profile: str | None, region: str | None) -> Session:
    """A botocore session. Raises ServiceError if `profile` is in no configuration file."""
    session = Session(profile=profile)
    if region:
        session.set_config_variable("region", region)
    try:
        session.get_scoped_config()
    except BotoCoreError as error:
        raise credentials_error(error) from None
    return session


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


def region_of(session: Session, url: str | None = None) -> str:
    """--region, the region in an API Gateway host name, AWS_REGION as SDKs name it, or what botocore is configured to.

    Raises ServiceError if none is known.
    """
    region = session.instance_variables().get("region") or (url and execute_api_region(url))
    # botocore itself reads AWS_DEFAULT_REGION only
    region = region or os.environ.get("AWS_REGION") or session.get_config_variable("region")
    if not region:
        raise ServiceError("the AWS region is not known", hint="name it with --region, or set AWS_REGION")
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
