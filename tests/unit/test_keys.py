"""The key file: owner-only, wrapped, never overwritten, never serialised."""

from __future__ import annotations

import base64
import json
import pickle
import stat
from pathlib import Path

import pytest

from cleave.ckks import key_file, key_format
from cleave.ckks.key_file import change_passphrase, create_key, describe_key, export_public, open_key
from cleave.ckks.secret_key import SecretKey
from cleave_shared.errors import KeyFileError


def never() -> bytes:
    raise AssertionError("asked for a passphrase that is not needed")


@pytest.fixture(autouse=True)
def quick_argon(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (key_file, key_format):
        monkeypatch.setattr(module, "ARGON2", {"iterations": 1, "lanes": 1, "memory_cost": 64})


def test_a_wrapped_key_opens_with_its_passphrase_only(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    info = create_key(path, b"correct horse")
    assert info.wrapped
    key = open_key(path, lambda: b"correct horse")
    assert key.key_id == info.key_id == describe_key(path).key_id
    with pytest.raises(KeyFileError, match="wrong passphrase"):
        open_key(path, lambda: b"correct house")


def test_the_file_is_its_owners_only(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "key.json"
    create_key(path, None)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]  # no draft is left


def test_an_existing_key_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    create_key(path, None)
    before = path.read_bytes()
    with pytest.raises(KeyFileError, match="there already"):
        create_key(path, None)
    assert path.read_bytes() == before


def test_a_wrapped_file_holds_no_secret_in_the_clear(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    create_key(path, None)
    bare = base64.b64decode(json.loads(path.read_text())["secret"])
    change_passphrase(path, never, b"a new passphrase")
    assert bare[40:100] not in base64.b64decode(json.loads(path.read_text())["secret"])
    opened = open_key(path, lambda: b"a new passphrase")
    assert opened.secret == bare[32:]
    change_passphrase(path, lambda: b"a new passphrase", None)
    assert open_key(path, never).secret == opened.secret


def test_the_exported_half_has_no_secret_and_is_not_a_key(tmp_path: Path) -> None:
    path, public = tmp_path / "key.json", tmp_path / "public.json"
    info = create_key(path, None)
    export_public(path, public)
    content = json.loads(public.read_text())
    assert content.keys() == {"cleave_public_key", "key_id", "profile", "public_key"}
    assert content["key_id"] == info.key_id
    with pytest.raises(KeyFileError, match="exported public key"):
        open_key(public, never)
    with pytest.raises(KeyFileError, match="there already"):
        export_public(path, public)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda c: c.pop("secret"), "not a Cleave key file"),
        (lambda c: c.update(cleave_key=2), "version"),
        (lambda c: c.update(profile="other"), "does not know"),
        (lambda c: c.update(secret="!"), "damaged"),
        (lambda c: c.update(key_id="0" * 32), "damaged"),
        (lambda c: c["kdf"].pop("salt"), "damaged"),
        (lambda c: c.update(nonce=""), "damaged"),
    ],
)
def test_a_damaged_file_is_an_error(tmp_path: Path, damage, message: str) -> None:
    path = tmp_path / "key.json"
    create_key(path, b"correct horse")
    content = json.loads(path.read_text())
    damage(content)
    path.write_text(json.dumps(content))
    with pytest.raises(KeyFileError, match=message):
        open_key(path, lambda: b"correct horse")


@pytest.mark.parametrize("content", ["", "[]", "{", "null", '"text"'])
def test_other_files_are_not_keys(tmp_path: Path, content: str) -> None:
    path = tmp_path / "key.json"
    path.write_text(content)
    with pytest.raises(KeyFileError, match="not a Cleave key file"):
        open_key(path, never)


def test_a_missing_file_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError) as caught:
        open_key(tmp_path / "none", never)
    assert "cleave key new" in str(caught.value.hint)


def test_a_key_is_neither_pickled_nor_shown(key: SecretKey) -> None:
    with pytest.raises(TypeError):
        pickle.dumps(key)
    assert key.key_id in repr(key)
    assert repr(key.secret[:8]) not in repr(key)


def test_derived_keys_differ_by_purpose(key: SecretKey) -> None:
    assert key.derive("sentinel") == key.derive("sentinel") != key.derive("sealed")
