"""Bad chunks at every place and killed workers, over everything that can carry a request to the sensitive service."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aws import sam
from aws.events import MOMENTS, rest_event
from cleave.ckks.secret_key import SecretKey
from cleave_shared import limits, wire
from tests.aws.test_rie import emulator as rie
from tests.aws.test_rie import post
from tests.functional import worker_faults
from tests.functional.worker_faults import Service, Work

pytestmark = pytest.mark.sam

Way = Callable[[int], contextlib.AbstractContextManager[Service]]


@contextlib.contextmanager
def emulator(workers: int) -> Iterator[Service]:
    """The emulator binary that stands in SAM's containers, on this machine."""
    memory = workers * limits.LAMBDA_MB_PER_CPU
    with rie("cleave_services.sensitive.app.handler", memory) as (url, pid):
        yield worker_faults.by_events(lambda event: post(url, event), lambda: pid)


@contextlib.contextmanager
def container(workers: int, log: Path) -> Iterator[Service]:
    """The built function as `sam local start-lambda` runs it."""
    with sam.start("start-lambda", log, SensitiveMemory=workers * limits.LAMBDA_MB_PER_CPU) as functions:
        url = f"{functions.url}/2015-03-31/functions/SensitiveFunction/invocations"
        post(url, rest_event(MOMENTS, b"", wire.FRAMES_TYPE))  # starts it
        (started,) = functions.containers
        pid = sam.process_of(started)  # once: docker's answer can take as long as the workers live
        yield worker_faults.by_events(lambda event: post(url, event), lambda: pid)


@pytest.fixture(scope="module")
def work(key: SecretKey) -> Work:
    return worker_faults.sums(key)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("way", [worker_faults.http, worker_faults.runtime, emulator])
def test_workers_fail_cleanly(way: Way, count: int, work: Work, printed_figures: list[str]) -> None:
    with way(count) as service:
        told = worker_faults.survives(service, work, count)
    printed_figures.append(f"{way.__name__}: {told}")


@pytest.mark.usefixtures("containers")
@pytest.mark.parametrize("count", [1, 2])
def test_workers_in_a_container_fail_cleanly(
    count: int, work: Work, tmp_path: Path, printed_figures: list[str]
) -> None:
    with container(count, tmp_path / "log") as service:
        told = worker_faults.survives(service, work, count)
    printed_figures.append(f"container: {told}")
