"""The exported side of a key: what a reader takes, and that nothing of it can be exchanged unseen."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cleave.ckks.key_file import create_key, open_key
from cleave.ckks.owner_key import OwnerKey
from cleave.ckks.public_key import PublicKey, export_public, open_sealed, public_side, read_public_key
from cleave.formats import AnotherRelease
from cleave_shared.errors import CheckFailed, KeyFileError

MOST = 1 << 20


def sides(path: Path, invitation: str | None = None) -> tuple[OwnerKey, PublicKey]:
    create_key(path, None)
    key = open_key(path, None)
    return key, public_side(key, invitation)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[OwnerKey, PublicKey]:
    return sides(tmp_path_factory.mktemp("keys") / "key.json", '{"table": "trial"}')


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> tuple[OwnerKey, PublicKey]:
    return sides(tmp_path_factory.mktemp("other") / "key.json")


def test_what_is_written_is_read(pair: tuple[OwnerKey, PublicKey], tmp_path: Path) -> None:
    key, public = pair
    export_public(key, public, tmp_path / "pub.json")
    assert read_public_key(tmp_path / "pub.json") == public
    content = (tmp_path / "pub.json").read_text()
    assert json.loads(content)["key_id"] == key.key_id == public.key_id
    secrets = (key._master, key.derive("sign"), key.derive("box/x25519"), key.derive("box/mlkem/d"))
    assert not any(base64.b64encode(each).decode()[:40] in content for each in secrets)
    with pytest.raises(KeyFileError, match="already exists"):
        export_public(key, public, tmp_path / "pub.json")


def test_the_fingerprint_is_of_the_keys_alone(
    pair: tuple[OwnerKey, PublicKey], other: tuple[OwnerKey, PublicKey]
) -> None:
    key, public = pair
    assert public.fingerprint == public_side(key).fingerprint
    assert public.fingerprint.startswith("SHA256:")
    theirs = other[1]
    for mixed in (PublicKey(theirs.box, public.signing), PublicKey(public.box, theirs.signing)):
        assert mixed.fingerprint != public.fingerprint


DAMAGES: dict[str, Callable[[dict[str, Any], dict[str, Any]], object]] = {
    "box of another": lambda c, o: c.update(box=o["box"]),
    "id of another": lambda c, o: c.update(key_id=o["key_id"]),
    "signing key of another": lambda c, o: c.update(signing=o["signing"]),
    "signing key and id of another": lambda c, o: c.update(signing=o["signing"], key_id=o["key_id"]),
    "both keys and id of another": lambda c, o: c.update(box=o["box"], signing=o["signing"], key_id=o["key_id"]),
    "signing key and signature of another": lambda c, o: c.update(signing=o["signing"], signature=o["signature"]),
    "invitation changed": lambda c, _: c.update(invitation='{"table": "others"}'),
    "invitation taken out": lambda c, _: c.update(invitation=None),
    "written by another": lambda c, _: c.update(written_by="3.0.1"),
    "a lower writer": lambda c, _: c.update(lowest_writer="2.0.0"),
    "invitation no text": lambda c, _: c.update(invitation={}),
    "signature short": lambda c, _: c.update(signature=base64.b64encode(bytes(63)).decode()),
    "signature empty": lambda c, _: c.update(signature=base64.b64encode(bytes(64)).decode()),
    "member missing": lambda c, _: c.pop("box"),
    "member more": lambda c, _: c.update(comment=""),
    "key id no text": lambda c, _: c.update(key_id=1),
    "box no base64": lambda c, _: c.update(box="*"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_changed_one_is_refused(
    name: str, pair: tuple[OwnerKey, PublicKey], other: tuple[OwnerKey, PublicKey], tmp_path: Path
) -> None:
    content, theirs = (json.loads(public.dump(key)) for key, public in (pair, other))
    DAMAGES[name](content, theirs)
    (path := tmp_path / "pub.json").write_text(json.dumps(content))
    with pytest.raises(KeyFileError, match="damaged or was changed"):
        read_public_key(path)


def test_any_flipped_bit_is_found(pair: tuple[OwnerKey, PublicKey], tmp_path: Path) -> None:
    rng = random.Random(11)
    whole = pair[1].dump(pair[0]).encode()
    path = tmp_path / "pub.json"
    for _ in range(60):
        content = bytearray(whole)
        at = rng.randrange(len(content))
        content[at] ^= 1 << rng.randrange(7)
        if json_of(content) == json.loads(whole):  # a blank between members
            continue
        path.write_bytes(bytes(content))
        with pytest.raises((KeyFileError, AnotherRelease)):
            read_public_key(path)


def json_of(content: bytearray) -> object:
    try:
        return json.loads(bytes(content))
    except ValueError:
        return None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not an exported public key"),
        ("[]", "not an exported public key"),
        ("[" * 100_000, "not an exported public key"),
        ('{"cleave_public_key": true}', "cleave_public_key is no number"),
        ('{"cleave_public_key": 3.0}', "cleave_public_key is no number"),
        ('{"cleave_public_key": 3, "cleave_public_key": 3}', "not an exported public key"),
        ('{"cleave_public_key": 3}', "damaged or was changed"),
    ],
)
def test_another_file_is_no_public_key(text: str, message: str, tmp_path: Path) -> None:
    (path := tmp_path / "pub.json").write_text(text)
    with pytest.raises(KeyFileError, match=message):
        read_public_key(path)


def test_a_secret_key_sent_by_mistake_is_told(tmp_path: Path) -> None:
    create_key(tmp_path / "key.json", None)
    with pytest.raises(KeyFileError, match="not an exported public key") as told:
        read_public_key(tmp_path / "key.json")
    assert told.value.hint == "this file must not leave its owner"
    with pytest.raises(KeyFileError, match="cannot be read"):
        read_public_key(tmp_path)


def test_what_is_sealed_opens_for_the_owner_alone(
    pair: tuple[OwnerKey, PublicKey], other: tuple[OwnerKey, PublicKey]
) -> None:
    key, public = pair
    sealed = public.seal("an/object", b"content" * 1000)
    assert open_sealed(key, "an/object", sealed, MOST) == b"content" * 1000
    assert public.seal("an/object", b"content") != public.seal("an/object", b"content")
    for opener, name, content in (
        (other[0], "an/object", sealed),
        (key, "another", sealed),
        (key, "an/object", sealed[:-1]),
        (key, "an/object", sealed[:3]),
        (key, "an/object", b""),
        (key, "an/object", b"CLS1" + sealed[4:]),
        (key, "an/object", b"CLP1"),
    ):
        with pytest.raises(CheckFailed, match="damaged, or not sealed for this key"):
            open_sealed(opener, name, content, MOST)


def test_every_flipped_bit_of_a_sealed_object_is_found(pair: tuple[OwnerKey, PublicKey]) -> None:
    key, public = pair
    rng = random.Random(12)
    sealed = public.seal("an/object", b"content")
    for _ in range(60):
        content = bytearray(sealed)
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        with pytest.raises(CheckFailed):
            open_sealed(key, "an/object", bytes(content), MOST)


def test_a_sealed_object_has_a_largest_size(pair: tuple[OwnerKey, PublicKey]) -> None:
    key, public = pair
    bomb = public.seal("an/object", bytes(MOST + 1))
    assert len(bomb) < 2000
    with pytest.raises(CheckFailed, match="more than 1,048,576 bytes"):
        open_sealed(key, "an/object", bomb, MOST)
    assert open_sealed(key, "an/object", public.seal("an/object", bytes(MOST)), MOST) == bytes(MOST)
    assert open_sealed(key, "an/object", public.seal("an/object", b""), MOST) == b""
