"""The handlers behind the emulator binary that SAM puts into its containers, on this machine, without Docker."""

from __future__ import annotations

import json
import os
import platform
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from aws import sam
from aws.events import TABLE, decrypt_totals, make_events
from cleave.ckks.secret_key import SecretKey

pytestmark = pytest.mark.sam

INVOCATIONS = "/2015-03-31/functions/function/invocations"


@contextmanager
def emulator(handler: str, memory: int = 3538) -> Iterator[tuple[str, int]]:
    """URL to post events to, and the emulator's process. It starts the runtime client at the first one."""
    machine = {"x86_64": "x86_64", "aarch64": "arm64"}[platform.machine()]
    (binary,) = sam.SAM.parents[1].glob(f"lib/python3*/site-packages/samcli/local/rapid/*-{machine}")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        runtime_port = free.getsockname()[1]
    addresses = ["--runtime-interface-emulator-address", f"127.0.0.1:{port}"]
    addresses += ["--runtime-api-address", f"127.0.0.1:{runtime_port}"]
    command = [str(binary), *addresses, sys.executable, "-m", "awslambdaric", handler]
    process = subprocess.Popen(
        command,
        cwd=sam.ROOT,
        env=os.environ | {"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(memory)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + sam.RUN_SECONDS
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None, "the emulator ended"
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}{INVOCATIONS}", process.pid
    finally:
        os.killpg(process.pid, 9)  # with the runtime client it started
        process.wait()


def post(url: str, event: dict[str, Any]) -> dict[str, Any]:
    with urllib.request.urlopen(url, json.dumps(event).encode(), sam.RUN_SECONDS) as answer:  # noqa: S310 - our own
        reply: dict[str, Any] = json.load(answer)
    return reply


@pytest.mark.parametrize("half", ["sensitive", "plain"])
def test_the_emulator_gives_each_event_its_outcome(half: str, key: SecretKey) -> None:
    with emulator(f"cleave_services.{half}.app.handler") as (url, _):
        for name, case in make_events(key).items():
            if name.startswith(half):
                reply = post(url, case.event)
                assert reply["statusCode"] == case.status, name
                if name == "sensitive-moments":
                    assert decrypt_totals(key, reply) == {ward: sum(ages) for ward, ages in TABLE.items()}
