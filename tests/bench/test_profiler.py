"""What commands take is told of all their processes: of children that burn, orphans too, and of nobody else."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cleave.bench import supervisor
from cleave.bench.profiler import COUNTERS, CommandFailedError, counted, counters, profile

BURN = """
import os, sys, time
def burn(seconds):
    start = time.process_time()
    while time.process_time() - start < seconds: pass
"""


def run(script: str, *, sampled: bool = False) -> tuple[object, bytes]:
    return profile([sys.executable, "-I", "-S", "-c", BURN + script], sampled=sampled)


def test_children_count_and_the_parents_own_is_apart() -> None:
    ran, output = run("if os.fork() == 0: burn(0.4); os._exit(0)\nburn(0.1); os.wait(); print('done')")
    assert output == b"done\n"
    own = ran.own_user + ran.own_system
    assert own >= 0.09
    assert ran.processor - own >= 0.39
    assert ran.seconds > 0.2


def test_orphans_count_too() -> None:
    """The child goes on when its parent has ended, and is waited for."""
    ran, _ = run("if os.fork() == 0: burn(0.3); os._exit(0)\nos._exit(0)")
    assert ran.processor - ran.own_user - ran.own_system >= 0.29


def test_the_asking_process_does_not_count() -> None:
    here = bytearray(300 << 20)
    here[::4096] = b"x" * len(here[::4096])
    ran, _ = run("pass", sampled=True)
    assert ran.largest_mb < 100
    assert ran.peak_mb < 100
    assert ran.processor < time.process_time()


def test_memory_of_all_processes_at_once() -> None:
    script = "children = [os.fork() for _ in range(1)]\nx = bytearray(60 << 20)\ntime.sleep(0.5)\n"
    ran, _ = run(script, sampled=True)
    assert 60 < ran.largest_mb < 100
    assert 120 < ran.peak_mb < 180
    assert run(script)[0].peak_mb is None


def test_switches_are_those_of_all_processes() -> None:
    still, _ = run("pass")
    ran, _ = run("if os.fork() == 0:\n    for _ in range(300): time.sleep(0.0001)\n    os._exit(0)\nos.wait()")
    assert ran.voluntary >= still.voluntary + 300
    assert ran.involuntary >= 0


def test_what_fails_is_not_measured() -> None:
    with pytest.raises(CommandFailedError):
        run("sys.exit(3)")
    with pytest.raises(CommandFailedError):
        profile(["/no/such/program"])


def test_a_command_dies_with_who_measures_it(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    script = f"import os, time; open({str(told)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    words = [sys.executable, "-I", "-S", supervisor.__file__, "1", "0", sys.executable, "-c", script]
    with subprocess.Popen(words) as process:
        deadline = time.monotonic() + 120
        while not (told.exists() and told.read_text()):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.kill()
    pid = int(told.read_text())
    while alive(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_counters_as_perf_writes_them() -> None:
    text = (
        "# started on Sat Nov 21\n\n1.18,msec,task-clock,1175932,100.00,0.124,CPUs utilized\n"
        "<not supported>,,cycles,0,100.00,,\n5123,,instructions:u,0,100.00,,\n"
        "51,,page-faults,1175932,100.00,43.3,K/sec\n"
        "<not counted>,,branches,0,0.00,,\nnonsense\n"
    )
    found = counted(text)
    assert found.pop("task-clock") == 1.18
    assert found.pop("page-faults") == 51
    assert found.pop("instructions") == 5123
    assert set(found.values()) == {None}


def test_without_perf_nothing_is_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert counters([sys.executable, "-c", ""]) == dict.fromkeys(COUNTERS)


def test_perf_that_may_not_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    perf = tmp_path / "perf"
    perf.write_text("#!/bin/sh\necho 'Access to performance monitoring is limited' >&2\nexit 255\n")
    perf.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert counters([sys.executable, "-c", ""]) == dict.fromkeys(COUNTERS)


def test_energy_is_summed_and_its_counters_may_wrap(tmp_path: Path) -> None:
    for place, counter in enumerate((900, 500)):
        zone = tmp_path / f"intel-rapl:{place}"
        zone.mkdir()
        (zone / "energy_uj").write_text(f"{counter}\n")
        (zone / "max_energy_range_uj").write_text("999\n")
    before = supervisor.joules_so_far(tmp_path)
    (tmp_path / "intel-rapl:0" / "energy_uj").write_text("100\n")
    (tmp_path / "intel-rapl:1" / "energy_uj").write_text("700\n")
    assert supervisor.energy_between(before, supervisor.joules_so_far(tmp_path)) == pytest.approx((200 + 200) / 1e6)
    assert supervisor.energy_between({}, {}) is None
    assert supervisor.joules_so_far(tmp_path / "none") == {}
    (tmp_path / "intel-rapl:1" / "energy_uj").unlink()
    assert supervisor.energy_between(before, supervisor.joules_so_far(tmp_path)) is None
