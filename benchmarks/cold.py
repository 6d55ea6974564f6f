"""Cold starts and requests of the built functions in their container, at one processor and at two: `make bench-cold`.

init     from the start of the interpreter to the first call for an event: Lambda's Init phase, its files in memory
unread   the same imports where no file has been read in this container yet, which depends on this machine's disk
first    the first event, which finds nothing cached
warm     the same event once more
part     the sensitive function on each of the four requests that a million values are sent in, 31 chunks, warm
full     the same on the largest request a client sends, 64 chunks of 523,264 values
blocks   the same in 32 blocks, as groups beyond a ciphertext's positions need them
masked   the simple call with group_by: 49 chunks, 26 groups, a mask for each group in each chunk
Starting the container itself, which Lambda does from a snapshot of its own, is not counted.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import uuid
from dataclasses import replace
from typing import Any

from aws import many_chunks
from aws.events import make_events
from aws.runtime_api import Function
from aws.sam import BUILD, IMAGE
from cleave.ckks.secret_key import fresh_key
from cleave_shared import limits
from cleave_shared.params import DEFAULT_PROFILE
from cleave_shared.requests import Lane

AIM_MS = 400
PART_CHUNKS, FULL_CHUNKS, BLOCKS = 31, 64, 32
BOOTSTRAP = """
as_user="setpriv --reuid=993 --regid=990 --clear-groups /var/lang/bin/python3.13"
began=$(date +%s.%N)
$as_user -c "import awslambdaric.bootstrap, ${0%.handler}"
echo $began $(date +%s.%N)
exec $as_user -m awslambdaric $0
"""


class ContainerFunction(Function):
    """The artifact in a container with so many processors, on the network of this machine."""

    def __init__(self, logical_id: str, handler: str, processors: int) -> None:
        memory = processors * limits.LAMBDA_MB_PER_CPU
        paths = {"PYTHONPATH": "/var/task:/var/runtime", "LAMBDA_TASK_ROOT": "/var/task"}
        super().__init__(handler, memory, PYDANTIC_DISABLE_PLUGINS="__all__", **paths)
        self.logical_id = logical_id
        self.bounds = ["--cpus", str(processors), "--memory", f"{memory}m"]
        self.name = ""

    def command(self) -> list[str]:
        self.name = f"cleave-cold-{uuid.uuid4().hex[:12]}"
        options = ["--rm", "--name", self.name, "--network", "host", *self.bounds]
        options += ["--volume", f"{BUILD / self.logical_id}:/var/task:ro", "--workdir", "/var/task"]
        for name, value in self.environment.items():
            if name != "PATH":
                options += ["--env", f"{name}={value}"]
        return ["docker", "run", *options, "--entrypoint", "/bin/sh", IMAGE, "-c", BOOTSTRAP, self.handler]

    def stop(self) -> None:
        if self.process is not None:
            subprocess.run(["docker", "kill", self.name], check=False, capture_output=True)  # noqa: S607 - Docker is on the PATH or nowhere
        super().stop()


def measure(logical_id: str, handler: str, processors: int, events: dict[str, dict[str, Any]]) -> dict[str, float]:
    """Milliseconds by name: init, and each of `events` in turn."""
    with ContainerFunction(logical_id, handler, processors) as function:
        spans = {}
        for name, event in events.items():
            assert function.invoke(event)["statusCode"] == 200
            spans[name] = 1e3 * (function.posted_at - function.handed_at)  # what Lambda bills
        ready_at = function.ready_at
        began, warmed = map(float, function.log()[0].split())
    return {"init": 1e3 * (ready_at - warmed), "unread": 1e3 * (warmed - began), **spans}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7)
    runs = parser.parse_args().runs
    key = fresh_key(DEFAULT_PROFILE)
    made = make_events(key)
    full = many_chunks.request(key, FULL_CHUNKS)
    size = FULL_CHUNKS // BLOCKS
    starts = range(0, FULL_CHUNKS, size)
    lanes = [Lane(objects=full.objects[start : start + size], stop=1) for start in starts]
    blocks = replace(full, lanes=lanes)
    first, aggregate = made["sensitive-moments"].event, made["plain-aggregate"].event
    functions: dict[tuple[str, str], dict[str, dict[str, Any]]] = {
        ("SensitiveFunction", "cleave_services.sensitive.app.handler"): {
            "first": first,
            "warm": first,
            "part": many_chunks.event(key, PART_CHUNKS),
            "full": many_chunks.event_of(full),
            "blocks": many_chunks.event_of(blocks),
        },
        ("PlainFunction", "cleave_services.plain.app.handler"): {"first": aggregate, "warm": aggregate},
    }
    print(f"milliseconds in {IMAGE}, median of {runs} (least - most)")
    for (logical_id, handler), events in functions.items():
        # in turn, so that what else this machine does falls on both alike
        samples: dict[int, list[dict[str, float]]] = {1: [], 2: []}
        for _ in range(runs):
            for processors, found in samples.items():
                found.append(measure(logical_id, handler, processors, events))
        for processors, found in samples.items():
            print(f"{logical_id} with {processors * limits.LAMBDA_MB_PER_CPU} MB, {processors} processors")
            for name in found[0]:
                times = [sample[name] for sample in found]
                print(f"  {name:8}{statistics.median(times):6.0f} ({min(times):.0f} - {max(times):.0f})")
    print(f"aim: init at most {AIM_MS} for the sensitive function")


if __name__ == "__main__":
    main()
