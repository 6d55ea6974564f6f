"""The wheel that a user installs, built of a copy of the sources."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def copied_sources(folder: Path) -> Path:
    """Copy what the wheel is made of into `folder`: a build leaves its own folders beside the sources."""
    for name in ("client", "shared", "functions"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    return folder


def built_wheel(sources: Path, folder: Path) -> Path:
    """Build the wheel of copied sources into `folder`, as pip and uv do."""
    build = f"from setuptools.build_meta import build_wheel; build_wheel({str(folder)!r})"
    done = subprocess.run(
        [sys.executable, "-c", build], cwd=sources, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    return built
