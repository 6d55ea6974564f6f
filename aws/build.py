"""Build the artifact of one function: its code and its locked packages, compiled for Lambda's Python.

    python -m aws.build {sensitive,plain} DESTINATION [--architecture x86_64|arm64]

`make build-SensitiveFunction` and `make build-PlainFunction`, which `sam build` calls, run this. Of the project only
the modules the handlers' imports reach are shipped, so that nothing of the client (keys, schema, SQL) ever gets there.
"""

from __future__ import annotations

import argparse
import ast
import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("functions", "shared")  # the source roots a handler may reach
PYTHON = "3.13"
PLATFORMS = {"x86_64": "x86_64-manylinux_2_28", "arm64": "aarch64-manylinux_2_28"}  # glibc 2.34 on Amazon Linux 2023
PRUNED_FOLDERS = {"tests", "__pycache__", "include", "f2py"}
PRUNED_SUFFIXES = {".pyi", ".pyx", ".pxd", ".a", ".h", ".c"}
PRUNED_FILES = "zstandard/*cffi*"  # the backend for PyPy: CPython takes the other
STRIPPED = "zstandard/backend_c*.so"  # 11 of its 12 MB are debug information
LEAN = ["-X", "no_debug_ranges"]  # without columns for tracebacks: a twentieth off a cold start
# a module's name as text: what a fork server imports, and where a service's operations are
NAMED = re.compile(r"(cleave_services(?:\.\w+)+)(?::\w+)?")
HANDLERS = {"sensitive": ("app", "job"), "plain": ("app",)}  # modules; one artifact serves all functions of a half
IMAGE = os.environ.get("CLEAVE_LAMBDA_IMAGE", "cleave-lambda-stand-in:python3.13")


def shipped(half: str) -> dict[Path, Path]:
    """Return the project's files for the artifact of `half`, by their place in it."""
    found: dict[Path, Path] = {}
    for name in HANDLERS[half]:
        found |= own_modules(f"cleave_services.{half}.{name}")
    return found


def own_modules(entry: str) -> dict[Path, Path]:
    """Return the project's files that importing `entry` can reach, by their place in an artifact.

    This includes late imports and modules that are named in text.
    """
    if _source(entry) is None:
        raise SystemExit(f"error: {entry} is not there")
    found: dict[Path, Path] = {}
    waiting = [entry]
    while waiting:
        module = waiting.pop()
        found_at = _source(module)
        if found_at is None or found_at[0] in found:
            continue
        name, path = found_at
        found[name] = path
        waiting += _imports(path)
        if "." in module:
            waiting.append(module.rpartition(".")[0])
    return found


def _source(module: str) -> tuple[Path, Path] | None:
    path = module.replace(".", "/")
    candidates = (Path(f"{path}.py"), Path(path, "__init__.py"))
    places = ((candidate, ROOT / root / candidate) for candidate in candidates for root in SOURCES)
    return next((place for place in places if place[1].is_file()), None)


@functools.cache  # both handlers of a half reach most modules
def _imports(path: Path) -> tuple[str, ...]:
    return tuple(_names(ast.parse(path.read_text("utf-8"))))


def _names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:  # relative imports are not house style
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and (named := NAMED.fullmatch(node.value)):
            yield named[1]


def install(half: str, destination: Path, architecture: str) -> None:
    uv = Path(sys.executable).with_name("uv")
    command: list[str | Path] = [
        uv,
        "pip",
        "install",
        "--quiet",
        "--target",
        destination,
        "--require-hashes",
        "--no-deps",
    ]
    command += ["--python-version", PYTHON, "--python-platform", PLATFORMS[architecture], "--only-binary", ":all:"]
    subprocess.run([*command, "-r", ROOT / "locks" / f"{half}.lock"], check=True)


def prune(destination: Path) -> None:
    shutil.rmtree(destination / "bin", ignore_errors=True)
    (destination / ".lock").unlink(missing_ok=True)
    for path in sorted(destination.rglob("*"), reverse=True):
        if path.is_dir() and path.name in PRUNED_FOLDERS:
            shutil.rmtree(path)
        elif (path.suffix in PRUNED_SUFFIXES or path.match(PRUNED_FILES)) and path.is_file():
            path.unlink()


def strip_debug(destination: Path) -> None:
    """Remove debug information, if a strip program for the architecture is installed; else the files stay large."""
    for path in destination.glob(STRIPPED):
        lean = path.with_suffix(".stripped")  # not in place: the file is a hard link into uv's cache
        tools = [tool for tool in ("strip", "llvm-strip") if shutil.which(tool)]
        if any(_runs([tool, "--strip-debug", "-o", str(lean), str(path)]) for tool in tools):
            lean.replace(path)
        else:
            lean.unlink(missing_ok=True)


def compile_all(destination: Path) -> None:
    """Compile to .pyc files that Python never checks. /var/task is read-only, so every cold start would compile."""
    options = ["-q", "--invalidation-mode", "unchecked-hash", "-s"]
    python = local_python()
    if python:
        command = [python, *LEAN, "-m", "compileall", *options, str(destination), "-p", "/var/task", str(destination)]
    elif shutil.which("docker") and _runs(["docker", "image", "inspect", IMAGE]):
        mount = ["--rm", "--volume", f"{destination}:/var/task", "--entrypoint", "/var/lang/bin/python3.13"]
        command = [
            "docker",
            "run",
            *mount,
            IMAGE,
            "-m",
            "compileall",
            *options,
            "/var/task",
            "-p",
            "/var/task",
            "/var/task",
        ]
    else:
        return  # SAM shows nothing of what is printed here: check_artifacts.py says that there is no bytecode
    subprocess.run(command, check=True)


def local_python() -> str | None:
    """Return an interpreter whose bytecode Lambda can read. Each candidate is run, because a pyenv shim may fail."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    candidates = [sys.executable, shutil.which(f"python{PYTHON}"), *pyenv.glob(f"{PYTHON}.*/bin/python")]
    check = f"import sys; sys.exit('%d.%d' % sys.version_info[:2] != '{PYTHON}')"
    return next((str(python) for python in candidates if python and _runs([str(python), "-c", check])), None)


def _runs(command: list[str]) -> bool:
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("half", choices=["sensitive", "plain"])
    parser.add_argument("destination", type=lambda text: Path(text).resolve())
    parser.add_argument("--architecture", choices=sorted(PLATFORMS), default="x86_64")
    options = parser.parse_args()
    install(options.half, options.destination, options.architecture)
    prune(options.destination)
    strip_debug(options.destination)
    for name, path in shipped(options.half).items():
        target = options.destination / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    compile_all(options.destination)


if __name__ == "__main__":
    main()
