"""AWS through boto3: a session finds profile, credentials and region, and makes clients; botocore signs requests.

Errors while looking for credentials become a ServiceError that does not quote values.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from cleave.deadline import Deadline, OutOfTime
from cleave.transport.endpoint import execute_api_region
from cleave.transport.foreign import (
    AWS,
    ForeignSetting,
    blamed,
    file_fault,
    flat,
    guilty_of,
    names_of,
    opening,
    variables,
    way_hint,
)
from cleave.transport.http import Sign
from cleave_shared.errors import ServiceError, extra

with extra("aws", "S3, Lambda and signed requests"):  # before all other imports that need boto3
    from boto3.session import Session
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import RefreshableCredentials
    from botocore.exceptions import (
        BotoCoreError,
        ClientError,
        ConfigParseError,
        CredentialRetrievalError,
        HTTPClientError,
        LoginError,
        PartialCredentialsError,
        ProfileNotFound,
        SSOError,
        TokenRetrievalError,
    )
    from botocore.exceptions import ConnectionError as AwsConnectionError

    from cleave.transport.bounded import bounded

if TYPE_CHECKING:
    from botocore.config import Config

LOG_IN = "log in again (aws sso login), or renew the session's credentials"
CREDENTIAL_SECONDS = 120.0  # for a program that provides credentials, and a person who answers it
_SOURCES = re.compile(
    r"credential_process|credential_source|role_arn|source_profile|mfa_serial|sso_\w+|login_session|"
    r"(AWS_)?(?i:web_identity_token_file)|AWS_ROLE_ARN|AWS_CONTAINER_CREDENTIALS_\w+"
)
"""Settings that say where credentials come from."""
_CREDENTIALS = "the AWS credentials"
_FILES = re.compile("AWS_CONFIG_FILE|AWS_SHARED_CREDENTIALS_FILE")
_SECTIONS = {"source_profile": "profiles", "sso_session": "sso_sessions", "services": "services"}


def open_session(profile: str | None, region: str | None) -> Session:
    """A boto3 session. Raises ServiceError if `profile` is in no configuration file."""
    given = [ForeignSetting(f"--{name}", value) for name, value in (("profile", profile), ("region", region)) if value]
    with opening("boto3", lambda: [*given, *variables(AWS)], aws_error):
        return Session(profile_name=profile, region_name=region or None)


def open_client(
    session: Session, service: str, region: str, config: Config | None = None, endpoint: str | None = None
) -> Any:
    """An AWS client whose answers are limited in size. All clients are made here. Raises ServiceError.

    `endpoint`: of a service that is not AWS's.
    """
    with opening(f"boto3's client for {service}", lambda: settings_of(session, region), aws_error):
        return bounded(session.client(service, region_name=region, endpoint_url=endpoint, config=config))


def find_credentials(session: Session) -> Any:
    """The session's credentials, already fetched; they renew themselves. Raises ServiceError if there are none."""

    def fetch() -> Any:
        credentials = session.get_credentials()
        if credentials is not None:
            frozen = credentials.get_frozen_credentials()  # only this fetches the credentials of a role or of SSO
            _check_sendable((frozen.access_key, frozen.secret_key, frozen.token or ""), session)
        return credentials

    with opening(_CREDENTIALS, lambda: settings_of(session), aws_error):
        try:
            credentials = Deadline(CREDENTIAL_SECONDS).call(fetch)
        except OutOfTime:
            raise ServiceError(
                f"the AWS credentials were not fetched within {CREDENTIAL_SECONDS:g} seconds",
                hint=_source_hint(settings_of(session)),
            ) from None
    if credentials is None:
        files = [each for each in variables(_FILES) if file_fault(each.value)]
        raise ServiceError(
            "no AWS credentials were found to sign with",
            hint=f"{names_of(files)}: that file cannot be read"
            if files
            else "set AWS_PROFILE or name one with --profile; aws configure makes one",
        )
    return credentials


def _check_sendable(credentials: Sequence[str], session: Session) -> None:
    """Raises ServiceError for characters that cannot be in a header, such as a line end."""
    for value in credentials:
        if not (value.isascii() and value.isprintable()):
            names = names_of(each for each in settings_of(session) if each.value == value)
            raise ServiceError(
                f"{names or 'the AWS credentials'}: has a character that cannot be sent",
                hint="line ends, spaces and letters beyond ASCII are no part of credentials",
            )


def settings_of(session: Session, region: str | None = None) -> list[ForeignSetting]:
    """The settings that `session` reads: variables, its profile's keys, and `region` if neither has one."""
    settings = variables(AWS)
    core = session._session  # boto3 has no public way to the profile's keys
    with contextlib.suppress(BotoCoreError):
        profile = core.get_scoped_config()
        settings += flat(profile, f"profile {session.profile_name!r}")
        for key, sections in _SECTIONS.items():
            section = core.full_config.get(sections, {}).get(profile.get(key))
            settings += flat(section or {}, f"{key} {profile.get(key)!r}")
    region = region or core.instance_variables().get("region")
    if region and region not in {each.value for each in settings}:
        settings.append(ForeignSetting("--region", region))
    return settings


def session_ends(session: Session) -> datetime | None:
    """When the session's credentials expire: datetime.max for a user's access keys, None if unknown.

    botocore knows this for a role, SSO, "credential_process" and AWS_CREDENTIAL_EXPIRATION.
    """
    credentials = find_credentials(session)  # this renews credentials that expire soon
    if isinstance(credentials, RefreshableCredentials):
        end: datetime | None = credentials._expiry_time  # botocore has no public attribute
        return end
    return None if credentials.token else datetime.max.replace(tzinfo=UTC)


def region_of(session: Session, url: str | None = None) -> str:
    """The region in an API Gateway host name; else boto3's (--region, AWS_DEFAULT_REGION, the profile's); else
    AWS_REGION.

    AWS_REGION is last because boto3 does not read it. Raises ServiceError if no region is known.
    """
    region = (url and execute_api_region(url)) or session.region_name or os.environ.get("AWS_REGION")
    if not region:
        raise ServiceError("the AWS region is not known", hint="name it with --region, or set AWS_DEFAULT_REGION")
    return str(region)


def sigv4_signer(session: Session, url: str, name: str = "execute-api") -> Sign:
    """A function that signs requests to `url` for the AWS service `name`. Raises ServiceError without credentials."""
    credentials = find_credentials(session)
    region = region_of(session, url)

    def sign(target: str, body: bytes, headers: Mapping[str, str]) -> Mapping[str, str]:
        with opening(_CREDENTIALS, lambda: settings_of(session), aws_error):
            frozen = credentials.get_frozen_credentials()
            request = AWSRequest("POST", target, headers=dict(headers), data=body)
            SigV4Auth(frozen, name, region).add_auth(request)
        return dict(request.headers.items())

    return sign


def aws_error(what: str, error: Exception, settings: Sequence[ForeignSetting]) -> ServiceError:
    """Name the settings behind `error`, without boto3's text, which may quote credentials."""
    profile = [each for each in settings if "profile" in each.name.lower() and each.is_quoted(str(error))]
    if isinstance(error, ProfileNotFound):
        words = "no AWS profile of that name is configured"
        return ServiceError(
            f"{names_of(profile)}: {words}" if profile else words, hint="aws configure list-profiles shows them"
        )
    if isinstance(error, PartialCredentialsError):
        missing = error.kwargs["cred_var"]
        return ServiceError(
            f"the AWS credentials are incomplete: {missing} is not set",
            hint="both access key id and secret key are needed",
        )
    if isinstance(error, ConfigParseError):
        return ServiceError("the AWS configuration file cannot be read", hint="check AWS_CONFIG_FILE, or ~/.aws/config")
    if isinstance(error, SSOError | LoginError | TokenRetrievalError | CredentialRetrievalError):
        return ServiceError("the AWS credentials have expired or cannot be fetched", hint=_source_hint(settings))
    if isinstance(error, ClientError):  # from the service that issues a role's credentials
        code = str(error.response.get("Error", {}).get("Code"))
        word = code if code.isalnum() else "an error"
        return ServiceError(f"AWS answered {word} to a request for credentials", hint=_source_hint(settings))
    if isinstance(error, AwsConnectionError) or (isinstance(error, HTTPClientError) and not guilty_of(error, settings)):
        return ServiceError(f"{what}: AWS cannot be reached ({type(error).__name__})", hint=way_hint(settings))
    if what == _CREDENTIALS and not guilty_of(error, settings) and _sources(settings):
        return ServiceError(f"{what} cannot be fetched ({type(error).__name__})", hint=_source_hint(settings))
    return blamed(what, error, settings)


def _sources(settings: Sequence[ForeignSetting]) -> str:
    return names_of(each for each in settings if _SOURCES.fullmatch(each.key))


def _source_hint(settings: Sequence[ForeignSetting]) -> str:
    return f"{LOG_IN}; they come from {sources}" if (sources := _sources(settings)) else LOG_IN
