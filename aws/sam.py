"""Run the built stack with the SAM CLI, which has its own venv, and find the containers that it starts."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
BUILD = ROOT / ".aws-sam" / "build"
SAM = ROOT / ".venv-sam" / "bin" / "sam"
STAND_IN = "cleave-lambda-stand-in:python3.13"
IMAGE = os.environ.get("CLEAVE_LAMBDA_IMAGE", STAND_IN)
ARCHITECTURE = os.environ.get("ARCH", "x86_64")  # of the build
RUN_SECONDS = 120
_OFFLINE = ["--template", str(BUILD / "template.yaml"), "--skip-pull-image", "--invoke-image", IMAGE]


@dataclass(frozen=True)
class Invocation:
    reply: dict[str, Any]
    log: str


@dataclass(frozen=True)
class Api:
    url: str
    _others: frozenset[str]  # containers that were there before

    @property
    def containers(self) -> list[str]:
        """Return the ids of its containers. A function has one from its first request on."""
        return sorted(_containers() - self._others)


def invoke(function: str, event: Path) -> Invocation:
    command = [str(SAM), "local", "invoke", function, "--event", str(event), *_OFFLINE, *_parameters()]
    done = subprocess.run(command, env=_environment(), capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return Invocation(json.loads(done.stdout), done.stderr)


@contextlib.contextmanager
def start(what: str, log: Path, **parameters: int) -> Iterator[Api]:
    """`start-api` or `start-lambda` on a port of this machine.

    Containers start LAZY. With EAGER, threads start them ahead, and each thread may make a record of containers, of
    which SAM keeps only one (InvokeContext.lambda_runtime of SAM 1.170). It then neither uses nor stops the others.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    others = frozenset(_containers())
    command = [str(SAM), "local", what, "--port", str(port), "--warm-containers", "LAZY", *_OFFLINE]
    command += _parameters(**parameters)
    with log.open("w") as sink:
        process = subprocess.Popen(command, env=_environment(), stdout=sink, stderr=sink)
    try:
        _wait(f"http://127.0.0.1:{port}/", process, log)
        yield Api(f"http://127.0.0.1:{port}", others)
    finally:
        process.send_signal(signal.SIGTERM)  # it ignores SIGINT when started in the background
        process.wait(RUN_SECONDS)


def process_of(container: str) -> int:
    """Return the number that this machine gives to the container's first process."""
    return int(docker("inspect", "--format", "{{.State.Pid}}", container).stdout)


def docker(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False, timeout=RUN_SECONDS)


def why_no_containers() -> str | None:
    """Return why containers cannot run here, or None if they can."""
    if shutil.which("docker") is None:
        return "docker is not installed"
    if docker("info").returncode:
        return "no Docker daemon answers"
    if docker("image", "inspect", IMAGE).returncode:
        return f"there is no image {IMAGE}: make lambda-image"
    return None


def _parameters(**values: str | int) -> list[str]:
    told = {"Architecture": ARCHITECTURE, **values}
    return ["--parameter-overrides", " ".join(f"{name}={value}" for name, value in told.items())]


def _containers() -> set[str]:
    return set(docker("ps", "--quiet", "--no-trunc").stdout.split())


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return kept | {"SAM_CLI_TELEMETRY": "0", "AWS_DEFAULT_REGION": "eu-central-1"}


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + RUN_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            urllib.request.urlopen(url, timeout=5)  # noqa: S310 - our own http URL
        except urllib.error.HTTPError:
            return  # it answers; there is nothing at /
        except OSError:
            time.sleep(0.2)
    raise AssertionError(f"sam local did not start:\n{log.read_text()}")
