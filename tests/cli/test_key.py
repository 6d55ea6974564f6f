"""`cleave key`: where the key lies, who may read it, and where its passphrase comes from."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from cleave.ckks.key_file import create_key, describe_key, open_key
from cleave_shared.errors import KeyFileError
from tests.cli.runner import Cli

ROOT = Path(__file__).parents[2]
PASSPHRASE = "canary passphrase"


def opens(path: Path, passphrase: str) -> bool:
    try:
        open_key(path, passphrase.encode)
    except KeyFileError:
        return False
    return True


def test_a_key_without_a_passphrase_has_to_be_asked_for(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    assert "no terminal to read it from" in cli.fails(5, "key", "new", "--key", path)
    assert not path.exists()
    made = cli.run("key", "new", "--key", path, "--no-passphrase")
    assert made.exit_code == 0
    assert "anyone who reads the file has the key" in made.stdout
    assert "Keep a copy" in made.stderr
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_show_needs_no_passphrase(cli: Cli, key_file: Path) -> None:
    info = describe_key(key_file)
    assert info.key_id in cli.run("key", "show", "--key", key_file).stdout
    facts = json.loads(cli.run("key", "show", "--key", key_file, "--json").stdout)
    assert facts == {
        "path": str(key_file),
        "key_id": info.key_id,
        "created": info.created,
        "wrapped": False,
    }


def test_the_key_may_be_named_by_the_environment(cli: Cli, key_file: Path) -> None:
    cli.environment["CLEAVE_KEY"] = str(key_file)
    assert describe_key(key_file).key_id in cli.run("key", "show").stdout


def test_export_holds_no_secret(cli: Cli, key_file: Path, tmp_path: Path) -> None:
    target = tmp_path / "public.json"
    assert cli.run("key", "export", "--key", key_file, "-o", target).exit_code == 0
    content = json.loads(target.read_text())
    assert content["key_id"] == describe_key(key_file).key_id
    assert {"secret", "wrappings"}.isdisjoint(content)
    assert "already exists" in cli.fails(5, "key", "export", "--key", key_file, "-o", target)
    assert "public key" in cli.fails(5, "key", "show", "--key", target)


@pytest.mark.usefixtures("cheap")
def test_a_passphrase_from_the_environment(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    cli.environment["CLEAVE_PASSPHRASE"] = PASSPHRASE
    made = cli.run("key", "new", "--key", path)
    assert made.exit_code == 0
    assert PASSPHRASE not in made.output
    assert opens(path, PASSPHRASE)
    assert not opens(path, "another")
    cli.environment["CLEAVE_NEW_PASSPHRASE"] = "a new passphrase"
    assert cli.run("key", "passphrase", "--key", path).exit_code == 0
    assert opens(path, "a new passphrase")
    # the old one does not open it any more, and the error does not quote it
    assert PASSPHRASE not in cli.fails(5, "key", "passphrase", "--key", path, "--no-passphrase")
    cli.environment["CLEAVE_PASSPHRASE"] = "a new passphrase"
    removed = cli.run("key", "passphrase", "--key", path, "--no-passphrase")
    assert "removed" in removed.stderr
    assert not describe_key(path).wrapped


def test_an_empty_passphrase_is_none(cli: Cli, tmp_path: Path) -> None:
    cli.environment["CLEAVE_PASSPHRASE"] = ""
    assert "--no-passphrase" in cli.fails(5, "key", "new", "--key", tmp_path / "key.json")


def descriptor(content: bytes) -> int:
    reader, writer = os.pipe()
    os.write(writer, content)
    os.close(writer)
    return reader


@pytest.mark.usefixtures("cheap")
@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\nnot this line"])
def test_a_passphrase_from_a_descriptor(cli: Cli, tmp_path: Path, end: bytes) -> None:
    cli.environment["CLEAVE_PASSPHRASE"] = "not this one"
    path, reader = tmp_path / "key.json", descriptor(PASSPHRASE.encode() + end)
    assert cli.run("key", "new", "--key", path, "--passphrase-fd", reader).exit_code == 0
    os.close(reader)
    assert opens(path, PASSPHRASE)


def test_a_passphrase_is_asked_for_twice_on_a_terminal(tmp_path: Path) -> None:
    """The first two differ, the next two agree."""
    path = tmp_path / "key.json"
    code, said = _typed(path, "a first of these words", "a second of them", PASSPHRASE, PASSPHRASE)
    assert code == 0
    assert b"These differ." in said
    assert PASSPHRASE.encode() not in said  # not echoed
    assert opens(path, PASSPHRASE)


def test_a_trivial_passphrase_is_refused_before_it_is_typed_again(tmp_path: Path) -> None:
    code, said = _typed(tmp_path / "key.json", "short")
    assert code == 5
    assert said.startswith(b"New passphrase, at least 12 characters: |")
    assert b"has fewer than 12 characters" in said
    assert not (tmp_path / "key.json").exists()


def _typed(path: Path, *words: str) -> tuple[int, bytes]:
    """Make a key in a process with a terminal of its own. Returns its exit code and what it wrote."""
    main, side = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", "from cleave.local.main import main; main()", "key", "new", "--key", str(path)],
        stdin=side,
        stdout=subprocess.PIPE,
        stderr=side,
        start_new_session=True,
        cwd=ROOT,
    ) as process:
        os.close(side)
        said = b""
        for word in words:
            while not said.endswith(b": "):
                said += os.read(main, 1024)
            os.write(main, word.encode() + b"\n")
            said += b"|"
        out, _ = process.communicate(timeout=120)
    with contextlib.suppress(OSError):  # nothing is left to read
        said += os.read(main, 4096)
    os.close(main)
    return process.returncode, said + out


def test_the_home_directory_is_looked_up_only_when_it_is_needed(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.environment["HOME"] = str(tmp_path)
    assert cli.run("key", "new", "--no-passphrase").exit_code == 0
    assert cli.run("key", "show", "--key", "~/.config/cleave/key.json").exit_code == 0
    assert (tmp_path / ".config" / "cleave" / "key.json").stat().st_mode & 0o777 == 0o600

    def no_home(path: Path) -> Path:
        if str(path).startswith("~"):
            raise RuntimeError("Could not determine home directory.")
        return path

    monkeypatch.setattr(Path, "expanduser", no_home)
    assert "--key" in cli.fails(5, "key", "show")
    assert cli.run("key", "show", "--key", tmp_path / ".config" / "cleave" / "key.json").exit_code == 0


def test_the_passphrase_of_the_new_key_has_a_name_of_its_own(
    ready: Cli, table: Path, tmp_path: Path, cheap: None
) -> None:
    new, store = tmp_path / "new.json", ("--store", tmp_path / "store")
    create_key(new, b"seventeen quiet herons")
    assert ready.run("put", table, "--table", "trial", *store).exit_code == 0
    assert ready.fails(5, "key", "rotate", "trial", "--new-key", new, *store) == (
        "error: a new passphrase is needed and there is no terminal to read it from\n"
        "hint: set CLEAVE_NEW_PASSPHRASE, or name a file descriptor with --new-passphrase-fd\n"
    )


def test_an_empty_password_is_called_a_password(cli: Cli, tmp_path: Path) -> None:
    cli.environment["CLEAVE_PASSWORD"] = ""
    assert cli.fails(5, "user", "add", "alice", "--users", tmp_path / "users.toml") == (
        "error: the password is empty\nhint: --token makes a user without one\n"
    )


def test_a_new_password_leaves_rights_and_tokens(cli: Cli, tmp_path: Path) -> None:
    """Nobody may query more because his password was set again."""
    path = tmp_path / "users.toml"
    add, token = ("user", "add", "alice", "--users", path), "5" * 64
    old = f"SCRAM-SHA-256$65536:c2FsdHNhbHQ=${'A' * 43}=:{'A' * 43}="
    start = f'secret = "{"0" * 64}"\n[users.alice]\npassword = "{old}"\n'
    path.write_text(f'{start}tokens = ["{token}"]\ntables = ["visits"]\nmin_group = 10\n')
    path.chmod(0o600)
    cli.environment["CLEAVE_PASSWORD"] = "seventeen quiet herons 41"
    done = cli.run(*add)
    assert done.stderr.splitlines()[-1] == "the rights are as before: visits; sums only; groups of 10 or more"
    assert cli.run("user", "ls", "--users", path).stdout == "alice: visits; sums only; groups of 10 or more\n"
    assert old not in path.read_text()
    assert token in path.read_text()
    assert "as before" not in cli.run(*add, "--rows", "--token").stderr
    assert cli.run("user", "ls", "--users", path).stdout == "alice: all tables; rows\n"
