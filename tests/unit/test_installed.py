"""The command that adds an extra fits how Cleave was installed, and never asks a public index for the name."""

from __future__ import annotations

import json
import shlex
import sys
from importlib import metadata
from pathlib import Path

import pytest

from cleave_shared import installed

DECLARED = [
    "numpy>=2.2",
    'jinja2>=3.1; extra == "report"',
    'uvicorn>=0.54; sys_platform == "linux" and extra == "serve"',
]
PIP = f"{sys.executable} -m pip install "


class Distribution:
    requires = DECLARED

    def __init__(self, origin: object) -> None:
        self.origin = origin

    def read_text(self, name: str) -> str | None:
        if name == "METADATA":
            return "Name: cleave-sql"
        assert name == "direct_url.json"  # PEP 610
        return None if self.origin is None else json.dumps(self.origin)


@pytest.fixture
def from_(monkeypatch):
    def choose(origin: object, *, pip: bool = True) -> None:
        monkeypatch.setattr(metadata, "distributions", lambda **_: iter([Distribution(origin)]))
        monkeypatch.setattr("importlib.util.find_spec", lambda _: object() if pip else None)

    return choose


def test_a_checkout_names_its_folder(from_, tmp_path: Path) -> None:
    checkout = tmp_path / "my clone"
    checkout.mkdir()
    from_({"url": checkout.as_uri(), "dir_info": {"editable": True}})
    assert shlex.split(installed.install_command("report", "jinja2"))[-2:] == ["-e", f"{checkout}[report]"]
    from_({"url": checkout.as_uri(), "dir_info": {}})
    assert installed.install_command("report", "jinja2") == f"{PIP}'{checkout}[report]'"


def test_a_wheel_is_named_while_it_is_there(from_, tmp_path: Path) -> None:
    wheel = tmp_path / "cleave_sql-1-py3-none-any.whl"
    from_({"url": wheel.as_uri(), "archive_info": {}})
    assert installed.install_command("report", "jinja2") == f"{PIP}'jinja2>=3.1'"
    wheel.touch()
    assert installed.install_command("report", "jinja2") == f"{PIP}'{wheel}[report]'"


@pytest.mark.parametrize("origin", [None, {"url": "https://example.org/cleave.git", "vcs_info": {}}])
def test_otherwise_the_packages_of_the_extra_are_named(from_, origin: object) -> None:
    from_(origin)
    assert installed.install_command("report", "jinja2") == f"{PIP}'jinja2>=3.1'"
    assert installed.install_command("serve", "uvicorn") == f"{PIP}'uvicorn>=0.54'"


def test_a_package_that_is_only_on_the_path_names_what_is_missing(from_, monkeypatch) -> None:
    from_(None)
    monkeypatch.setattr(metadata, "distributions", lambda **_: iter(()))
    assert installed.install_command("report", "jinja2") == f"{PIP}jinja2"


def test_what_a_build_leaves_in_a_checkout_is_not_the_installation(monkeypatch, tmp_path: Path) -> None:
    checkout, site = tmp_path / "checkout", tmp_path / "site"
    facts = "Metadata-Version: 2.4\nName: cleave-sql\nVersion: 1\n"
    for folder, files in (
        (checkout / "cleave_sql.egg-info", {"PKG-INFO": facts}),
        (site / "cleave_sql-1.dist-info", {"METADATA": facts, "direct_url.json": f'{{"url": "{checkout.as_uri()}"}}'}),
    ):
        folder.mkdir(parents=True)
        for name, text in files.items():
            (folder / name).write_text(text)
    monkeypatch.setattr(sys, "path", [str(checkout), str(site)])  # the checkout first: Python was started there
    assert f"{checkout}[models]" in installed.install_command("models", "formulaic")
    monkeypatch.setattr(sys, "path", [str(checkout)])
    assert installed.install_command("models", "formulaic").endswith(" formulaic")


def test_an_environment_without_pip_is_named_to_uv(from_) -> None:
    from_(None, pip=False)
    assert installed.install_command("report", "jinja2") == f"uv pip install --python {sys.executable} 'jinja2>=3.1'"


def test_the_extras_of_this_installation_are_read() -> None:
    assert "report" in (metadata.distribution(installed.DISTRIBUTION).metadata.get_all("Provides-Extra") or [])
