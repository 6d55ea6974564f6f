"""Broken settings of other programs, over every front: each is named, by the right exit code, and no value is shown."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cleave
from aws.serving import served
from cleave.logins.users import write_user
from cleave.transport import aws, retry
from tests.cli.runner import Cli
from tests.functional.processes import HANGS
from tests.functional.scripted import LISTED, Reply, Scripted, scripted

ROOT = Path(__file__).parents[2]
CLEAVE = Path(sys.executable).with_name("cleave")
PATIENTS = ROOT / "tests" / "samples" / "patients.csv"
SQL = "SELECT SUM(age) FROM patients"
STORE = ["--store", "s3://a-bucket/p"]
CASES: list[dict[str, Any]] = tomllib.loads((ROOT / "tests" / "vectors" / "settings.toml").read_text())["settings"]
GATEWAY = [case for case in CASES if case["front"] == "gateway"]
COMMANDS: dict[str, list[object]] = {
    "store": ["ls", *STORE],
    "put": ["put", PATIENTS, "--table", "trial", *STORE],
    "query": ["query", SQL, *STORE],
    "lambda": ["query", PATIENTS, SQL, "--lambda", "a,b"],
    "endpoint": ["query", PATIENTS, SQL, "--endpoint", "https://cleave.invalid"],
}


def named(case: dict[str, Any]) -> str:
    name = case.get("variable") or case.get("key") or case["option"]
    return f"{case['front']} {name}={case.get('value', case.get('bytes'))!r}"


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Any:
    """An S3 without objects; nothing is repeated for long."""
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CLEAVE_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name in [each for each in os.environ if each.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)
    monkeypatch.setattr(retry, "REMOTE", retry.Policy(1, first=0))
    with scripted(LISTED) as server:
        yield server


@pytest.fixture
def setup(
    aws_home: Path, answers: Scripted, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[dict[str, Any]], list[object]]:
    """Carries out a case's setting; returns the options that belong to it."""

    def broken(case: dict[str, Any]) -> list[object]:
        keys = {"region": "eu-west-1"}
        if not case.get("alone"):
            keys |= {"aws_access_key_id": "AKID", "aws_secret_access_key": "canary"}
        name = str(case.get("variable") or case.get("key")).lower()
        monkeypatch.setenv("AWS_ENDPOINT_URL", "https://127.0.0.1:1" if "ca_bundle" in name else answers.url)
        if case["front"] == "lambda":
            monkeypatch.setenv("AWS_ENDPOINT_URL_LAMBDA", "https://lambda.invalid")
        (folder := aws_home / "folder").mkdir()
        value = case.get("value", "").format(folder=folder)
        if "bytes" in case:
            value = os.fsdecode(case["bytes"].encode("latin-1"))
        if "variable" in case:
            monkeypatch.setenv(case["variable"], value)
            if case["variable"].startswith("AWS_EC2"):
                monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
        elif "key" in case:
            keys[case["key"]] = value
        text = "".join(f"{key} = {each}\n" for key, each in keys.items())
        (aws_home / ".aws" / "config").write_text(f"[default]\n{text}")
        key = [] if case.get("variable") == "CLEAVE_KEY" else ["--key", key_file]
        return [*key, *((case["option"], value) if "option" in case else ())]

    return broken


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", [each for each in CASES if each["front"] in COMMANDS], ids=named)
def test_a_command_names_the_setting(case: dict[str, Any], setup: Callable[[dict[str, Any]], list[object]]) -> None:
    options = setup(case)
    said = Cli().fails(case["code"], *COMMANDS[case["front"]], *options)
    assert case["words"] in said
    assert "canary" not in said
    assert "defect" not in said


@pytest.mark.parametrize("case", [each for each in CASES if each["front"] == "python"], ids=named)
def test_python_raises_an_error_that_names_the_setting(
    case: dict[str, Any], setup: Callable[[dict[str, Any]], list[object]], key_file: Path
) -> None:
    setup(case)
    with (
        pytest.raises(cleave.OperationalError) as caught,
        cleave.connect(store="s3://a-bucket/p", key=key_file) as connection,
    ):
        connection.cursor().execute("SELECT 1 FROM t")
    assert isinstance(caught.value, cleave.ServiceError)
    said = f"{caught.value.message}\n{caught.value.hint}"
    assert case["words"] in said
    assert "canary" not in said


@pytest.mark.parametrize("case", GATEWAY, ids=named)
@pytest.mark.slow  # `test_a_command_names_the_setting`: the same words, before it serves
def test_the_gateway_does_not_start(
    case: dict[str, Any], setup: Callable[[dict[str, Any]], list[object]], tmp_path: Path
) -> None:
    options = setup(case)
    told = {"tables": None, "min_group": 0, "rows": True, "token": False}
    write_user(tmp_path / "users.toml", "owner", b"seventeen quiet herons 41", **told)
    command = [CLEAVE, "gateway", *STORE, *options, "--users", tmp_path / "users.toml", "--port", "0"]
    ended = subprocess.run([*command, "--workers", "1"], capture_output=True, text=True, check=False, timeout=HANGS)
    assert ended.returncode == case["code"]
    assert case["words"] in ended.stderr
    assert "canary" not in ended.stderr


def test_a_program_for_credentials_that_hangs(
    setup: Callable[[dict[str, Any]], list[object]], aws_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for a pipe that the test opens at the end."""
    os.mkfifo(pipe := aws_home / "pipe")
    before = set(threading.enumerate())
    monkeypatch.setattr(aws, "CREDENTIAL_SECONDS", 0.1)
    options = setup({"front": "store", "alone": True, "key": "credential_process", "value": f"cat {pipe}"})
    said = Cli().fails(6, *COMMANDS["store"], *options)
    assert "the AWS credentials were not fetched within 0.1 seconds" in said
    assert "they come from credential_process of profile 'default'" in said
    os.close(os.open(pipe, os.O_WRONLY))  # the program reads to the end
    for thread in set(threading.enumerate()) - before:
        thread.join(HANGS)


def test_credentials_that_aws_refuses(aws_home: Path, key_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = b"<ErrorResponse><Error><Code>AccessDenied</Code><Message>canary</Message></Error></ErrorResponse>"
    (aws_home / ".aws" / "config").write_text(
        "[default]\nrole_arn = arn:aws:iam::123456789012:role/reader\nsource_profile = keys\nregion = eu-west-1\n"
        "[profile keys]\naws_access_key_id = AKID\naws_secret_access_key = canary\n"
    )
    with scripted(Reply(403, refusal, "text/xml")) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        said = Cli().fails(6, *COMMANDS["store"], "--key", key_file)
    assert "AWS answered AccessDenied to a request for credentials" in said
    assert "role_arn of profile 'default'" in said
    assert "canary" not in said


def test_a_variable_of_uvicorn_does_not_end_the_server() -> None:
    with served("--quiet", WEB_CONCURRENCY="x", SSL_CERT_FILE="/none", ALL_PROXY="socks5://x", AWS_PROFILE="none") as (
        url,
        _,
    ):
        assert url.startswith("http://127.0.0.1:")
