"""The key file where others are about: links, open folders and modes, damage, and who inherits the passphrase."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

from cleave.ask.options import PASSPHRASE_VARIABLE
from cleave.ckks.key_file import change_passphrase, create_key, describe_key, open_key
from cleave.cli import passphrase
from cleave.files import make_folder
from cleave_shared.errors import KeyFileError
from tests.security.canaries import PASSPHRASE
from tests.security.conftest import WrappedKey

ROOT = Path(__file__).parents[2]


def opens(path: Path, secret: bytes) -> bool:
    try:
        open_key(path, lambda: secret)
    except KeyFileError:
        return False
    return True


def test_a_new_passphrase_reaches_the_file_behind_a_link(wrapped: WrappedKey, tmp_path: Path) -> None:
    """Else the file that the link names would still open with the old one."""
    (target := tmp_path / "vault" / "key.json").parent.mkdir()
    target.write_bytes(wrapped.path.read_bytes())
    (link := tmp_path / "key.json").symlink_to(target)
    change_passphrase(link, PASSPHRASE.encode, b"another passphrase")
    assert link.is_symlink()
    assert not opens(target, PASSPHRASE.encode())
    assert opens(link, b"another passphrase")
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert sorted(path.name for path in target.parent.iterdir()) == ["key.json"]


def test_a_link_to_nowhere_is_not_followed_by_a_new_key(tmp_path: Path) -> None:
    (link := tmp_path / "key.json").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(KeyFileError, match="already exists"):
        create_key(link, None)
    assert [path.name for path in tmp_path.iterdir()] == ["key.json"]


def test_a_folder_made_for_a_key_is_the_owners(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_folder(tmp_path / "made", KeyFileError)
        create_key(tmp_path / "made" / "key.json", None)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "made" / "key.json").stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o606])
def test_a_bare_key_that_others_may_read_is_not_used(tmp_path: Path, mode: int) -> None:
    create_key(path := tmp_path / "key.json", None)
    path.chmod(mode)
    with pytest.raises(KeyFileError) as caught:
        open_key(path, bytes)
    assert "chmod 600" in (caught.value.hint or "")
    change_passphrase(path, bytes, b"wrapped by now")  # the other way out
    path.chmod(mode)
    assert opens(path, b"wrapped by now")


DAMAGE: dict[str, dict[str, object]] = {
    "memory beyond any": {"memory_cost": 1 << 40},
    "negative memory": {"memory_cost": -1},
    "passes beyond any": {"iterations": 1 << 40},
    "no lanes": {"lanes": 0},
    "no number of lanes": {"lanes": "four"},
    "wrappings of another kind": {"wrappings": 3},
    "wrapping of another kind": {"wrappings": [3]},
    "signing key of another kind": {"signing": 5},
    "signing key that is no base64": {"signing": "a"},
    "short signing key": {"signing": "AAAA"},
    "another signing key": {"signing": "AAAA" * 10 + "AAA="},
    "floors of another kind": {"floors": []},
    "floors of nothing": {"floors": {"0" * 32: None}},
    "another floor": {"floors": {"0" * 32: ["0" * 32, 1]}},
    "secret that is no base64": {"secret": "!"},
    "short secret": {"secret": "AAAA"},
    "another id": {"key_id": "0" * 32},
    "another date": {"created": "2020-01-01"},
    "short nonce": {"nonce": "AAAA"},
    "version of another kind": {"cleave_key": None},
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_key_file_is_told_as_such(name: str, wrapped: WrappedKey, tmp_path: Path) -> None:
    content = json.loads(wrapped.path.read_text())
    for member, value in DAMAGE[name].items():
        (content if member in content else content["wrappings"][0])[member] = value
    (path := tmp_path / "key.json").write_text(json.dumps(content))
    with pytest.raises(KeyFileError) as caught:
        open_key(path, PASSPHRASE.encode)
    assert PASSPHRASE not in caught.value.message


@pytest.mark.parametrize("text", ["", "[]", '"x"', "[" * 100_000, "{", "\udcff"])
def test_another_file_is_no_key(text: str, tmp_path: Path) -> None:
    (path := tmp_path / "key.json").write_bytes(text.encode(errors="surrogateescape"))
    for use in (describe_key, lambda path: open_key(path, bytes)):
        with pytest.raises(KeyFileError, match="not a Cleave key file") as refused:
            use(path)
        assert "cleave key new" in (refused.value.hint or "")
    assert [each.name for each in tmp_path.iterdir()] == ["key.json"]


def test_what_is_started_later_does_not_inherit_the_passphrase(monkeypatch: pytest.MonkeyPatch) -> None:
    """A credential_process of AWS, say."""
    monkeypatch.setenv(PASSPHRASE_VARIABLE, PASSPHRASE)
    assert passphrase.current(None) == PASSPHRASE.encode()
    shown = subprocess.run([sys.executable, "-c", "import os; print(os.environ)"], capture_output=True, check=True)
    assert PASSPHRASE.encode() not in shown.stdout


def test_no_key_that_documents_name_is_committed_by_accident() -> None:
    named = {"key.json", "throwaway.key.json"}
    for document in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        named |= set(re.findall(r"[\w.-]*key\.json", document.read_text()))
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    for name in named:
        assert any(fnmatch(name, pattern) for pattern in ignored), name
