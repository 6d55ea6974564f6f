"""The key file: owner-only, wrapped, never overwritten, never serialised."""

from __future__ import annotations

import base64
import datetime
import hashlib
import hmac
import json
import os
import pickle
import re
import shlex
import stat
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cleave.ckks import key_file
from cleave.ckks.key_file import (
    ARGON2_MOST,
    MAX_BYTES,
    KeyInfo,
    change_passphrase,
    copy_key,
    create_key,
    describe_key,
    fresh_file,
    open_key,
    read_key_file,
    wrapped_by,
    write,
)
from cleave.ckks.kms_wrapping import KmsWrapping
from cleave.ckks.owner_key import OwnerKey, box_keys, fingerprint_of, key_id_of
from cleave.ckks.secret_key import SecretKey, fresh_key
from cleave.formats import AnotherRelease
from cleave_shared.errors import KeyFileError
from cleave_shared.params import DEFAULT_PROFILE

VECTORS = Path(__file__).parents[1] / "vectors" / "key-file"


def never() -> bytes:
    raise AssertionError("asked for a passphrase that is not needed")


@pytest.fixture(autouse=True)
def quick_argon(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (key_file, key_file):
        monkeypatch.setattr(module, "ARGON2", {"iterations": 1, "lanes": 1, "memory_cost": 64})


def test_a_wrapped_key_opens_with_its_passphrase_only(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    info = create_key(path, b"correct horse")
    assert info.wrapped
    key = open_key(path, lambda: b"correct horse")
    assert key.key_id == info.key_id == describe_key(path).key_id
    with pytest.raises(KeyFileError, match="wrong passphrase"):
        open_key(path, lambda: b"correct house")


def test_a_copy_has_the_same_key_the_same_passphrase_and_the_newest_versions(tmp_path: Path) -> None:
    path, to = tmp_path / "key.json", tmp_path / "copy.json"
    create_key(path, b"correct horse")
    floors = {"0" * 32: ("1" * 32, 1), "2" * 32: ("3" * 32, 7)}
    copy_key(path, to, b"correct horse", floors)
    one, other = (open_key(each, lambda: b"correct horse") for each in (path, to))
    assert one.derive("x") == other.derive("x")
    assert (one.floors, other.floors) == ({}, floors)
    assert describe_key(to).wrapped
    content = to.read_bytes()
    with pytest.raises(KeyFileError, match="already exists"):
        copy_key(path, to, b"correct horse", {})
    assert to.read_bytes() == content
    with pytest.raises(KeyFileError, match=f"{re.escape(str(path))}: wrong passphrase"):
        copy_key(path, tmp_path / "third.json", b"correct house", {})
    assert not (tmp_path / "third.json").exists()


def test_a_copy_is_wrapped_by_the_passphrase_that_was_asked_for(tmp_path: Path) -> None:
    """And by none where none is needed."""
    path, to, bare = tmp_path / "key.json", tmp_path / "copy.json", tmp_path / "bare.json"
    create_key(path, b"correct horse")
    copy_key(path, to, lambda: b"correct horse", {})
    assert describe_key(to).wrapped
    assert open_key(to, b"correct horse").key_id == describe_key(path).key_id
    create_key(bare, None)
    copy_key(bare, tmp_path / "other.json", never, {})
    assert read(tmp_path / "other.json") == read(bare)


def test_a_file_is_made_around_a_given_master_secret() -> None:
    master = bytes(range(32))
    file, same = fresh_file(master)
    assert file.is_bare
    assert file.secret == same == master
    assert file.key_id == OwnerKey(master).key_id
    assert fresh_file()[1] != fresh_file()[1]


def test_what_kms_keys_alone_wrap_has_no_secret_beside_them() -> None:
    file, master = fresh_file()
    kms = KmsWrapping("arn:aws:kms:eu-west-1:111122223333:key/1", b"sealed", bytes(12), bytes(48))
    assert wrapped_by(replace(file, kms=(kms,)), master, None).secret == b""
    assert read_key_file(VECTORS / "kms.json").secret == b""


def test_a_passphrases_wrapping_among_several_has_32_bytes_and_a_tag(tmp_path: Path) -> None:
    content = read(VECTORS / "many.json")
    assert content["wrappings"][-1]["name"] == "argon2id"
    for wrong in (0, 47, 49):
        content["wrappings"][-1]["secret"] = base64.b64encode(bytes(wrong)).decode()
        (tmp_path / "key.json").write_text(json.dumps(content))
        with pytest.raises(KeyFileError, match="secret is not base64 of 48 bytes"):
            describe_key(tmp_path / "key.json")


def test_the_largest_file_is_written_and_no_larger_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, _ = fresh_file()
    monkeypatch.setattr(key_file, "MAX_BYTES", len(file.dump()))
    write(tmp_path / "key.json", file, overwrite=False)
    assert describe_key(tmp_path / "key.json").key_id == file.key_id
    monkeypatch.setattr(key_file, "MAX_BYTES", len(file.dump()) - 1)
    with pytest.raises(KeyFileError, match="could not be read again: more than"):
        write(tmp_path / "other.json", file, overwrite=False)
    assert not (tmp_path / "other.json").exists()


def test_a_fingerprint_is_as_openssh_writes_it() -> None:
    """The digest of "abc" is FIPS 180-4's example."""
    assert fingerprint_of(b"abc") == "SHA256:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0"


def test_a_worker_has_the_very_key(key: SecretKey) -> None:
    same = SecretKey.from_shared(key.shared)
    assert same.profile is key.profile
    assert (same.key_id, same.secret, same._master) == (key.key_id, key.secret, key._master)


def test_a_signing_key_of_another_length_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    create_key(path, None)
    content = json.loads(path.read_text())
    for short in (b"", b"x" * 31, b"x" * 33):
        changed = {**content, "signing": base64.b64encode(short).decode(), "key_id": key_id_of(short)}
        path.write_text(json.dumps(changed))
        with pytest.raises(KeyFileError, match="signing is not base64 of 32 bytes"):
            describe_key(path)


def test_what_contributors_seal_to_follows_from_the_master_secret() -> None:
    """HKDF-Expand by hand, as docs/key-file.md has it."""
    master = bytes(range(32))

    def derived(purpose: bytes) -> bytes:
        return hmac.digest(master, b"cleave/2/" + purpose + b"\x01", "sha256")

    mlkem, x25519 = box_keys(OwnerKey(master))
    assert mlkem.private_bytes_raw() == derived(b"box/mlkem/d") + derived(b"box/mlkem/z")
    assert x25519.private_bytes_raw() == derived(b"box/x25519")


def test_a_fresh_key_is_of_its_profile_and_like_no_other() -> None:
    one, other = fresh_key(DEFAULT_PROFILE), fresh_key(DEFAULT_PROFILE)
    assert one.profile is DEFAULT_PROFILE
    assert re.fullmatch("[0-9a-f]{32}", one.key_id)
    assert len(one._master) == 32
    assert len({one.key_id, other.key_id}) == len({one._master, other._master}) == len({one.secret, other.secret}) == 2


def test_the_file_is_its_owners_only(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    path = tmp_path / "deep" / "key.json"
    create_key(path, None)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]  # no draft is left


def test_an_existing_key_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    create_key(path, None)
    before = path.read_bytes()
    with pytest.raises(KeyFileError, match="already exists"):
        create_key(path, None)
    assert path.read_bytes() == before


def wrapping_of(path: Path) -> Any:
    (wrapping,) = read(path)["wrappings"]
    return wrapping


def test_a_wrapped_file_holds_no_secret_in_the_clear(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    create_key(path, None)
    bare = base64.b64decode(wrapping_of(path)["secret"])
    change_passphrase(path, never, b"a new passphrase")
    assert bare[8:24] not in base64.b64decode(wrapping_of(path)["secret"])
    opened = open_key(path, lambda: b"a new passphrase")
    assert opened.derive("sign") == OwnerKey(bare).derive("sign")
    change_passphrase(path, lambda: b"a new passphrase", None)
    assert base64.b64decode(wrapping_of(path)["secret"]) == bare
    assert open_key(path, never).key_id == opened.key_id


def test_an_exported_key_is_not_a_key(tmp_path: Path) -> None:
    (path := tmp_path / "public.json").write_text('{"cleave_public_key": 2}')
    with pytest.raises(KeyFileError, match="exported public key"):
        open_key(path, never)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda c: c.pop("wrappings"), "damaged"),
        (lambda c: c.update(written_by=""), "damaged"),
        (lambda c: c.update(floors={"x": ["y", 1]}), "damaged"),
        (lambda c: c["wrappings"][0].update(secret="!"), "damaged"),
        (lambda c: c.update(key_id="0" * 32), "damaged"),
        (lambda c: c["wrappings"][0].pop("salt"), "damaged"),
        (lambda c: c["wrappings"][0].update(nonce=""), "damaged"),
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
    path = tmp_path / "no such" / "key.json"
    with pytest.raises(KeyFileError) as caught:
        open_key(path, never)
    quoted = shlex.quote(str(path))
    assert caught.value.hint == (
        f"make one with: cleave key new --key {quoted} (a reader's: cleave reader new {quoted})"
    )


def test_a_key_is_neither_pickled_nor_shown(key: SecretKey, owner: OwnerKey) -> None:
    for each in (key, owner):
        with pytest.raises(TypeError):
            pickle.dumps(each)
        assert each.key_id in repr(each)
        assert repr(each._master[:8]) not in repr(each)
    assert repr(key.secret[:8]) not in repr(key)


def test_derived_keys_differ_by_purpose(key: SecretKey, owner: OwnerKey) -> None:
    for each in (key, owner):
        assert each.derive("sentinel") == each.derive("sentinel") != each.derive("sealed")


def test_a_tag_is_an_hmac_under_a_key_of_its_own() -> None:
    """RFC 5869's expansion by hand: the first block of HMAC-SHA256 over the purpose and the number 1."""
    master = bytes(range(32))
    for key, mark in (
        (OwnerKey(master), b"cleave/2/"),
        (SecretKey("0" * 32, DEFAULT_PROFILE, b"secret", master), b"cleave/2/ckks/"),
    ):
        derived = hmac.digest(master, mark + b"tag\x01", hashlib.sha256)
        assert key.derive("tag") == derived
        assert (
            not isinstance(key, OwnerKey)
            or key.tag("schema") == hmac.digest(derived, b"schema", hashlib.sha256)[:16].hex()
        )


def test_every_ckks_key_is_another(key: SecretKey) -> None:
    """Nothing that is known of one key says anything of the next one."""
    other = fresh_key(DEFAULT_PROFILE)
    assert other.key_id != key.key_id
    assert other.secret != key.secret
    assert other.derive("sentinel") != key.derive("sentinel")


def test_a_key_file_from_before_3_0_is_refused_with_one_sentence(tmp_path: Path) -> None:
    """With no word about damage, and before a passphrase is asked for."""
    path = tmp_path / "key.json"
    members = ("key_id", "profile", "created", "kdf", "nonce", "public_key", "secret")
    path.write_text(json.dumps({"cleave_key": 1, **dict.fromkeys(members, "")}))
    for use in (
        lambda: open_key(path, never),
        lambda: describe_key(path),
        lambda: change_passphrase(path, never, None),
    ):
        with pytest.raises(AnotherRelease) as caught:
            use()
        never_published = "was written by a release before 3.0, which was never published: it is not read"
        assert caught.value.message == f"{path}: the key file {never_published}"
        assert caught.value.hint == "make it again with this release"


def read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def is_now(written: str) -> bool:
    """In UTC and to the second, as the file promises, and not long ago."""
    moment = datetime.datetime.fromisoformat(written)
    assert written == moment.isoformat(timespec="seconds")
    return abs(moment - datetime.datetime.now(datetime.UTC)) < datetime.timedelta(minutes=1)


def test_what_a_file_tells_without_its_passphrase(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    info = create_key(path, b"correct horse")
    content = read(path)
    assert describe_key(path) == info == KeyInfo(path, content["key_id"], content["created"], True)
    assert is_now(info.created)
    key = open_key(path, b"correct horse")
    assert key.key_id == content["key_id"]


def test_files_are_readable_by_people(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    create_key(path, None)
    assert path.read_text() == json.dumps(read(path), indent=1) + "\n"


def test_errors_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    create_key(path, b"correct horse")
    for use in (open_key, lambda path, given: change_passphrase(path, given, None)):
        with pytest.raises(KeyFileError) as caught:
            use(path, b"wrong horse 12")
        assert caught.value.message.startswith(f"{path}: ")


def test_a_machine_without_the_memory_is_told_how_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "key.json"
    create_key(path, b"correct horse")
    content = read(path)
    content["wrappings"][0]["memory_cost"] = 3 * 1024
    path.write_text(json.dumps(content))

    def starved(**_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(key_file, "Argon2id", starved)
    with pytest.raises(KeyFileError, match="unwrapping takes 3 MiB of memory"):
        open_key(path, b"correct horse")


def test_the_largest_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    create_key(path, None)
    path.write_text(path.read_text().ljust(MAX_BYTES))
    assert describe_key(path).key_id == read(path)["key_id"]


def test_a_larger_file_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    path.touch()
    os.truncate(path, 50 * MAX_BYTES)
    tracemalloc.start()
    with pytest.raises(KeyFileError, match="more than 1,048,576 bytes"):
        describe_key(path)
    assert tracemalloc.get_traced_memory()[1] < 3 * MAX_BYTES
    tracemalloc.stop()


@pytest.mark.parametrize("mode", [0o640, 0o620, 0o610, 0o604, 0o602, 0o601])
def test_a_bare_key_is_its_owners_only(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    create_key(path, None)
    path.chmod(mode)
    with pytest.raises(KeyFileError, match="others on this machine"):
        open_key(path, never)
    path.chmod(0o700)
    open_key(path, never)


@pytest.mark.parametrize(("name", "most"), ARGON2_MOST.items())
def test_the_dearest_wrapping_is_read_and_no_dearer_one(name: str, most: int, tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    create_key(path, b"correct horse")
    content = read(path)
    for cost, read_as in ((most, True), (most + 1, False)):
        content["wrappings"][0][name] = cost
        path.write_text(json.dumps(content))
        if read_as:
            assert describe_key(path).wrapped
        else:
            with pytest.raises(KeyFileError, match=f"{name} must be"):
                describe_key(path)


@pytest.mark.parametrize(("passphrase", "length"), [(None, 32), (b"correct horse", 32 + 16)])
def test_a_master_secret_has_32_bytes(passphrase: bytes | None, length: int, tmp_path: Path) -> None:
    """With the tag behind it where it is wrapped."""
    path = tmp_path / "key.json"
    create_key(path, passphrase)
    assert describe_key(path).wrapped == bool(passphrase)
    for wrong in (0, length - 1, length + 1):
        wrapping = wrapping_of(path) | {"secret": base64.b64encode(bytes(wrong)).decode()}
        path.write_text(json.dumps(read(path) | {"wrappings": [wrapping]}))
        with pytest.raises(KeyFileError, match=f"secret is not base64 of {length} bytes"):
            describe_key(path)
