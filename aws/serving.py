"""Run `cleave serve` in its own process."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

HANGS = 120.0  # seconds: an end takes a moment
ROOT = Path(__file__).parents[1]
SERVE = [sys.executable, "-c", "from cleave.local.main import main; main()", "serve", "--port", "0"]


@contextlib.contextmanager
def served(*options: str, **environment: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Yield the URL and the process once it is ready, and stop it at the end."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*SERVE, *options], stderr=pipe, stdout=pipe, text=True, cwd=ROOT, env=os.environ | environment
    ) as process:
        try:
            assert process.stderr
            line = process.stderr.readline()
            assert line.startswith("listening on http://127.0.0.1:"), line
            yield line.split()[-1], process
        finally:
            process.terminate()
            process.wait(HANGS)
