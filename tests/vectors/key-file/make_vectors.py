"""Makes the key files beside it, from docs/key-file.md and `cryptography` alone: no code of Cleave's takes part.

python tests/vectors/key-file/make_vectors.py

"""

from __future__ import annotations

import base64
import copy
import hashlib
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
    "bad-version": (changed(cleave_key=1), "version is not 2"),
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
        f'master_key = "{MASTER.hex()}"\n',
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
