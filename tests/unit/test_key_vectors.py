"""Published key files: those that must open do, with the very bytes; those that must be refused are, and say why."""

from __future__ import annotations

import base64
import importlib.util
import json
import shutil
import tomllib
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from cleave.ckks import key_file
from cleave.ckks.key_file import MAX_BYTES, change_passphrase, describe_key, open_key
from cleave.ckks.passphrase import refuse_trivial
from cleave.formats import AnotherRelease
from cleave_shared.errors import CleaveWarning, KeyFileError, ServiceError
from tests.store.second_key_reader import master_of

FOLDER = Path(__file__).parents[1] / "vectors" / "key-file"
INDEX = tomllib.loads((FOLDER / "vectors.toml").read_text(encoding="utf-8"))
PASSPHRASE = INDEX["passphrase"].encode()
GOOD = [name for name, vector in INDEX["files"].items() if "refused" not in vector]
BAD = [name for name, vector in INDEX["files"].items() if "refused" in vector]
DATA_KEYS = {base64.b64decode(sealed): bytes.fromhex(plain) for sealed, plain in INDEX["data_keys"].items()}
DERIVED = (
    "bad-many-passphrase",
    "bad-passphrase",
    "bad-flipped-secret",
    "bad-flipped-tag",
    "bad-flipped-salt",
    "bad-flipped-nonce",
    "bad-created",
    "bad-floors-added",
    "bad-floors-lowered",
    "bad-written-by",
    "bad-lowest-writer",
)


def owned(name: str, folder: Path) -> Path:
    """A copy that others may not read: a bare key they may read is not opened."""
    path = folder / f"{name}.json"
    shutil.copyfile(FOLDER / path.name, path)
    path.chmod(0o600)
    return path


class Service:
    """Stands in for AWS KMS, over the data keys of the vectors."""

    def data_key(self, *_: str) -> tuple[str, bytes, bytes]:
        raise AssertionError("nothing is wrapped here")

    def decrypt(self, arn: str, key_id: str, sealed: bytes) -> bytes:
        assert arn.startswith("arn:aws")
        assert key_id == INDEX["key_id"]
        return DATA_KEYS[sealed]


def never() -> bytes:
    raise AssertionError("asked for a passphrase before the file was found to be sound")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", GOOD)
def test_a_good_key_file_opens(name: str, tmp_path: Path) -> None:
    path = owned(name, tmp_path)
    key = open_key(path, PASSPHRASE if name.startswith(("wrapped", "many")) else None, Service())
    assert key.key_id == INDEX["key_id"]
    master = bytes.fromhex(INDEX["master_key"])
    assert key.derive("vectors") == HKDFExpand(SHA256(), 32, b"cleave/2/vectors").derive(master)
    assert len(key.floors) == (2 if "floors" in name else 0)
    assert master_of(path, PASSPHRASE, lambda *asked: DATA_KEYS[asked[2]]) == master


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", BAD)
def test_a_bad_key_file_is_refused(name: str, tmp_path: Path) -> None:
    path = owned(name, tmp_path)
    with pytest.raises((KeyFileError, AnotherRelease)) as caught:
        open_key(path, PASSPHRASE if name in DERIVED else never, Service())
    message = INDEX["files"][name]["refused"]
    assert message in caught.value.message
    assert isinstance(caught.value, AnotherRelease) == ("written by" in message)
    assert caught.value.hint
    assert PASSPHRASE.decode() not in caught.value.message


@pytest.mark.slow
def test_all_files_are_listed_and_are_what_their_script_makes(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("make_vectors", FOLDER / "make_vectors.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.write(tmp_path)
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert made == {
        path.name: path.read_bytes() for path in FOLDER.iterdir() if path.is_file() and path.suffix != ".py"
    }
    assert {f"{name}.json" for name in INDEX["files"]} == made.keys() - {"vectors.toml"}


@pytest.mark.parametrize(
    "arn", [each["arn"] for each in json.loads((FOLDER / "many.json").read_text())["wrappings"][:2]]
)
def test_each_kms_key_opens_a_file_alone(arn: str, tmp_path: Path) -> None:
    class Only(Service):
        def decrypt(self, called: str, key_id: str, sealed: bytes) -> bytes:
            if called != arn:
                raise ServiceError(f"{called}: it is disabled")
            return super().decrypt(called, key_id, sealed)

    path = owned("many", tmp_path)
    assert open_key(path, never, Only()).key_id == INDEX["key_id"]
    arn = ""
    with pytest.warns(CleaveWarning, match="it is disabled: the passphrase is used instead"):
        assert open_key(path, lambda: PASSPHRASE, Only()).key_id == INDEX["key_id"]
    with pytest.raises(ServiceError, match="it is disabled"):
        open_key(path, None, Only())


def test_the_cost_is_capped_before_anything_is_derived(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def derived(*_: object, **__: object) -> None:
        raise AssertionError("derived")

    monkeypatch.setattr(key_file, "Argon2id", derived)
    for name in BAD:
        if name not in DERIVED:
            with pytest.raises((KeyFileError, AnotherRelease)):
                open_key(owned(name, tmp_path), PASSPHRASE)


def test_a_bare_key_is_not_the_one_that_was_wrapped(tmp_path: Path) -> None:
    """Whoever can write the file may have put a key of their own there."""
    path = owned("bare", tmp_path)
    for use in (open_key, lambda path, given: change_passphrase(path, given, None)):
        with pytest.raises(KeyFileError, match="has no passphrase, and one was given"):
            use(path, PASSPHRASE)
    assert open_key(path, never).key_id == open_key(path, None).key_id
    with pytest.raises(KeyFileError, match="no passphrase was given"):
        open_key(owned("wrapped", tmp_path), None)


def test_a_file_beyond_all_keys_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    path.write_bytes(b" " * (MAX_BYTES + 1) + (FOLDER / "bare.json").read_bytes())
    with pytest.raises(KeyFileError, match="more than 1,048,576 bytes"):
        describe_key(path)


@pytest.mark.parametrize(
    "passphrase",
    [
        "",
        "short",
        "elevenchars",
        "aaaaaaaaaaaaaaaa",
        "abababababababab",
        "password1234",
        "Pass-Word 2026!",
        "passwordpassword",
        "correcthorsecorrecthorse",
        "123456789012",
        "0987654321098",
        "19991231 0800",
        "qwertyuiop123",
        "QWERTZUIOPASD",
        "zyxwvutsrqponml",
        "\N{FULLWIDTH LATIN SMALL LETTER P}assword12345",
        "!!!!????....",
        "Cleave secret key 1",
    ],
)
def test_trivial_passphrases_are_refused_and_not_quoted(passphrase: str) -> None:
    with pytest.raises(KeyFileError) as caught:
        refuse_trivial(passphrase.encode())
    assert len(passphrase) < 6 or passphrase not in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    "passphrase",
    [
        "correct horse",
        "my passphrase",
        "T4lk&drei-Bäume",
        "82919374650192837465",
        "пароль для таблицы",
        "\udcff" * 3 + "raw bytes here",
    ],
)
def test_passphrases_that_are_not_trivial_are_taken(passphrase: str) -> None:
    refuse_trivial(passphrase.encode(errors="surrogateescape"))
