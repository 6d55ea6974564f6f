"""What `make release` makes: a wheel that works away from the checkout, and says what an extra is missing for."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import cleave_shared.version
from cleave_shared.installed import install_command

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = ("aws", "excel", "report", "serve")
DEMO = "SELECT ward, AVG(age), SUM(bill) FROM patients GROUP BY ward"
# Copyleft of files or libraries; `LGPL` alone is how python-stdnum writes it.
COPYLEFT = re.compile(r"\b[AL]?GPL\b|\bMPL\b|GNU .*General Public|Mozilla Public", re.IGNORECASE)


def folded(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(lock: str) -> set[str]:
    return {folded(name) for name in re.findall(r"^([\w.-]+)==", (ROOT / lock).read_text(), re.MULTILINE)}


def needed(requirements: list[str]) -> Iterator[str]:
    """Names of installed distributions that `requirements` need on this machine, with all that those need."""
    waiting, seen = [Requirement(one) for one in requirements], set()
    while waiting:
        one = waiting.pop()
        if (one.marker and not one.marker.evaluate({"extra": ""})) or folded(one.name) in seen:
            continue
        seen.add(folded(one.name))
        yield folded(one.name)
        waiting += [Requirement(each) for each in metadata.requires(one.name) or []]


def licence(distribution: str) -> str:
    found = metadata.metadata(distribution)
    stated = [(found.get_all(name) or [""])[0][:200] for name in ("License-Expression", "License")]
    return " | ".join([*stated, *(each for each in found.get_all("Classifier") or [] if each.startswith("License"))])


def test_every_copyleft_dependency_is_in_the_notice() -> None:
    extras = [one for name in EXTRAS for one in PROJECT["optional-dependencies"][name]]
    names = set(needed(PROJECT["dependencies"] + extras))
    assert {"duckdb", "boto3", "fastapi", "jinja2"} <= names
    assert "mypy" not in names
    table = (ROOT / "NOTICE").read_text().partition("\npackage ")[2].partition("\n\n")[0].splitlines()[1:]
    assert {line.split()[0] for line in table} == {name for name in names if COPYLEFT.search(licence(name))}
    assert all("https://" in line for line in table)


def test_lock_files_hold_what_each_installation_needs() -> None:
    plain, full, dev = map(locked, ("locks/client.lock", "locks/full.lock", "locks/dev.lock"))
    assert set(needed(PROJECT["dependencies"])) <= plain
    assert not plain & {"boto3", "botocore", "fastapi", "jinja2", "mangum", "uvicorn"}
    assert full - plain >= {"boto3", "botocore", "fastapi", "jinja2", "mangum", "uvicorn"}
    assert full <= dev


@pytest.mark.parametrize(
    ("package", "extra", "options"),
    [
        ("uvicorn", "serve", ["serve", "--port", "0"]),
        ("jinja2", "report", ["query", "{file}", DEMO, "--report", "{folder}/page.html"]),
        ("boto3", "aws", ["query", "SELECT 1 FROM t", "--store", "s3://bucket/prefix", "--key", "{key}"]),
        ("boto3", "aws", ["ls", "--store", "s3://bucket/prefix", "--key", "{key}"]),
        ("boto3", "aws", ["query", "{file}", DEMO, "--lambda", "a,b", "--key", "{key}"]),
    ],
)
@pytest.mark.sampled(3)
def test_a_missing_extra_is_named(package: str, extra: str, options: list[str], tmp_path: Path, key_file: Path) -> None:
    places = {"file": ROOT / "tests" / "samples" / "patients.csv", "folder": tmp_path, "key": key_file}
    words = [option.format(**places) for option in options]
    code = f"import sys; sys.modules[{package!r}] = None; from cleave.local.main import main; main()"
    ran = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert ran.returncode == 3
    assert re.fullmatch(rf"error: .* need the package {package}, which is not installed\n.*\n", ran.stderr), ran.stderr
    assert f"hint: {install_command(extra, package)}\n" in ran.stderr
    assert extra in EXTRAS


@pytest.mark.slow  # what it needs is looked at above; this is all of it, in 10 s
def test_the_wheel_works_in_an_environment_of_its_own(tmp_path: Path) -> None:
    uv = Path(sys.executable).with_name("uv")
    source = tmp_path / "source"  # a build leaves files beside what it builds
    for folder in ("client", "functions", "shared"):
        shutil.copytree(ROOT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, source)
    build = [uv, "build", "--quiet", "--offline", "--no-build-isolation", "--python", sys.executable]
    subprocess.run([*build, "--out-dir", tmp_path / "dist", source], check=True)
    (wheel,) = (tmp_path / "dist").glob("cleave_sql-*.whl")
    assert cleave_shared.version.VERSION in wheel.name
    held = set(zipfile.ZipFile(wheel).namelist())
    assert {"cleave/report/page.html", "cleave/report/vendor/plot.js", "cleave/report/vendor/licences.txt"} <= held
    assert {name.split("/")[0].split("-")[0] for name in held} == {
        "cleave",
        "cleave_services",
        "cleave_shared",
        "cleave_sql",
    }
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([uv, "pip", "install", "--quiet", "--offline", "--no-deps", "--python", python, wheel], check=True)
    # dependencies are this environment's; its .pth file, which leads to the checkout, counts only in a site directory
    environment = os.environ | {"PYTHONPATH": sysconfig.get_path("purelib"), "XDG_STATE_HOME": str(tmp_path)}
    where = "import cleave, cleave_shared, cleave_services; print(cleave.__file__)"

    def run(*command: object) -> str:
        ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    assert str(tmp_path) in run(python, "-c", where)
    cleave = tmp_path / "venv" / "bin" / "cleave"
    assert run(cleave, "--version") == f"cleave {cleave_shared.version.VERSION}\n"
    (tmp_path / "patients.csv").write_bytes((ROOT / "tests/samples/patients.csv").read_bytes())
    (tmp_path / "patients.schema.toml").write_bytes((ROOT / "tests/samples/patients.schema.toml").read_bytes())
    run(cleave, "key", "new", "--no-passphrase", "--key", "key.json")
    assert "241860.45" in run(cleave, "query", "patients.csv", DEMO, "--key", "key.json", "--report", "page.html")
    assert "241860.45" in (tmp_path / "page.html").read_text()


def copied(folder: Path) -> None:
    """What `make release` reads, as it is in the checkout."""
    for name in ("client", "functions", "shared"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in (
        "Makefile",
        "aws/aws.mk",
        "benchmarks/benchmarks.mk",
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "NOTICE",
    ):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)


def released(folder: Path, umask: int, zone: str) -> dict[str, bytes]:
    """The files that `make release` writes there, by name."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "TZ": zone}
    command = ["make", "--no-print-directory", "-C", folder, "--old-file=setup", f"VENV={sys.prefix}", "release"]
    done = subprocess.run(command, env=environment, umask=umask, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {path.name: path.read_bytes() for path in (folder / "dist").iterdir()}


@pytest.mark.slow  # three releases of 2 s
def test_a_release_of_one_commit_is_the_same_everywhere(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    copied(first)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@cleave.example", "-c", "commit.gpgsign=false", "-C", first]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "A release", "--date=2001-01-01T00:00:00Z"]):
        subprocess.run([*git, *words], env=os.environ | {"GIT_COMMITTER_DATE": "2001-01-01T00:00:00Z"}, check=True)
    subprocess.run(["git", "clone", "-q", first, second], umask=0o077, check=True)
    for number, path in enumerate(sorted(second.rglob("*.py"))):
        os.utime(path, (10**9 + number, 10**9 + number))
    (first / "client" / "cleave" / "left.py").write_text("left by somebody, and in no commit\n")
    made = released(first, 0o022, "UTC")
    assert sorted(name.rpartition(".")[2] for name in made) == ["SHA256SUMS", "gz", "whl"]
    assert released(second, 0o077, "Asia/Tokyo") == made
    with tarfile.open(next((first / "dist").glob("*.tar.gz"))) as archive:
        members = archive.getmembers()
    assert {each.mtime for each in members} == {978307200}
    assert {(each.uid, each.gid, each.uname, each.gname) for each in members} == {(0, 0, "", "")}
    assert not [each.name for each in members if each.name.endswith("left.py")]
    with zipfile.ZipFile(next((first / "dist").glob("*.whl"))) as wheel:
        assert {each.date_time for each in wheel.infolist()} == {(2001, 1, 1, 0, 0, 0)}
    assert released(first, 0o022, "UTC") == made, "what an earlier release left there changes nothing"
