"""LocalStack in a process of its own, and what the SAM CLI deploys there. No account, no container."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from boto3.session import Session

from aws import sam

PYTHON = sam.ROOT / "build" / "localstack" / "bin" / "python"
REGION = "eu-central-1"
ACCOUNT = "000000000000"
HANGS = 900  # seconds; a command takes 5 to 20 on two quiet cores


@dataclass(frozen=True)
class Cloud:
    port: int
    folder: Path
    account: str = ACCOUNT

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """Of a program that is to find LocalStack where it looks for AWS."""
        keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": REGION}
        return keys | {"AWS_DEFAULT_REGION": REGION, "AWS_ENDPOINT_URL": self.url}

    def client(self, service: str) -> Any:
        session = Session(aws_access_key_id=self.account, aws_secret_access_key="test")
        return session.client(service, region_name=REGION, endpoint_url=self.url)

    def in_account(self, account: str) -> Cloud:
        """The same LocalStack, as another account sees it."""
        return replace(self, account=account)

    def sam(self, *arguments: str) -> str:
        """Output of `sam`. Raises AssertionError where it fails."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        done = subprocess.run(
            [str(sam.SAM), *arguments],
            env=kept | self.environment | {"SAM_CLI_TELEMETRY": "0", "SAM_CLI_POLL_DELAY": "1"},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=HANGS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def deploy(self, name: str, template: str, **parameters: str) -> Stack:
        """A stack of a template whose artifacts are uploaded."""
        packaged = self.folder / "packaged.yaml"
        packaged.write_text(template)
        given = [f"{key}={value}" for key, value in {"Architecture": sam.ARCHITECTURE, **parameters}.items()]
        options = ["--resolve-s3", "--capabilities", "CAPABILITY_IAM", "--no-confirm-changeset"]
        self.sam(
            *("deploy", "--template", str(packaged), "--stack-name", name),
            *(*options, "--parameter-overrides", *given),
        )
        return Stack(self, name)

    def delete(self, name: str) -> None:
        self.sam("delete", "--stack-name", name, "--no-prompts", "--region", REGION)


@dataclass(frozen=True)
class Stack:
    cloud: Cloud
    name: str

    @property
    def outputs(self) -> dict[str, str]:
        (stack,) = self.cloud.client("cloudformation").describe_stacks(StackName=self.name)["Stacks"]
        return {each["OutputKey"]: each["OutputValue"] for each in stack["Outputs"]}

    @property
    def template(self) -> str:
        """As it was deployed: it names the artifacts where they were uploaded."""
        body: str = self.cloud.client("cloudformation").get_template(StackName=self.name)["TemplateBody"]
        return body

    def resources(self) -> list[dict[str, Any]]:
        pages = self.cloud.client("cloudformation").get_paginator("list_stack_resources")
        return [each for page in pages.paginate(StackName=self.name) for each in page["StackResourceSummaries"]]

    def physical(self) -> dict[str, str]:
        """Physical ids by logical id."""
        return {each["LogicalResourceId"]: each["PhysicalResourceId"] for each in self.resources()}

    @property
    def endpoint(self) -> str:
        """The output Endpoint has a host name that only LocalStack's own DNS knows."""
        return f"{self.cloud.url}/_aws/execute-api/{self.physical()['Api']}/api"


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Cloud]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "home").mkdir()
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "home"),
        "GATEWAY_LISTEN": f"127.0.0.1:{port}",
        "DISABLE_EVENTS": "1",  # it sends nothing and fetches nothing
        "SKIP_SSL_CERT_DOWNLOAD": "1",
        "DNS_ADDRESS": "0",
    }
    log = folder / "localstack.log"
    with log.open("w") as sink:
        command = [str(PYTHON), str(Path(__file__).with_name("localstack_host.py"))]
        process = subprocess.Popen(
            command, env=environment, cwd=folder, stdout=sink, stderr=sink, start_new_session=True
        )
    try:
        cloud = Cloud(port, folder)
        deadline = time.monotonic() + HANGS
        while not _answers(cloud):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
        yield cloud
    finally:
        with contextlib.suppress(ProcessLookupError):  # it has ended by itself
            os.killpg(process.pid, signal.SIGKILL)  # SIGTERM can take it half a minute, and it keeps nothing
        process.wait()


def _answers(cloud: Cloud) -> bool:
    try:
        urllib.request.urlopen(f"{cloud.url}/_localstack/health", timeout=5)  # noqa: S310 - our own http URL
    except OSError:
        return False
    return True
