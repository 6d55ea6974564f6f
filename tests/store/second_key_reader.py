"""Open key files from docs/key-file.md alone: no code of Cleave's is used."""

import base64
import hmac
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from tests.store.second_reader import hkdf


def refused(*_: object) -> bytes:
    raise PermissionError


def master_of(
    key: Path, passphrase: bytes = b"", decrypt: Callable[[str, dict[str, str], bytes], bytes] = refused
) -> bytes:
    """The master secret of a key file. `decrypt`: AWS KMS, by ARN, encryption context and ciphertext."""
    content = json.loads(key.read_bytes())
    masters = []
    for each in content["wrappings"]:
        bound = [3, content["key_id"], each["name"]]
        if each["name"] == "none":
            masters.append(base64.b64decode(each["secret"]))
        if each["name"] == "argon2id" and passphrase:
            masters.append(by_passphrase(passphrase, each, bound))
        if each["name"] == "kms":
            with suppress(PermissionError):
                data_key = decrypt(
                    each["arn"], {"cleave-key-id": content["key_id"]}, base64.b64decode(each["data_key"])
                )
                masters.append(opened(data_key, each, [*bound, each["arn"]]))
    (master,) = set(masters)
    members = ("cleave_key", "written_by", "lowest_reader", "lowest_writer", "key_id", "created")
    told = [*(content[name] for name in members), sorted(map(list, content["floors"].items()))]
    text = json.dumps([*told, [list(each.values()) for each in content["wrappings"]]]).encode()
    assert base64.b64decode(content["mac"]) == hmac.digest(hkdf(master, "cleave/2/key-file"), text, "sha256")
    return master


def by_passphrase(passphrase: bytes, wrapping: dict[str, Any], bound: list[Any]) -> bytes:
    cost = {name: wrapping[name] for name in ("iterations", "lanes", "memory_cost")}
    key = Argon2id(salt=base64.b64decode(wrapping["salt"]), length=32, **cost).derive(passphrase)
    return opened(key, wrapping, bound)


def opened(key: bytes, sealed: dict[str, str], bound: list[Any]) -> bytes:
    nonce, secret = (base64.b64decode(sealed[name]) for name in ("nonce", "secret"))
    return AESGCM(key).decrypt(nonce, secret, json.dumps(bound).encode())
