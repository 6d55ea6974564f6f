"""Makes the key files beside it, from docs/key-file.md and `cryptography` alone: no code of Cleave's takes part.

python tests/vectors/key-file/make_vectors.py

"""

from __future__ import annotations

import base64
import copy
import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

FOLDER = Path(__file__).parent
PASSPHRASE = "correct horse battery staple"
MASTER = bytes(range(32))
SIGNING = Ed25519PrivateKey.from_private_bytes(HKDFExpand(SHA256(), 32, b"cleave/2/sign").derive(MASTER))
PUBLIC = SIGNING.public_key().public_bytes_raw()
FLOORS = {"a0" * 16: ["b1" * 16, 3], "0c" * 16: ["d2" * 16, 70]}


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def head(created: str = "2026-11-21T12:00:00+00:00", floors: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "cleave_key": 3,
        "written_by": "3.0.0",
        "lowest_reader": "3.0.0",
        "lowest_writer": "3.0.0",
        "key_id": hashlib.sha256(b"cleave key 2" + PUBLIC).hexdigest()[:32],
        "created": created,
        "signing": b64(PUBLIC),
        "floors": floors or {},
    }


ARN = "arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
ANOTHER_ARN = "arn:aws-cn:kms:cn-north-1:444455556666:key/mrk-1234abcd12ab34cd56ef1234567890ab"
# What stands in a file for a data key, as AWS KMS encrypted it -> the data key.
DATA_KEYS = {b"data key of " + ARN.encode(): bytes(range(32, 64)), b"another data key": bytes(range(64, 96))}


def by_kms(
    arn: str = ARN, sealed: bytes = b"data key of " + ARN.encode(), key_id: str = "", **more: Any
) -> dict[str, Any]:
    nonce = bytes(range(200, 212))
    bound = json.dumps([3, key_id or head()["key_id"], "kms", arn]).encode()
    secret = AESGCM(DATA_KEYS[sealed]).encrypt(nonce, more.pop("secret", MASTER), bound)
    return {"name": "kms", "arn": arn, "data_key": b64(sealed), "nonce": b64(nonce), "secret": b64(secret), **more}


def by_passphrase(
    passphrase: bytes = PASSPHRASE.encode(), iterations: int = 3, lanes: int = 4, memory_cost: int = 65536
) -> dict[str, Any]:
    salt, nonce = bytes(range(16)), bytes(range(100, 112))
    cost = {"iterations": iterations, "lanes": lanes, "memory_cost": memory_cost}
    bound = json.dumps([3, head()["key_id"], "argon2id"]).encode()
    sealed = AESGCM(Argon2id(salt=salt, length=32, **cost).derive(passphrase)).encrypt(nonce, MASTER, bound)
    return {"name": "argon2id", "salt": b64(salt), **cost, "nonce": b64(nonce), "secret": b64(sealed)}


ANOTHER = by_kms(ANOTHER_ARN, b"another data key")
BARE = {"name": "none", "secret": b64(MASTER)}


def file(*wrappings: dict[str, Any], mac_of: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """`mac_of`: members that the MAC covers in place of the file's own. `more`: other members than usual."""
    content = {**head(), **more, "wrappings": list(wrappings)}
    told = {**content, **(mac_of or {})}
    values = [list(each.values()) for each in told["wrappings"]]
    clear = [told[name] for name in (*list(head())[:4], "key_id", "created")]
    text = json.dumps([*clear, sorted(told["floors"].items()), values])
    key = HKDFExpand(SHA256(), 32, b"cleave/2/key-file").derive(MASTER)
    return {**content, "mac": b64(hmac.digest(key, text.encode(), "sha256"))}


def wrapped(passphrase: bytes = PASSPHRASE.encode(), **cost: int) -> dict[str, Any]:
    return file(by_passphrase(passphrase, **cost))


WRAPPED = wrapped()
MANY = file(by_kms(), ANOTHER, by_passphrase())


def changed(**members: Any) -> dict[str, Any]:
    """WRAPPED with other clear members, and its old MAC."""
    return {**copy.deepcopy(WRAPPED), **members}


def wrapping(**members: Any) -> dict[str, Any]:
    """WRAPPED with other members of its wrapping; None removes one."""
    content = copy.deepcopy(WRAPPED)
    within = {**content["wrappings"][0], **members}
    content["wrappings"] = [{name: value for name, value in within.items() if value is not None}]
    return content


def flipped(text: str, place: int = 0) -> str:
    data = bytearray(base64.b64decode(text))
    data[place] ^= 1
    return b64(bytes(data))


OWN = WRAPPED["wrappings"][0]
# name -> content, what the error says ("" where the file opens)
VECTORS: dict[str, tuple[Any, str]] = {
    "wrapped": (WRAPPED, ""),
    "wrapped-dearer": (wrapped(iterations=4, lanes=5, memory_cost=80_000), ""),
    "wrapped-created-otherwise": (file(by_passphrase(), created="2026-11-21 à midi"), ""),
    "wrapped-with-floors": (file(by_passphrase(), floors=FLOORS), ""),
    "wrapped-by-a-later-release": (file(by_passphrase(), written_by="3.12.0", lowest_writer="3.11.0"), ""),
    "bare": (file(BARE), ""),
    "bad-passphrase": (wrapped(passphrase=b"another passphrase"), "wrong passphrase"),
    "bad-cheap-passes": (wrapped(iterations=2), "iterations must be"),
    "bad-cheap-lanes": (wrapped(lanes=3), "lanes must be"),
    "bad-cheap-memory": (wrapped(memory_cost=65_535), "memory_cost must be"),
    "bad-dear-passes": (wrapping(iterations=17), "iterations must be"),
    "bad-dear-lanes": (wrapping(lanes=17), "lanes must be"),
    "bad-dear-memory": (wrapping(memory_cost=1_048_577), "memory_cost must be"),
    "bad-endless-passes": (wrapping(iterations=4294967295), "iterations must be"),
    "bad-passes-as-text": (wrapping(iterations="3"), "iterations must be"),
    "bad-passes-as-boolean": (wrapping(iterations=True), "iterations must be"),
    "bad-passes-as-float": (wrapping(iterations=3.0), "iterations must be"),
    "bad-kdf-name": (wrapping(name="argon2i"), "no known kind"),
    "bad-kdf-without-lanes": (wrapping(lanes=None), "has not exactly its members"),
    "bad-kdf-with-more": (wrapping(pepper=""), "has not exactly its members"),
    "bad-short-salt": (wrapping(salt=b64(bytes(8))), "salt is not base64 of 16 bytes"),
    "bad-short-nonce": (wrapping(nonce=b64(bytes(11))), "nonce is not base64 of 12 bytes"),
    "bad-no-nonce": (wrapping(nonce=None), "has not exactly its members"),
    "bad-nonce-in-bare": (file({**BARE, "nonce": b64(bytes(12))}), "no known kind"),
    "bad-bare-beside-kms": (file(BARE, by_kms()), "no known kind"),
    "bad-more-members": (changed(comment="mine"), "members that no key file has"),
    "bad-no-wrappings": ({name: value for name, value in WRAPPED.items() if name != "wrappings"}, "or lacks some"),
    "bad-flipped-secret": (wrapping(secret=flipped(OWN["secret"])), "wrong passphrase, or"),
    "bad-flipped-tag": (wrapping(secret=flipped(OWN["secret"], -1)), "wrong passphrase, or"),
    "bad-flipped-salt": (wrapping(salt=flipped(OWN["salt"])), "wrong passphrase, or"),
    "bad-flipped-nonce": (wrapping(nonce=flipped(OWN["nonce"])), "wrong passphrase, or"),
    "bad-created": (changed(created="2026-11-21T12:00:01+00:00"), "damaged or was changed"),
    "bad-created-as-number": (changed(created=2026), "are not all texts"),
    "bad-signing-key": (changed(signing=flipped(WRAPPED["signing"])), "do not belong together"),
    "bad-master-of-another": (file({**BARE, "secret": b64(bytes(32))}), "do not belong together"),
    "bad-floors-added": (changed(floors=FLOORS), "damaged or was changed"),
    "bad-floors-lowered": (
        {**file(by_passphrase(), floors=FLOORS), "floors": {"a0" * 16: ["b1" * 16, 2]}},
        "damaged or was changed",
    ),
    "bad-floors-as-list": (changed(floors=[]), "floors are not"),
    "bad-floor-below-1": (changed(floors={"a0" * 16: ["b1" * 16, 0]}), "floors are not"),
    "bad-bare-floors-added": ({**file(BARE), "floors": FLOORS}, "damaged or was changed"),
    "bad-key-id": (changed(key_id="0" * 32), "do not belong together"),
    "bad-base64": (wrapping(secret="*" + OWN["secret"][1:]), "secret is not base64"),
    "bad-base64-line": (changed(signing=WRAPPED["signing"] + "\n"), "signing is not base64"),
    "bad-base64-bits": (wrapping(nonce="ZGVmZ2hpamtsbW5="), "nonce is not base64"),
    "bad-short-secret": (wrapping(secret=b64(bytes(47))), "secret is not base64 of 48 bytes"),
    "bad-short-bare-secret": (file({**BARE, "secret": b64(MASTER[1:])}), "secret is not base64 of 32 bytes"),
    "kms": (file(by_kms()), ""),
    "kms-two-with-floors": (file(by_kms(), ANOTHER, floors=FLOORS), ""),
    "many": (MANY, ""),
    "many-passphrase-alone": (file(by_passphrase()), ""),
    "bad-kms-mac": ({**file(by_kms()), "mac": b64(bytes(32))}, "damaged or was changed"),
    "bad-kms-created": (file(by_kms(), created="1999", mac_of={"created": "1998"}), "damaged or was changed"),
    "bad-kms-floors-removed": (file(by_kms(), mac_of={"floors": FLOORS}), "damaged or was changed"),
    "bad-kms-wrapping-removed": (file(by_kms(), mac_of={"wrappings": [by_kms(), ANOTHER]}), "damaged or was changed"),
    "bad-kms-of-another-key": (file(by_kms(key_id="0" * 32)), "is damaged"),
    "bad-kms-of-another-arn": (
        file(by_kms(ANOTHER_ARN, b"data key of " + ARN.encode()) | {"arn": ARN}),
        "is damaged",
    ),
    "bad-kms-flipped-secret": (file(by_kms() | {"secret": flipped(by_kms()["secret"])}), "is damaged"),
    "bad-kms-master-of-another": (file(by_kms(secret=bytes(32))), "do not belong together"),
    "bad-kms-alias": (file(by_kms(ARN.replace("key/", "alias/"))), "arn is not that of a KMS key"),
    "bad-kms-host-in-arn": (
        file(by_kms(ARN.replace("eu-west-1", "eu-west-1.example.org/"))),
        "arn is not that of a KMS key",
    ),
    "bad-kms-twice": (file(by_kms(), by_kms()), "two wrappings are of one KMS key"),
    "bad-kms-with-more": (file(by_kms(region="eu-west-1")), "no known kind"),
    "bad-kms-unknown-kind": (file({**by_kms(), "name": "vault"}), "no known kind"),
    "bad-kms-empty-data-key": (file({**by_kms(), "data_key": ""}), "data_key is not of 1 to 6,144 bytes"),
    "bad-kms-short-nonce": (file({**by_kms(), "nonce": b64(bytes(11))}), "nonce is not base64 of 12 bytes"),
    "bad-kms-short-mac": ({**file(by_kms()), "mac": b64(bytes(31))}, "mac is not base64 of 32 bytes"),
    "bad-kms-no-mac": ({k: v for k, v in file(by_kms()).items() if k != "mac"}, "or lacks some"),
    "bad-kms-no-wrapping": (file(), "wrappings are not 1 to 16"),
    "bad-kms-17-wrappings": (file(*[by_kms()] * 17), "wrappings are not 1 to 16"),
    "bad-kms-wrappings-as-object": ({**file(by_kms()), "wrappings": {}}, "wrappings are not 1 to 16"),
    "bad-kms-wrapping-as-text": ({**file(by_kms()), "wrappings": ["kms"]}, "a wrapping is no object"),
    "bad-many-passphrase-first": (file(by_passphrase(), by_kms()), "no known kind"),
    "bad-many-two-passphrases": (file(by_passphrase(), by_passphrase()), "no known kind"),
    "bad-many-cheap-memory": (file(by_kms(), {**by_passphrase(), "memory_cost": 65_535}), "memory_cost must be"),
    "bad-many-passphrase": (file(by_passphrase(b"another passphrase")), "wrong passphrase"),
    "bad-format-2": (changed(cleave_key=2), "was written by a release before 3.0"),
    "bad-format-4": ({**MANY, "cleave_key": 4}, "was written by release 3.0.0, and release"),
    "bad-format-4-alone": ({"cleave_key": 4}, "was written by a later release, and release"),
    "bad-format-as-boolean": (changed(cleave_key=True), "cleave_key is no number"),
    "bad-later-reader": (file(BARE, written_by="9.1.0", lowest_reader="9.0.0"), "was written by release 9.1.0, and"),
    "bad-no-release": (changed(lowest_writer="new"), "does not say which releases"),
    "bad-written-by": (changed(written_by="3.0.1"), "damaged or was changed"),
    "bad-lowest-writer": (changed(lowest_writer="2.0.0"), "damaged or was changed"),
    "bad-public-only": (
        {"cleave_public_key": 3, **{name: WRAPPED[name] for name in ("key_id", "signing")}},
        "exported public key",
    ),
    "bad-array": ([WRAPPED], "not a Cleave key file"),
}


def write(folder: Path = FOLDER) -> None:
    index: list[str] = [
        "# Made by make_vectors.py. `passphrase`: of all wrapped files; `refused`: part of Cleave's error.\n",
        f'passphrase = "{PASSPHRASE}"',
        f'key_id = "{head()["key_id"]}"',
        f'master_key = "{MASTER.hex()}"',
        "# What AWS KMS makes of each data key, in base64, and the data key. The encryption context is the key id.",
        "data_keys = { " + ", ".join(f'"{b64(s)}" = "{key.hex()}"' for s, key in DATA_KEYS.items()) + " }\n",
    ]
    for old in folder.glob("*.json"):
        old.unlink()
    for name, (content, error) in VECTORS.items():
        text = json.dumps(content, indent=1) + "\n"
        (folder / f"{name}.json").write_text(text, encoding="utf-8")
        index.append(f"[files.{name}]{f'{chr(10)}refused = {json.dumps(error)}' if error else ''}\n")
    twice = json.dumps(WRAPPED, indent=1).replace('"floors": {', '"floors": null,\n "floors": {')
    (folder / "bad-repeated-member.json").write_text(twice + "\n", encoding="utf-8")
    index.append('[files.bad-repeated-member]\nrefused = "not a Cleave key file"\n')
    (folder / "vectors.toml").write_text("\n".join(index), encoding="utf-8")


if __name__ == "__main__":
    write()
