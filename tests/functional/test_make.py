"""`make setup` installs what is locked and nothing else; `make clean` leaves what git tracks, keys and settings."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the Makefile and nothing built."""
    locks = [f"locks/{lock.name}" for lock in (ROOT / "locks").iterdir()]
    for each in ("Makefile", "aws/aws.mk", "benchmarks/benchmarks.mk", ".gitignore", "pyproject.toml", *locks):
        (tmp_path / each).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / each, tmp_path / each)
    return tmp_path


def make(folder: Path, *words: str) -> str:
    """What it prints. It gets nothing of a make that runs these tests and exports its own variables."""
    environment = {name: os.environ[name] for name in ("PATH", "HOME")}
    command = ["make", "--no-print-directory", "-C", folder, *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_installed_file_is_checked_by_a_hash(checkout: Path) -> None:
    installs = [line for line in make(checkout, "-n", "setup").splitlines() if "pip install" in line]
    by_pip = [line for line in installs if "/uv " not in line]
    assert [re.findall(r"-r (\S+)", line) for line in by_pip] == [["locks/build.lock"]], "uv does the rest"
    unlocked = [line for line in installs if "--require-hashes" not in line]
    assert len(unlocked) == 1
    assert unlocked[0].endswith("--no-deps --no-build-isolation --editable ."), "our own code"
    assert "uv==" in (checkout / "locks/build.lock").read_text()


def test_the_package_is_found_from_the_folder_above_a_clone(checkout: Path, tmp_path: Path) -> None:
    for name in ("client", "shared", "functions"):
        (checkout / name).symlink_to(ROOT / name)
    (tmp_path / "above" / "cleave").mkdir(parents=True)  # a clone, which is no package
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", checkout / ".venv"], check=True)
    assert "\n\t$(PATHS)\n" in (checkout / "Makefile").read_text().partition("\n$(CLIENT):")[2].partition("\n\n")[0]
    make(checkout, "paths")
    ran = subprocess.run(
        [checkout / ".venv" / "bin" / "python", "-c", "import cleave; print(cleave.query.__name__)"],
        cwd=tmp_path / "above",
        # dependencies are this environment's; a .pth file counts only in a site directory
        env={"PATH": os.environ["PATH"], "PYTHONPATH": sysconfig.get_path("purelib")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.stdout, ran.stderr) == ("query\n", "")


def test_clean_leaves_only_keys_and_settings_of_what_git_ignores(checkout: Path) -> None:
    patterns = [line for line in (checkout / ".gitignore").read_text().splitlines() if line[:1] not in ("", "#")]
    ignored = [checkout / pattern.strip("/").replace("*", "x") for pattern in patterns]
    ignored += [checkout / "client" / "cleave" / name for name in ("__pycache__", "x.egg-info", "node_modules")]
    keeps = {"key.json", "x.key.json", "samconfig.toml"}
    for each in ignored:
        each.parent.mkdir(parents=True, exist_ok=True)
        if each.name in keeps:
            each.touch()
        else:
            each.mkdir()
            (each / "file").touch()
    tracked = {path for path in checkout.rglob("*") if path.is_file() and path.name != "file"}
    assert tracked >= {checkout / name for name in keeps}
    make(checkout, "clean")
    assert {path for path in checkout.rglob("*") if path.is_file()} == tracked


@pytest.mark.parametrize("goal", ["store-faults", "fuzz", "bombs", "mutants"])
def test_long_proofs_name_what_exists(checkout: Path, goal: str) -> None:
    said = make(checkout, "-n", "-o", "setup", goal)
    named = re.findall(r"tests/\S+", said) + [
        f"{each.replace('.', '/')}.py" for each in re.findall(r"-m (tests\.\S+)", said)
    ]
    assert named
    assert [each for each in named if not (ROOT / each).is_file()] == []


CONFIGURED = """
version = 0.1
[sensitive.deploy.parameters]
parameter_overrides = "Half=\\"sensitive\\" Architecture=\\"arm64\\""
[plain.deploy.parameters]
parameter_overrides = "Architecture=\\"x86_64\\" Half=\\"plain\\""
"""


@pytest.mark.parametrize(
    ("section", "architecture", "guided"),
    [("sensitive", "arm64", False), ("plain", "x86_64", False), ("default", "x86_64", True)],
)
def test_each_stack_is_built_and_deployed_as_its_own_section_says(
    checkout: Path, section: str, architecture: str, guided: bool
) -> None:
    (checkout / "samconfig.toml").write_text(CONFIGURED)
    said = make(checkout, "-n", "deploy", f"CONFIG={section}")
    assert f"--parameter-overrides Architecture={architecture}\n" in said
    (deploy,) = (line for line in said.splitlines() if " deploy " in line and "/sam" in line)
    assert f"--config-env {section} " in deploy
    assert ("--guided" in deploy) == guided


def test_answers_of_a_deployed_stack_are_changed_in_its_file(checkout: Path) -> None:
    (checkout / "samconfig.toml").write_text(CONFIGURED)
    with pytest.raises(AssertionError, match="change parameters and profile"):
        make(checkout, "-n", "deploy", "CONFIG=plain", "PARAMETERS=OldVersionDays=9")
    assert "Half=plain" in make(checkout, "-n", "deploy", "PARAMETERS=Half=plain")
