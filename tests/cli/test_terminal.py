"""The command line as a shell sees it: full disks, bare commands, completion, nothing raw from a library."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cleave.cli import group
from tests.cli.runner import Cli
from tests.samples import write_table

CLEAVE = str(Path(sys.executable).with_name("cleave"))


def run(*words: object, home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, words)),
        env={**os.environ, "HOME": str(home), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("words", [[], ["key"]])
def test_a_bare_command_prints_help(cli: Cli, words: list[str]) -> None:
    result = cli.run(*words)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == cli.run(*words, "--help").stdout


@pytest.mark.parametrize(
    ("words", "reason", "hint"),
    [
        *(
            (f"{words} > /dev/full", "No space left on device", "is the disk full?")
            for words in ("--help", "", "--version", "key", "key show")
        ),
        *((f"{words} >&-", "Bad file descriptor", "is it open for writing?") for words in ("--version", "key show")),
    ],
)
@pytest.mark.sampled(2)
def test_a_stdout_that_takes_nothing_is_an_error_and_no_defect(
    words: str, reason: str, hint: str, key_file: Path, tmp_path: Path
) -> None:
    done = run("sh", "-c", f"{CLEAVE} {words}", home=tmp_path, CLEAVE_KEY=str(key_file))
    assert done.returncode == 3
    assert done.stderr.splitlines() == [f"error: stdout: cannot be written ({reason})", f"hint: {hint}"]


@pytest.mark.parametrize("closed", ["0<&- 2>&-", "0<&-", "2>&-"])
@pytest.mark.sampled(3)
def test_no_other_file_takes_the_number_of_a_closed_stream(closed: str, tmp_path: Path) -> None:
    write_table(tmp_path / "t.csv", "ward,age\nA,1\nA,2\n", ward="plain VARCHAR", age="encrypted BIGINT")
    query = f"{CLEAVE} query {tmp_path}/t.csv 'SELECT ward, SUM(age) AS age FROM t GROUP BY ward' --format csv"
    done = run("sh", "-c", f"{query} {closed}", home=tmp_path)
    assert (done.returncode, done.stdout) == (0, "ward,age,age_bound\nA,3,0.0\n")
    if "2>" in closed:
        assert done.stderr == ""


def test_a_closed_stdin_is_empty(tmp_path: Path) -> None:
    done = run("sh", "-c", f"{CLEAVE} schema - -o s.toml <&-", home=tmp_path)
    assert (done.returncode, done.stderr.splitlines()[0]) == (3, "error: standard input: is empty")


def test_an_interrupt_before_the_command_is_at_work_prints_nothing(tmp_path: Path) -> None:
    interrupted = (
        "import os, signal, sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'cleave.cli.process': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "import cleave.local.main as program\n"
        "program.main()"
    )
    done = run(sys.executable, "-c", interrupted, home=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize("words", [["key", "new", "--no-passphrase"], ["ls", "--store", "."]])
def test_without_proc_commands_name_what_is_missing(
    cli: Cli, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "_DESCRIPTORS", tmp_path / "none")
    result = cli.run(*words)
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr.splitlines() == [
        "error: /proc is not mounted here, and Cleave needs it",
        "hint: as root: mount -t proc proc /proc",
    ]


def test_a_full_disk_behind_stderr_changes_nothing(key_file: Path, tmp_path: Path) -> None:
    done = run("sh", "-c", f"{CLEAVE} key show --key nowhere 2> /dev/full", home=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (5, "", "")


@pytest.mark.parametrize("debug", [False, True])
def test_no_raw_warning_of_a_library_shows(debug: bool, tmp_path: Path) -> None:
    noisy = (
        "import logging, sys, warnings; import cleave.cli.app as app; import cleave.local.main as program\n"
        "def command(**words): warnings.warn('raw'); logging.getLogger('library').warning('raw')\n"
        "app.create_cli = lambda *parts: command\n"
        "program.main()"
    )
    done = run(sys.executable, "-c", noisy, *(["--debug"] if debug else []), home=tmp_path)
    assert done.returncode == 0
    assert (done.stderr != "") is debug


def test_completion_installs_and_completes(tmp_path: Path) -> None:
    # typer looks for a shell among the processes above; a runner may have none
    told = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    done = run(CLEAVE, "--install-completion", "bash", home=tmp_path, **told)
    assert done.returncode == 0, done.stderr
    (script,) = [path for path in tmp_path.rglob("*") if path.is_file() and "_CLEAVE_COMPLETE" in path.read_text()]
    asked = (
        f"source {script}; COMP_WORDS=(cleave qu); COMP_CWORD=1; _cleave_completion {CLEAVE}; echo ${{COMPREPLY[@]}}"
    )
    assert run("bash", "-c", asked, home=tmp_path).stdout.split() == ["query"]
