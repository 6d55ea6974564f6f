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
        "cleave_key": 2,
        "key_id": hashlib.sha256(b"cleave key 2" + PUBLIC).hexdigest()[:32],
        "created": created,
        "signing": b64(PUBLIC),
        "floors": floors or {},
    }


def bare() -> dict[str, Any]:
    return {**head(), "kdf": None, "secret": b64(MASTER)}


def wrapped(
    passphrase: bytes = PASSPHRASE.encode(), iterations: int = 3, lanes: int = 4, memory_cost: int = 65536, **more: Any
) -> dict[str, Any]:
    salt, nonce, clear = bytes(range(16)), bytes(range(100, 112)), head(**more)
    cost = {"iterations": iterations, "lanes": lanes, "memory_cost": memory_cost}
    key = Argon2id(salt=salt, length=32, **cost).derive(passphrase)
    floors = sorted(clear["floors"].items())
    associated = json.dumps([clear["cleave_key"], clear["key_id"], clear["created"], floors]).encode()
    sealed = AESGCM(key).encrypt(nonce, MASTER, associated)
    kdf = {"name": "argon2id", "salt": b64(salt), **cost}
    return {**clear, "kdf": kdf, "nonce": b64(nonce), "secret": b64(sealed)}


WRAPPED = wrapped()

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


def by_passphrase(passphrase: bytes = PASSPHRASE.encode()) -> dict[str, Any]:
    salt, nonce, cost = bytes(range(16)), bytes(range(100, 112)), {"iterations": 3, "lanes": 4, "memory_cost": 65536}
    bound = json.dumps([3, head()["key_id"], "argon2id"]).encode()
    sealed = AESGCM(Argon2id(salt=salt, length=32, **cost).derive(passphrase)).encrypt(nonce, MASTER, bound)
    return {"name": "argon2id", "salt": b64(salt), **cost, "nonce": b64(nonce), "secret": b64(sealed)}


ANOTHER = by_kms(ANOTHER_ARN, b"another data key")


def many(*wrappings: dict[str, Any], mac_of: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """`mac_of`: members that the MAC covers in place of the file's own."""
    content = {**head(**more), "cleave_key": 3, "wrappings": list(wrappings)}
    told = {**content, **(mac_of or {})}
    values = [list(each.values()) for each in told["wrappings"]]
    text = json.dumps([3, told["key_id"], told["created"], sorted(told["floors"].items()), values])
    key = HKDFExpand(SHA256(), 32, b"cleave/2/key-file").derive(MASTER)
    return {**content, "mac": b64(hmac.digest(key, text.encode(), "sha256"))}


MANY = many(by_kms(), ANOTHER, by_passphrase())


def changed(**members: Any) -> dict[str, Any]:
    content = copy.deepcopy(WRAPPED)
    for name, value in members.items():
        within = content["kdf"] if name in ("salt", "iterations", "lanes", "memory_cost", "name") else content
        if value is None and name != "kdf":
            del within[name]
        else:
            within[name] = value
    return content


def flipped(text: str, place: int = 0) -> str:
    data = bytearray(base64.b64decode(text))
    data[place] ^= 1
    return b64(bytes(data))


# name -> content, what the error says ("" where the file opens)
VECTORS: dict[str, tuple[Any, str]] = {
    "wrapped": (WRAPPED, ""),
    "wrapped-dearer": (wrapped(iterations=4, lanes=5, memory_cost=80_000), ""),
    "wrapped-created-otherwise": (wrapped(created="2026-11-21 à midi"), ""),
    "wrapped-with-floors": (wrapped(floors=FLOORS), ""),
    "bare": (bare(), ""),
    "bad-passphrase": (wrapped(passphrase=b"another passphrase"), "wrong passphrase"),
    "bad-cheap-passes": (wrapped(iterations=2), "kdf.iterations must be"),
    "bad-cheap-lanes": (wrapped(lanes=3), "kdf.lanes must be"),
    "bad-cheap-memory": (wrapped(memory_cost=65_535), "kdf.memory_cost must be"),
    "bad-dear-passes": (changed(iterations=17), "kdf.iterations must be"),
    "bad-dear-lanes": (changed(lanes=17), "kdf.lanes must be"),
    "bad-dear-memory": (changed(memory_cost=1_048_577), "kdf.memory_cost must be"),
    "bad-endless-passes": (changed(iterations=4294967295), "kdf.iterations must be"),
    "bad-passes-as-text": (changed(iterations="3"), "kdf.iterations must be"),
    "bad-passes-as-boolean": (changed(iterations=True), "kdf.iterations must be"),
    "bad-passes-as-float": (changed(iterations=3.0), "kdf.iterations must be"),
    "bad-kdf-name": (changed(name="argon2i"), "kdf is not argon2id"),
    "bad-kdf-without-lanes": (changed(lanes=None), "kdf is not argon2id"),
    "bad-kdf-with-more": ({**WRAPPED, "kdf": {**WRAPPED["kdf"], "secret": ""}}, "kdf is not argon2id"),
    "bad-short-salt": (changed(salt=b64(bytes(8))), "salt is not base64 of 16 bytes"),
    "bad-short-nonce": (changed(nonce=b64(bytes(11))), "nonce is not base64 of 12 bytes"),
    "bad-no-nonce": (changed(nonce=None), "nonce is not base64 of 12 bytes"),
    "bad-nonce-in-bare": ({**bare(), "nonce": b64(bytes(12))}, "members that no key file has"),
    "bad-more-members": (changed(comment="mine"), "members that no key file has"),
    "bad-no-kdf": ({name: value for name, value in bare().items() if name != "kdf"}, "kdf is missing"),
    "bad-flipped-secret": (changed(secret=flipped(WRAPPED["secret"])), "wrong passphrase, or"),
    "bad-flipped-tag": (changed(secret=flipped(WRAPPED["secret"], -1)), "wrong passphrase, or"),
    "bad-flipped-salt": (changed(salt=flipped(WRAPPED["kdf"]["salt"])), "wrong passphrase, or"),
    "bad-flipped-nonce": (changed(nonce=flipped(WRAPPED["nonce"])), "wrong passphrase, or"),
    "bad-created": (changed(created="2026-11-21T12:00:01+00:00"), "wrong passphrase, or"),
    "bad-signing-key": (changed(signing=flipped(WRAPPED["signing"])), "do not belong together"),
    "bad-master-of-another": ({**bare(), "secret": b64(bytes(32))}, "do not belong together"),
    "bad-floors-added": (changed(floors=FLOORS), "wrong passphrase, or"),
    "bad-floors-lowered": ({**wrapped(floors=FLOORS), "floors": {"a0" * 16: ["b1" * 16, 2]}}, "wrong passphrase, or"),
    "bad-floors-as-list": (changed(floors=[]), "floors are not"),
    "bad-floor-below-1": (changed(floors={"a0" * 16: ["b1" * 16, 0]}), "floors are not"),
    "bad-key-id": (changed(key_id="0" * 32), "do not belong together"),
    "bad-base64": (changed(secret="*" + WRAPPED["secret"][1:]), "secret is not base64"),
    "bad-base64-line": (changed(signing=WRAPPED["signing"] + "\n"), "signing is not base64"),
    "bad-base64-bits": (changed(nonce="ZGVmZ2hpamtsbW5="), "nonce is not base64"),
    "bad-short-secret": (changed(secret=b64(bytes(47))), "secret is not base64 of 48 bytes"),
    "bad-short-bare-secret": ({**bare(), "secret": b64(MASTER[1:])}, "secret is not base64 of 32 bytes"),
    "kms": (many(by_kms()), ""),
    "kms-two-with-floors": (many(by_kms(), ANOTHER, floors=FLOORS), ""),
    "many": (MANY, ""),
    "many-passphrase-alone": (many(by_passphrase()), ""),
    "bad-kms-mac": ({**many(by_kms()), "mac": b64(bytes(32))}, "damaged or was changed"),
    "bad-kms-created": (many(by_kms(), created="1999", mac_of={"created": "1998"}), "damaged or was changed"),
    "bad-kms-floors-removed": (many(by_kms(), mac_of={"floors": FLOORS}), "damaged or was changed"),
    "bad-kms-wrapping-removed": (many(by_kms(), mac_of={"wrappings": [by_kms(), ANOTHER]}), "damaged or was changed"),
    "bad-kms-of-another-key": (many(by_kms(key_id="0" * 32)), "is damaged"),
    "bad-kms-of-another-arn": (
        many(by_kms(ANOTHER_ARN, b"data key of " + ARN.encode()) | {"arn": ARN}),
        "is damaged",
    ),
    "bad-kms-flipped-secret": (many(by_kms() | {"secret": flipped(by_kms()["secret"])}), "is damaged"),
    "bad-kms-master-of-another": (many(by_kms(secret=bytes(32))), "do not belong together"),
    "bad-kms-alias": (many(by_kms(ARN.replace("key/", "alias/"))), "arn is not that of a KMS key"),
    "bad-kms-host-in-arn": (
        many(by_kms(ARN.replace("eu-west-1", "eu-west-1.example.org/"))),
        "arn is not that of a KMS key",
    ),
    "bad-kms-twice": (many(by_kms(), by_kms()), "two wrappings are of one KMS key"),
    "bad-kms-with-more": (many(by_kms(region="eu-west-1")), "no known kind"),
    "bad-kms-unknown-kind": (many({**by_kms(), "name": "vault"}), "no known kind"),
    "bad-kms-empty-data-key": (many({**by_kms(), "data_key": ""}), "data_key is not of 1 to 6,144 bytes"),
    "bad-kms-short-nonce": (many({**by_kms(), "nonce": b64(bytes(11))}), "nonce is not base64 of 12 bytes"),
    "bad-kms-short-mac": ({**many(by_kms()), "mac": b64(bytes(31))}, "mac is not base64 of 32 bytes"),
    "bad-kms-no-mac": ({k: v for k, v in many(by_kms()).items() if k != "mac"}, "not a Cleave key file"),
    "bad-kms-no-wrapping": (many(), "wrappings are not 1 to 16"),
    "bad-kms-17-wrappings": (many(*[by_kms()] * 17), "wrappings are not 1 to 16"),
    "bad-kms-wrappings-as-object": ({**many(by_kms()), "wrappings": {}}, "wrappings are not 1 to 16"),
    "bad-kms-wrapping-as-text": ({**many(by_kms()), "wrappings": ["kms"]}, "a wrapping is no object"),
    "bad-kms-and-kdf": ({**many(by_kms()), "kdf": None}, "members that no key file has"),
    "bad-kms-in-version-2": ({**many(by_kms()), "cleave_key": 2}, "not a Cleave key file"),
    "bad-many-passphrase-first": (many(by_passphrase(), by_kms()), "no known kind"),
    "bad-many-two-passphrases": (many(by_passphrase(), by_passphrase()), "no known kind"),
    "bad-many-cheap-memory": (many(by_kms(), {**by_passphrase(), "memory_cost": 65_535}), "kdf.memory_cost must be"),
    "bad-many-passphrase": (many(by_passphrase(b"another passphrase")), "wrong passphrase"),
    "bad-many-passphrase-of-version-2": (
        many({**by_passphrase(), **{name: WRAPPED[name] for name in ("nonce", "secret")}}),
        "wrong passphrase, or",
    ),
    "bad-version": (changed(cleave_key=1), "version is not 2 or 3"),
    "bad-version-4": ({**MANY, "cleave_key": 4}, "version is not 2 or 3"),
    "bad-version-as-boolean": (changed(cleave_key=True), "version is not 2"),
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
    for name, (content, error) in VECTORS.items():
        text = json.dumps(content, indent=1) + "\n"
        (folder / f"{name}.json").write_text(text, encoding="utf-8")
        index.append(f"[files.{name}]{f'{chr(10)}refused = {json.dumps(error)}' if error else ''}\n")
    twice = json.dumps(WRAPPED, indent=1).replace('"kdf": {', '"kdf": null,\n "kdf": {')
    (folder / "bad-repeated-member.json").write_text(twice + "\n", encoding="utf-8")
    index.append('[files.bad-repeated-member]\nrefused = "not a Cleave key file"\n')
    (folder / "vectors.toml").write_text("\n".join(index), encoding="utf-8")


if __name__ == "__main__":
    write()
