"""Cold starts of the built functions in their container at one processor: `make bench-cold`.

init     from the start of the interpreter to the first call for an event: Lambda's Init phase, its files in memory
unread   the same imports where no file has been read in this container yet, which depends on this machine's disk
first    the first event, which finds nothing cached
warm     the same event once more
full     the sensitive function on the largest request a client sends, 523,264 values, warm
Starting the container itself, which Lambda does from a snapshot of its own, is not counted.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

from aws.events import make_events
from cleave.ckks.key_file import create_key, open_key
from tests.aws.sam import BUILD, IMAGE
from tests.functional import many_chunks
from tests.functional.runtime_api import Function

AIM_MS = 400
FULL_CHUNKS = 64
BOOTSTRAP = """
as_user="setpriv --reuid=993 --regid=990 --clear-groups /var/lang/bin/python3.13"
began=$(date +%s.%N)
$as_user -c "import awslambdaric.bootstrap, ${0%.handler}"
echo $began $(date +%s.%N)
exec $as_user -m awslambdaric $0
"""


class ContainerFunction(Function):
    """The artifact in a container with one processor, on the network of this machine."""

    def __init__(self, logical_id: str, handler: str) -> None:
        paths = {"PYTHONPATH": "/var/task:/var/runtime", "LAMBDA_TASK_ROOT": "/var/task"}
        super().__init__(handler, PYDANTIC_DISABLE_PLUGINS="__all__", **paths)
        self.logical_id = logical_id
        self.name = ""

    def command(self) -> list[str]:
        self.name = f"cleave-cold-{uuid.uuid4().hex[:12]}"
        options = ["--rm", "--name", self.name, "--network", "host", "--cpus", "1", "--memory", "1769m"]
        options += ["--volume", f"{BUILD / self.logical_id}:/var/task:ro", "--workdir", "/var/task"]
        for name, value in self.environment.items():
            if name != "PATH":
                options += ["--env", f"{name}={value}"]
        return ["docker", "run", *options, "--entrypoint", "/bin/sh", IMAGE, "-c", BOOTSTRAP, self.handler]

    def stop(self) -> None:
        if self.process is not None:
            subprocess.run(["docker", "kill", self.name], check=False, capture_output=True)  # noqa: S607 - Docker is on the PATH or nowhere
        super().stop()


def measure(logical_id: str, handler: str, events: dict[str, dict[str, Any]]) -> dict[str, float]:
    """Milliseconds by name: init, and each of `events` in turn."""
    with ContainerFunction(logical_id, handler) as function:
        spans = {}
        for name, event in events.items():
            started = time.time()
            assert function.invoke(event)["statusCode"] == 200
            # the first call starts the container as well
            spans[name] = 1e3 * (time.time() - max(started, function.ready_at))
        ready_at = function.ready_at
        began, warmed = map(float, function.log()[0].split())
    return {"init": 1e3 * (ready_at - warmed), "unread": 1e3 * (warmed - began), **spans}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        create_key(Path(folder, "key.json"), None)
        key = open_key(Path(folder, "key.json"), lambda: b"")
        made = make_events(key)
    moments, aggregate = made["sensitive-moments"].event, made["plain-aggregate"].event
    full = many_chunks.event(key, FULL_CHUNKS)
    functions = {
        ("SensitiveFunction", "cleave_services.sensitive.app.handler"): {
            "first": moments,
            "warm": moments,
            "full": full,
        },
        ("PlainFunction", "cleave_services.plain.app.handler"): {"first": aggregate, "warm": aggregate},
    }
    print(f"milliseconds at 1 CPU in {IMAGE}, median of {runs} (least - most)")
    for (logical_id, handler), events in functions.items():
        samples = [measure(logical_id, handler, events) for _ in range(runs)]
        figures = []
        for name in samples[0]:
            times = [sample[name] for sample in samples]
            figures.append(f"{name} {statistics.median(times):.0f} ({min(times):.0f} - {max(times):.0f})")
        print(f"{logical_id:18}", ", ".join(figures))
    print(f"aim: init at most {AIM_MS} for the sensitive function")


if __name__ == "__main__":
    main()
