"""Usual settings: the environment goes before the file, an option before both, and the file is strict."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cleave.ask import config
from tests.cli.runner import Cli
from tests.samples import copy_patients

SAMPLES = Path(__file__).parents[1] / "samples"


@pytest.fixture
def home(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    config._read.cache_clear()
    return tmp_path / "cleave" / "config.toml"


def test_settings_are_shown_and_changed(cli: Cli, home: Path) -> None:
    assert cli.run("config", "store", 's3://a/"b').exit_code == 0
    assert cli.run("config", "profile", "work").exit_code == 0
    assert home.read_text() == 'store = "s3://a/\\"b"\nprofile = "work"\n'
    assert home.stat().st_mode & 0o077 == 0
    assert cli.run("config", "store").stdout == 's3://a/"b\n'
    assert cli.run("config", "profile", "").exit_code == 0
    assert "profile" not in home.read_text()
    shown = cli.run("config").stdout
    assert str(home) in shown
    assert "s3://a" in shown
    assert "did you mean 'store'" in cli.fails(2, "config", "stroe", "x")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('store = "s"\n\nstroe = "t"\n', "line 3: there is no setting 'stroe'"),
        ("\nkey = 7\n", "line 2: key is not text"),
        ("store = \n", "line 1: is not TOML"),
        ("[store]\na = 1\n", "line 1: store is not text"),
    ],
)
def test_a_file_that_is_not_understood_is_an_error(cli: Cli, home: Path, content: str, said: str) -> None:
    home.parent.mkdir()
    home.write_text(content)
    assert f"{home}, {said}" in cli.fails(3, "config")
    assert said in cli.fails(3, "ls")


def test_an_option_goes_before_the_environment_and_that_before_the_file(
    cli: Cli, home: Path, tmp_path: Path, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_patients(tmp_path)
    monkeypatch.chdir(tmp_path)
    home.parent.mkdir()
    home.write_text(f'key = "{key_file}"\nstore = "{tmp_path / "filed"}"\n')
    put = cli.run("put", "patients.csv", "--table", "t", "--by", "")
    assert put.exit_code == 0, put.output
    assert (tmp_path / "filed").exists()
    assert cli.run("query", "SELECT COUNT(*) FROM t").stdout.split()[-2:] == ["600", "exact"]
    assert cli.run("query", "patients.csv", "SELECT COUNT(*) FROM patients").stdout.split()[-1] == "600"
    (tmp_path / "said").mkdir()
    monkeypatch.setenv("CLEAVE_STORE", str(tmp_path / "said"))
    assert "no tables" in cli.run("ls").stdout
    assert "t " in cli.run("ls", "--store", tmp_path / "filed").stdout


def test_keys_are_where_settings_are(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path)}
    command = [sys.executable, "-c", "from cleave.local.main import main; main()", "key", "show"]
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert f"{tmp_path}/cleave/key.json: no such key file" in shown.stderr


def test_without_a_home_there_is_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)

    def homeless(_: Path) -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "expanduser", homeless)
    assert config.settings() == {}


def test_other_processes_find_the_same_places(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever becomes of the file and wherever they run; without passphrases."""
    home.parent.mkdir()
    home.write_text('endpoint = "https://file.example"\nuser = "file"\n')
    monkeypatch.chdir(tmp_path)
    for name, value in {
        "CLEAVE_USER": "variable",
        "XDG_STATE_HOME": "state",
        "XDG_CACHE_HOME": "",
        "HOME": str(tmp_path / "home"),
        "CLEAVE_PASSPHRASE": "canary",
        "CLEAVE_NEW_PASSPHRASE": "canary",
        "CLEAVE_PASSWORD": "canary",
        "AWS_SECRET_ACCESS_KEY": "needed",
    }.items():
        monkeypatch.setenv(name, value)
    passed = config.environment()
    assert passed["XDG_STATE_HOME"] == str(tmp_path / "state")
    assert passed["XDG_CACHE_HOME"] == str(tmp_path / "home" / ".cache")
    assert (passed["CLEAVE_ENDPOINT"], passed["CLEAVE_USER"]) == ("https://file.example", "variable")
    assert passed["AWS_SECRET_ACCESS_KEY"] == "needed"
    assert "canary" not in passed.values()
