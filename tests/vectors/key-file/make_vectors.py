"""Makes the key files beside it, from docs/key-file.md and `cryptography` alone: no code of Cleave's takes part.

    python tests/vectors/key-file/make_vectors.py

Public and secret keys are stand-ins of a few bytes: these are vectors of the format, not of CKKS.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import json
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

FOLDER = Path(__file__).parent
PASSPHRASE = "correct horse battery staple"
PUBLIC = b"a stand-in for SEAL's public key"
MASTER = bytes(range(32))
SECRET = b"a stand-in for SEAL's secret key"


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def head(created: str = "2026-11-21T12:00:00+00:00") -> dict[str, Any]:
    return {
        "cleave_key": 1,
        "key_id": hashlib.sha256(PUBLIC).hexdigest()[:32],
        "profile": "sum60-pack",
        "created": created,
        "public_key": b64(PUBLIC),
    }


def bare() -> dict[str, Any]:
    return {**head(), "kdf": None, "secret": b64(MASTER + SECRET)}


def wrapped(
    passphrase: bytes = PASSPHRASE.encode(), iterations: int = 3, lanes: int = 4, memory_cost: int = 65536, **more: str
) -> dict[str, Any]:
    salt, nonce, clear = bytes(range(16)), bytes(range(100, 112)), head(**more)
    cost = {"iterations": iterations, "lanes": lanes, "memory_cost": memory_cost}
    key = Argon2id(salt=salt, length=32, **cost).derive(passphrase)
    associated = json.dumps([clear["cleave_key"], clear["key_id"], clear["profile"], clear["created"]]).encode()
    sealed = AESGCM(key).encrypt(nonce, MASTER + SECRET, associated)
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
    "wrapped-suspect": (changed(suspect={"since": "2026-11-21T12:00:00+00:00", "check": "sentinel"}), ""),
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
    "bad-public-key": (changed(public_key=flipped(WRAPPED["public_key"])), "do not belong together"),
    "bad-key-id": (changed(key_id="0" * 32), "do not belong together"),
    "bad-base64": (changed(secret="*" + WRAPPED["secret"][1:]), "secret is not base64"),
    "bad-base64-line": (changed(public_key=WRAPPED["public_key"] + "\n"), "public_key is not base64"),
    "bad-base64-bits": (changed(nonce="ZGVmZ2hpamtsbW5="), "nonce is not base64"),
    "bad-short-secret": (changed(secret=b64(bytes(48))), "too short"),
    "bad-short-bare-secret": ({**bare(), "secret": b64(MASTER)}, "too short"),
    "bad-version": (changed(cleave_key=2), "version is not 1"),
    "bad-version-as-boolean": (changed(cleave_key=True), "version is not 1"),
    "bad-profile": (changed(profile="sum30"), "does not know the key's profile"),
    "bad-public-only": (
        {"cleave_public_key": 1, **{name: WRAPPED[name] for name in ("key_id", "profile", "public_key")}},
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
        f'secret_key = "{SECRET.hex()}"\n',
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
