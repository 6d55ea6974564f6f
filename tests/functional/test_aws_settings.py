"""Profiles, SSO, endpoints and regions mean what they mean to boto3: its own session, asked the same, is the oracle."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import boto3
import pytest

from tests.cli.runner import Cli
from tests.functional.scripted import LISTED, Asked, Reply, Scripted, scripted

BUCKET = "a-bucket"
CONFIG = """
[profile first]
aws_access_key_id = AKIDFIRST
aws_secret_access_key = x
region = eu-central-1

[profile second]
aws_access_key_id = AKIDSECOND
aws_secret_access_key = x
region = sa-east-1

[profile endpoint]
aws_access_key_id = AKIDENDPOINT
aws_secret_access_key = x
region = eu-west-3
endpoint_url = URL

[profile services]
aws_access_key_id = AKIDSERVICES
aws_secret_access_key = x
region = eu-west-3
services = here

[services here]
s3 =
  endpoint_url = URL

[profile process]
credential_process = cat PROCESS
region = eu-west-2

[profile role]
role_arn = arn:aws:iam::123456789012:role/reader
source_profile = first
region = ap-south-1

[profile sso]
sso_session = company
sso_account_id = 123456789012
sso_role_name = Reader
region = us-west-2

[sso-session company]
sso_start_url = https://company.awsapps.com/start
sso_region = us-east-1
sso_registration_scopes = sso:account:access
"""
# No expiry is compared with the clock: both are a century away.
SSO = Reply(
    body=b'{"roleCredentials": {"accessKeyId": "AKIDSSO", "secretAccessKey": "x", "sessionToken": "t", '
    b'"expiration": 4891363200000}}',
    content_type="application/json",
)
ROLE = Reply(
    body=b'<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>'
    b"<AccessKeyId>AKIDROLE</AccessKeyId><SecretAccessKey>x</SecretAccessKey><SessionToken>t</SessionToken>"
    b"<Expiration>2125-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>",
    content_type="text/xml",
)
KEYS = {"AWS_ACCESS_KEY_ID": "AKIDKEYS", "AWS_SECRET_ACCESS_KEY": "x"}
EVERYWHERE = {"AWS_ENDPOINT_URL": "URL"}


@dataclass(frozen=True)
class Case:
    environment: Mapping[str, str] = field(default_factory=dict)
    profile: str | None = None
    first: tuple[Reply, ...] = ()  # what is answered before S3 is asked
    region: str | None = None


CASES = {
    "keys": Case({**KEYS, **EVERYWHERE, "AWS_DEFAULT_REGION": "eu-west-1"}),
    "a profile": Case(EVERYWHERE, "first"),
    "AWS_PROFILE": Case({**EVERYWHERE, "AWS_PROFILE": "second"}),
    "both profiles": Case({**EVERYWHERE, "AWS_PROFILE": "first", "AWS_DEFAULT_PROFILE": "second"}),
    "AWS_PROFILE beside keys": Case({**EVERYWHERE, **KEYS, "AWS_PROFILE": "first"}),
    "a profile beside keys": Case({**EVERYWHERE, **KEYS}, "first"),
    "a region beside a profile's": Case({**EVERYWHERE, "AWS_DEFAULT_REGION": "eu-west-1"}, "first"),
    "both regions": Case({**EVERYWHERE, **KEYS, "AWS_REGION": "ca-central-1", "AWS_DEFAULT_REGION": "eu-west-1"}),
    "AWS_REGION beside a profile's": Case({**EVERYWHERE, "AWS_REGION": "ca-central-1"}, "first"),
    "a region that is named": Case({**EVERYWHERE, "AWS_DEFAULT_REGION": "eu-west-1"}, "first", region="eu-north-1"),
    "AWS_ENDPOINT_URL_S3": Case({"AWS_ENDPOINT_URL_S3": "URL", "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, "first"),
    "a profile's endpoint": Case({}, "endpoint"),
    "a profile's services": Case({}, "services"),
    "a process": Case(EVERYWHERE, "process"),
    "a role": Case(EVERYWHERE, "role", (ROLE,)),
    "SSO": Case(EVERYWHERE, "sso", (SSO,)),
}


def signed(server: Scripted) -> tuple[str, str, str, int]:
    """Access key, region and path of the last request, and how many there were."""
    last: Asked = server.asked[-1]
    headers = {name.lower(): value for name, value in last.headers.items()}
    found = re.search(r"Credential=(\w+)/\d+/([\w-]+)/s3/", headers["authorization"])
    assert found is not None
    return found[1], found[2], last.path.partition("?")[0], len(server.asked)


def prepare(case: Case, server: Scripted, aws_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (aws_home / ".aws" / "config").write_text(
        CONFIG.replace("URL", server.url).replace("PROCESS", str(aws_home / "process"))
    )
    (aws_home / "process").write_text('{"Version": 1, "AccessKeyId": "AKIDPROCESS", "SecretAccessKey": "x"}')
    for name, value in case.environment.items():
        monkeypatch.setenv(name, value.replace("URL", server.url))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CASES)
def test_settings_are_those_of_boto3(
    name: str, aws_home: Path, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]
    with scripted(*case.first, LISTED) as server:
        prepare(case, server, aws_home, monkeypatch)
        session = boto3.Session(profile_name=case.profile, region_name=case.region)
        session.client("s3").list_objects_v2(Bucket=BUCKET)
        expected = signed(server)
    with scripted(*case.first, LISTED) as server:
        prepare(case, server, aws_home, monkeypatch)
        named = {"--profile": case.profile, "--region": case.region}
        options = [word for name, value in named.items() if value for word in (name, value)]
        listed = Cli().run("ls", "--store", f"s3://{BUCKET}", "--key", key_file, *options)
        assert listed.exit_code == 0, listed.output
        assert signed(server) == expected
        assert "Boto3/" in server.asked[-1].headers["User-Agent"]
