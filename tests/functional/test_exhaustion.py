"""Too few threads, processes, open files: told once, in two lines, with the limit to raise. The kernel limits them."""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import cleave
from tests.functional.processes import HANGS

CLEAVE = Path(sys.executable).with_name("cleave")
PATIENTS = Path(__file__).parents[1] / "samples" / "patients.csv"
ASK = ["query", PATIENTS, "SELECT ward, AVG(age) FROM patients GROUP BY ward"]
_DROP, _SYS_ADMIN, _SYS_RESOURCE = 24, 21, 24  # PR_CAPBSET_DROP, and who may exceed limits


def files(most: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def processes(most: int) -> None:
    """Allow so many threads and processes. The kernel does not limit root's, so these belong to a user of no others."""
    resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
    if os.getuid() == 0:
        for capability in (_SYS_ADMIN, _SYS_RESOURCE):
            ctypes.CDLL(None).prctl(_DROP, capability, 0, 0, 0)
        os.setresuid(200_000 + os.getpid(), 0, 0)


def told(limit: object, most: int, *words: object) -> str:
    try:
        ended = subprocess.run(
            [CLEAVE, *words],
            preexec_fn=lambda: limit(most),
            capture_output=True,
            text=True,
            check=False,
            timeout=HANGS,
        )
    except subprocess.SubprocessError as error:
        pytest.skip(f"this machine does not let tests set limits: {error}")
    assert (ended.returncode, ended.stdout) == (6, ""), ended.stderr
    assert "defect" not in ended.stderr
    return ended.stderr


@pytest.mark.parametrize("most", [8, pytest.param(7, marks=pytest.mark.slow), pytest.param(9, marks=pytest.mark.slow)])
def test_too_few_files_end_with_a_hint(most: int, key_file: Path) -> None:
    said = told(files, most, *ASK, "--key", key_file)
    assert said.splitlines() == [
        "error: no more files can be opened here",
        "hint: raise the limit (ulimit -n), or end other programs",
    ]


@pytest.mark.parametrize(
    ("most", "words"),
    [
        (1, ASK),
        pytest.param(6, ASK, marks=pytest.mark.slow),
        pytest.param(12, ASK, marks=pytest.mark.slow),
        pytest.param(1, ["ls", "--store", "s3://a-bucket/p"], marks=pytest.mark.slow),
    ],
)
def test_too_few_threads_end_with_a_hint(
    most: int, words: list[object], key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    said = told(processes, most, *words, "--key", key_file)
    assert said.splitlines()[0] == "error: no more threads or processes can be started here"
    assert "--pids-limit" in said


@pytest.mark.slow
def test_a_server_with_too_few_files() -> None:
    assert told(files, 8, "serve", "--port", "0").splitlines()[0] == "error: no more files can be opened here"


def test_python_raises_an_error_for_too_few_threads(key_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    with (
        pytest.raises(cleave.OperationalError, match="no more threads") as caught,
        cleave.connect(PATIENTS, key=key_file) as connection,
    ):
        connection.cursor().execute("SELECT ward, AVG(age) FROM patients GROUP BY ward")
    assert isinstance(caught.value, cleave.ServiceError)
