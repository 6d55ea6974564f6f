"""Commands of README and docs/http.md do what these pages say: blocks are run as they stand, answers compared."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
HTTP = (ROOT / "docs" / "http.md").read_text()
PASSPHRASE = "a passphrase of the test"
PORT = "8000"


@dataclass
class Shell:
    """A folder as a new user has it after `make demo`: the repository's commands on the PATH, a table, a server."""

    folder: Path
    port: str

    def run(self, command: str) -> str:
        done = subprocess.run(
            ["bash", "-euc", self._here(command)],
            cwd=self.folder,
            env={
                **os.environ,
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "HOME": str(self.folder),
                "CLEAVE_PASSPHRASE": PASSPHRASE,
                "PYTHONPATH": str(ROOT),
            },
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        return done.stdout

    def _here(self, text: str) -> str:
        return text.replace(f"127.0.0.1:{PORT}", f"127.0.0.1:{self.port}")


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory, service: str) -> Shell:
    folder = tmp_path_factory.mktemp("readme")
    shutil.copytree(ROOT / "tests" / "samples", folder / "tests" / "samples")
    shutil.copy(ROOT / "tests" / "samples" / "patients.csv", folder)
    one = Shell(folder, service.rpartition(":")[2])
    one.run("cleave key new --key key.json && mkdir -p .config/cleave && cp key.json .config/cleave/")
    return one


def blocks(language: str, page: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def figures(line: str) -> list[tuple[float, float] | str]:
    """A printed row as (figure, bound) pairs and words; the last digit of an inexact figure is noise."""
    out: list[tuple[float, float] | str] = []
    for cell in re.split(r"\s{2,}", line.strip()):
        if match := re.fullmatch(r"(-?[\d.]+)(?: ± ([\d.e+-]+)| exact)?", cell):
            out.append((float(match[1]), float(match[2] or 0)))
        else:
            out.append(cell)
    return out


def test_the_worked_example_prints_what_readme_shows(shell: Shell) -> None:
    (block,) = blocks("console")
    command, *shown = block.splitlines()
    printed = shell.run(command.removeprefix("$ ")).splitlines()
    rows = [line for line in shown if line and not line.endswith("s.")]
    assert len(rows) == 9
    for ours, theirs in zip(printed, rows, strict=False):
        for mine, said in zip(figures(ours), figures(theirs), strict=True):
            if isinstance(said, tuple):
                assert isinstance(mine, tuple)
                assert mine[1] == pytest.approx(said[1], rel=0.5)  # rounded up together with the figure's noise
                assert abs(mine[0] - said[0]) <= 2 * said[1]
            else:
                assert mine == said


@pytest.mark.slow
def test_every_cleave_command_runs(shell: Shell) -> None:
    lines = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("cleave ")]
    assert len(lines) >= 7
    for line in lines:
        command = line.split("  #")[0].strip()
        if command.startswith(("cleave serve", "cleave key new")):
            continue  # the fixture did both
        shell.run(command)
    assert (shell.folder / "patients.schema.toml").exists()


@pytest.mark.slow  # test_query.test_json_holds_the_whole_answer compares the same keys
def test_json_is_what_its_shape_says(shell: Shell) -> None:
    answer = json.loads(shell.run("cleave query tests/samples/patients.csv 'SELECT AVG(age) FROM patients' --json"))
    assert answer.keys() == {
        *("columns", "rows", "bounds", "exact", "undecided", "warnings", "checks", "plan", "timings")
    }


def test_curl_and_python_as_printed(shell: Shell) -> None:
    plain, sensitive = blocks("sh", HTTP)
    (expected,) = blocks("json", HTTP)
    assert json.loads(shell.run(plain)) == json.loads(expected)
    (python,) = blocks("python", HTTP)
    extended = (
        python
        + "import json\nfrom pathlib import Path\nPath('question.json').write_text(json.dumps(question.body()))\n"
    )
    (shell.folder / "example.py").write_text(shell._here(extended))
    printed = [line.split() for line in shell.run("python example.py").splitlines()]
    assert [(name, float(value)) for name, value, _ in printed] == [
        ("age", 47.0),
        ("bill", pytest.approx(39.5833333333, abs=1e-9)),
    ]
    answer = json.loads(shell.run(sensitive))
    assert answer["rows"] == 3
    assert answer["result"].keys() == {"age", "bill"}


@pytest.mark.slow
def test_the_python_example_answers(shell: Shell) -> None:
    (python,) = blocks("python")
    if not (shell.folder / "patients.schema.toml").exists():
        shell.run("cleave schema patients.csv")
    (shell.folder / "frames.py").write_text(python)
    printed = shell.run("python frames.py")
    assert "20.25 ± " in printed
    assert "('key', 'encrypted')" in printed
    assert "Cardiology" in printed


def test_make_targets_exist() -> None:
    rules = "".join((ROOT / name).read_text() for name in ("Makefile", "aws/aws.mk", "benchmarks/benchmarks.mk"))
    named = set(re.findall(r"(?:^|`)make ([\w-]+)", README, re.MULTILINE))
    assert named >= {"demo", "test", "check", "deploy", "local-api"}
    for target in named:
        assert re.search(rf"^{target}:", rules, re.MULTILINE), target


def test_linked_files_exist() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target
