"""What a user installs: the wheel's top level, and the Python example of docs/http.md from an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.wheels import built_wheel, copied_sources

ROOT = Path(__file__).parents[2]
PACKAGES = {"cleave", "cleave_shared", "cleave_services"}
(EXAMPLE,) = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / "http.md").read_text(), re.MULTILINE | re.DOTALL)
# what an installer makes of the wheel's entry point: of two distributions of that name the first on the path counts
SCRIPT = "from importlib.metadata import entry_points as e\n[*e(group='console_scripts', name='cleave')][0].load()()"
WHERE = "import cleave, cleave_shared, cleave_services as s\nprint(cleave.__file__, cleave_shared.__file__, s.__file__)"


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied_sources(tmp_path_factory.mktemp("sources"))


@pytest.fixture(scope="module")
def wheel(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_wheel(sources, tmp_path_factory.mktemp("wheel"))


def pip(*arguments: object) -> None:
    words = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


@dataclass
class Installed:
    """The wheel's own files in a folder of theirs, an empty folder to work in; its dependencies are this venv's."""

    site: Path
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(self.site), "HOME": str(self.folder)}

    def python(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def command(self, *arguments: str) -> list[str]:
        script = self.site / "bin" / "cleave"  # pip's; what is unpacked has none
        return [sys.executable, *([str(script)] if script.exists() else ["-c", SCRIPT]), *arguments]


@pytest.fixture(scope="module", params=["unpacked", pytest.param("pip", marks=pytest.mark.slow)])
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    site = tmp_path_factory.mktemp("site")
    if request.param == "pip":
        target = tmp_path_factory.mktemp("pip")
        pip(
            "wheel", request.getfixturevalue("sources"), "--no-deps", "--no-index", "--no-build-isolation", "-w", target
        )
        pip("install", *target.glob("*.whl"), "--no-deps", "--no-index", "--target", site)
        assert (site / "bin" / "cleave").exists()
    else:
        with zipfile.ZipFile(request.getfixturevalue("wheel")) as built:
            built.extractall(site)
    return Installed(site, tmp_path_factory.mktemp("empty"))


@pytest.fixture
def url(installed: Installed) -> Iterator[str]:
    server = subprocess.Popen(
        installed.command("serve", "--port", "0"),
        cwd=installed.folder,
        env=installed.environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stderr is not None
    try:
        yield server.stderr.readline().strip().removeprefix("listening on ")
    finally:
        server.terminate()
        server.stderr.close()
        server.wait(120)


def test_only_our_own_names_reach_a_users_site_packages(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    top = {name.split("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == PACKAGES
    assert all(f"{package}/py.typed" in names for package in PACKAGES)
    for package, root in (("cleave", "client"), ("cleave_shared", "shared"), ("cleave_services", "functions")):
        sources = {path.relative_to(ROOT / root).as_posix() for path in (ROOT / root / package).rglob("*.py")}
        assert {name for name in names if name.startswith(f"{package}/") and name.endswith(".py")} == sources
    assert [name for name in names if name.endswith("/licenses/LICENSE")]


def test_what_a_report_is_made_of_is_in_the_wheel(wheel: Path) -> None:
    folder = ROOT / "client" / "cleave" / "report"
    with zipfile.ZipFile(wheel) as built:
        names = [name for name in built.namelist() if name.startswith("cleave/report/") and not name.endswith(".py")]
        assert {name.rpartition("/")[2] for name in names} == {
            *("head.html", "page.html", "style.css", "draw.js", "review.html", "review.js"),
            *("plot.js", "licences.txt", "vendor.toml"),
        }
        for name in names:
            assert built.read(name) == (folder / name.removeprefix("cleave/report/")).read_bytes()


@pytest.mark.slow  # tests/cli/test_readme.py runs the example
def test_the_python_example_answers_from_an_empty_folder(installed: Installed, url: str) -> None:
    homes = installed.python("-c", WHERE).split()
    assert all(Path(home).is_relative_to(installed.site) for home in homes), homes  # not this repository's
    printed = installed.python("-c", EXAMPLE.replace("http://127.0.0.1:8000", url))
    figures = {name: float(value) for name, value, _ in (line.split() for line in printed.splitlines())}
    assert figures == {"age": 47.0, "bill": pytest.approx(39.5833333333, abs=1e-9)}


def test_the_wheel_asks_for_the_duckdb_that_is_tested() -> None:
    """A later one answered some functions and types otherwise, and refused derived columns that were stored."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (asked,) = [each for each in project["dependencies"] if each.startswith("duckdb")]
    (locked,) = re.findall(r"^duckdb==[\d.]+", (ROOT / "locks/client.lock").read_text(), re.MULTILINE)
    assert asked == locked
