"""Write events as *.json, made with a new CKKS key that is left beside them for `decrypt_answer` and never committed.

python -m aws.make_events FOLDER

`make events` writes to build/events. The tracked ones are made again, after a change of the wire, with FOLDER events.
"""

from __future__ import annotations

import argparse
import base64
import json
import secrets
from pathlib import Path

from aws.events import make_events
from cleave.ckks.secret_key import SecretKey, fresh_key
from cleave.files import write_atomically
from cleave_shared.errors import KeyFileError
from cleave_shared.params import DEFAULT_PROFILE, PROFILES

KEY_NAME = "throwaway.key.json"


def write_events(folder: Path) -> SecretKey:
    folder.mkdir(parents=True, exist_ok=True)
    key = fresh_key(DEFAULT_PROFILE)
    _write_key(folder / KEY_NAME, key)
    for name, case in make_events(key).items():
        (folder / f"{name}.json").write_text(json.dumps(case.event, indent=1) + "\n", "utf-8")
    return key


def _write_key(path: Path, key: SecretKey) -> None:
    """Write the key that decrypts answers to the events, readable only by this user (0600)."""
    content = {
        "throwaway_ckks_key": 1,
        "profile": key.profile.name,
        "key_id": key.key_id,
        "secret": base64.b64encode(key.secret).decode("ascii"),
    }
    write_atomically(path, json.dumps(content) + "\n", error=KeyFileError, overwrite=True)


def read_key(folder: Path) -> SecretKey:
    """Return the key of the events in `folder`, with other sentinels than the events have. Raises KeyFileError."""
    path = folder / KEY_NAME
    try:
        content = json.loads(path.read_bytes())
        if content["throwaway_ckks_key"] != 1:
            raise ValueError
        secret = base64.b64decode(content["secret"], validate=True)
        return SecretKey(content["key_id"], PROFILES[content["profile"]], secret, secrets.token_bytes(32))
    except OSError as error:
        raise KeyFileError(f"{path}: cannot be read ({error.strerror})", hint="make events") from None
    except (ValueError, KeyError, TypeError):
        raise KeyFileError(f"{path}: not a key of `make events`", hint="make events") from None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    write_events(parser.parse_args().folder)


if __name__ == "__main__":
    main()
